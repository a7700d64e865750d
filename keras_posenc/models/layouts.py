"""Sharding of the weights over many devices."""

import keras

# Weight path -> the mesh axis that each of its axes is sharded along; others are replicated. So is
# the token embedding: features sharded there are sharded in all layers, which then gather them.
CUTS = {
    r".*MultiHeadSelfAttention/query/kernel": (None, "model", None),
    r".*MultiHeadSelfAttention/query/bias": ("model", None),
    r".*MultiHeadSelfAttention/(key|value)/kernel": (None, "model", None),
    r".*MultiHeadSelfAttention/(key|value)/bias": ("model", None),
    r".*MultiHeadSelfAttention/attention_output/kernel": ("model", None, None),
    r".*FeedForward/intermediate(_\d+)?/kernel": (None, "model"),
    r".*FeedForward/intermediate(_\d+)?/bias": ("model",),
    r".*FeedForward/output/kernel": ("model", None),
}


def layout_map(device_mesh):
    """Returns the weight layouts of a `build_transformer_model` model for model parallelism.

    For `keras.distribution.ModelParallel`: each device holds some heads of every attention layer
    and some units of every feed-forward layer, so that the activations of a block
    need two all-reduces and no all-gather. All other weights (embeddings, norms, task heads,
    weights of encodings) are replicated.

    Args:
        device_mesh: `keras.distribution.DeviceMesh` with an axis "model". Its size must divide the
            number of heads and the inner size. If it does not divide the number of key-value
            heads, replicate these: delete the two entries with "(key|value)".

    Returns:
        `keras.distribution.LayoutMap`; change or add entries as in a dict.

    Example:

    >>> mesh = keras.distribution.DeviceMesh((1, 1), ["batch", "model"], devices=["cpu:0"])
    >>> layouts = layout_map(mesh)
    >>> layouts["Transformer-0-FeedForward/output/kernel"].axes
    ('model', None)

    With more devices, before the model is built:

    ```python
    mesh = keras.distribution.DeviceMesh((2, 4), ["batch", "model"])
    keras.distribution.set_distribution(
        keras.distribution.ModelParallel(layout_map=layout_map(mesh), batch_dim_name="batch")
    )
    model = build_transformer_model("path/to/bert")
    ```

    Reference: [Megatron-LM](https://arxiv.org/abs/1909.08053), section 3.
    """
    if "model" not in device_mesh.axis_names:
        raise ValueError(
            'The weights are cut along the axis "model" of the mesh: give DeviceMesh((2, 4), '
            f'["batch", "model"]). Received: axes {device_mesh.axis_names}'
        )
    layouts = keras.distribution.LayoutMap(device_mesh)
    for path, axes in CUTS.items():
        layouts[path] = axes
    return layouts
