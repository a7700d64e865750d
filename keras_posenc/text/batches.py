"""TextBatches: documents of similar length, under a token budget, for `model.fit`."""

import keras
import numpy as np

from keras_posenc.text.buckets import batch_sizes, choose_lengths, epoch_batches


class TextBatches(keras.utils.PyDataset):
    """Batches of `{"token_ids", "segment_ids"}`, and label ids, each (B, T) with B * T <= budget.

    Documents are encoded once, at construction, on all cores. Give `shuffle=False` to `fit`:
    the batches shuffle themselves, as a function of `(seed, epoch)` alone, so that a resumed
    training sees what an uninterrupted one would have; `fit` would shuffle them again.

    Args:
        texts: a list of str, of (first, second) pairs of str, of lists of ids, or of
            `(token_ids, segment_ids)` as `Tokenizer.encode_batch` and `windows` give them.
        labels: None, or a list as long: names, or ids (ints) when `classes` is None.
        tokenizer: a `Tokenizer`; may be None when the texts are ids already (padded with 0).
        max_length: documents are cut to so many tokens, special ones included.
        token_budget: the most tokens of a batch, padding included. A longer document makes a
            batch of its own.
        classes: the label names in the order of their ids; None sorts those in `labels`.
        shuffle: whether each epoch deals anew. False keeps one order, the longest first;
            `restore_order` then undoes it.
        seed: the seed of the shuffling.
        max_shapes: the most lengths T; one more shape (B, T) may come from the last documents.
        pad_to: every T is a multiple of it.
        **kwargs: `workers`, `use_multiprocessing`, `max_queue_size` of `keras.utils.PyDataset`.

    Raises:
        ValueError: no texts, an empty text, an unknown label, unequal numbers of both.
        TypeError: a text of another type.

    Example:
    ```python
    train = TextBatches(data.texts, data.labels, tokenizer=tokenizer, max_length=1536)
    model.fit(train, epochs=3, shuffle=False)
    ```
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
        sizes = {"token_budget": token_budget, "max_shapes": max_shapes, "pad_to": pad_to}
        for name, value in sizes.items():
            if value < 1:
                raise ValueError(f"{name}={value}: give at least 1.")
        if len(texts) == 0:
            raise ValueError("No texts to batch: the list is empty.")
        self.classes, self._labels = _label_ids(labels, classes, len(texts))
        self._pad_id = 0 if tokenizer is None else tokenizer.pad_id
        documents, self.lengths = _encode(texts, tokenizer, max_length)
        kept = np.array([len(ids) for ids, _ in documents])
        self._starts = np.concatenate([[0], np.cumsum(kept)])
        self._tokens = np.concatenate([np.asarray(ids, "int32") for ids, _ in documents])
        self._segments = np.concatenate([np.asarray(ids, "int32") for _, ids in documents])
        self._widths = choose_lengths(kept, max_shapes, pad_to, price=token_budget)
        bucket = np.searchsorted(self._widths, kept)
        by_length = np.argsort(kept, kind="stable")
        self._buckets = [by_length[bucket[by_length] == k] for k in range(len(self._widths))]
        counts = [len(documents) for documents in self._buckets]
        self._sizes = batch_sizes(counts, self._widths, token_budget)
        self.shuffle, self.seed = shuffle, seed
        self.set_epoch(0)

    def __len__(self):
        return len(self._batches)

    def __getitem__(self, index):
        batches = self._batches
        width, documents = batches[index]
        self._drawn.add(index)
        token_ids = np.full((len(documents), self._widths[width]), self._pad_id, "int32")
        segment_ids = np.zeros_like(token_ids)
        for row, document in enumerate(documents):
            part = slice(*self._starts[document : document + 2])
            token_ids[row, : part.stop - part.start] = self._tokens[part]
            segment_ids[row, : part.stop - part.start] = self._segments[part]
        inputs = {"token_ids": token_ids, "segment_ids": segment_ids}
        return inputs if self._labels is None else (inputs, self._labels[documents])

    def set_epoch(self, epoch):
        """Goes to an epoch: with shuffling, its order and composition follow from (seed, epoch)."""
        self.epoch = epoch
        self._drawn = set()
        rng = np.random.default_rng((self.seed, epoch)) if self.shuffle else None
        self._batches = epoch_batches(self._buckets, self._sizes, rng)

    def on_epoch_begin(self):
        self._drawn = set()

    def on_epoch_end(self):
        """Goes to the next epoch, once every batch of this one was drawn."""
        # fit also says "epoch end" after the batch or two it looks at before the first epoch.
        if len(self._drawn) == len(self):
            self.set_epoch(self.epoch + 1)

    def restore_order(self, predictions):
        """Puts the rows of `model.predict(batches)` into the order of the texts.

        Args:
            predictions: an array with one row a text.

        Returns:
            The array, row i for text i.

        Raises:
            ValueError: the batches shuffle, or the rows are not as many as the texts.
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
        """The distinct (B, T), each compiled once."""
        return sorted({(len(documents), int(self._widths[k])) for k, documents in self._batches})

    @property
    def padding_share(self):
        """The share of all tokens that is padding, 0 to 1."""
        padded = sum(len(documents) * self._widths[k] for k, documents in self._batches)
        return float(1 - len(self._tokens) / padded)


def _label_ids(labels, classes, count):
    """(classes, int32 ids), either None."""
    if labels is None:
        return classes, None
    if len(labels) != count:
        raise ValueError(f"{count} texts but {len(labels)} labels: give one label to each text.")
    if classes is None and all(isinstance(label, (int, np.integer)) for label in labels):
        return None, np.asarray(labels, "int32")
    classes = sorted(set(labels)) if classes is None else list(classes)
    ids = {name: number for number, name in enumerate(classes)}
    for number, label in enumerate(labels):
        if label not in ids:
            raise ValueError(
                f"Text {number} has the label {label!r}, not one of the {len(classes)} classes: "
                f"{', '.join(map(str, classes[:10]))}{', ...' if len(classes) > 10 else ''}."
            )
    return classes, np.array([ids[label] for label in labels], "int32")


def _encode(texts, tokenizer, max_length):
    """([(token ids, segment ids)] cut to max_length, token counts before cutting)."""
    if isinstance(texts, str):
        raise TypeError("Expected a list of texts, not one str.")
    kinds = {_kind(number, text) for number, text in enumerate(texts)}
    if len(kinds) > 1:
        raise TypeError(f"Texts of several types: {' and '.join(sorted(kinds))}; give one type.")
    kind = kinds.pop()
    if kind == "ids":
        return _cut_ids(texts, max_length)
    if tokenizer is None:
        raise ValueError("Texts need a tokenizer=; only lists of ids do without.")
    if kind == "str":
        first, second = tokenizer.contents(texts), [None] * len(texts)
    else:
        first, second = (tokenizer.contents(side) for side in zip(*texts, strict=True))
    special = tokenizer.special_tokens(pair=kind == "pair")
    lengths = [len(a) + len(b or ()) + special for a, b in zip(first, second, strict=True)]
    both = zip(first, second, strict=True)
    return [tokenizer.assemble(a, b, max_length) for a, b in both], np.array(lengths)


def _kind(number, text):
    if isinstance(text, str):
        strings, kind = [text], "str"
    elif isinstance(text, tuple) and len(text) == 2 and all(isinstance(t, str) for t in text):
        strings, kind = text, "pair"
    elif isinstance(text, (list, tuple, np.ndarray)):
        strings, kind = ["ids" if len(text) else ""], "ids"
    else:
        raise TypeError(
            f"Text {number} is a {type(text).__name__}; give a str, a pair of str or a list of ids."
        )
    if not all(string.strip() for string in strings):
        raise ValueError(f"Text {number} is empty; leave it out.")
    return kind


def _cut_ids(texts, max_length):
    """Texts that are ids already. A cut keeps the last id, which is [SEP]."""
    documents, lengths = [], []
    for text in texts:
        two = isinstance(text, tuple) and len(text) == 2 and np.ndim(text[0]) == 1
        ids, segments = text if two else (text, np.zeros(len(text), "int32"))
        lengths.append(len(ids))
        if max_length is not None and len(ids) > max_length:
            keep = np.r_[0 : max_length - 1, len(ids) - 1]
            ids, segments = np.asarray(ids)[keep], np.asarray(segments)[keep]
        documents.append((ids, segments))
    return documents, np.array(lengths)
