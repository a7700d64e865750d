"""Writes a model as a preset that `keras_hub.models.Backbone.from_preset` reads."""

import warnings

from keras_posenc.checkpoints.keras_hub.backbones import BACKBONES, WRITTEN
from keras_posenc.checkpoints.keras_hub.reading import WEIGHTS, datasets, shifted
from keras_posenc.files.untrusted import quote

GELUS = ("gelu", "gelu_new", "gelu_pytorch_tanh")
TYPES, POSITIONS = "Embedding-Segment/embeddings", "Embedding-Position/embeddings"
TOKENS, HEAD = "Embedding-Token/embeddings", "MLM-Output/kernel"
# What a model may lack, and the output of KerasHub that is untrained then.
UNTRAINED = {
    "layers/dense/": "pooled_output: build the model with with_pool=True",
    "layers/dense_1/": "pooled_output: build the model with with_pool=True",
    "layers/reversible_embedding/": "the logits of tokens: build the model with application='lm'",
}


def write_preset(folder, arrays, config):
    """Writes config.json, metadata.json and model.weights.h5, by KerasHub's own classes.

    `arrays`: dict of arrays by the names of our variables. Raises ImportError without keras-hub.
    """
    name, backbone = _backbone(config)
    keras_hub = _import()
    arrays = _one_type(arrays, name)
    if config.tie_word_embeddings and HEAD.rpartition("/")[0] in backbone.rows:
        # Not all backbones know a shared matrix.
        arrays = {HEAD: arrays[TOKENS].T, **arrays}
    theirs = _config(name, backbone, config)
    if theirs.get("num_segments") == 0:  # KerasHub has one or more: zeros change no number
        theirs["num_segments"], arrays = 2, {TYPES: 0 * arrays[TOKENS][:2], **arrays}
    model = getattr(keras_hub.models, name)(**theirs, dtype="float32")
    model.save_to_preset(str(folder))
    left, untrained = _fill(folder / WEIGHTS, arrays, backbone, config.family)
    if left:
        warnings.warn(
            f"{name} has no place for {', '.join(left)}, which the preset is without.", stacklevel=4
        )
    for output in untrained:
        warnings.warn(f"In this {name} is untrained {output} to write it.", stacklevel=4)


def write_tokenizer(folder, tokenizer, config):
    """Writes a WordPiece tokenizer into a preset.

    `folder`: `pathlib.Path` of the preset. `tokenizer`: `Tokenizer` of a vocab.txt. `config`:
    `Config` of its model.
    """
    name, _ = _backbone(config)
    keras_hub, tokenizer_name = _import(), name.replace("Backbone", "Tokenizer")
    kind = getattr(keras_hub.models, tokenizer_name)
    if not issubclass(kind, keras_hub.tokenizers.WordPieceTokenizer):
        raise ValueError(
            f"The tokenizer of a {name} is not written from here: make a {tokenizer_name} of "
            "KerasHub from the model's vocabulary files, and call its `save_to_preset`."
        )
    vocabulary = sorted(tokenizer.vocabulary, key=tokenizer.vocabulary.get)
    lowercase = tokenizer.tokenize("A") == tokenizer.tokenize("a")
    accents = tokenizer.tokenize("\u00e9") == tokenizer.tokenize("e")
    kind(vocabulary, lowercase=lowercase, strip_accents=accents).save_to_preset(str(folder))


def _import():
    try:
        import keras_hub
    except ImportError:
        raise ImportError(
            "Writing a preset of KerasHub needs keras-hub: pip install keras-hub"
        ) from None
    return keras_hub


def _backbone(config):
    kind = config.to_huggingface()["model_type"]
    if kind not in WRITTEN:
        raise ValueError(
            f"No preset of KerasHub is written of a model of type {quote(kind)}; those that are: "
            f"{', '.join(WRITTEN)}."
        )
    return WRITTEN[kind], BACKBONES[WRITTEN[kind]]


def _one_type(arrays, name):
    """Where a backbone has no segments, the only one is a part of every position."""
    rows = BACKBONES[name].rows
    if TYPES not in arrays or TYPES.rpartition("/")[0] in rows:
        return arrays
    if len(arrays[TYPES]) > 1:
        raise ValueError(
            f"{name} has no segments, and this model has {len(arrays[TYPES])}: build it with "
            "segment_vocab_size=0, or keep the format 'huggingface'."
        )
    rest = {each: array for each, array in arrays.items() if each != TYPES}
    return {**rest, POSITIONS: arrays[POSITIONS] + arrays[TYPES]}


def _config(name, backbone, config):
    for key, value in backbone.values.items():
        found = config.value_of(key)
        found = found[0] if isinstance(found, list) and key != "pos_att_type" else found
        if key == "type_vocab_size" or found == value or _same_terms(found, value):
            continue
        if found not in GELUS or value not in GELUS:
            raise ValueError(
                f"{name} computes {key}={quote(value)}, and this model has {quote(found)}: no "
                "preset of it gives the same numbers."
            )
        if {found, value} & {"gelu"}:
            warnings.warn(
                f"{name} computes {value!r}, and this model has {found!r}: features differ by "
                "about 0.001 in KerasHub.",
                stacklevel=6,
            )
    if config.has_other_direction:
        raise ValueError(
            f"{name} is {'not ' * config.causal}causal, and this model is "
            f"{'not ' * (not config.causal)}causal: no preset of it gives the same numbers."
        )
    theirs = {key: config.value_of(ours) for key, ours in backbone.keys.items()}
    theirs["intermediate_dim"] = config.intermediate_size
    if "num_inner_repetitions" in theirs:
        theirs["num_inner_repetitions"] = 1
    if "num_key_value_heads" in theirs:
        theirs["num_key_value_heads"] = config.num_key_value_heads or config.num_attention_heads
    backbone.write(theirs, config.source or {})
    return {key: value for key, value in theirs.items() if value is not None}


def _same_terms(found, value):
    """Whether both are the same terms of DeBERTa's attention."""
    terms = found.split("|") if isinstance(found, str) else found
    return isinstance(value, list) and isinstance(terms, list) and set(terms) == set(value)


def _fill(path, arrays, backbone, family):
    """Puts the arrays into the file of a new backbone.

    Returns `(left, untrained)`: the layers that have no place there, and outputs without weights.
    """
    import h5py

    table, left = backbone.table(family), set()
    with h5py.File(path, "r+") as file:
        places = shifted(datasets(file, backbone), backbone)
        for variable, array in arrays.items():
            found = [place.name for place in table.names(variable) if place.name in places]
            if not found:
                left.add(variable.rpartition("/")[0])
                continue
            item = places.pop(found[0])
            item[...] = array.reshape(item.shape)
    untrained = {
        output for name in places for start, output in UNTRAINED.items() if name.startswith(start)
    }
    missing = [name for name in places if not name.startswith(tuple(UNTRAINED))]
    if missing:
        raise ValueError(
            f"The model lacks {len(missing)} weights of KerasHub's backbone, such as {missing[0]}."
        )
    return sorted(left - {HEAD.rpartition("/")[0]}), sorted(untrained)
