"""Arguments of public functions: checks in one voice, aliases, and types."""
