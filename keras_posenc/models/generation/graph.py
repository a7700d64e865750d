"""The graph of a causal model, run again with a key-value cache in every attention layer."""

import functools

import keras

from keras_posenc.attention.key_values import Overwritten
from keras_posenc.attention.layer import PositionalAttention
from keras_posenc.backend.keras_names import maker_of
from keras_posenc.layers.short_convolution import ShortConvolution
from keras_posenc.models.direct import Steps, calls_in
from keras_posenc.models.inputs import masked_token
from keras_posenc.models.pooling import MaskedPooling
from keras_posenc.positions import PaddedPositionIds, RandomPositionIds
from keras_posenc.positions.absolute import AbsolutePositionEmbedding

# Arguments that each pass sets again: the masks, and the positions of queries and keys.
SET_BY_PASS = (
    "use_causal_mask", "query_order", "key_order", "query_positions", "positions", "key_positions",
)  # fmt: skip
ID_LAYERS = (PaddedPositionIds, RandomPositionIds)
# Layers that look at other tokens, or at all of them, without a cache.
MIXING = (
    keras.layers.MultiHeadAttention,
    keras.layers.GroupQueryAttention,
    keras.layers.Attention,
    keras.layers.AdditiveAttention,
    keras.layers.RNN,
    keras.layers.Bidirectional,
    keras.layers.Conv1D,
    keras.layers.SeparableConv1D,
    keras.layers.DepthwiseConv1D,
    keras.layers.GlobalAveragePooling1D,
    keras.layers.GlobalMaxPooling1D,
    MaskedPooling,
    ShortConvolution,
    keras.Model,
)


class CausalGraph(keras.Function):
    """The way from the inputs of a causal model to its logits, one piece of the text at a time.

    The layers are those of the model. Attention reads and fills a cache, positions are given by the
    caller, and every other layer acts on each token alone, as it does in a transformer. `model`: a
    functional `keras.Model` whose attention layers are `PositionalAttention`.

    Attributes:
        vocab_size: int, V.
        pad_token_id: int or None. The token that the model masks.
        bound: int or None. The first position that does not exist.
        by_segments: bool. The prompt sees itself in both directions (UniLM).
        by_position: bool. Some attention layer reads position ids.
        names: dict, input name without the prefix -> its index among the inputs.
    """

    def __init__(self, model):
        logits = _logits(model)
        super().__init__(list(model.inputs), logits)
        nodes = calls_in(self)
        calls = [node for node in nodes if isinstance(node.operation, PositionalAttention)]
        for node in nodes:
            _check_layer(node)
        for node in calls:
            _check_attention(node)
        self.steps = Steps(self)
        self.by_segments = _by_segments(calls)
        self.attentions = [node.operation for node in calls]
        self.by_position = any(map(reads_positions, self.attentions))
        self.names = _input_names(model)
        self.max_position = min(filter(None, map(_max_position, nodes)), default=None)
        self.vocab_size = self.outputs[0].shape[-1]
        tokens = self.inputs[self.names["token_ids"]]
        readers = [n.operation for n in nodes if any(x is tokens for x in n.input_tensors)]
        tables = [layer for layer in readers if isinstance(layer, keras.layers.Embedding)]
        self.pad_token_id = masked_token(tables[0]) if tables else None
        last = maker_of(self.outputs[0])
        is_layer = isinstance(last, keras.layers.Softmax)
        softmax = is_layer or getattr(last, "activation", None) is keras.activations.softmax
        # Left out where it is a layer of its own, so that no logit is rounded to 0.
        alone = softmax and isinstance(last, (keras.layers.Activation, keras.layers.Softmax))
        self.skipped = last if alone else None
        self.probabilities = softmax and not alone

    def make_caches(self, batch_size, length):
        """Returns empty caches of the attention calls, in the order in which they run."""
        caches = [layer.make_cache(batch_size, length) for layer in self.attentions]
        # What is the same in all layers is one tensor, whose number is read once.
        return [Overwritten(*cache[:2], *caches[0][2:]) for cache in caches]

    def read(self, inputs, ids, arguments, caches):
        """Fills the caches with a piece of the text; what comes after attention is not computed.

        `inputs`: list of the tensors of the model's inputs. `ids`: (B, T) int32, the positions of
        the tokens. `arguments`: function of an attention layer that returns further arguments of
        its call. `caches`: from `make_caches`, or an earlier piece. Returns the new caches.
        """
        return self._run(inputs, ids, arguments, caches, only_caches=True)[1]

    def next_logits(self, inputs, ids, arguments, caches):
        """As `read`, and returns the logits (B, T, V) of each next token before the new caches."""
        return self._run(inputs, ids, arguments, caches, only_caches=False)

    def _run(self, inputs, ids, arguments, caches, only_caches):
        waiting, filled = list(caches), []

        def attend(layer, call, *tensors, **named):
            named = {name: x for name, x in named.items() if name not in SET_BY_PASS}
            named.update(arguments(layer), cache=waiting.pop(0))
            *results, cache = call(*tensors, **named)
            filled.append(cache)
            return results[0] if len(results) == 1 else results

        def run(operation, call):
            if only_caches and not waiting:
                return functools.partial(_nothing, operation)
            if isinstance(operation, PositionalAttention):
                return functools.partial(attend, operation, call)
            if isinstance(operation, ID_LAYERS):
                return lambda *_, **__: keras.ops.cast(ids, operation.compute_dtype)
            if isinstance(operation, AbsolutePositionEmbedding):
                return lambda x, *more, **named: call(x, ids + _offset(more, named))
            return (lambda x, **_: x) if operation is self.skipped else call

        output = self.steps.run(inputs, run)
        if self.probabilities and not only_caches:
            output = keras.ops.log(output)
        return output, filled


def reads_positions(layer):
    """Whether the position ids matter to an attention layer."""
    return bool(layer.encodings or layer.sliding_window)


def _nothing(operation, *args, **kwargs):
    return [None] * len(keras.tree.flatten(operation.output))


def _offset(more, named):
    """The `offset` of a call of a position embedding, which counts where no ids are given."""
    ids = more[0] if more else named.get("position_ids")
    offset = more[1] if len(more) > 1 else named.get("offset", 0)
    if ids is not None:
        return 0
    if not isinstance(offset, int):
        raise ValueError(
            "Generator takes position embeddings with an int as `offset`, and this one is made in "
            "the model."
        )
    return offset


def _max_position(node):
    """The number of positions of a text that a position embedding serves, or None."""
    embeds = isinstance(node.operation, AbsolutePositionEmbedding)
    if not embeds or not node.operation.max_position:
        return None
    arguments = node.arguments
    return node.operation.max_position - _offset(arguments.args[1:], arguments.kwargs)


def _logits(model):
    """The output with a number for each token of the vocabulary."""
    outputs = [x for x in getattr(model, "outputs", None) or [] if len(x.shape) == 3]
    sizes = {layer.input_dim for layer in model.layers if isinstance(layer, keras.layers.Embedding)}
    for x in outputs:
        if x.shape[-1] in sizes:
            return x
    raise ValueError(
        "The model has no logits of the next token to generate from: give a model of "
        '`build_transformer_model` with application="lm" or "unilm", or of `build_encoder_decoder`.'
    )


def _input_names(model):
    """dict, what an input holds -> its index; a lone input holds the tokens."""
    if len(model.inputs) == 1:
        return {"token_ids": 0}
    known = ("token_ids", "segment_ids", "position_ids")
    names = {}
    for index, x in enumerate(model.inputs):
        name = next((name for name in known if x.name.endswith(name)), x.name)
        names[name] = index
    if "token_ids" not in names:
        raise ValueError(
            "Generator finds the tokens by the name of their input, `token_ids`. "
            f"Received: a model with the inputs {sorted(names)}"
        )
    return names


def _by_segments(calls):
    """Whether attention is in the order of the segments; if there is any, it has an order."""
    ways = set()
    for node in calls:
        order = node.arguments.kwargs.get("query_order")
        if order is not None:
            running = maker_of(order)
            above = getattr(running, "input", None)
            name = "" if isinstance(above, (list, tuple)) or above is None else above.name
            ways.add(name.endswith("segment_ids") and type(running).__name__ == "Cumsum")
        else:
            ways.add(None if node.arguments.kwargs.get("use_causal_mask") else False)
    if not ways or False in ways or len(ways) > 1:
        raise ValueError(
            "Generator writes with causal models, and this one looks ahead: build it with "
            '`build_transformer_model(..., application="lm")` or "unilm", or call every attention '
            "layer with `use_causal_mask=True`."
        )
    return ways == {True}


def _check_layer(node):
    operation = node.operation
    if isinstance(operation, AbsolutePositionEmbedding):
        id_arguments = [*node.arguments.args[1:], node.arguments.kwargs.get("position_ids")]
        _check_ids(id_arguments[0])
    if isinstance(operation, MIXING):
        raise ValueError(
            f"{operation.name} ({type(operation).__name__}) may look at other tokens, which it "
            "would not see one at a time: only PositionalAttention and GatedAttentionUnit decode "
            "from a cache."
        )
    if isinstance(operation, RandomPositionIds) and operation.inference != "consecutive":
        raise ValueError(
            "RandomPositionIds numbers a text by its length, which grows: generation needs "
            f"inference='consecutive'. Received: inference={operation.inference!r}"
        )


def _check_attention(node):
    layer, kwargs = node.operation, node.arguments.kwargs
    for encoding in layer.encodings:
        if encoding.overrides("scan"):
            raise ValueError(
                f"{type(encoding).__name__} sums over all earlier rows of the attention map, which "
                "a cache does not keep: a model with it cannot generate."
            )
    if kwargs.get("packed"):
        raise ValueError(
            "A model of `packed` rows, each of several texts, writes none: give Generator one "
            "without `packed`, with the same `layers`."
        )
    _check_ids(kwargs.get("query_positions", kwargs.get("positions")))
    tensors = node.arguments.args
    masked = kwargs.get("attention_mask") is not None
    if masked or any(x is not tensors[0] for x in tensors):
        raise ValueError(
            f"{layer.name} attends to something else than its own earlier tokens, or by an "
            "`attention_mask`: Generator writes with self-attention, in causal order."
        )


def _check_ids(ids):
    maker = None if ids is None else maker_of(ids)
    if not isinstance(maker, (type(None), keras.layers.InputLayer, *ID_LAYERS)):
        raise ValueError(
            f"{maker.name} makes position ids that Generator cannot continue: it knows consecutive "
            "ones, PaddedPositionIds, RandomPositionIds, and the input `position_ids`."
        )
