"""What Keras leaves to a library: its import, lazy public names, layers inside layers."""
