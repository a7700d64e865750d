"""A transformer as a sequence of blocks, for quantization that reads what enters each block."""

import contextlib
import re

import keras
from keras import ops

from keras_posenc.backend.keras_names import layers_in
from keras_posenc.models.direct import calls_in

# Modes of quantization that run calibration data through the model.
CALIBRATED = ("gptq", "awq")
BLOCK = re.compile(r"Transformer-(\d+)-")
LIMIT = (
    "Quantization with calibration data runs block by block, and passes one tensor from block to "
    "block. {} Quantize this model to int8 or int4 instead."
)


def stages(model):
    """The embeddings and the blocks of a transformer, as Keras' GPTQ and AWQ call them.

    Calibration data are windows without padding, of one segment and one text each. What other
    tensors a block reads, such as position ids, is computed once for each window length.

    `model`: a functional `keras.Model` whose blocks are named as by `Transformer`. Returns a dict
    with `"pre_block_layers"`, a list of one layer from token ids (B, T) to features (B, T, D), and
    `"sequential_blocks"`, a list of layers from features to features.
    """
    names = [x.name for x in model.inputs]
    known = [next((n for n in IDS if name.endswith(n)), None) for name in names]
    if None in known or "token_ids" not in known:
        raise ValueError(LIMIT.format(f"The inputs of this model are {', '.join(names)}."))
    before, blocks = _divided(calls_in(model))
    if not blocks:
        raise ValueError(LIMIT.format("This model has no layers of a name like Transformer-0-..."))
    free = {id(x) for x in model.inputs} | _outputs(before)
    entries = [blocks[0][0].input_tensors[0], *(_entry(block, free) for block in blocks[1:])]
    values = {}

    def embed(token_ids):
        values.clear()
        for tensor, name in zip(model.inputs, known, strict=True):
            values[id(tensor)] = IDS[name](token_ids)
        _run(before, values)
        return values[id(entries[0])]

    def applied(block, entry):
        def apply(x):
            found = {**values, id(entry): x}
            _run(block, found)
            return found[id(block[-1].outputs[0])]

        return apply

    layers = [Stage(block, applied(block, x)) for block, x in zip(blocks, entries, strict=True)]
    return {"pre_block_layers": [Stage(before, embed)], "sequential_blocks": layers}


IDS = {
    "token_ids": lambda ids: ids,
    "segment_ids": ops.zeros_like,
    "position_ids": lambda ids: ops.broadcast_to(
        ops.arange(ops.shape(ids)[1], dtype=ids.dtype), ops.shape(ids)
    ),
}


class Stage(keras.layers.Layer):
    """Calls of a functional graph as one layer.

    `nodes`: list of Keras' nodes, whose layers are the parts of this layer. `compute`: function
    from tensor to tensor, which runs them.
    """

    def __init__(self, nodes, compute):
        super().__init__(autocast=False)
        self.supports_masking = True
        self.parts = [n.operation for n in nodes if isinstance(n.operation, keras.layers.Layer)]
        self.compute = compute
        self.built = True

    def call(self, x):
        with _observed(layers_in(self)):
            return self.compute(x)


@contextlib.contextmanager
def _observed(layers):
    """Within it, quantized layers are called as Keras set them, to see what enters them.

    Keras up to 3.15 sets `call` for this, and then calls `quantized_call`: nothing would be seen
    (https://github.com/keras-team/keras/pull/23512).
    """
    layers = [layer for layer in layers if "call" in vars(layer) and _is_waiting(layer)]
    for layer in layers:
        layer.quantized_call = layer.call
    try:
        yield
    finally:
        for layer in layers:
            del layer.quantized_call


def _is_waiting(layer):
    """Whether a layer will be quantized by its inputs, and is not yet."""
    mode = layer.quantization_mode
    return mode in CALIBRATED and not getattr(layer, f"is_{mode}_calibrated", True)


def _divided(nodes):
    """The calls that need no block, and those of each block in a list. What follows the last block
    is left out."""
    before, blocks, features = [], {}, set()
    for node in nodes:
        found = BLOCK.search(node.operation.name)
        inside = any(id(x) in features for x in node.input_tensors)
        if not (found or inside):
            before.append(node)
            continue
        # Blocks with the same layers are one block.
        number = int(found[1]) if found else max(blocks)
        blocks.setdefault(number, []).append(node)
        features.update(map(id, node.outputs))
    if blocks:
        last = blocks[max(blocks)]
        while not BLOCK.search(last[-1].operation.name):
            last.pop()
    return before, [blocks[number] for number in sorted(blocks)]


def _outputs(nodes):
    return {id(x) for node in nodes for x in node.outputs}


def _entry(block, free):
    """The one tensor that a block reads of the blocks before."""
    known = free | _outputs(block)
    read = {id(x): x for node in block for x in node.input_tensors if id(x) not in known}
    if len(read) > 1:
        name = block[0].operation.name
        raise ValueError(LIMIT.format(f"The block of {name} reads {len(read)}."))
    return next(iter(read.values()))


def _run(nodes, values):
    """Calls the nodes, as Keras does, and adds their outputs to the values of tensors by id."""
    for node in nodes:
        arguments, named = node.arguments.fill_in(values)
        outputs = keras.tree.flatten(node.operation(*arguments, **named))
        values.update(zip(map(id, node.outputs), outputs, strict=False))
