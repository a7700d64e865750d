"""`TextBatches`: documents of similar length, under a token budget, for `model.fit`."""

import keras
import numpy as np

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.arguments.aliases import check_arguments
from keras_posenc.processes.replicas import Reading, fill_batch, filled_size, share_of
from keras_posenc.text.batch_plan import plan_batches
from keras_posenc.text.buckets import epoch_batches
from keras_posenc.text.encoded_texts import EncodedTexts, encode_texts
from keras_posenc.text.labels import ClassLabels, Labels
from keras_posenc.text.labels.outputs import OutputLabels
from keras_posenc.text.labels.protocol import class_weights
from keras_posenc.text.shapes import shape_price as default_price
from keras_posenc.text.truncation import tell_truncation

OF_KERAS = ("workers", "use_multiprocessing", "max_queue_size")  # keywords of `PyDataset`


class TextBatches(keras.utils.PyDataset):
    """Batches of documents of similar length, `{"token_ids", "segment_ids"}` and their labels.

    Both inputs are (B, T) with B * T <= `token_budget`. `labels` determines the targets, such as
    ids (B,) for a list of names, and the weights, if something does not count. Documents are
    encoded once, at construction, on all cores. `batches[i]` is batch i of an epoch. An epoch is
    determined by `(seed, epoch)`, so a resumed training sees the same batches as an uninterrupted
    one. `fit` moves on to the next epoch automatically. The models of `build_transformer_model`
    read an epoch in its order. Pass `shuffle=False` to the `fit` of another model, which otherwise
    reads the same batches in an order drawn by Python's `random`.

    With several devices, B is a multiple of their number. Set a `keras.distribution` before (JAX),
    or make the batches in the scope of a strategy of `tf.distribute` (TensorFlow). Rows of weight
    0, which `restore_order` leaves out, fill up the last batch, and every batch has weights. Then
    compile with a loss of `reduction="mean_with_sample_weight"` and with `weighted_metrics`. With
    several processes of JAX, each reads its part of the rows of each batch, and `restore_order`
    returns those of all.

    Args:
        texts: list. One kind of texts: str, (first, second) pairs of str, lists of words, lists of
            ids, or `(token_ids, segment_ids)` as from `Tokenizer.encode_batch` and `windows`.
            `(token_ids, segment_ids, position_ids)`, as from `pack_rows`, adds a third input
            `position_ids`.
        labels: list, `Labels`, dict or None. A list has a name per text, or an id (int) if
            `classes` is None. `Labels` of another kind are `MultiLabels`, `FloatLabels`,
            `TagLabels`, `SpanLabels` and `NextTokenLabels`. A dict maps the name of each output to
            its labels. The outputs of the model are then a dict with these names.
        tokenizer: `Tokenizer`. May be None if the texts are ids (which are padded with 0).
        max_length: int or None. Maximum number of tokens of a document, special tokens included.
            Longer ones are truncated, and their number is logged once. None truncates none.
        stride: int or None. Splits a longer text into windows of `max_length` instead of truncating
            it. Each window is a row and shares this many tokens with the next. In a pair, the
            second text is split, and the first precedes each window.
        apart: bool. Whether the texts are tuples of S texts that are encoded separately. They can
            be str, for `similarity`, pairs of str, for `ranking`, or `(token_ids, segment_ids)`.
            The inputs are then (B, S, T), with B * S * T <= `token_budget`.
        sample_weights: list of float or None. A factor for the weights of each text.
        class_weight: dict, "balanced" or None. A dict maps the name or the id of a class to a
            factor for the weights of its texts, or tags; missing classes have 1. "balanced" gives
            all classes the same sum of weights. For labels with one class per text, and for tags.
        token_budget: int. Maximum number of tokens in a batch, padding included. A longer document
            gets a separate batch.
        classes: list of str or None. The label names in the order of their ids; None sorts those in
            `labels`.
        shuffle: bool. Whether each epoch has new batches. False keeps one order, longest first,
            which `restore_order` can undo.
        seed: int. Seed of the shuffling.
        max_shapes: int. Maximum number of lengths T. The last documents may add one more shape
            (B, T).
        pad_to: int. Every T is a multiple of it, or `max_length`. With `fixed_shapes` this is
            ignored where shapes are free, on PyTorch on a CPU.
        shape_price: int or None. How many tokens of padding one more length must save, since JAX
            compiles a program for it, and TensorFlow for the second where one batch would hold all
            texts. None is the price for a model as wide as MiniLM, 0 on PyTorch.
        fixed_shapes: int or None. For predictions: on a CPU, batches have at most 1,024 tokens,
            which is faster. Where every shape is compiled, T is one of at most 10 lengths up to
            this one, regardless of the texts. B is 1 or one other number for each T, and on a CPU 1
            for each T above 128. Rows of padding fill up the last batch. None fits the shapes to
            the texts.
        **kwargs: Arguments of `keras.utils.PyDataset`. `workers` and `use_multiprocessing` are
            accepted and ignored, because a batch is ready in 0.1 ms.

    Attributes:
        classes: list of str or None. The label names in the order of their ids.
        pad_id: int. The id that fills up rows.
        text_of: int array. The number of the text of each row: 0, 1, ... without windows.
        rows: list of `Row` or None. The rows with their offsets, if the labels need them.
        lengths: int array. Token counts of the texts before truncation.
        shapes: The distinct (B, T). Each is compiled once.
        padding_share: float. Fraction of all tokens that is padding.
        epoch: int. The current epoch, from 0.

    Example:

    >>> texts = [[101, 7592, 102], [101, 7592, 2088, 999, 102]]  # or str, with tokenizer=
    >>> batches = TextBatches(texts, ["short", "long"], max_length=4, pad_to=4, shuffle=False)
    >>> inputs, labels = batches[0]
    >>> inputs["token_ids"].shape, [batches.classes[label] for label in labels]
    ((2, 4), ['short', 'long'])
    """

    def __init__(
        self,
        texts,
        labels=None,
        tokenizer=None,
        max_length=512,
        token_budget=8192,
        classes=None,
        shuffle=True,
        seed=0,
        max_shapes=10,
        pad_to=8,
        stride=None,
        apart=False,
        sample_weights=None,
        class_weight=None,
        shape_price=None,
        fixed_shapes=None,
        **kwargs,
    ):
        check_arguments(TextBatches.__init__, kwargs, OF_KERAS)
        super().__init__(**kwargs)
        # A batch takes 0.1 ms. Keras' worker queue would gain nothing, and it replays the batches
        # it fetched before the first epoch: some documents twice, others never.
        self.workers, self.use_multiprocessing = 1, False
        sizes = {"token_budget": token_budget, "max_shapes": max_shapes, "pad_to": pad_to}
        sizes |= {} if max_length is None else {"max_length": max_length}
        sizes |= {} if fixed_shapes is None else {"fixed_shapes": fixed_shapes}
        for name, value in sizes.items():
            checks.whole(name, value)
        price = default_price() if shape_price is None else shape_price
        checks.whole("shape_price", price, least=0)
        if stride is not None:
            checks.whole("stride", stride, least=0)
        if isinstance(labels, dict) and classes is None:
            labels = OutputLabels(labels)
        if not isinstance(labels, Labels):
            labels = ClassLabels(labels, classes)
        elif classes is not None:
            raise ValueError("classes= belongs to a list of labels; give it to the labels instead.")
        self.classes, self.pad_id = labels.classes, 0 if tokenizer is None else tokenizer.pad_id
        if apart and labels.of_tokens:
            raise ValueError(
                f"apart=True takes labels of a whole row, not {type(labels).__name__} of its "
                "tokens."
            )
        encoded = texts
        if not isinstance(texts, EncodedTexts):
            encoded = encode_texts(texts, labels, tokenizer, max_length, stride, apart)
        self.lengths, self._sides = encoded.lengths, encoded.sides
        if stride is None:
            tell_truncation(self.lengths, max_length)
        self.text_of, self.rows = encoded.text_of, encoded.rows
        self._labels, self._entries = labels, encoded.entries
        self._weights = self._class_weights = None
        if sample_weights is not None:
            self._weights = _checked_weights(sample_weights, len(self.lengths))
        if class_weight is not None:
            self._class_weights = self._weights_of(class_weight)
        self._starts = np.concatenate([[0], np.cumsum(encoded.row_lengths)])
        self._tokens, self._segments = encoded.token_ids, encoded.segment_ids
        self._position_ids = encoded.position_ids
        # So that the devices of a distribution, which is set before, can share each batch. It is
        # asked for here: threads of TensorFlow that read do not know of it.
        self._multiple, self._process = backend.row_multiple(), backend.processes()
        self._plan = plan_batches(
            encoded.row_lengths.reshape(-1, self._sides or 1).max(axis=1),
            self._sides,
            self._multiple,
            max_length=max_length,
            token_budget=token_budget,
            max_shapes=max_shapes,
            pad_to=pad_to,
            price=price,
            fixed_shapes=fixed_shapes,
            shuffle=shuffle,
        )
        self.shuffle, self.seed = shuffle, seed
        self.set_epoch(0)

    def _weights_of(self, class_weight):
        """`class_weight` as an array (C,)."""
        labels, entries = self._labels, self._entries
        counts = None if entries is None else labels.class_counts(entries)
        if counts is None:
            raise ValueError(
                f"`class_weight` needs labels of one class a text, or tags. Received: "
                f"{'no labels' if entries is None else type(labels).__name__}"
            )
        return class_weights(class_weight, self.classes, counts)

    @property
    def top_class(self):
        """The largest id of a class of the texts, or None without labels of one class a text."""
        whole = isinstance(self._labels, ClassLabels) and self._entries is not None
        return int(self._entries.max()) if whole else None

    def class_weight_by_id(self, class_weight):
        """Returns what `fit(class_weight=)` of Keras takes for names of classes.

        Args:
            class_weight: as in `TextBatches`.

        Returns:
            dict, the id of each class -> its weight.
        """
        weighted = self._weights is not None or self._class_weights is not None
        if self._labels.of_tokens or weighted or self._multiple > 1:
            raise ValueError(
                "`class_weight` of fit does not go with batches that have weights: give it to "
                "TextBatches(class_weight=...) instead."
            )
        return dict(enumerate(self._weights_of(class_weight).tolist()))

    def __len__(self):
        return len(self._batches)

    @property
    def row_lengths(self):
        """Number of tokens of each row, an int array."""
        return np.diff(self._starts)

    @property
    def num_batches(self):
        """Number of batches in an epoch."""
        self._progress.counts()
        return len(self)

    def __getitem__(self, index):
        multiple = self._plan.fills[self._batches[index][0]]
        batch = fill_batch(self._read(index), multiple, apart=self._sides is not None)
        return share_of(batch, self._process)

    def _read(self, index):
        """A batch, before rows of weight 0 fill it up for several devices."""
        self._progress.reads(index)
        width, documents = self._batches[index]
        sides = self._sides or 1
        rows = (documents[:, None] * sides + np.arange(sides)).ravel()
        token_ids = np.full((len(rows), self._plan.widths[width]), self.pad_id, "int32")
        segment_ids = np.zeros_like(token_ids)
        for row, document in enumerate(rows):
            part = slice(*self._starts[document : document + 2])
            token_ids[row, : part.stop - part.start] = self._tokens[part]
            segment_ids[row, : part.stop - part.start] = self._segments[part]
        inputs = {"token_ids": token_ids, "segment_ids": segment_ids}
        if self._position_ids is not None:
            inputs["position_ids"] = self._counted_on(rows, token_ids.shape[1])
        if self._sides:
            inputs = {name: ids.reshape(-1, sides, ids.shape[1]) for name, ids in inputs.items()}
        return self._with_labels(inputs, documents, self._plan.widths[width])

    def _counted_on(self, rows, width):
        """The position ids (B, T) of rows; padding counts on, as if it were of the last text."""
        position_ids = np.zeros((len(rows), width), "int32")
        for row, document in enumerate(rows):
            positions = self._position_ids[slice(*self._starts[document : document + 2])]
            position_ids[row, : len(positions)] = positions
            position_ids[row, len(positions) :] = (
                positions[-1] + 1 + np.arange(width - len(positions))
            )
        return position_ids

    def _with_labels(self, inputs, documents, width):
        if self._entries is None:
            return inputs
        targets, weights = self._labels.pad([self._entries[n] for n in documents], width)
        if self._weights is not None:
            text_weights = self._weights[self.text_of[documents]]
            weights = _multiplied(targets, weights, text_weights)
        if self._class_weights is not None:
            class_weights = self._class_weights[targets]
            weights = class_weights if weights is None else weights * class_weights
        return (inputs, targets) if weights is None else (inputs, targets, weights)

    def set_epoch(self, epoch):
        """Moves to an epoch, for example to resume: its batches follow from (seed, epoch) alone.

        Args:
            epoch: int, from 0. `fit` moves on to the next one by itself. If there are only one or
                two batches, which `fit` reads before it begins, call this from a callback's
                `on_epoch_begin` to have the exact epoch, as models of `build_transformer_model` do.
        """
        self.epoch = epoch
        rng = np.random.default_rng((self.seed, epoch)) if self.shuffle else None
        self._batches = epoch_batches(self._plan.buckets, self._plan.sizes, rng)
        self._progress = Reading(len(self._batches))

    def on_epoch_end(self):
        """Moves to the next epoch, once `fit` has read all of this one, or all of its share.

        Not when it has only looked at the first batches, or when `steps_per_epoch` makes a pause:
        it then goes on where it was.
        """
        if self._progress.ends():
            self.set_epoch(self.epoch + 1)

    def restore_order(self, predictions):
        """Reorders the rows of `model.predict(batches)` to the order of the texts.

        Args:
            predictions: an array with one row per text, or per window, (N, ...).

        Returns:
            The array (N, ...), row i for text i; with windows, for text `text_of[i]`.
        """
        if self.shuffle:
            raise ValueError("shuffle=True moves on to another order; predict with shuffle=False.")
        predictions, count = np.asarray(predictions), len(self.text_of)
        sizes = [len(documents) for _, documents in self._batches]
        processes = self._process[1]
        ends = np.cumsum(self._filled_sizes) // processes
        if len(predictions) != ends[-1]:
            what = "texts" if count == len(self.lengths) else "windows"
            raise ValueError(f"{len(predictions)} rows of predictions for {count} {what}.")
        shares = [predictions] if processes == 1 else backend.gather(predictions)
        shares = [np.split(share, ends[:-1]) for share in shares]
        parts = [np.concatenate(parts) for parts in zip(*shares, strict=True)]
        restored = np.empty((count, *predictions.shape[1:]), predictions.dtype)
        for (_, documents), part, size in zip(self._batches, parts, sizes, strict=True):
            restored[documents] = part[:size]
        return restored

    @property
    def shapes(self):
        """The distinct (B, T), or (B, S, T), smallest batch first."""
        sides = (self._sides,) if self._sides else ()
        rows = zip(self._filled_sizes, self._batches, strict=True)
        return sorted({(count, *sides, int(self._plan.widths[k])) for count, (k, _) in rows})

    @property
    def _filled_sizes(self):
        """The rows of each batch, those of padding included."""
        return [filled_size(len(rows), self._plan.fills[k]) for k, rows in self._batches]

    @property
    def padding_share(self):
        """Share of all tokens that is padding, 0 to 1."""
        return float(1 - len(self._tokens) / sum(self.batch_tokens))

    @property
    def batch_tokens(self):
        """Number of tokens of each batch, those of padding included, a list."""
        widths = [int(self._plan.widths[k]) * (self._sides or 1) for k, _ in self._batches]
        return [rows * width for rows, width in zip(self._filled_sizes, widths, strict=True)]


def _multiplied(targets, weights, text_weights):
    """The weights of a batch, or of each output, times those of its rows."""
    if isinstance(targets, dict):
        weights = weights or dict.fromkeys(targets)
        return {name: _multiplied(targets[name], weights[name], text_weights) for name in targets}
    return text_weights if weights is None else (weights.T * text_weights).T


def _checked_weights(weights, count):
    """`sample_weights` as an array (N,) float32."""
    array = np.asarray(weights)
    if array.shape != (count,) or array.dtype.kind not in "iuf":
        raise ValueError(
            f"`sample_weights` must be {count} numbers, one per text. Received: the shape "
            f"{array.shape} and the dtype {array.dtype}"
        )
    if not np.isfinite(array).all() or array.min() < 0:
        wrong = array[~np.isfinite(array) | (array < 0)][0]
        raise ValueError(f"`sample_weights` must be finite and at least 0. Received: {wrong}")
    if not array.any():
        raise ValueError(
            f"`sample_weights` must have a number above 0, or nothing counts. Received: {count} "
            "times 0"
        )
    return array.astype("float32")
