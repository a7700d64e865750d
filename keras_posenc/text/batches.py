"""`TextBatches`: documents of similar length, under a token budget, for `model.fit`."""

import keras
import numpy as np

from keras_posenc.text.buckets import batch_sizes, choose_lengths, epoch_batches
from keras_posenc.text.documents import encode_documents, encode_labels
from keras_posenc.text.truncation import tell_truncation


class TextBatches(keras.utils.PyDataset):
    """Batches of documents of similar length, `{"token_ids", "segment_ids"}` and label ids.

    Both inputs are (B, T) with B * T <= `token_budget`, the labels are (B,). Documents are encoded
    once, at construction, on all cores. The batches shuffle themselves, as a function of `(seed,
    epoch)` alone, so that a resumed training sees what an uninterrupted one would have: whether
    `fit` is to shuffle too changes nothing.

    Args:
        texts: a list of str, of (first, second) pairs of str, of lists of ids, or of `(token_ids,
            segment_ids)` as `Tokenizer.encode_batch` and `windows` return them.
        labels: None, or a list of the same length: names, or ids (ints) if `classes` is None.
        tokenizer: a `Tokenizer`; may be None if the texts are ids (which are padded with 0).
        max_length: maximum number of tokens of a document, special tokens included; longer ones are
            truncated, and how many these are is logged once. None truncates none.
        token_budget: maximum number of tokens in a batch, padding included. A longer document gets
            a batch of its own.
        classes: the label names in the order of their ids; None sorts those in `labels`.
        shuffle: whether each epoch has new batches. False keeps one order, longest first, which
            `restore_order` can undo.
        seed: seed of the shuffling.
        max_shapes: maximum number of lengths T; the last documents may add one more shape (B, T).
        pad_to: every T is a multiple of it, or `max_length`.
        **kwargs: of `keras.utils.PyDataset`; `workers` and `use_multiprocessing` are accepted and
            ignored, since a batch is ready in 0.1 ms.

    Attributes:
        classes: the label names in the order of their ids, or None.
        lengths: token counts of the texts before truncation, an int array.
        shapes: the distinct (B, T); each is compiled once.
        padding_share: share of all tokens that is padding, 0 to 1.
        epoch: the current epoch, from 0.

    Raises:
        ValueError: no texts, an empty text, an unknown label, or different numbers of texts and
            labels.
        TypeError: a text of another type.

    Example:

    >>> texts = [[101, 7592, 102], [101, 7592, 2088, 999, 102]]  # or str, with tokenizer=
    >>> batches = TextBatches(texts, ["short", "long"], max_length=4, pad_to=4, shuffle=False)
    >>> inputs, labels = batches[0]
    >>> inputs["token_ids"].tolist(), labels.tolist()
    ([[101, 7592, 102, 0], [101, 7592, 2088, 102]], [1, 0])
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
        **kwargs,
    ):
        super().__init__(**kwargs)
        # A batch takes 0.1 ms. Keras' worker queue would gain nothing, and it replays the batches
        # it fetched before the first epoch: some documents twice, others never.
        self.workers, self.use_multiprocessing = 1, False
        sizes = {"token_budget": token_budget, "max_shapes": max_shapes, "pad_to": pad_to}
        sizes |= {} if max_length is None else {"max_length": max_length}
        for name, value in sizes.items():
            # NaN is less than nothing, and no int.
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name}={value!r}: give an int, at least 1.")
        self.classes, self._labels = encode_labels(labels, classes, len(texts))
        self._pad_id = 0 if tokenizer is None else tokenizer.pad_id
        documents, self.lengths = encode_documents(texts, tokenizer, max_length)
        tell_truncation(self.lengths, max_length)
        kept = np.array([len(ids) for ids, _ in documents])
        self._starts = np.concatenate([[0], np.cumsum(kept)])
        self._tokens = np.concatenate([np.asarray(ids, "int32") for ids, _ in documents])
        self._segments = np.concatenate([np.asarray(ids, "int32") for _, ids in documents])
        widths = choose_lengths(kept, max_shapes, pad_to, price=token_budget)
        # Never past max_length: a model may have no position there.
        self._widths = widths if max_length is None else np.minimum(widths, max_length)
        bucket = np.searchsorted(self._widths, kept)
        by_length = np.argsort(kept, kind="stable")
        self._buckets = [by_length[bucket[by_length] == k] for k in range(len(self._widths))]
        counts = [len(documents) for documents in self._buckets]
        self._sizes = batch_sizes(counts, self._widths, token_budget)
        self.shuffle, self.seed = shuffle, seed
        self.set_epoch(0)

    def __len__(self):
        return len(self._batches)

    @property
    def num_batches(self):
        """Number of batches in an epoch."""
        # `fit` asks for it whenever it starts to read anew, and only then.
        self._counted = True
        return len(self)

    def __getitem__(self, index):
        # `fit` asks for the batches of an epoch in an order drawn at random. It gets them in the
        # epoch's own: the n-th index that it asks for names the n-th batch, as long as it reads.
        position = len(self._positions) if self._reading else index
        width, documents = self._batches[self._positions.setdefault(index, position)]
        self._counted = False
        token_ids = np.full((len(documents), self._widths[width]), self._pad_id, "int32")
        segment_ids = np.zeros_like(token_ids)
        for row, document in enumerate(documents):
            part = slice(*self._starts[document : document + 2])
            token_ids[row, : part.stop - part.start] = self._tokens[part]
            segment_ids[row, : part.stop - part.start] = self._segments[part]
        inputs = {"token_ids": token_ids, "segment_ids": segment_ids}
        return inputs if self._labels is None else (inputs, self._labels[documents])

    def set_epoch(self, epoch):
        """Moves to an epoch, for example to resume: its batches follow from (seed, epoch) alone.

        Args:
            epoch: int, from 0. `fit` advances to the next one by itself. If there are only one or
                two batches, which `fit` reads before it begins, call this from a callback's
                `on_epoch_begin` to have the exact epoch.
        """
        self.epoch = epoch
        self._positions = {}  # an index that was read in this epoch -> the batch that it gave
        self._reading = self._counted = False
        rng = np.random.default_rng((self.seed, epoch)) if self.shuffle else None
        self._batches = epoch_batches(self._buckets, self._sizes, rng)

    def on_epoch_begin(self):
        """Called by `fit` before it reads: the batches follow in the order of this epoch."""
        if not self._reading:
            self._positions, self._reading = {}, True

    def on_epoch_end(self):
        """Moves to the next epoch, once every batch of this one has been read."""
        if len(self._positions) == len(self):
            self.set_epoch(self.epoch + 1)
        elif self._counted:
            # `fit` also calls this after the one or two batches it inspects before the first epoch.
            self._positions, self._reading = {}, False
        # else `steps_per_epoch` paused the reading, and it goes on where it was.

    def restore_order(self, predictions):
        """Reorders the rows of `model.predict(batches)` to the order of the texts.

        Args:
            predictions: an array with one row per text, (N, ...).

        Returns:
            The array (N, ...), row i for text i.

        Raises:
            ValueError: if the batches shuffle, or the number of rows differs from that of the
                texts.
        """
        if self.shuffle:
            raise ValueError("shuffle=True moves on to another order; predict with shuffle=False.")
        predictions, count = np.asarray(predictions), len(self.lengths)
        if len(predictions) != count:
            raise ValueError(f"{len(predictions)} rows of predictions for {count} texts.")
        restored = np.empty_like(predictions)
        restored[np.concatenate([documents for _, documents in self._batches])] = predictions
        return restored

    @property
    def shapes(self):
        """The distinct (B, T), smallest batch first."""
        return sorted({(len(documents), int(self._widths[k])) for k, documents in self._batches})

    @property
    def padding_share(self):
        """Share of all tokens that is padding, 0 to 1."""
        padded = sum(len(documents) * self._widths[k] for k, documents in self._batches)
        return float(1 - len(self._tokens) / padded)
