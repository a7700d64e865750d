"""Rotary encodings, and which layers are local, from the keys of config files."""

from keras_posenc.files.untrusted import quote

ORIGINAL = "original_max_position_embeddings"
KEYS_OF_KINDS = ("rope_scaling", "rope_parameters", "partial_rotary_factor")
ROPE_KEYS = ("rope_theta", ORIGINAL, *KEYS_OF_KINDS)


def rotary(config, base=10000.0, layout="half", kind=None, default=None, read=()):
    """Makes the rotary encoding of a config.

    Args:
        config: `Config` with its `source`; the keys are `ROPE_KEYS`, or `KEYS_OF_KINDS`.
        base: float. Default if the config has none.
        layout: as in `RotaryEmbedding`.
        kind: str. Key of `rope_parameters`, where each kind of layer has its own.
        default: dict. `rope_parameters` where the file has none.
        read: keys of `rope_parameters` that the family reads itself.

    Returns:
        dict for `keras_posenc.encodings.get`.
    """
    source = config.source
    scaling = source.get("rope_scaling") or {}
    parameters = source.get("rope_parameters") or default or {}
    # As in transformers: a scaling takes the place of one dict, and completes that of each kind.
    parameters = (parameters.get(kind) if kind else not scaling and parameters) or {}
    if not isinstance(parameters, dict):
        raise ValueError(
            f"`rope_parameters` of {kind} must be a dict. Received: {quote(parameters)}"
        )
    parameters = {**parameters, **scaling}
    parameters = {key: value for key, value in parameters.items() if key not in read}
    original, theta = (None if kind else source.get(key) for key in (ORIGINAL, "rope_theta"))
    rope_type = parameters.get("rope_type", parameters.get("type", "default"))
    if rope_type == "dynamic":
        parameters.pop(ORIGINAL, None)  # transformers takes the number of positions
    elif original is not None and rope_type in ("yarn", "longrope", "llama3"):
        parameters[ORIGINAL] = original  # outside of the dict it comes first
    part = source.get("partial_rotary_factor")
    if part is not None and part != 1:
        parameters.setdefault("partial_rotary_factor", part)
    if rope_type == "default":
        parameters.pop("partial_rotary_factor", None)  # the classes of transformers ignore it
    base = float(parameters.pop("rope_theta", None) or theta or base)
    spec = {"name": "rotary", "layout": layout, "base": base}
    if rope_type == "default" and not parameters.keys() - {"rope_type", "type"}:
        return spec
    parameters.setdefault("rope_type", parameters.pop("type", "default"))
    return {**spec, "scaling": {**parameters, "max_position_embeddings": config.max_position}}


# The scalings that config files of transformers may ask for.
PUBLISHED = ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional")
NOT_OF_SCALING = ("rope_theta", "partial_rotary_factor")


def rescaled(source, scaling, family):
    """The keys of a config file, with another scaling of the rotary encodings.

    `source`: dict, the keys. `scaling`: dict, as `rope_scaling`. `family`: `Family`, whose keys
    they are. Returns a dict, or None if no other library reads such a scaling in config files of
    the family.
    """
    scaling = {"rope_type": scaling.get("rope_type", scaling.get("type")), **scaling}
    scaling.pop("type", None)
    other_length = scaling["rope_type"] == "dynamic" and ORIGINAL in scaling
    known = scaling["rope_type"] in PUBLISHED and not other_length
    if not (known and family.rescales and "rope_scaling" in family.keys):
        return None
    source = {k: v for k, v in source.items() if k not in (ORIGINAL, "rope_scaling")}
    parameters = source.get("rope_parameters")
    if not parameters:
        return {**source, "rope_scaling": scaling}

    def changed(part):
        return {**{name: part[name] for name in NOT_OF_SCALING if name in part}, **scaling}

    if any(isinstance(part, dict) for part in parameters.values()):
        parameters = {kind: changed(part) for kind, part in parameters.items()}
    else:
        parameters = changed(parameters)
    return {**source, "rope_parameters": parameters}


LOCAL, GLOBAL = "sliding_attention", "full_attention"


def layer_kinds(source, layers, default, other=LOCAL):
    """Lists the kind of each layer.

    `source`: dict, the keys of the config file. `layers`: int, how many there are. `default`: list,
    where the file has no `layer_types`.
    """
    kinds = source.get("layer_types") or default
    if len(kinds) != layers or not set(kinds) <= {other, GLOBAL}:
        raise ValueError(
            f"`layer_types` must name {layers} layers, each {other!r} or {GLOBAL!r}. "
            f"Received: {quote(kinds)}"
        )
    return kinds
