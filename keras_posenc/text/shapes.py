"""What one more shape of a batch costs, and shapes that do not depend on the texts."""

import math
import typing

import numpy as np
from keras import layers, ops

from keras_posenc import backend
from keras_posenc.backend.keras_names import layers_in

# Prices were measured with MiniLM, whose weights have so many numbers on average, without tables.
MEASURED_WEIGHT = 108_000
ACCELERATOR_PRICE = 8192
# The price of a program that later processes read from disk is divided by this.
KEPT = 4
# The longest length of a ladder without a bound.
LONGEST = 8192
# Lengths of a ladder at which several rows take less time on a CPU than one row at a time. Longer
# ones have one program each there, so that all texts together meet 12 programs, or 14 from 2,049
# tokens on. A query has about 16 tokens, and a title or a sentence 32.
SHORT, STEPS = (16, 32, 64, 128), (4, 6)
# Lengths where programs are made for each, and where they are not.
FEW, MANY = 10, 40
# Tokens of a batch of predictions on a CPU, and the tokens that calling a program costs. Larger
# batches are no faster on JAX. On PyTorch and TensorFlow they are slower: the system takes back the
# memory of their large tensors after each operation, and clears it again for the next.
CPU_BATCH, CPU_CALL, ACCELERATOR_CALL = 1024, 32, 2048


class Costs(typing.NamedTuple):
    """What batches cost on the device that computes."""

    accelerated: bool  # whether the device is a GPU or a TPU
    call: int  # how many tokens are computed in the time that calling a program takes
    priced_shapes: float  # after so many shapes, further ones cost nothing

    @property
    def compiles_each(self):
        """Whether a program is made for every shape."""
        return backend.TRAITS.shape_price > 0 and self.priced_shapes == math.inf


def costs():
    """The `Costs` of this process."""
    if backend.on_accelerator(ops.zeros(())):
        # TensorFlow's programs are for any shape, except those of XLA, which it uses on a GPU.
        return Costs(True, ACCELERATOR_CALL, math.inf)
    return Costs(False, CPU_CALL, backend.TRAITS.priced_shapes)


def shape_price(model=None, training=False):
    """How many tokens of padding one more shape of a batch must save to be worth its program.

    A program is made in a time for each operation, and run in a time for each number of the
    weights. So the price falls with the width of the layers, and does not depend on their number.
    `model`: `keras.Model`. Default: one as wide as MiniLM, 384. `training`: bool. The batches must
    not depend on whether programs are kept. Returns an int; 0 where no program is made for a shape.
    """
    price = backend.TRAITS.shape_price
    if price and model is not None:
        tables = {id(w) for layer in _embeddings(model) for w in layer.weights}
        sizes = [math.prod(w.shape) for w in model.weights if id(w) not in tables]
        price = round(price * MEASURED_WEIGHT * len(sizes) / max(1, sum(sizes)))
    if backend.keeps_programs() and not training:
        price //= KEPT
    return max(price, ACCELERATOR_PRICE) if price and costs().accelerated else price


def shape_options(model):
    """The options of `TextBatches` that are best for a model."""
    return {"shape_price": shape_price(model), "max_shapes": FEW if costs().compiles_each else MANY}


def prepare_predictions(model, batches, on_batch=False):
    """Has one program made for predictions of several shapes, where that is possible.

    `model`: functional `keras.Model` that will be given its inputs by name. `batches`:
    `TextBatches`. `on_batch`: bool. Each will be given to `predict_on_batch`, not all to `predict`.
    """
    if on_batch or len(batches.shapes) > 1:  # the next ones may have another shape
        backend.trace_any_shape(model, on_batch)


def max_position_of(model):
    """The number of positions that a model's table serves, or None if there is no such bound."""
    transformer = getattr(model, "transformer", None)
    layer = transformer and transformer.layers.get("Embedding-Position")
    return getattr(layer, "max_position", getattr(layer, "input_dim", None))


def longest_length(model, max_length):
    """The longest length of a ladder for a model.

    `max_length`: int or None. The number of tokens after which its texts are truncated.
    """
    return max_length or max_position_of(model) or LONGEST


def ladder(longest, multiple):
    """At most 10 lengths up to `longest`, each at most about twice the one before.

    `multiple`: int. Every length is a multiple of it, or `longest`. Returns an increasing int
    array.

    Example:

    >>> ladder(100, multiple=8).tolist(), ladder(256, multiple=8).tolist()
    ([16, 32, 64, 100], [16, 32, 64, 128, 160, 184, 216, 256])
    """
    rungs = np.array([*(length for length in SHORT if length < longest), longest])
    if longest > SHORT[-1]:
        steps = int(np.clip(math.ceil(math.log2(longest / SHORT[-1])), *STEPS))
        longer = SHORT[-1] * (longest / SHORT[-1]) ** (np.arange(1, steps + 1) / steps)
        rungs = np.concatenate([SHORT, longer])
    rungs = np.ceil(np.round(rungs, 6) / multiple).astype(int) * multiple
    return np.unique(np.minimum(rungs, longest))


def on_ladder(lengths, longest, multiple):
    """Each length rounded up to one of `ladder`, or beyond it to a multiple of `longest`."""
    rungs = ladder(longest, multiple)
    index = np.searchsorted(rungs, lengths)
    beyond = -(-lengths // longest) * longest
    return np.where(index < len(rungs), rungs[np.minimum(index, len(rungs) - 1)], beyond)


def fixed_sizes(counts, lengths, budget, multiple=1):
    """Chooses the rows of every batch of a length, which do not depend on the texts.

    Batches have one row, or as many as a budget of tokens allows: whichever takes less time for
    these texts. On a CPU, those of long texts always have one. The last batch is filled up.

    `counts`: number of documents of each of the increasing `lengths`. Every size is a multiple of
    `multiple`.
    """
    accelerated, call, _ = costs()
    lengths = np.asarray(lengths)
    if not accelerated:
        budget = np.where(lengths <= SHORT[-1], budget, 1)
    many = np.maximum(1, budget // (lengths * multiple)) * multiple

    def cost(sizes):
        tokens = left = 0
        for count, length, size in zip(counts, lengths, sizes, strict=True):
            batches, left = divmod(count + left, size)
            tokens += batches * (size * length + call)
        return tokens + (left > 0) * (sizes[-1] * lengths[-1] + call)

    return min([np.full_like(many, multiple), many], key=cost).tolist()


def _embeddings(model):
    return [layer for layer in layers_in(model) if isinstance(layer, layers.Embedding)]
