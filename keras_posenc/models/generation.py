"""Sequence generation by greedy and beam search, with a key-value cache."""

import keras
from keras import ops

from keras_posenc.models.seq2seq import EncoderDecoder

# A log-probability below that of any candidate.
NEVER = -1e9


@keras.saving.register_keras_serializable(package="keras_posenc")
class Generator(keras.Model):
    """Generates target sequences with a model of `build_encoder_decoder`; `predict` compiles it.

    Beam search keeps the K prefixes y that are best by log p(y) / ((5 + |y|) / 6)^alpha, and
    returns the best one; K = 1 is greedy search. The keys and values of all earlier tokens, and of
    the source, are cached, so each new token costs one query row of attention.

    Args:
        model: a model made by `build_encoder_decoder`, or loaded from a file.
        start_id: int. The token that target inputs start with.
        end_id: int. The token that ends a target.
        max_length: int. Maximum number of generated tokens, including the end token.
        beams: int, K. 1 is greedy search.
        alpha: float. Length penalty; 0 ranks by log p(y) alone, which prefers short targets.

    Call arguments:
        source_ids: (B, S) integers.

    Returns:
        (B, max_length) int32: the tokens up to the end token, then padding.

    Raises:
        ValueError: if a size is not positive, or the model is not an encoder-decoder.

    Example:

    >>> model = build_encoder_decoder(100, hidden_size=32, num_hidden_layers=2,
    ...     num_attention_heads=2, intermediate_size=64)
    >>> generator = Generator(model, start_id=1, end_id=2, max_length=5, beams=4)
    >>> generator.predict(np.array([[7, 8, 9, 2]]), verbose=0).shape
    (1, 5)

    Reference: [Google's Neural Machine Translation System](https://arxiv.org/abs/1609.08144),
    section 7, for alpha; K = 4 and alpha = 0.6 are those of [Attention Is All You
    Need](https://arxiv.org/abs/1706.03762), section 6.1.
    """

    def __init__(self, model, start_id, end_id, max_length, beams=1, alpha=0.6, **kwargs):
        super().__init__(**kwargs)
        for name, value in (("max_length", max_length), ("beams", beams)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"`{name}` must be a positive integer. Received: {value!r}")
        self.model = model
        self.start_id = start_id
        self.end_id = end_id
        self.max_length = max_length
        self.beams = beams
        self.alpha = alpha
        self.parts = EncoderDecoder(model.layers)
        self.table = self.parts.layers["Embedding-Token"]
        self.built = True

    def call(self, source_ids):
        parts = self.parts
        batch, length = ops.shape(source_ids)
        rows = batch * self.beams
        memory = ops.repeat(parts.encode(source_ids), self.beams, axis=0)
        mask = self.table.compute_mask(source_ids)
        mask = ops.ones((batch, length), "bool") if mask is None else mask
        mask = ops.repeat(mask, self.beams, axis=0)
        start = ops.full((rows, 1), self.start_id, "int32")
        caches = parts.make_caches(rows, length, self.max_length)
        logits, caches = parts.step(start, 0, caches, memory, mask)
        # All beams start out identical, so only the first one counts.
        one_begins = ops.where(ops.arange(self.beams) == 0, 0.0, NEVER)
        beams = {
            "tokens": ops.full((rows, self.max_length), self._filler, "int32"),
            "score": ops.zeros((batch, 1)) + one_begins,
            "length": ops.zeros((batch, self.beams), "int32"),
            "done": ops.zeros((batch, self.beams), "bool"),
        }
        state = self._grow(0, logits, beams, caches)

        def goes_on(place, beams, caches):
            unfinished = ops.logical_not(ops.all(beams["done"]))
            return ops.logical_and(place < self.max_length, unfinished)

        def write(place, beams, caches):
            last = ops.take(beams["tokens"], place - 1, axis=1)[:, None]
            logits, caches = parts.step(last, place, caches, memory[:, :0], mask[:, :0])
            beams, caches = self._grow(place, logits, beams, caches)
            return place + 1, beams, caches

        _, beams, _ = ops.while_loop(goes_on, write, (ops.ones((), "int32"), *state))
        return ops.reshape(beams["tokens"], (batch, self.beams, self.max_length))[:, 0]

    @property
    def _filler(self):
        return self.end_id if self.table.pad_token_id is None else self.table.pad_token_id

    def _grow(self, place, logits, beams, caches):
        """Extends the prefixes by one token: the K best ones, best first, and their caches."""
        size = logits.shape[-1]
        tokens = ops.arange(size)
        log_p = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        if self._filler != self.end_id:
            log_p = ops.where(tokens == self._filler, NEVER, log_p)
        log_p = ops.reshape(log_p, (-1, self.beams, size))
        # Finished beams continue with padding, at no cost.
        ended = ops.where(tokens == self._filler, 0.0, NEVER)
        score = beams["score"][..., None] + ops.where(beams["done"][..., None], ended, log_p)
        length = beams["length"] + ops.cast(ops.logical_not(beams["done"]), "int32")
        penalty = ((5.0 + ops.cast(length, "float32")) / 6.0) ** self.alpha
        score, rank = (_flat(x) for x in (score, score / penalty[..., None]))
        _, picked = ops.top_k(rank, self.beams)
        parent, token = picked // size, ops.cast(picked % size, "int32")
        batch = ops.shape(picked)[0]
        rows = ops.reshape(parent + ops.arange(batch)[:, None] * self.beams, (-1,))
        if self.beams > 1:
            caches = keras.tree.map_structure(
                lambda x: ops.take(x, rows, axis=0) if len(x.shape) else x, caches
            )
        column = ops.reshape(token, (-1, 1))
        beams = {
            "tokens": ops.slice_update(ops.take(beams["tokens"], rows, axis=0), (0, place), column),
            "score": ops.take_along_axis(score, picked, axis=1),
            "length": ops.take_along_axis(length, parent, axis=1),
            "done": ops.logical_or(
                ops.take_along_axis(beams["done"], parent, axis=1), token == self.end_id
            ),
        }
        return beams, caches

    def get_config(self):
        return {
            **super().get_config(),
            "model": keras.saving.serialize_keras_object(self.model),
            "start_id": self.start_id,
            "end_id": self.end_id,
            "max_length": self.max_length,
            "beams": self.beams,
            "alpha": self.alpha,
        }

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config.pop("model")), **config)


def _flat(x):
    """Flattens (B, K, V) to (B, K V)."""
    return ops.reshape(x, (-1, x.shape[1] * x.shape[2]))
