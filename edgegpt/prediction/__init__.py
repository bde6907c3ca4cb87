"""Board profiles, and what a model costs on a profiled board."""
