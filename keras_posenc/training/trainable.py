"""Which weights of a pretrained encoder are trained: all, those of some layers, or LoRA's."""

import fnmatch
import math
import re

from keras_posenc.arguments import checks
from keras_posenc.backend.keras_names import layers_in
from keras_posenc.checkpoints.load import variables_of
from keras_posenc.files.untrusted import quote

EMBEDDINGS = "embeddings"
BLOCK = re.compile(r"Transformer-(\d+)-")


def choose_trainable(encoder, lora_rank=None, freeze=None):
    """Freezes weights that a checkpoint gave, and adds LoRA's.

    A weight that the checkpoint lacks, such as a new position, has yet to be learned and stays
    trainable, and so do those of heads.
    """
    transformer = encoder.transformer
    new = {*transformer.account.initialised, *transformer.account.missing}
    layers = {
        name: layer
        for name, layer in transformer.layers.items()
        if name.startswith("Embedding-") or BLOCK.match(name) or name == "Final-Norm"
    }
    variables = variables_of(layers)
    frozen = _frozen(freeze, variables)
    for name in variables if lora_rank is not None else frozen:
        if name not in new:
            variables[name].trainable = False
    if lora_rank is not None:
        _enable_lora(layers, lora_rank, {id(variables[name]) for name in frozen})


def _enable_lora(layers, rank, frozen):
    """Adds LoRA's factors to the layers of the blocks, except those whose kernel is frozen."""
    parts = [
        part
        for name, layer in layers.items()
        for part in (layers_in(layer) if BLOCK.match(name) else ())
        if hasattr(part, "enable_lora") and id(part.kernel) not in frozen
    ]
    if not parts:
        raise ValueError(
            f"`freeze` leaves no matrix to which `lora_rank` would add factors. Received: "
            f"lora_rank={rank}; leave one of them out."
        )
    # Beyond it factors only cost: no product of theirs has a higher rank.
    shapes = [part.kernel.shape for part in parts]
    most = max(min(math.prod(shape[:-1]), shape[-1]) for shape in shapes)
    checks.whole("lora_rank", rank, most=most, why="no matrix of the encoder has a higher rank")
    for part in parts:
        part.enable_lora(rank)


def check_freeze(freeze):
    """Raises unless this is what `finetune` takes as `freeze`."""
    parts = parts_of(freeze)
    if not parts or not all(type(part) in (str, int) for part in parts):
        raise TypeError(
            '`freeze` must be "embeddings", a number of layers, a pattern of names of variables, '
            f"or a list of these. Received: {quote(freeze)}"
        )
    for part in parts:
        if type(part) is int:
            checks.whole("freeze", part)


def trainable_weights(model):
    """How many numbers of a model are trained, and how many it has."""
    groups = (model.trainable_weights, model.weights)
    return tuple(sum(math.prod(weight.shape) for weight in group) for group in groups)


def parts_of(freeze):
    """What `freeze` lists, which may be a single thing."""
    if freeze is None:
        return []
    return list(freeze) if isinstance(freeze, (list, tuple)) else [freeze]


def _frozen(freeze, variables):
    """The names of `variables` that `freeze` describes."""
    blocks = sorted({int(match[1]) for name in variables if (match := BLOCK.match(name))})
    found = set()
    for part in parts_of(freeze):
        if isinstance(part, str) and part != EMBEDDINGS:
            some = fnmatch.filter(variables, part)
            if not some:
                raise ValueError(
                    f"`freeze` has {quote(part)}, which matches none of the encoder's "
                    f"{len(variables)} variables, such as {min(variables)} and {max(variables)}: "
                    f'give a pattern such as "*-FeedForward/*", "{EMBEDDINGS}" or a number of '
                    "layers."
                )
        else:
            count = 0
            if part != EMBEDDINGS:
                why = f"the encoder has {len(blocks)} layers with weights of their own"
                count = checks.whole("freeze", part, most=len(blocks), why=why)
            low = {f"{number}" for number in blocks[:count]}
            some = [name for name in variables if _is_low(name, low)]
        found.update(some)
    return found


def _is_low(name, low):
    """Whether a variable is of the embeddings, or of one of these blocks."""
    match = BLOCK.match(name)
    return match[1] in low if match else name.startswith("Embedding-")
