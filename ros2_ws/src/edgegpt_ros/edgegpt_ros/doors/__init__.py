"""The ways in: each door takes its requests, hands them on, and says the answer in its own words."""
