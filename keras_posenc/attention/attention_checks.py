"""Checks of arguments that several attention layers share."""


def listed(encodings):
    """The encodings, or TypeError if they are no list: a name would be read by its letters."""
    if not isinstance(encodings, (list, tuple)):
        raise TypeError(
            f"`encodings` is a list of names, dicts or encodings. Received: {encodings!r}"
        )
    return encodings


def check_features(name, **shapes):
    """Raises ValueError unless these shapes are of features (B, T, D)."""
    for role, shape in shapes.items():
        if len(shape) != 3:
            raise ValueError(f"{name} takes features (B, T, D). Received: `{role}` {tuple(shape)}")
