"""What goes into a model: its ids are checked before a program runs, and so is what pads them."""

import functools
import inspect
import types
import typing

import keras
import numpy as np
from keras import ops

from keras_posenc import backend
from keras_posenc.attention.gau import GatedAttentionUnit
from keras_posenc.attention.layer import PositionalAttention
from keras_posenc.backend.keras_names import called_by_fit, mask_of, nodes_by_depth
from keras_posenc.backend.shared_pass import is_compiling
from keras_posenc.layers.token_embedding import REMEDY, check_ids
from keras_posenc.models.direct import calls_in
from keras_posenc.positions.absolute import AbsolutePositionEmbedding


class IdInput(typing.NamedTuple):
    """An input of a model that looks up rows of a table.

    `bound`: int, the rows of the table, or None if there is no bound. `remedy`: str, the end of an
    error message. `masked`: int or None. The id that is masked.
    """

    name: str
    bound: int | None
    remedy: str = REMEDY
    masked: int | None = None


def id_inputs(model):
    """The inputs of a functional model that are ids.

    Returns a tuple of `IdInput`.
    """
    found = {}
    for node in calls_in(model):
        for tensor, ids in _looked_up(node):
            name = next((x.name for x in model.inputs if x is tensor), None)
            if name is not None and keras.backend.is_int_dtype(tensor.dtype):
                known = found.setdefault(name, ids._replace(name=name))
                if known.bound is None or ids.bound is not None and ids.bound < known.bound:
                    found[name] = ids._replace(name=name)
    return tuple(found[x.name] for x in model.inputs if x.name in found)


def inputs_of(model, batch):
    """The inputs that a model has, out of those of a batch: not every family has segments.

    `batch`: dict name -> array. Returns a dict name -> array.
    """
    return {x.name: batch[x.name] for x in model.inputs}


def reads_padding(model):
    """Whether the outputs for real tokens depend on tokens behind them that are not masked."""
    for node in calls_in(model):
        named = node.arguments.kwargs
        attends = isinstance(node.operation, (PositionalAttention, GatedAttentionUnit))
        if attends and not named.get("use_causal_mask"):
            return True
        if getattr(node.operation, "reads_whole_row", False):
            return True
    return False


def check_inputs(inputs, x):
    """Checks what is given to a model, where it is known already; returns it, with ids that have
    no padding marked. `inputs`: tuple of `IdInput`, and the names of all inputs in their order.
    """
    ids, names = inputs
    several = isinstance(x, (list, tuple)) and len(x) == len(names)
    if several:
        given = dict(zip(names, x, strict=True))
    else:
        given = dict(x) if isinstance(x, dict) else {names[0]: x}
    for each in ids:
        values = _known(given.get(each.name))
        if values is not None:
            check_ids(each.name, values, each.bound, each.remedy)
            if each.masked is not None:
                given[each.name] = backend.unmasked(given[each.name], values, each.masked)
    if any(map(backend.is_unmasked, given.values())):  # Keras takes arrays or tensors
        given = {name: _as_tensor(value) for name, value in given.items()}
    if isinstance(x, dict):
        return given
    return [given[name] for name in names] if several else given[names[0]]


def fill(x, inputs):
    """Whether x is a dict of arrays or tensors of integers, one for each of a model's inputs."""
    if not isinstance(x, dict) or x.keys() != {each.name for each in inputs}:
        return False
    return all(
        hasattr(given := x[each.name], "dtype")
        and mask_of(given) is None
        and keras.backend.is_int_dtype(each.dtype)
        and keras.backend.is_int_dtype(given.dtype)
        and each.shape in ((None,) * len(given.shape), tuple(given.shape))
        for each in inputs
    )


class CheckedInputs(backend.SafeTrainer):
    """What a functional model inherits before `keras.Model` to check the ids that it is given.

    Arrays are checked as a whole, batches of a `PyDataset` or of a generator as they come; other
    datasets cannot be looked into.
    """

    @functools.cached_property
    def _id_inputs(self):
        return id_inputs(self), tuple(x.name for x in self.inputs)

    def __call__(self, inputs, *args, **kwargs):
        given = inputs if is_compiling() else check_inputs(self._id_inputs, inputs)
        return super().__call__(given, *args, **kwargs)

    def fit(self, *args, **kwargs):
        given = inspect.signature(super().fit).bind(*args, **kwargs).arguments
        with _Watch(self) as watch:
            if given.get("validation_data") is not None:
                given["validation_data"] = watch.validation(given["validation_data"])
            x = given.get("x")
            if hasattr(x, "set_epoch"):
                # It is in an order of its own.
                given["shuffle"] = False
                given["callbacks"] = _with_epochs(x, given)
            if given.get("class_weight") is not None and hasattr(x, "class_weight_by_id"):
                given["class_weight"] = x.class_weight_by_id(given["class_weight"])
            return super().fit(**given | {"x": watch.all_of(x)})

    def evaluate(self, x=None, *args, **kwargs):
        if called_by_fit(kwargs):  # `fit` has checked it
            return super().evaluate(x, *args, **kwargs)
        with _Watch(self) as watch:
            return super().evaluate(watch.all_of(x), *args, **kwargs)

    def predict(self, x, *args, **kwargs):
        with _Watch(self) as watch:
            return super().predict(watch.all_of(x), *args, **kwargs)

    def train_on_batch(self, x, *args, **kwargs):
        check_inputs(self._id_inputs, x)
        return super().train_on_batch(x, *args, **kwargs)

    def test_on_batch(self, x, *args, **kwargs):
        check_inputs(self._id_inputs, x)
        return super().test_on_batch(x, *args, **kwargs)

    def predict_on_batch(self, x):
        if not backend.TRAITS.eager:  # else the call checks them
            check_inputs(self._id_inputs, x)
        return super().predict_on_batch(x)


class _Watch:
    """Checks inputs, and raises what it found wrong in the place of what became of it: TensorFlow
    makes an error of its own of one in its data."""

    def __init__(self, model):
        self.inputs, self.model, self.refusal = model._id_inputs, model, None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if self.refusal is not None and isinstance(error, Exception):
            raise self.refusal from None

    def all_of(self, x):
        """What is given to `fit`, `evaluate` or `predict`, checked or to be checked."""
        if isinstance(x, keras.utils.PyDataset):
            _check_padding(self.model, x)
            _check_classes(self.model, x)
            return _Checked(x, self)
        if isinstance(x, types.GeneratorType):
            return (self.batch(each) for each in x)
        if x is not None:
            check_inputs(self.inputs, x)
        return x

    def validation(self, data):
        """The `validation_data` of `fit`."""
        if isinstance(data, (list, tuple)) and data:
            return type(data)([self.all_of(data[0]), *data[1:]])
        return self.all_of(data)

    def batch(self, batch):
        """A batch of a dataset: inputs, or a tuple of inputs, targets and weights."""
        try:
            check_inputs(self.inputs, batch[0] if isinstance(batch, tuple) else batch)
        except ValueError as error:
            self.refusal = error
            raise
        return batch

    def __getstate__(self):
        # A process that prepares batches has no use for the model.
        return {"inputs": self.inputs, "model": None, "refusal": None}


class _Checked(keras.utils.PyDataset):
    """The batches of another dataset, each of them checked."""

    def __init__(self, batches, watch):
        super().__init__(
            workers=batches.workers,
            use_multiprocessing=batches.use_multiprocessing,
            max_queue_size=batches.max_queue_size,
        )
        self._batches, self._watch = batches, watch

    @property
    def num_batches(self):
        return self._batches.num_batches

    def __len__(self):
        return len(self._batches)

    def __getitem__(self, index):
        return self._watch.batch(self._batches[index])

    def on_epoch_begin(self):
        self._batches.on_epoch_begin()

    def on_epoch_end(self):
        self._batches.on_epoch_end()


class _Epochs(keras.callbacks.Callback):
    """Moves batches to the epoch that `fit` begins: a callback such as `BackupAndRestore` may make
    it begin with another one than the first."""

    def __init__(self, batches, initial_epoch):
        super().__init__()
        self._batches, self._before = batches, batches.epoch - initial_epoch

    def on_epoch_begin(self, epoch, logs=None):
        if self._batches.epoch != self._before + epoch:
            self._batches.set_epoch(self._before + epoch)


def _with_epochs(batches, given):
    """The callbacks given to `fit`, and the one that keeps count of the epochs of `batches`."""
    callbacks = given.get("callbacks")
    if given.get("steps_per_epoch") is not None:  # what `fit` then counts are no epochs
        return callbacks
    epochs = _Epochs(batches, given.get("initial_epoch", 0))
    if isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks.append(epochs)
        return callbacks
    callbacks = [] if callbacks is None else callbacks
    return [epochs, *(callbacks if isinstance(callbacks, (list, tuple)) else [callbacks])]


def _check_padding(model, batches):
    """Refuses batches whose padding the model would read as text."""
    pad_id = getattr(batches, "pad_id", None)
    tokens = next((each for each in model._id_inputs[0] if each.name.endswith("token_ids")), None)
    if pad_id is None or tokens is None or tokens.masked == pad_id:
        return
    if batches.padding_share and reads_padding(model):
        masks = "no token" if tokens.masked is None else f"the token {tokens.masked}"
        raise ValueError(
            f"The batches are padded with the token {pad_id}, and the model masks {masks}, so its "
            f"output for a text would depend on the padding. Build it with pad_token_id={pad_id}, "
            "a token that no text needs, or make the batches with the tokenizer of the model."
        )


def _check_classes(model, batches):
    """Refuses ids of classes that the model has no output for: JAX would train on another."""
    top, shape = getattr(batches, "top_class", None), model.output_shape
    one = isinstance(shape, tuple) and len(shape) == 2 and (shape[-1] or 0) > 1
    if top is not None and one and top >= shape[-1]:
        raise ValueError(
            f"Labels must be from 0 to {shape[-1] - 1}, because the model has {shape[-1]} outputs. "
            f"Received: {top}. Count from 0, give names, or build a head for {top + 1} classes."
        )


def _as_tensor(value):
    return ops.convert_to_tensor(value) if hasattr(value, "__array__") else value


def _known(values):
    """NumPy values if they are known and cheap to read, else None."""
    if values is None or isinstance(values, keras.KerasTensor):
        return None
    if ops.is_tensor(values):
        # To ask an accelerator would be to wait for it.
        if backend.is_traced(values) or backend.on_accelerator(values):
            return None
        return ops.convert_to_numpy(values)
    if not isinstance(values, (list, tuple)) and not hasattr(values, "__array__"):
        return None
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError):  # lists of several lengths: Keras refuses them
        return None


def _looked_up(node):
    """Pairs of a tensor that a call looks up in a table, and the `IdInput` that it is."""
    layer, args = node.operation, node.arguments.args
    if isinstance(layer, keras.layers.Embedding):
        return [(args[0], IdInput("", layer.input_dim, masked=masked_token(layer)))]
    named = node.arguments.kwargs
    if isinstance(layer, AbsolutePositionEmbedding):
        ids = args[1] if len(args) > 1 else named.get("position_ids")
        return [(ids, IdInput("", layer.max_position, getattr(layer, "remedy", "")))]
    if isinstance(layer, (PositionalAttention, GatedAttentionUnit)):
        ids = named.get("query_positions", named.get("positions"))
        return [(ids, IdInput("", None))]
    inner = getattr(layer, "layer", None)
    if isinstance(layer, keras.layers.Wrapper) and nodes_by_depth(inner):
        given = args[0] if args and isinstance(args[0], dict) else {}
        return [(given[ids.name], ids) for ids in id_inputs(inner) if ids.name in given]
    return []


def masked_token(table):
    """The id that an embedding masks, or None."""
    return getattr(table, "pad_token_id", 0 if table.mask_zero else None)
