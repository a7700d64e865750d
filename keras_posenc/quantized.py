"""Saving what `quantize` made of the layers inside a layer.

`model.quantize` gives each innermost layer a dtype policy of its own, which no config holds, as the
layer around it makes it anew. So the outer layer's config has all of them, in a `DTypePolicyMap`.
"""

import keras


def policy_of_part(layer, name):
    """The dtype policy for a layer that `layer` is about to make under a name.

    A layer with the whole map as its policy would be saved as if it were not quantized.
    """
    policy = layer.dtype_policy
    return policy[f"{layer.path}/{name}"] if _is_map(policy) else policy


def with_quantized_parts(config, layer, parts):
    """The config of a layer of layers, with the dtype policies of those that are quantized.

    Args:
        config: dict, of `get_config`.
        layer: the outer layer, which makes its parts with `policy_of_part`.
        parts: list of the layers inside of it.
    """
    policy = layer.dtype_policy
    if not (_is_map(policy) or any(part.quantization_mode for part in parts)):
        return config
    policies = {part.path: part.dtype_policy for part in parts}
    default = policy.default_policy if _is_map(policy) else policy
    policy = keras.dtype_policies.DTypePolicyMap(default, policies) if parts else policy
    return {**config, "dtype": keras.dtype_policies.serialize(policy)}


def _is_map(policy):
    return isinstance(policy, keras.dtype_policies.DTypePolicyMap)
