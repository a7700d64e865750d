"""Export of a model to files that transformers, bert4keras and Google's code read."""

import dataclasses
import json
import os
import pathlib

import keras
import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.backend.keras_names import LOGGER
from keras_posenc.checkpoints.checkpoint import numpy_dtype
from keras_posenc.checkpoints.keras_hub.writing import write_preset, write_tokenizer
from keras_posenc.checkpoints.load import variables_of
from keras_posenc.checkpoints.lora import merged_arrays
from keras_posenc.checkpoints.names import OTHER_OUTPUT, flat_shape
from keras_posenc.checkpoints.safetensors import write_safetensors
from keras_posenc.encodings import spec_of
from keras_posenc.files.untrusted import quote
from keras_posenc.files.writing import alone, make_folder, remove, temporary_folder

POSITIONS = "Embedding-Position/embeddings"
DTYPES = ("float32", "float16", "bfloat16", "float64")
DTYPE_KEYS = ("dtype", "torch_dtype")

# Hugging Face's class for the heads a model has; the first match counts.
HEADS = (
    ({"Sequence-Output"}, "ForSequenceClassification"),
    ({"Token-Output"}, "ForTokenClassification"),
    ({"Span-Output"}, "ForQuestionAnswering"),
    ({"MLM-Activation", "NSP-Proba"}, "ForPreTraining"),
    ({"MLM-Activation"}, "ForMaskedLM"),
    ({"Discriminator-Proba"}, "ForPreTraining"),
    ({"NSP-Proba"}, "ForNextSentencePrediction"),
    (set(), "Model"),
)

# The last layer of a head on an encoder, as `models.heads` calls it -> its task.
TASK_OF = {
    "Classifier": "sequence_classification",
    "Regressor": "sequence_classification",
    "Tagger": "token_classification",
    "Span/ends": "question_answering",
}
LABELLED = ("Sequence-Output", "Token-Output", OTHER_OUTPUT)


def save_checkpoint(
    model,
    directory,
    format="huggingface",
    positions=None,
    dtype=None,
    label_names=None,
    tokenizer=None,
):
    """Writes the weights and the config of a model in a format that other libraries read.

    Each file is written completely before it is renamed, so an interrupted save keeps the old ones.
    What LoRA adds to a weight (`enable_lora` of Keras' layers) is merged into it.

    The config names the encodings of each layer's attention. This library builds the model with
    them again; other libraries do not know its model_type.

    A head that no class of transformers has, such as one that pools by the mean, is a `task_head`
    in the config, which `build_transformer_model(directory, head=...)` reads; other libraries read
    the encoder.

    Args:
        model: A model of `build_transformer_model`, or its `Transformer`.
        directory: Where to write; created if missing. Other files in it stay.
        format: `"huggingface"` writes model.safetensors and config.json. `"google"` writes
            bert_model.ckpt.* and bert_config.json (and needs TensorFlow). `"keras_hub"` writes a
            preset that `keras_hub.models.Backbone.from_preset` reads (and needs keras-hub).
        positions: int. Number of positions to write, as plain rows that a library without extended
            positions can read. By default the table itself, to be extended again on loading.
        dtype: str. Dtype of the weights written: "float32", "float16", "bfloat16" or "float64".
            Default: that of the model.
        label_names: list of str. Names of the outputs of a head; None keeps those of the config.
        tokenizer: `Tokenizer` of a WordPiece vocabulary, to be a part of a preset of KerasHub.

    Returns:
        list of the paths written.

    Raises:
        ImportError: for format `"google"` without TensorFlow, or `"keras_hub"` without keras-hub.
        NotADirectoryError: if `directory`, or a folder that it lies in, is a file.

    Example:

    >>> model = build_transformer_model("all-MiniLM-L6-v2", hierarchical_position=True)
    >>> sorted(save_checkpoint(model, "MiniLM-long", positions=2048))
    ['MiniLM-long/config.json', 'MiniLM-long/model.safetensors']

    `transformers.AutoModel.from_pretrained("MiniLM-long")` then reads 2,048 positions.
    """
    transformer = getattr(model, "transformer", model)
    if transformer is None:
        raise TypeError(
            "save_checkpoint needs a model that knows its transformer, and this one does not: "
            "keras.models.clone_model loses it. Make the copy by type(model).from_config("
            "model.get_config()), then copy.set_weights(clone.get_weights()). "
            f"Received: {model!r}"
        )
    if not all(hasattr(transformer, each) for each in ("layers", "config", "table")):
        raise TypeError(
            "save_checkpoint needs a model of build_transformer_model, or its Transformer. An "
            "older .keras file has no config: build the model again with the file as "
            f"checkpoint_path. Received: {model!r}"
        )
    head, record = _head(model, transformer) if isinstance(model, keras.Model) else ({}, None)
    checks.choice("format", format, WRITERS)
    checks.choice("dtype", dtype, (None, *DTYPES))
    arrays = _arrays(transformer, positions) | head
    config = _with_label_names(transformer.config, label_names, arrays)
    if positions is not None:
        config = dataclasses.replace(config, max_position=positions)
    if format == "keras_hub":
        return _save_preset(directory, arrays, transformer, config, dtype, tokenizer)
    table, kind = transformer.table, config.model_type
    config = config.to_huggingface(_encodings(transformer))
    layers = {*transformer.layers, *(name.rpartition("/")[0] for name in head)}
    config["architectures"] = [_architecture(table, kind, layers)]
    if record is not None:
        config["task_head"] = record
        LOGGER.warning(
            "transformers has no class with this head and reads the encoder alone. "
            f"build_transformer_model({str(directory)!r}, head={record['task']!r}) reads both."
        )
    elif OTHER_OUTPUT not in layers:
        config.pop("task_head", None)
    if tokenizer is not None:
        raise ValueError("`tokenizer` is written with format='keras_hub' only: leave it out.")
    named = _named(arrays, table, format, dtype)
    # Of the file that was read, by which transformers would round what is written.
    config |= {key: _widest(named) for key in DTYPE_KEYS if key in config}
    return _replace_files(directory, lambda folder: WRITERS[format](folder, named, config))


def _save_preset(directory, arrays, transformer, config, dtype, tokenizer):
    """Writes a preset of KerasHub; returns the paths."""
    if dtype not in (None, "float32"):
        raise ValueError(f"A preset of KerasHub is written in float32. Received: dtype={dtype!r}")
    if POSITIONS in arrays:  # without the rows below position 0
        arrays[POSITIONS] = arrays[POSITIONS][config.position_offset :]
    if _encodings(transformer) is not None:
        raise ValueError(
            "KerasHub has no backbone with the encodings of this model: save it as .keras."
        )

    def write(folder):
        write_preset(folder, arrays, config)
        if tokenizer is not None:
            write_tokenizer(folder, tokenizer, config)

    return _replace_files(directory, write)


def _head(model, transformer):
    """The arrays of a model that are not its transformer's, under the names of a task's head, and
    the entry of the config that describes that head, if transformers has none like it."""
    known = {id(variable) for variable in variables_of(transformer.layers).values()}
    layers = {layer.name: layer for layer in model.layers}
    arrays = merged_arrays(layers)
    new = [name for name, variable in variables_of(layers).items() if id(variable) not in known]
    rest = {name: arrays[name] for name in new if name in arrays}
    if not rest:
        return {}, None
    layer, pooling = min(rest).rpartition("/")[0], _pooling(model)
    task = TASK_OF.get(layer)
    whole = rest.keys() == {f"{layer}/bias", f"{layer}/kernel"}
    if task is None or not whole or (pooling is not None) != (task == "sequence_classification"):
        raise ValueError(
            f"The model has weights beside its transformer's, such as {min(rest)}, which are not "
            "those of one head, as `classifier`, `regressor`, `token_classifier` and `span_head` "
            "make it. Save the model as .keras, or write save_checkpoint(model.transformer), the "
            "encoder alone."
        )
    head, output = transformer.config.heads.get(task), OTHER_OUTPUT
    if head and not (head.dense or head.norm) and head.pooling == pooling and head.output_bias:
        output = head.output
    record = {"task": task, "pooling": pooling} if output == OTHER_OUTPUT else None
    return {output + name.removeprefix(layer): rest[name] for name in rest}, record


def _pooling(model):
    """The pooling of a model's `MaskedPooling`, or None."""
    return next((layer.pooling for layer in model.layers if hasattr(layer, "pooling")), None)


def _with_label_names(config, label_names, arrays):
    """The config with the names of a head's outputs."""
    kernels = [arrays[f"{name}/kernel"] for name in LABELLED if f"{name}/kernel" in arrays]
    if not kernels:
        if label_names is not None:
            raise ValueError(
                "`label_names` are those of a head's outputs, and there is no head. Received: "
                f"{quote(label_names)}"
            )
        return config
    count = kernels[0].shape[-1]
    if label_names is None:
        known = len(config.label_names) == count
        return config if known else config.with_label_names([f"LABEL_{i}" for i in range(count)])
    if len(label_names) != count:
        raise ValueError(
            f"The head has {count} outputs: name each. Received: label_names={quote(label_names)}"
        )
    return config.with_label_names(label_names)


def _arrays(transformer, positions):
    """The variables as arrays, with the requested number of positions."""
    arrays = merged_arrays(transformer.layers)
    if (POSITIONS in arrays) != transformer.config.position_table:
        raise ValueError(
            f"A {transformer.family} checkpoint has a table of positions, and this model has no "
            "table: save it as .keras instead."
        )
    if POSITIONS not in arrays:
        if positions is not None:
            raise ValueError(
                f"A {transformer.family} has no table of positions: leave `positions` out. "
                f"Received: {positions!r}"
            )
        return arrays
    table = arrays[POSITIONS]
    fresh = arrays.pop("Embedding-Position/fresh", None)
    if positions is None and fresh is not None:
        raise ValueError(
            f"The model has {len(fresh)} fresh positions behind its table of {len(table)}: give "
            f"positions={len(table) + len(fresh)} to write them all."
        )
    if positions is not None:
        layer = transformer.layers["Embedding-Position"]
        most = getattr(layer, "max_position", len(table))
        checks.whole("positions", positions, most=most)
        rows = layer.rows(keras.ops.arange(positions, dtype="int32"))
        arrays[POSITIONS] = keras.ops.convert_to_numpy(rows).astype(table.dtype)
    if transformer.config.position_offset:
        # Rows for the padding id and below, which no real token reads.
        unread = np.zeros((transformer.config.position_offset, table.shape[1]), table.dtype)
        arrays[POSITIONS] = np.concatenate([unread, arrays[POSITIONS]])
    return arrays


def _encodings(transformer):
    """What each layer's attention was given if some of it is not the family's; None: nothing is."""
    if not transformer.options.swapped:
        return None
    return [[spec_of(encoding) for encoding in layer] for layer in transformer.options.encodings]


def _named(arrays, table, format, dtype):
    """The arrays with the names and shapes of a format."""
    nameless = [name for name in arrays if not table.names(name)]
    if nameless:
        raise ValueError(
            f"{len(nameless)} weights have no place in a {table.family} checkpoint, such as "
            f"{nameless[0]}: save the model as .keras instead."
        )
    named, cuts = {}, {}
    for variable, array in arrays.items():
        name, transposed, cut = table.written_name(variable, format)
        flat = array.reshape(flat_shape(variable, array.shape))
        if cut is not None:
            heads = array.shape[-2] if cut.by_head else 1
            flat = flat.reshape(*flat.shape[:-1], heads, 1, -1)
            parts = cuts.setdefault((name, transposed), {})
            parts[cut.part] = flat
            if len(parts) < cut.parts or len({each.shape for each in parts.values()}) > 1:
                continue
            flat = np.concatenate([parts[part] for part in range(cut.parts)], axis=-2)
            flat = flat.reshape(*flat.shape[:-3], -1)
            del cuts[name, transposed]
        flat = flat.T if transposed else flat
        if name in named:
            raise ValueError(
                f"Several weights of this {table.family} have one place in its files, {name}: save "
                "the model as .keras instead."
            )
        named[name] = flat if dtype is None else flat.astype(numpy_dtype(dtype))
    if cuts:
        raise ValueError(
            f"{next(iter(cuts))[0]} of a {table.family} checkpoint has parts of one size, of which "
            "this model lacks some or has others: save the model as .keras instead."
        )
    return named


def _widest(arrays):
    """The name of the dtype that holds the numbers of all arrays."""
    return max((array.dtype for array in arrays.values()), key=lambda dtype: dtype.itemsize).name


def _architecture(table, model_type, layers):
    name = table.classes[model_type or next(iter(table.classes))]
    ending = next(ending for heads, ending in HEADS if heads <= layers)
    return name + table.endings.get(ending, ending)


def _write_huggingface(folder, arrays, config):
    write_safetensors(folder / "model.safetensors", arrays)
    _write_json(folder / "config.json", config)


def _write_google(folder, arrays, config):
    try:
        import tensorflow as tf
    except ImportError:
        raise ImportError(
            "Writing Google's format needs TensorFlow: pip install tensorflow"
        ) from None
    tf.raw_ops.SaveV2(
        prefix=str(folder / "bert_model.ckpt"),
        tensor_names=list(arrays),
        shape_and_slices=[""] * len(arrays),
        tensors=[tf.constant(np.ascontiguousarray(array)) for array in arrays.values()],
    )
    _write_json(folder / "bert_config.json", config)


WRITERS = {"huggingface": _write_huggingface, "google": _write_google, "keras_hub": None}


def _write_json(path, values):
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", "utf-8")


def _replace_files(directory, write):
    """Writes into a temporary directory, then replaces each file by its new version."""
    directory = pathlib.Path(directory)
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file: give a directory to write into.")
    make_folder(directory)
    with temporary_folder(directory) as folder:
        write(folder)
        # The index of a TensorFlow checkpoint and the config come last: they mark what is valid.
        written = sorted(folder.iterdir(), key=lambda path: path.suffix in (".index", ".json"))
        with alone(directory):
            for path in written:
                if path.is_dir():  # the assets of a preset
                    remove(directory / path.name)
                os.replace(path, directory / path.name)
        return [str(directory / path.name) for path in written]
