"""What makes an open model give other numbers than another, as a hash."""

import hashlib
import json
import re

import numpy as np

from keras_posenc.folders.sentence_transformers import read_similarity

# What changes no number, or is part of the others.
LEFT_OUT = ("directory", "folder", "opened_with", "token_budget", "model", "tokenizer", "reading")
NUMBERED = re.compile(r'_\d+"')  # Keras counts the layers of a process in their names


def identity_of(model):
    """A hash, 16 hexadecimal digits, of all that decides the numbers of an `Embedder` or
    `TextModel`: its weights, tokenizer and settings.

    It is the same in every process, for each copy of a directory, and for all ways of opening it to
    the same effect.
    """
    known = {name: value for name, value in vars(model).items() if not name.startswith("_")}
    known = {name: value for name, value in known.items() if name not in LEFT_OUT}
    known["kind"], known["reading"] = type(model).__name__, str(getattr(model, "reading", None))
    known["tokenizer"] = model.tokenizer.fingerprint
    known["architecture"] = _architecture(model.model)
    if similarities := getattr(model, "similarities", None):
        known["similarity"] = read_similarity(model.folder, similarities)
    found = hashlib.sha256(json.dumps(known, sort_keys=True, default=_stated).encode())
    for array in model.model.get_weights():
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def _architecture(model):
    """The layers of a model as text, without the path of the weights that they were loaded from."""
    account = getattr(getattr(model, "transformer", None), "account", None)
    source = str(getattr(account, "source", None) or "")
    text = NUMBERED.sub('"', model.to_json())
    return text.replace(source, "") if source else text


def plain(value):
    """A setting of `open_embedder` as JSON can store it, from which it is read back."""
    if hasattr(value, "get_config"):
        return value.get_config()
    return value if isinstance(value, (int, float, str, list, dict)) else str(value)


def _stated(value):
    """What JSON does not know: sets, and the sides of late interaction."""
    return sorted(value) if isinstance(value, (set, frozenset)) else vars(value)
