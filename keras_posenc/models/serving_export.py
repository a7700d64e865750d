"""Export to files that run without Keras."""

import contextlib
import functools
import importlib.util
import logging
import mmap
import os
import pathlib
import re
import shutil

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.backend.keras_names import layers_in
from keras_posenc.encodings.base import Encoding
from keras_posenc.files.writing import alone, make_folder, temporary_folder

FORMATS = {".onnx": "onnx", ".tflite": "litert"}


def export_model(model, path, quantize=None):
    """Writes a model as an ONNX or LiteRT file that runs at any batch size and length.

    It calls `model.export` of Keras with three differences. Attention materialises its matrices as
    a whole, because some runtimes do not have loops over blocks of rows. Projections are products
    of matrices, not einsums, so that runtimes can quantize and fuse them. On PyTorch, batch size
    and length are exported as free, which Keras' export to ONNX cannot do.

    Args:
        model: functional `keras.Model`, in float32.
        path: str or path. A .onnx file or, on TensorFlow, a .tflite file.
        quantize: None or "int8". "int8" writes an ONNX file with int8 weights, by onnxruntime's
            dynamic quantization: about a quarter of the size, and faster on a CPU.

    Raises:
        ImportError: if a package is missing that the backend needs for it: onnxscript on torch,
            tf2onnx on TensorFlow, jax2onnx on JAX; and onnxruntime for `quantize`.
        NotADirectoryError: if a folder that `path` lies in is a file.

    Example:

    >>> model = keras.Sequential([keras.Input((None, 4), name="x"), keras.layers.Dense(2)])
    >>> export_model(model, "model.onnx")

    ```python
    session = onnxruntime.InferenceSession("model.onnx")
    (outputs,) = session.run(None, {"x": x})
    ```
    """
    path = pathlib.Path(path)
    if path.suffix not in FORMATS:
        raise ValueError(
            f"export_model writes {' or '.join(FORMATS)} files; model.export writes a SavedModel. "
            f"Received: {os.fspath(path)!r}"
        )
    if path.suffix == ".tflite" and not backend.TRAITS.writes_litert:
        raise ValueError(
            "A .tflite file of any length is written on TensorFlow: set KERAS_BACKEND=tensorflow."
        )
    _check_encodings(model)
    _check_quantization(model, path, quantize)
    if path.suffix == ".onnx":
        _check_installed("Writing ONNX", "onnx", backend.TRAITS.writes_onnx)
    make_folder(path.parent)
    with temporary_folder(path.parent) as folder:
        # More than 2 GB of weights go into a second file, which the first one names.
        with backend.exporting(FORMATS[path.suffix]), as_matrix_products(model):
            backend.export_model(model, os.path.join(folder, path.name), FORMATS[path.suffix])
        check = _check_onnx if path.suffix == ".onnx" else _check_litert
        check(os.path.join(folder, path.name))
        if quantize is not None:
            _quantize(pathlib.Path(folder), path.name)
        with alone(path.parent):
            for name in sorted(os.listdir(folder), reverse=True):
                os.replace(os.path.join(folder, name), path.parent / name)


def _check_encodings(model):
    for layer in layers_in(model):
        if isinstance(layer, Encoding) and not layer.exportable:
            raise ValueError(
                f"{layer.name} of {type(layer).__name__} cannot be exported, because these files "
                "have no loops: save the model as a .keras file, or on TensorFlow with "
                'model.export(folder, format="tf_saved_model").'
            )


def _check_quantization(model, path, quantize):
    checks.choice("quantize", quantize, (None, "int8"))
    if quantize is None:
        return
    if path.suffix != ".onnx":
        raise ValueError(
            f'quantize="int8" is for .onnx files: leave it out. Received: {os.fspath(path)!r}'
        )
    modes = {getattr(layer, "quantization_mode", None) for layer in layers_in(model)}
    for mode in modes - {None}:
        raise ValueError(
            f'quantize="int8" takes a model in float32, and this one is quantized to {mode}: '
            "export the model from before `model.quantize`."
        )
    _check_installed('export_model(..., quantize="int8")', "onnxruntime")


def _check_installed(what, *packages):
    if missing := [name for name in packages if importlib.util.find_spec(name) is None]:
        raise ImportError(
            f"{what} needs {' and '.join(missing)}, which is not installed: "
            f"pip install {' '.join(missing)}"
        )


def _check_onnx(path):
    """Refuses a file with operations that ONNX does not have, as tf2onnx may write it."""
    import onnx

    try:
        onnx.checker.check_model(path)
    except onnx.checker.ValidationError as error:
        raise ValueError(
            "The model has an operation that cannot be exported to ONNX on this backend: try "
            f"another one, or a SavedModel by TensorFlow. onnx says: {error}"
        ) from None


def _check_litert(path):
    """Refuses a file with operations of TensorFlow, which its converter writes without a word."""
    with open(path, "rb") as file:
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        found = re.findall(rb"\0\0\0(Flex\w+)\0", whole)  # strings, behind their lengths
    if found:
        raise ValueError(
            "The model has an operation that cannot be exported to LiteRT: write a .onnx file, or "
            f"a SavedModel. Received: {found[0].decode().removeprefix('Flex')}"
        )


def _quantize(folder, name):
    """Replaces an ONNX file in a folder by one with int8 weights."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    files, whole = list(folder.iterdir()), folder / "float32"  # whose names the new ones have
    external = sum(each.stat().st_size for each in files) > 2 * 2**30
    whole.mkdir()
    for each in files:
        each.rename(whole / each.name)
    level = logging.root.level
    logging.root.setLevel(logging.ERROR)  # onnxruntime advises to prepare models that need none
    try:
        quantize_dynamic(
            whole / name,
            folder / name,
            per_channel=True,
            weight_type=QuantType.QInt8,
            use_external_data_format=external,
        )
    finally:
        logging.root.setLevel(level)
    shutil.rmtree(whole)


@contextlib.contextmanager
def as_matrix_products(model):
    """Within it, `EinsumDense` layers reshape, multiply by a matrix, and reshape again.

    onnxruntime leaves an einsum in float32, and fuses none.
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
    if layer.bias_axes is not None and set(layer.bias_axes) != set(new):
        return False
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
