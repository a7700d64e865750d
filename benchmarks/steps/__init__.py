"""A forward pass or a training step, beside other libraries and commits; parts of a layer."""
