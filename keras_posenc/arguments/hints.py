"""Types of public arguments, where Python's have no name for them."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

# A tensor of the backend, a NumPy array, or a symbolic tensor of Keras.
Tensor = Any
Initializer = str | dict | keras.initializers.Initializer
Regularizer = str | dict | keras.regularizers.Regularizer | None
Constraint = str | dict | keras.constraints.Constraint | None
Activation = str | Callable
# A name, a dict with a name, or an `Encoding`.
EncodingSpec = str | dict | keras.layers.Layer
Encodings = Sequence[EncodingSpec]
