"""Position encodings and context tools in small models that are trained here."""
