"""What is installed: Keras needs one of three backends."""

import importlib.util
import os
import sys

BACKENDS = ("tensorflow", "jax", "torch")


def import_keras():
    """Imports Keras; the ImportError names the missing backend and the installed ones."""
    wanted = os.environ.get("KERAS_BACKEND", "")
    if wanted and wanted not in BACKENDS and "keras" not in sys.modules:
        raise ImportError(
            f"KERAS_BACKEND must be one of {', '.join(BACKENDS)}. Received: {wanted!r}. Installed: "
            f"{', '.join(_installed()) or 'none of them'}."
        )
    try:
        import keras  # noqa: F401
    except ModuleNotFoundError as error:
        backend = str(error.name).partition(".")[0]
        if backend not in BACKENDS:
            raise
        installed = _installed()
        choice = f"Set KERAS_BACKEND to {' or '.join(installed)}; or: " if installed else ""
        raise ImportError(
            f"Keras is to run on {backend}, which is not installed. {choice}pip install {backend}"
        ) from None


def _installed():
    return [name for name in BACKENDS if importlib.util.find_spec(name)]
