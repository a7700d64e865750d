"""Passages in their documents: how rows of (query, document, passage) are read and pooled."""

import collections
import weakref

import keras
import numpy as np
from keras import ops

from keras_posenc.files.untrusted import quote
from keras_posenc.models.inputs import inputs_of
from keras_posenc.models.model import TransformerModel, model_on
from keras_posenc.models.pooling import MaskedPooling
from keras_posenc.text.same_texts import tokens_digest
from keras_posenc.text.truncation import LOGGER, unlogged_truncation

QUERY = 256  # tokens of a query that are read, so that it is not padded to a document's length
NEGATIVES = 7  # other passages of a document that a query is compared with, at most
MARK = 1  # of the tokens of a query, and of its passage; other passages have the next numbers


def check_passage(where, document, passage):
    """Refuses a passage that does not stand in its document once."""
    count = document.count(passage)
    if count != 1:
        raise ValueError(
            f"The text {where} has the passage {quote(passage)}, which stands in its document "
            f"{count} times: give a part of the document as it is written there, and so much of it "
            "that it stands there once."
        )


def encode_passages(groups, tokenizer, max_length, query_prompt="", document_prompt=""):
    """Encodes (query, document, passage) triples, and marks the tokens of the passages.

    Returns a ((query ids, marks), (document ids, marks)) per triple, for `TextBatches(apart=True)`,
    or None for a passage that begins behind `max_length` tokens. Tokens with mark 1 are those of
    the query or of the passage, those of other passages have 2, 3 and so on, and 0 is none. The
    other passages are as long as the right one, before and behind it. None has the same tokens, or
    meets another passage of the same query in the same document.
    """
    read, found, first = [], [], tokenizer.assemble([-1])[0].index(-1)
    query_length, longer = min(QUERY, max_length or QUERY), 0
    # Of each query in a document: the places of all of its passages, and their tokens.
    answers, known = collections.defaultdict(set), collections.defaultdict(set)
    for number, (query, document, passage) in enumerate(groups):
        check_passage(f"with the number {number}", document, passage)
        query_ids, _ = tokenizer.encode(query_prompt + query)
        if len(query_ids) > query_length:
            longer += 1
            with unlogged_truncation(True):
                query_ids, _ = tokenizer.encode(query_prompt + query, max_length=query_length)
        text = document_prompt + document
        ((ids, offsets),) = tokenizer.contents([text], offsets=True)
        start = len(document_prompt) + document.index(passage)
        offsets = np.array(offsets, int).reshape(-1, 2)
        prompt = int((offsets[:, 1] <= len(document_prompt)).sum()) if document_prompt else 0
        inside = (offsets[:, 0] < start + len(passage)) & (offsets[:, 1] > start)
        places, key = np.flatnonzero(inside), tokens_digest(query_ids, [-1], ids)
        answers[key].update(places.tolist())
        known[key].add(tuple(ids[place] for place in places))
        read.append((key, query_ids, list(ids), places, prompt))
    for key, query_ids, ids, places, prompt in read:
        document_ids, _ = tokenizer.assemble(ids, max_length=max_length)
        room = len(document_ids) - tokenizer.special_tokens()
        places = places[places < room]
        if not len(places):
            found.append(None)
            continue
        others = [
            other for other in _others(places, prompt, room)
            if answers[key].isdisjoint(other.tolist())
            and tuple(ids[place] for place in other) not in known[key]
        ]  # fmt: skip
        marks = np.zeros(len(document_ids), int)
        marks[first + places] = MARK
        for mark, other in enumerate(others, MARK + 1):
            marks[first + other] = mark
        found.append(((query_ids, [MARK] * len(query_ids)), (document_ids, marks.tolist())))
    if longer:
        LOGGER.warning(
            f"{longer:,} of {len(groups):,} queries have more than {query_length:,} tokens, and "
            "are read up to there."
        )
    return found


def _others(places, first, end):
    """Places of at most `NEGATIVES` other passages between two places, evenly spread."""
    size = len(places)
    before = [np.arange(at - size, at) for at in range(int(places[0]), first + size - 1, -size)]
    behind = [np.arange(at, at + size) for at in range(int(places[-1]) + 1, end - size + 1, size)]
    every = [*reversed(before), *behind]
    if len(every) <= NEGATIVES:
        return every
    return [every[round(i)] for i in np.linspace(0, len(every) - 1, NEGATIVES)]


class MarkedPassages(keras.layers.Wrapper):
    """Averages the features of marked tokens: those of a query, and of passages of a document.

    The ids are those of a query and a document, (B, 2, T), and the marks are as `encode_passages`
    makes them. The result (B, 2 + N, D) is the query, its passage, and other passages, which are 0
    if there are none.
    """

    def build(self, inputs_shape=None):
        self.built = True

    def call(self, inputs, marks, training=None):
        tokens, length = inputs["token_ids"], inputs["token_ids"].shape[2]
        if length is not None and length <= QUERY:  # at once, where nothing is saved
            flat = (ops.reshape(x, (-1, length)) for x in (tokens, marks))
            means = self._means(*flat, MARK + NEGATIVES, training)
            means = ops.reshape(means, (-1, 2, *means.shape[1:]))
            return ops.concatenate([means[:, 0, :MARK], means[:, 1]], axis=1)
        query = self._means(tokens[:, 0, :QUERY], marks[:, 0, :QUERY], MARK, training)
        document = self._means(tokens[:, 1], marks[:, 1], MARK + NEGATIVES, training)
        return ops.concatenate([query, document], axis=1)

    def _means(self, tokens, marks, count, training):
        """The mean features (B, count, D) of the tokens with each of the marks."""
        ids = inputs_of(self.layer, {"token_ids": tokens, "segment_ids": ops.zeros_like(tokens)})
        features = ops.cast(self.layer(ids, training=training), "float32")
        numbers = ops.arange(1, count + 1, dtype=marks.dtype)
        members = ops.cast(ops.equal(marks[..., None], numbers), "float32")
        counts = ops.maximum(ops.sum(members, axis=1), 1.0)
        return ops.einsum("btk,btd->bkd", members, features) / counts[..., None]

    def compute_mask(self, inputs, marks=None, mask=None):
        return None

    def compute_output_spec(self, inputs, marks, training=None):
        rows, width = inputs["token_ids"].shape[0], self.layer.output.shape[-1]
        return keras.KerasTensor((rows, 1 + MARK + NEGATIVES, width), "float32")


_MODELS = weakref.WeakKeyDictionary()  # so that measuring does not compile again


def passage_model(embedder):
    """A model on an embedder's weights, from ids (B, 2, T) with marks to vectors (B, 2 + N, D)."""
    if embedder not in _MODELS:
        (pooling,) = (each for each in embedder.layers if isinstance(each, MaskedPooling))
        features = keras.tree.flatten(pooling.input)[0]
        inputs = {name: keras.Input((2, None), dtype="int32", name=name)
                  for name in ("token_ids", "segment_ids")}  # fmt: skip
        layer = MarkedPassages(model_on(embedder, features, "features"), name="passages")
        # Marks are no segments of the encoder, so its ids are not checked by them.
        vectors = layer({"token_ids": inputs["token_ids"]}, marks=inputs["segment_ids"])
        _MODELS[embedder] = TransformerModel(inputs, vectors, name="passage-model")
    return _MODELS[embedder]
