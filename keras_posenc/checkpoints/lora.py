"""Weights with what LoRA adds to them."""

import keras
import numpy as np

from keras_posenc.backend.keras_names import layers_in
from keras_posenc.checkpoints.load import variables_of

# The weight that LoRA adds to, and the two factors of what it adds.
ADAPTED = ("kernel", "embeddings")


def merged_arrays(layers):
    """The weights of layers as arrays, with the product of its factors added where LoRA is on.

    `layers`: dict, layer name -> built layer. Returns a dict, as `variables_of` names them ->
    array. Factors of LoRA are not among them, except those of quantized layers, whose weights are
    no numbers to add to.
    """
    scales = {}
    for layer in layers.values():
        for part in layers_in(layer):
            if getattr(part, "lora_enabled", False) and not part.quantization_mode:
                scale = part.lora_alpha / part.lora_rank
                scales |= {id(variable): scale for variable in part.weights}
    variables = variables_of(layers)
    arrays = {name: keras.ops.convert_to_numpy(value) for name, value in variables.items()}
    for name, variable in variables.items():
        place, _, kind = name.rpartition("/")
        factors = [f"{place}/lora_{kind}_{side}" for side in "ab"]
        if kind in ADAPTED and id(variable) in scales and factors[0] in arrays:
            first, second = (arrays.pop(factor).astype("float32") for factor in factors)
            kernel = arrays[name]
            added = scales[id(variable)] * np.matmul(first, second)
            arrays[name] = (kernel.astype("float32") + added).astype(kernel.dtype)
    return arrays
