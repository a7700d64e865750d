"""The activations and encodings that a config names, checked before anything is built."""

from keras_posenc.encodings import get as get_encoding
from keras_posenc.files.untrusted import quote
from keras_posenc.layers import activations

MOST_SPEC = 2000  # characters
MOST_INTEGER = 2**22  # in the arguments of an encoding, except its base


def check_names(config):
    """Tries the activations and encodings that a config names, once each."""
    for name in ("hidden_act", "mlm_act"):
        act = getattr(config, name)
        try:
            activations.get(act) if act is not None else None
        except ValueError as error:
            raise ValueError(f"`{name}`: {error}") from None
    named = config.saved_encodings or ()
    tried = []
    for layer in (*config.encodings, *named):
        for spec in layer if isinstance(layer, (list, tuple)) else [layer]:
            if spec not in tried:
                tried.append(spec)
                try:
                    get_encoding(spec)
                except (ValueError, TypeError) as error:
                    where = "`encodings`" if named and config.encodings == () else "Positions"
                    raise ValueError(f"{where}: {error}") from None


def check_specs(encodings):
    """Refuses encodings in a file that are not words and numbers: Keras makes no class of those."""
    layers = encodings if isinstance(encodings, (list, tuple)) else [None]
    lists = [spec if isinstance(spec, (list, tuple)) else [spec] for spec in layers]
    if not all(_is_spec(spec) for specs in lists for spec in specs):
        raise ValueError(
            "`encodings` must be a list of names and dicts of numbers and words, or one such list "
            f"a layer. Found {quote(encodings)}."
        )


def _is_spec(spec):
    if len(str(spec)) > MOST_SPEC:
        return False
    if not isinstance(spec, dict):
        return isinstance(spec, str)
    named = isinstance(spec.get("name"), str) and all(map(str.isidentifier, spec))
    large = [k for k, v in spec.items() if isinstance(v, int) and v > MOST_INTEGER and k != "base"]
    return named and not large and all(map(_is_plain, spec.values()))


def _is_plain(value):
    """Words, numbers, and lists and dicts of them in which Keras sees no object."""
    if isinstance(value, dict):
        return "class_name" not in value and all(map(_is_plain, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return isinstance(value, (str, int, float, type(None)))
