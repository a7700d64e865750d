"""Projections as products of matrices, which other runtimes quantize and fuse."""

import contextlib
import functools

import keras
from keras import ops

from keras_posenc.backend.keras_names import layers_in


@contextlib.contextmanager
def as_matrix_products(model):
    """Within it, `EinsumDense` layers reshape, multiply by a matrix, and reshape again.

    onnxruntime leaves an einsum in float32, and fuses none.

    Args:
        model: `keras.Model`.
    """
    layers = [layer for layer in layers_in(model) if _is_product(layer)]
    for layer in layers:
        layer.call = functools.partial(_product, layer, *_matrix(layer))
    try:
        yield
    finally:
        for layer in layers:
            del layer.call


def _is_product(layer):
    """Whether the layer contracts the last axes of its input with the first ones of its kernel."""
    if type(layer) is not keras.layers.EinsumDense or layer.quantization_mode or layer.lora_enabled:
        return False
    x, kernel, output = layer.equation.replace("->", ",").split(",")
    free = x[: len(x) - _contracted(layer)]
    contracted, new = x[len(free) :], kernel[_contracted(layer) :]
    return bool(contracted) and kernel == contracted + new and output == free + new


def _contracted(layer):
    """The number of axes that the input and the kernel share."""
    x, kernel, _ = layer.equation.replace("->", ",").split(",")
    return len(set(x) & set(kernel))


def _matrix(layer):
    """The kernel as a matrix and the bias as a row: numbers, since a runtime quantizes no product
    with what it has to reshape first."""
    kernel = ops.convert_to_numpy(layer.kernel)
    rows = int(kernel[(..., *[0] * (kernel.ndim - _contracted(layer)))].size)
    bias = None if layer.bias is None else ops.convert_to_numpy(layer.bias).reshape(-1)
    return kernel.reshape(rows, -1), bias


def _product(layer, matrix, bias, x, training=None):
    """What `EinsumDense.call` computes."""
    contracted = _contracted(layer)
    sizes = ops.shape(x)[: len(x.shape) - contracted]
    if contracted > 1:
        x = ops.reshape(x, (*sizes, matrix.shape[0]))
    x = ops.matmul(x, ops.convert_to_tensor(matrix, x.dtype))
    if bias is not None:
        x = x + ops.convert_to_tensor(bias, x.dtype)
    new = layer.kernel.shape[contracted:]
    if len(new) > 1:
        x = ops.reshape(x, (*sizes, *new))
    return x if layer.activation is None else layer.activation(x)
