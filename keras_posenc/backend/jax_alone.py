"""What only JAX does: programs for many devices, and kernels for TPUs and with dropout.

Other backends have one device, and are never asked for the rest.
"""


def batch_shards(x):
    """Number of devices over which the texts of a program are split; only JAX splits them."""
    return 1


def over_batch(function, tensors, split):
    """function(tensors), each device with its texts of some tensors and all of the others."""
    raise NotImplementedError("Programs for many devices are JAX's.")


def sequence_shards(q):
    """Number of devices over which the rows of a text are split; only JAX splits them."""
    return 1


def over_sequence(function, tensors, split, gathered, axis):
    """function(tensors), each device with its part of some tensors and all of the others."""
    raise NotImplementedError("Context parallelism is JAX's.")


def with_neighbours(x, axis, before, after):
    """A device's part of a tensor inside `over_sequence`, extended by those before and after it."""
    raise NotImplementedError("Context parallelism is JAX's.")


def has_splash(q):
    """Whether `splash` computes attention of these heads; only JAX has it."""
    return False


def splash(q, k, v, query_segments, key_segments, before, after):
    """Attention of heads (B, T, H, D) over a band of diagonals and segments, on a TPU."""
    raise NotImplementedError("Splash attention is JAX's.")


def has_dropout_kernel(q):
    """Whether `dropout_kernel` computes attention of these heads; only JAX has it."""
    return False


def dropout_kernel(q, k, v, key_mask, hashes, scale, dropout, causal):
    """Attention of heads (B, T, H, D) that drops cells by their hashes, on a GPU."""
    raise NotImplementedError("The kernel with dropout is JAX's.")
