"""Export to files that run without Keras."""

import os
import pathlib

from keras_posenc import backend
from keras_posenc.writing import alone, make_folder, temporary_folder

FORMATS = {".onnx": "onnx", ".tflite": "litert"}


def export_model(model, path):
    """Writes a model as an ONNX or LiteRT file that runs at any batch size and length.

    It calls `model.export` of Keras with two differences. Attention materialises its matrices as a
    whole, because some runtimes do not have loops over blocks of rows. On PyTorch, batch size and
    length are exported as free, which Keras' export to ONNX cannot do.

    Args:
        model: functional `keras.Model`, in float32.
        path: str or path. A .onnx file or, on TensorFlow, a .tflite file.

    Raises:
        ImportError: if a package is missing that the backend needs for it: onnxscript on torch,
            tf2onnx on TensorFlow, jax2onnx on JAX.
        NotADirectoryError: if a folder that `path` lies in is a file.
        ValueError: on another suffix, or a .tflite file on another backend.

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
    make_folder(path.parent)
    with temporary_folder(path.parent) as folder:
        # More than 2 GB of weights go into a second file, which the first one names.
        try:
            with backend.exporting(FORMATS[path.suffix]):
                backend.export_model(model, os.path.join(folder, path.name), FORMATS[path.suffix])
        except ImportError as error:
            raise ImportError(
                f"Writing ONNX needs a package that is not installed ({error}): "
                "on PyTorch pip install onnx onnxscript, on TensorFlow pip install onnx tf2onnx."
            ) from None
        with alone(path.parent):
            for name in sorted(os.listdir(folder), reverse=True):
                os.replace(os.path.join(folder, name), path.parent / name)
