"""Budgets as files, and what measuring a model against one says."""
