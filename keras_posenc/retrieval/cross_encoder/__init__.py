"""Cross-encoders: a score per pair of a query and a document."""
