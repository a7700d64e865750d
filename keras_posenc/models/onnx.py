"""Export to ONNX."""

import os
import pathlib
import tempfile

from keras_posenc import backend


def export_onnx(model, path):
    """Writes a model as an ONNX file that runs at any batch size and length.

    On TensorFlow this is `model.export(path, format="onnx")` of Keras. On torch Keras writes a file
    for the one length that it traces; this function keeps batch size and length free.

    Args:
        model: functional `keras.Model`, in float32.
        path: str or path of the .onnx file.

    Raises:
        ImportError: if a package is missing that the backend needs for it: onnxscript on torch,
            tf2onnx on TensorFlow, jax2onnx on JAX.
        ValueError: if `path` is not that of a .onnx file.

    Example:

    >>> model = keras.Sequential([keras.Input((None, 4), name="x"), keras.layers.Dense(2)])
    >>> export_onnx(model, "model.onnx")

    ```python
    session = onnxruntime.InferenceSession("model.onnx")
    (outputs,) = session.run(None, {"x": x})
    ```
    """
    path = pathlib.Path(path)
    if path.suffix != ".onnx":
        raise ValueError(f"export_onnx writes a .onnx file. Received: {os.fspath(path)!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".saving-", dir=path.parent) as folder:
        # More than 2 GB of weights go into a second file, which the first one names.
        try:
            backend.export_onnx(model, os.path.join(folder, path.name))
        except ImportError as error:
            raise ImportError(
                f"Writing ONNX needs a package that is not installed ({error}): "
                "pip install keras_posenc[onnx]"
            ) from None
        for name in sorted(os.listdir(folder), reverse=True):
            os.replace(os.path.join(folder, name), path.parent / name)
