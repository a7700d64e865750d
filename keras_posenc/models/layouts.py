"""How the weights of our models lie on many devices."""

import keras

# Of a layer's weights, the axis that is cut; what is not named here lies whole on each device.
CUTS = {
    r".*Embedding-Token/embeddings": (None, "model"),
    r".*MultiHeadSelfAttention/(query|key|value)/kernel": (None, "model", None),
    r".*MultiHeadSelfAttention/(query|key|value)/bias": ("model", None),
    r".*MultiHeadSelfAttention/attention_output/kernel": ("model", None, None),
    r".*FeedForward/intermediate(_\d+)?/kernel": (None, "model"),
    r".*FeedForward/intermediate(_\d+)?/bias": ("model",),
    r".*FeedForward/output/kernel": ("model", None),
}


def layout_map(device_mesh):
    """The layouts of a model of `build_transformer_model` for `keras.distribution.ModelParallel`.

    Each device has some heads of every attention and some units of every feed-forward, so that a
    block sums over the devices twice; of the token table it has some features. The rest (norms,
    positions, heads of tasks, weights of encodings) is whole on every device.

    Args:
        device_mesh: `keras.distribution.DeviceMesh` with an axis "model". Its size must divide the
            number of heads, the inner size and the size of the token table.

    Returns:
        `keras.distribution.LayoutMap`; change or add entries as in a dict.

    Raises:
        ValueError: the mesh has no axis "model".

    Example:

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
