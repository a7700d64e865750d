"""Which layers are local and which are global, by the keys of config files."""

from keras_posenc.files.untrusted import quote

LOCAL, GLOBAL = "sliding_attention", "full_attention"


def layer_kinds(source, layers, default):
    """Lists the kind of each layer.

    `source`: dict, the keys of the config file. `layers`: int, how many there are. `default`: list,
    where the file has no `layer_types`.
    """
    kinds = source.get("layer_types") or default
    if len(kinds) != layers or not set(kinds) <= {LOCAL, GLOBAL}:
        raise ValueError(
            f"`layer_types` must name {layers} layers, each {LOCAL!r} or {GLOBAL!r}. "
            f"Received: {quote(kinds)}"
        )
    return kinds
