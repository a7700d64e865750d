"""What a model's directory is, and how a name on a hub becomes one."""
