"""One vector per text, or per chunk of it."""
