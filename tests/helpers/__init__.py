"""What several test files share and conftest.py does not need."""
