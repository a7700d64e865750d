"""From a config to a functional `keras.Model`: families, the graph, heads, the factory."""
