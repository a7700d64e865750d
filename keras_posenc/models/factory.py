"""`build_transformer_model`: a config and a checkpoint in, a functional `keras.Model` out."""

import inspect
import os

from keras_posenc.arguments import checks
from keras_posenc.checkpoints.load import Loader
from keras_posenc.checkpoints.lora_files import check_tied
from keras_posenc.checkpoints.reader import with_lora
from keras_posenc.files.untrusted import quote
from keras_posenc.folders.folder import Folder
from keras_posenc.models.arguments import (
    Options,
    check_options,
    extension_of,
    refuse_extension,
    sort_arguments,
    trained_extension,
    with_head,
    with_vocabulary,
)
from keras_posenc.models.config_file import read_config
from keras_posenc.models.config_layers import check_size, fit_labels
from keras_posenc.models.extension import former_arguments
from keras_posenc.models.families import FAMILIES
from keras_posenc.models.layer_encodings import check_encodings, choose_encodings
from keras_posenc.models.transformer import Transformer

APPLICATIONS = ("encoder", "lm", "unilm")


@former_arguments
def build_transformer_model(
    config_path=None,
    checkpoint_path=None,
    model=None,
    application="encoder",
    return_keras_model=True,
    *,
    hierarchical_position=None,
    extension=None,
    max_position=None,
    encodings=None,
    absolute_positions=True,
    position_ids=None,
    keep_tokens=None,
    compound_tokens=None,
    ignore_invalid_weights=False,
    ignore=None,
    adapter=None,
    **kwargs,
):
    """Builds an encoder, loads pretrained weights, and extends it beyond its training length.

    bert4keras's arguments are accepted, with the same meaning; unknown arguments are refused.

    Args:
        config_path: str, dict or None. Path of bert_config.json or config.json, or of a directory
            with it and the weights. None takes the sizes from keywords.
        checkpoint_path: str, dict or None. Path of a .safetensors, .bin or .keras file, of an index
            of shards or of a directory. Or the prefix of a TensorFlow checkpoint, or a dict of
            arrays. None takes the weights in the directory `config_path`, else random weights.
        model: str. Family of the checkpoint, a name of `keras_posenc.models.families.FAMILIES`.
            Default: that of `model_type` in the config, else "bert".
        application: str. "encoder"; "lm", which is causal and has the MLM head; or "unilm", which
            also has the MLM head. In "unilm" a prompt (segment 0) sees itself, and an answer
            (segment 1) sees the prompt and its own past.
        return_keras_model: bool. False returns the `Transformer`, which has .model, .layers,
            .account.
        hierarchical_position: True or float, as in bert4keras: short for
            `extension="hierarchical"`, with that `alpha`. The table of n rows serves n^2 positions.
        extension: `Extension`, str or dict. How to serve more positions: "hierarchical", "tile",
            "interpolate" or "fresh" for a table of positions, and "yarn:4" or another scaling for
            rotary encodings. Without an argument of positions, a .keras file, such as that of
            `finetune`, serves those that it was saved with.
        max_position: int. Number of positions to serve (required by "interpolate" and "fresh").
            Without an extension, the rows of the table, which must be the checkpoint's.
        encodings: list. Position encodings of the attention: names, dicts or instances for every
            layer (`["rotary", "log_n"]`), or a list of such lists, one per layer. See
            `keras_posenc.encodings.ENCODINGS`. They are added to the position table and the
            encodings of the family; one of the same class replaces the family's. "rerope",
            "self_extend", "dual_chunk" and "string" replace the rotary one of the family. With
            `{"name": "t5", "shared": True}` equal encodings have one table for all layers.
            Default: those that the config names.
        absolute_positions: bool. False omits the table of positions, even if a checkpoint has one.
        position_ids: layer. Makes the ids from `token_ids`, such as `RandomPositionIds`.
        keep_tokens: list of int. Token ids to keep in the token table and the MLM bias.
        compound_tokens: list. Tokens to append; each is a list of ids (mean of their rows) or (ids,
            weights).
        ignore_invalid_weights: bool. Variables that the checkpoint lacks keep their initial values.
        ignore: list of str. Patterns, such as "cls.chain.*", of tensors in the checkpoint that the
            model has no place for and that are left out. The weight-mapping report lists them.
        adapter: str or path. Directory of a LoRA adapter that was trained on this checkpoint, as
            PEFT writes it. It is merged into the weights as they are read.
        with_pool: bool or str. True, or the activation of the pooler (tanh).
        with_nsp: bool or str. True, or the activation of the next-sentence head (softmax).
        with_mlm: bool or str. True, or the activation of the MLM head (softmax). The activation
            "linear" gives logits.
        with_discriminator: bool or str. True, or the activation of ELECTRA's discriminator
            (sigmoid), which predicts whether each token was replaced, (B, T, 1).
        head: str. The task whose head the checkpoint has: "sequence_classification",
            "token_classification" or "question_answering". The model gives its logits, (B, C) or
            (B, T, C). The names of the labels are `model.transformer.config.label_names`.
        label_names: list of str. Names of the outputs of a new head in the family's form, which is
            to be trained.
        custom_position_ids: bool. Adds the input `position_ids`.
        packed: bool. A row holds several documents, as `MaskedLanguageModelBatches` with
            `pack=True` makes them. Adds the input `position_ids`, which starts again at 0 with each
            document. No document sees another.
        sequence_length: int. Fixed length of the inputs.
        segment_vocab_size: int. 0 removes the segments.
        shared_segment_embeddings: bool. Segments are looked up in the token table.
        layer_norm_cond, layer_norm_cond_hidden_size, layer_norm_cond_hidden_act: Condition tensor
            (B, C) of every layer norm, and its hidden layer.
        additional_input_layers: list. Further inputs of the model, such as the condition's.
        residual_attention_scores: bool. Each layer's logits are added to the next one's
            (RealFormer).
        flash_attention: as in `PositionalAttention`, for all layers.
        attention_caches: dict. Maps the name of an attention layer to [K, V], features (B, S, D)
            that precede those which keys and values are projected from.
        layers: dict. Layers to share, such as the `.layers` of another Transformer.
        prefix: str. Prefix of the names of all layers and inputs.
        name: str. Name of the model.
        **kwargs: Fields of `Config`, under our name or that of the config file, such as
            dropout_rate or hidden_act.

    Returns:
        A functional `keras.Model` of the inputs `token_ids`, `segment_ids` (and `position_ids`),
        each (B, T) int32. Its output is the features (B, T, D). With one head it is the output of
        that head. With several it is a list, pooler or next sentence first, MLM second.

    Raises:
        FileNotFoundError: if the config or the checkpoint is missing.

    Example:

    >>> model = build_transformer_model("all-MiniLM-L6-v2", hierarchical_position=True)
    >>> token_ids = np.full((1, 1536), 2146)
    >>> inputs = {"token_ids": token_ids, "segment_ids": np.zeros_like(token_ids)}
    >>> model.predict(inputs, verbose=0).shape
    (1, 1536, 384)
    """
    checks.choice("application", application, APPLICATIONS)
    if isinstance(config_path, (str, os.PathLike)):
        folder = Folder.of(config_path)
        if folder.is_directory or folder is config_path:
            config_path = folder
            checkpoint_path = folder if checkpoint_path is None else checkpoint_path
    arguments = set(inspect.signature(build_transformer_model).parameters) - {"kwargs"}
    options, sizes = sort_arguments(kwargs, model, arguments)
    extension = extension_of(extension, hierarchical_position)
    scaling = extension and extension.rope_scaling
    if extension is not None and extension.table is None:
        extension = None
    unsized = config_path is None and "max_position_embeddings" not in sizes
    if max_position is not None and (extension is None or unsized):
        sizes["max_position"] = max_position
    config = read_config(config_path, model, **sizes)
    if application != "encoder":
        options["with_mlm"] = options.get("with_mlm") or True
    config, new = with_head(config, options)
    config, encodings, swapped = choose_encodings(config, encodings, scaling)
    if encodings:
        check_encodings(encodings, application, options, config)
    check_options(options, config, application, position_ids)
    has_table = absolute_positions and config.position_table
    if extension is not None and not has_table:
        refuse_extension(extension, config)
    if options.get("packed"):
        options["custom_position_ids"] = True
    if keep_tokens is not None or compound_tokens:
        config = with_vocabulary(config, keep_tokens, compound_tokens)
    family = FAMILIES[config.family]
    table, loader = family.table(config), None
    if checkpoint_path is not None:
        loader = Loader(
            checkpoint_path if adapter is None else with_lora(checkpoint_path, adapter),
            table,
            keep_tokens=keep_tokens,
            compound_tokens=compound_tokens,
            position_offset=config.position_offset,
            ignore=ignore,
            new=new,
        )
        if options.get("with_mlm") and config.tie_word_embeddings:
            check_tied(loader.checkpoint, table)
        if has_table and extension is None and max_position is None:
            extension, max_position = trained_extension(loader.checkpoint.stretching)
        if not ignore_invalid_weights:
            check_size(config, loader)
        if options.get("head") is not None and options.get("label_names") is None:
            config = fit_labels(config, loader, options["head"])
    elif ignore or adapter is not None:
        name, value = ("ignore", ignore) if ignore else ("adapter", adapter)
        raise ValueError(f"`{name}` is for a checkpoint's tensors. Received: {name}={quote(value)}")
    options = Options(
        application=application,
        extension=extension,
        max_position=None if extension is None else max_position,
        encodings=encodings,
        swapped=swapped,
        absolute_positions=has_table,
        position_ids=position_ids,
        stored=None if loader is None else loader.initial,
        **options,
    )
    make = family.transformer or Transformer
    transformer = make(config, options, family=family.name, table=table)
    if loader is not None:
        transformer.account = loader.load(transformer.layers, ignore_invalid_weights)
    return transformer.model if return_keras_model else transformer
