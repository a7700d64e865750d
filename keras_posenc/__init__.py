"""Position encodings and length extrapolation for Keras 3: train short, test long."""

__version__ = "0.1.0"
