"""`Generator`: a Keras model around a model, from prompts to texts."""

import keras
import numpy as np
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.models.generation.decoding import decoding_of, repeated
from keras_posenc.models.generation.prompts import prepare
from keras_posenc.models.generation.sampling import seen_tokens
from keras_posenc.models.generation.search import Beams, OneByOne

# The arguments of the search.
OPTIONS = ("max_length", "beams", "alpha", "temperature", "top_k", "top_p", "repetition_penalty")
OPTIONS = (*OPTIONS, "n")
MOST_SEED = 2**31 - 1  # a backend keeps it in 32 bits
# Steps after which a GPU is asked whether all texts have ended, which is to wait for it.
STEPS_UNSEEN = 8


@keras.saving.register_keras_serializable(package="keras_posenc")
class Generator(backend.SafeTrainer, keras.Model):
    """Writes texts with a causal language model, a UniLM or an encoder-decoder.

    The keys and values of all earlier tokens are cached, so each new token costs one query row of
    attention.

    By default decoding is greedy: the likeliest token is taken each time. With `temperature`,
    `top_k` or `top_p`, a token is sampled from softmax(logits / temperature). Sampling is
    restricted to the `top_k` likeliest tokens, and among these to the fewest that together have the
    probability `top_p`. With `beams` K > 1, beam search keeps the K likeliest beginnings y. It
    returns the text with the best log p(y) / ((5 + |y|) / 6)^alpha.

    Args:
        model: a model of `build_transformer_model` with application="lm" or "unilm", or of a causal
            family with `with_mlm`; a model of `build_encoder_decoder`; or one of these loaded from
            a file. Any functional model will do that maps token ids to logits, and whose only
            layers that see other tokens are causal `PositionalAttention` and `GatedAttentionUnit`.
        start_id: int. The token that the targets of an encoder-decoder start with; for it alone.
        end_id: int, list of int, or None. The tokens that end a text; it contains the one it met.
        max_length: int. Maximum number of new tokens, including the end token.
        beams: int, K.
        alpha: float. Length penalty of beam search; 0 ranks by log p(y) alone, which prefers short
            texts.
        temperature: positive float. Below 1 it sharpens the distribution.
        top_k: int.
        top_p: float above 0 and up to 1.
        repetition_penalty: positive float. Tokens of the prompt or of the text so far have their
            logits divided by it if positive, else multiplied. 1 changes nothing.
        n: int. Number of texts for each prompt: drawn ones, or the best of the beams.
        seed: int or None. Seed of the draws.
        pad_id: int or None. The token that fills up short prompts of an array, and the output
            behind the end. Default: the token that the model masks. It is never written unless it
            ends a text. If the model does not mask it, as GPT-2's end of text, it is padding at the
            ends of an array's rows. One at the start of every row still begins the texts. Lists
            have no padding.
        callback: function of (step, tokens). It gets the number of the step, from 0 on, and the new
            tokens (B, n), NumPy. It is called after each step, to show a text as it is generated;
            not with beams. It is not saved. On TensorFlow the program is then not compiled by XLA.
        **kwargs: Arguments of `keras.Model`.

    Call arguments:
        inputs: `predict` takes prompts, or sources, as a list of lists of ids, as an array (B, T)
            padded on either side, or as a dict of "token_ids" and the model's further inputs.
            On JAX and TensorFlow it pads them to a power of two, so that one compiled program
            serves many lengths. A call takes an array, padded on the right, and checks nothing.

    Returns:
        (B, max_length) int32: the new tokens up to an end token, then padding; (B, n, max_length)
        if n > 1.

    Example:

    >>> model = build_transformer_model(model="gpt2", vocab_size=100, hidden_size=32,
    ...     num_hidden_layers=2, num_attention_heads=2, max_position=64, with_mlm="linear")
    >>> generator = Generator(model, end_id=2, max_length=5, top_p=0.9, n=3, seed=1)
    >>> generator.predict([[7, 8, 9], [4, 5]], verbose=0).shape
    (2, 3, 5)

    Reference: [UniLM](https://arxiv.org/abs/1905.03197). The penalty alpha is from [Google's Neural
    Machine Translation System](https://arxiv.org/abs/1609.08144), section 7. The values K = 4 and
    alpha = 0.6 are from [Attention Is All You Need](https://arxiv.org/abs/1706.03762), section 6.1.
    """

    def __init__(
        self,
        model,
        start_id=None,
        end_id=None,
        max_length=64,
        beams=1,
        alpha=0.6,
        *,
        temperature=None,
        top_k=None,
        top_p=None,
        repetition_penalty=1.0,
        n=1,
        seed=None,
        pad_id=None,
        callback=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.model = model
        self.start_id = start_id
        self.end_id = end_id
        self.max_length = max_length
        self.beams = beams
        self.alpha = alpha
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.repetition_penalty = repetition_penalty
        self.n = n
        self.seed = seed
        self.pad_id = pad_id
        self.decoding = decoding_of(model, start_id, max_length)
        ends = () if end_id is None else end_id if isinstance(end_id, (list, tuple)) else (end_id,)
        ends = _whole_ids("end_id", ends, self.decoding)
        given = _whole_ids("pad_id", () if pad_id is None else (pad_id,), self.decoding)
        padding = given[0] if given else self.decoding.pad_token_id
        self.search = (OneByOne if beams == 1 else Beams)(
            **{name: getattr(self, name) for name in OPTIONS},
            end_ids=ends,
            filler=padding if padding is not None else ends[0] if ends else 0,
            forbidden=None if padding in ends else padding,
        )
        if callback is not None and not callable(callback):
            raise TypeError(f"`callback` must be a function. Received: {callback!r}")
        if callback is not None and beams > 1:
            raise ValueError(
                "Which beam is the text is known at the end: `callback` is for beams=1. "
                f"Received: beams={beams}"
            )
        self.callback = callback
        if callback is not None and not backend.TRAITS.calls_back_compiled:
            self.jit_compile = False
        if seed is not None:
            self.seed = checks.whole("seed", seed, least=0, most=MOST_SEED)
        self.seed_generator = keras.random.SeedGenerator(self.seed) if self.search.samples else None
        self.built = True

    def predict(self, x, *args, **kwargs):
        """`keras.Model.predict` on prompts of any lengths; see the class.

        Args:
            x: prompts: lists of ids, an array or a dict; or anything else that Keras' method takes,
                such as a dataset, which is passed on as it is.
            *args, **kwargs: of `keras.Model.predict`.

        Returns:
            (B, max_length) or (B, n, max_length) int32.
        """
        if isinstance(x, (list, tuple, dict, np.ndarray)) or keras.ops.is_tensor(x):
            pad_id = self.decoding.pad_token_id if self.pad_id is None else self.pad_id
            x = prepare(_to_numpy(x), self.decoding, pad_id)
        texts = super().predict(x, *args, **kwargs)
        if self.callback is not None:
            backend.await_calls()
        return texts

    def call(self, inputs):
        inputs = dict(inputs) if isinstance(inputs, dict) else {"token_ids": inputs}
        decoding, search = self.decoding, self.search
        batch = ops.shape(inputs["token_ids"])[0]
        rows = batch * search.rows
        uniforms = None
        if search.samples:  # all in advance: a loop cannot change the generator's state
            uniforms = keras.random.uniform(
                (rows, search.max_length), dtype="float32", seed=self.seed_generator
            )
        seen = ()
        if search.repetition_penalty != 1:
            seen = seen_tokens(*decoding.written(inputs), decoding.vocab_size)
        context, caches, logits = decoding.begin(inputs)
        context, caches, logits, seen = (
            repeated(x, search.rows) for x in (context, caches, logits, seen)
        )
        state, caches = search.grow(0, logits, search.start(rows, seen, uniforms), caches)
        self._show(0, state)

        every = 1
        if backend.on_accelerator(state["tokens"]) and self.callback is None:
            every = STEPS_UNSEEN

        def goes_on(place, state, caches):
            if not isinstance(place, int):
                return ops.logical_and(place < search.max_length, search.goes_on(place, state))
            unseen = not search.ends_early or (place - 1) % every
            return place < search.max_length and (unseen or bool(search.goes_on(place, state)))

        def write(place, state, caches):
            state, caches = self._written(place, state, caches, context)
            self._show(place, state)
            return place + 1, state, caches

        if backend.TRAITS.eager:
            place, step = 1, self.step_program(self._written)
            while goes_on(place, state, caches):
                state, caches = step(place, state, caches, context)
                self._show(place, state)
                place += 1
        else:
            first = ops.ones((), "int32"), state, caches
            _, state, _ = ops.while_loop(goes_on, write, first)
        texts = search.result(state)
        return texts if search.n > 1 else texts[:, 0]

    def _written(self, place, state, caches, context):
        """The state and the caches with one more token in each text, as number `place`."""
        last = ops.take(state["tokens"], place - 1, axis=1)
        logits, caches = self.decoding.step(last, place, context, caches)
        return self.search.grow(place, logits, state, caches)

    def _show(self, place, state):
        if self.callback is not None:
            new = ops.take(state["tokens"], place, axis=1)
            tokens = ops.reshape(new, (-1, self.search.n))
            backend.call_back(self.callback, ops.cast(place, "int32"), tokens)

    def get_config(self):
        return {
            **super().get_config(),
            "model": keras.saving.serialize_keras_object(self.model),
            "start_id": self.start_id,
            "end_id": self.end_id,
            **{name: getattr(self, name) for name in OPTIONS},
            "seed": self.seed,
            "pad_id": self.pad_id,
        }

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config.pop("model")), **config)


def _whole_ids(name, ids, decoding):
    most, why = decoding.vocab_size - 1, "a token of the vocabulary"
    return tuple(checks.whole(name, each, least=0, most=most, why=why) for each in ids)


def _to_numpy(x):
    if isinstance(x, dict):
        return {name: _to_numpy(value) for name, value in x.items()}
    return ops.convert_to_numpy(x) if ops.is_tensor(x) else x
