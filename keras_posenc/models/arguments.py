"""The keywords of `build_transformer_model`: sorted, and checked against each other."""

import dataclasses

import keras

from keras_posenc.files.untrusted import quote
from keras_posenc.models.config import FIELDS
from keras_posenc.models.extension import Extension
from keras_posenc.models.families import FAMILIES
from keras_posenc.models.families.family import ALIASES, nearest
from keras_posenc.models.families.keys import REQUIRED_VALUES, SPECIAL_TOKENS
from keras_posenc.models.heads_in import read_head


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the graph; every field is a keyword of `build_transformer_model`."""

    application: str = "encoder"
    extension: object = None  # `Extension` of the table of positions
    max_position: int | None = None
    encodings: tuple = ()  # specs for every layer, with those of the family
    swapped: bool = False  # whether the user gave some of them
    absolute_positions: bool = True
    position_ids: object = None
    with_pool: bool | str = False
    with_nsp: bool | str = False
    with_mlm: bool | str = False
    with_discriminator: bool | str = False
    head: object = None  # `TaskHead`; the keyword names its task
    label_names: list | None = None
    custom_position_ids: bool = False
    packed: bool = False
    sequence_length: int | None = None
    shared_segment_embeddings: bool = False
    residual_attention_scores: bool = False
    flash_attention: bool | None = None
    attention_caches: dict | None = None
    layer_norm_cond: object = None
    layer_norm_cond_hidden_size: int | None = None
    layer_norm_cond_hidden_act: str = "linear"
    additional_input_layers: object = None
    layers: dict | None = None
    stored: object = None  # function (name, shape) -> array or None, the checkpoint's numbers
    prefix: str = ""
    name: str | None = None


# Fields that the factory derives from its own arguments.
DERIVED = {
    "application", "extension", "max_position", "encodings", "swapped", "absolute_positions",
    "position_ids", "stored",
}  # fmt: skip
KEYWORDS = {field.name for field in dataclasses.fields(Options)} - DERIVED


def sort_arguments(arguments, model, others):
    """Keywords sorted into those of the graph and those of the config; an unknown one is refused,
    with the nearest of all names, `others` included."""
    for_config = {*FIELDS, *ALIASES, *REQUIRED_VALUES} - {"max_position", "encodings"}
    if model in FAMILIES:
        for_config |= FAMILIES[model].keys_read
    for name in arguments:
        if name == "autoresize_weights":
            raise TypeError(
                "`autoresize_weights` is not supported: resizing a table reorders its positions. "
                "To serve more positions give `hierarchical_position=True` or an `extension`."
            )
        if name not in KEYWORDS | for_config:
            near = nearest(name, KEYWORDS | for_config | others, cutoff=0)
            raise TypeError(
                f"build_transformer_model has no argument {name!r}: did you mean {near[0]!r}?"
            )
    graph = {k: v for k, v in arguments.items() if k in KEYWORDS}
    return graph, {k: v for k, v in arguments.items() if k in for_config}


def extension_of(extension, hierarchical_position):
    """The `Extension` of either argument; bert4keras's is True, or the weight of block indices."""
    extension = Extension.of(extension)
    if hierarchical_position is None or hierarchical_position is False:
        return extension
    if extension is not None:
        raise ValueError(
            "Give `extension` or `hierarchical_position`, not both. Received: "
            f"extension={str(extension)!r}, hierarchical_position={hierarchical_position!r}"
        )
    alpha = None if hierarchical_position is True else hierarchical_position
    return Extension("hierarchical", alpha)


def trained_extension(stretching):
    """The `Extension` of a saved table of positions and its number of positions, or None twice.

    `stretching`: dict, that of a `Checkpoint`.
    """
    fields = dict(stretching)
    if not fields:
        return None, None
    max_position = fields.pop("max_position", None)
    return Extension(fields.pop("stretch"), **fields), max_position


def with_vocabulary(config, keep_tokens, compound_tokens):
    """The config after tokens were dropped and appended; the padding id moves along."""
    if keep_tokens is not None:
        keep_tokens = [int(token) for token in keep_tokens]
        wrong = [token for token in keep_tokens if not 0 <= token < config.vocab_size]
        if wrong:
            raise ValueError(
                f"`keep_tokens` has {wrong[0]}, but the ids of {config.vocab_size} tokens run from "
                f"0 to {config.vocab_size - 1}."
            )
        moved = {}
        for name, kind in {"pad_token_id": "padding", "zeroed_token_id": "mask"}.items():
            token = getattr(config, name)
            if token is not None and token not in keep_tokens:
                raise ValueError(f"`keep_tokens` must keep the {kind} token, {token}.")
            moved[name] = None if token is None else keep_tokens.index(token)
        if config.padded_positions and moved["pad_token_id"] != config.pad_token_id:
            raise ValueError(
                f"`keep_tokens` must keep the padding token at its place, {config.pad_token_id}: "
                f"this model counts its positions from there. Received: {moved['pad_token_id']}"
            )
        source = config.source and _moved_tokens(config.source, keep_tokens)
        config = dataclasses.replace(config, vocab_size=len(keep_tokens), source=source, **moved)
    more = len(compound_tokens or ())
    return dataclasses.replace(config, vocab_size=config.vocab_size + more)


def _moved_tokens(source, keep_tokens):
    """The keys of a config file with the new ids of its special tokens, without those that are
    gone."""
    places = {token: keep_tokens.index(token) for token in reversed(keep_tokens)}
    moved = {}
    for key in SPECIAL_TOKENS & source.keys():
        ids = source[key]
        if isinstance(ids, list):
            moved[key] = [places[token] for token in ids if token in places] or None
        else:
            moved[key] = places.get(ids)
    return {**source, **moved}


def with_head(config, options):
    """The config with the labels of a task's head, and the layers of a head that is new; the name
    of the task in `options` becomes its head."""
    task, label_names = options.get("head"), options.get("label_names")
    if task is None:
        if label_names is not None:
            raise ValueError(
                f"`label_names` are those of a `head`: name it. Received: {quote(label_names)}"
            )
        return config, ()
    others = [name for name in options if name.startswith("with_") and options[name]]
    if others:
        raise ValueError(f"`head` is a model's only one. Received: head={task!r}, {others[0]}")
    if label_names is not None:
        config = config.with_label_names(label_names)
    head = options["head"] = read_head(config, task)
    layers = [name for name in (head.output, head.dense, head.norm) if name is not None]
    return config, () if label_names is None else layers


def refuse_extension(extension, config):
    """Raises ValueError for an extension of a table of positions that there is not."""
    why = "`absolute_positions=False` leaves out the table of positions"
    if not config.position_table:
        why = f"{FAMILIES[config.family].title} has no table of positions"
    raise ValueError(
        f"{why}, so there is nothing to extend. Received: extension={str(extension)!r}"
    )


def check_options(options, config, application, position_ids):
    """Refuses options that do not go with each other, or with a config."""
    if application == "unilm":
        check_segments(config)
    if options.get("with_mlm"):
        check_token_logits(config)
    if options.get("attention_caches"):
        check_caches(options["attention_caches"], application, config)
    if options.get("packed"):
        check_packed(options, config)
    if position_ids is not None:
        check_position_ids(position_ids, options)


def check_position_ids(position_ids, options):
    """Refuses what makes no ids, and ids from two places."""
    from_caller = options.get("custom_position_ids") or options.get("packed")
    if from_caller or not isinstance(position_ids, keras.layers.Layer):
        raise ValueError(
            "`position_ids` is a layer that makes ids from the tokens, and goes without "
            f"`custom_position_ids`, which asks the caller for them. Received: {position_ids!r}"
        )


def check_segments(config):
    """Refuses UniLM without segments."""
    if not config.segment_vocab_size:
        raise ValueError(
            '`application="unilm"` distinguishes prompt and answer by segments, so the model needs '
            f"them. Received: segment_vocab_size={config.segment_vocab_size}"
        )


def check_token_logits(config):
    """Refuses token logits of features that the token table does not fit."""
    sizes = config.embedding_size or config.hidden_size, config.hidden_size
    if config.tie_word_embeddings and not config.mlm_dense and sizes[0] != sizes[1]:
        raise ValueError(
            "Without `mlm_dense` the features are multiplied by the token table, so "
            f"`embedding_size` must be the `hidden_size`, {sizes[1]}: set mlm_dense=True, or leave "
            f"the token logits out. Received: embedding_size={sizes[0]}"
        )


def check_caches(caches, application, config):
    """Refuses `attention_caches` of no layer, or in an order that they have no place in."""
    if application != "encoder":
        raise ValueError(
            f"`attention_caches` come before every token, which application={application!r} has no "
            'order for: they go with application="encoder".'
        )
    names = [f"Transformer-{i}-MultiHeadSelfAttention" for i in range(config.num_hidden_layers)]
    for name, pair in caches.items():
        if name not in names:
            near = nearest(str(name), names, cutoff=0)
            raise ValueError(f"`attention_caches` names {name!r}: did you mean {near[0]!r}?")
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise ValueError(
                f"`attention_caches[{name!r}]` must be [K, V], the features in front of the keys "
                f"and of the values. Received: {pair!r}"
            )


def check_packed(options, config):
    """Refuses what does not go with rows of several texts."""
    if config.zeroed_token_id is not None:
        title = FAMILIES[config.family].title
        raise ValueError(
            f"{title} scales a text by its fraction of mask tokens, so `packed` rows, which hold "
            "several texts, are not supported. Received: packed=True"
        )
    if any(config.convolutions):
        raise ValueError(
            f"A convolution of {FAMILIES[config.family].title} reads the tokens before, so "
            "`packed` rows, which hold several texts, are not supported. Received: packed=True"
        )
    of_rows = ("with_pool", "with_nsp", "attention_caches")
    found = [name for name in of_rows if options.get(name)]
    if options.get("head") is not None and options["head"].output != "Token-Output":
        found.append("head")
    if found:
        raise ValueError(
            f"`{found[0]}` needs one text per row, and `packed` rows hold several: share the "
            "`layers` of a packed model with one that is not."
        )
