"""What a run is computed by, for its record and for its report."""

import keras


def environment():
    """What decides the numbers of a run beside its settings: the backend and the dtypes."""
    return {
        "backend": keras.backend.backend(),
        "dtype_policy": keras.config.dtype_policy().name,
    }


def versions():
    """What a report names: the version of Keras, and the backend."""
    return {"keras": keras.__version__, "backend": keras.backend.backend()}
