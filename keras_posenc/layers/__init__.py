"""Keras layers: attention, feed-forward, norms, embeddings."""
