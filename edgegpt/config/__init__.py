"""How a YAML file becomes a checked, frozen value."""
