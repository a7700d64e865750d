"""What the attention of a model does with a text: entropy, source, RoPE's terms, CoPE's gates."""

import inspect

import keras
import numpy as np
from keras import ops

from keras_posenc.analysis.measure import Recorder, entropy
from keras_posenc.attention.gau import GatedAttentionUnit
from keras_posenc.attention.layer import PositionalAttention
from keras_posenc.encodings.contextual import ContextualPositionEmbedding
from keras_posenc.encodings.rotary import RotaryEmbedding
from keras_posenc.models.direct import calls_in
from keras_posenc.models.seq2seq import CROSS, EncoderDecoder


def attention_inputs(model, inputs):
    """Computes the hidden states that enter each attention layer of a model.

    Args:
        model: a functional `keras.Model`.
        inputs: inputs of the model; one text, or texts of one length, since padding is not masked.

    Returns:
        dict, `PositionalAttention` -> (B, T, E) array, in the order of the model; for a layer that
            is called several times, a list with an array per call.

    Example:

    >>> model = open_model("all-MiniLM-L6-v2")
    >>> ids = np.array([[101, 2146, 6981, 102]])
    >>> states = attention_inputs(model, {"token_ids": ids, "segment_ids": np.zeros_like(ids)})
    >>> [array.shape for array in states.values()][:2]
    [(1, 4, 384), (1, 4, 384)]
    """
    found = {}
    for layer, args, kwargs in _calls(model, inputs):
        first = next(iter(inspect.signature(layer.call).parameters))
        query = [*args, kwargs.get(first)][0]
        found.setdefault(layer, []).append(ops.convert_to_numpy(query))
    return {layer: states if states[1:] else states[0] for layer, states in found.items()}


def entropy_by_layer(model, inputs, causal=False):
    """Returns the entropy (layers, heads) of attention in nats, averaged over the queries.

    A layer that is called several times has a row for each call.

    Args:
        model, inputs: as in `attention_inputs`.
        causal: bool. Attend causally also where the model's calls do not.

    Example:

    >>> ids = np.array([[101, 2146, 6981, 102]])
    >>> inputs = {"token_ids": ids, "segment_ids": np.zeros_like(ids)}
    >>> entropy_by_layer(open_model("all-MiniLM-L6-v2"), inputs).shape
    (6, 12)
    """
    more, entropies = {"use_causal_mask": True} if causal else {}, []
    for layer, args, kwargs in _calls(model, inputs):
        weights = layer(*args, **{**kwargs, **more, "return_attention_scores": True})[1]
        entropies.append(entropy(ops.convert_to_numpy(weights)).mean((0, 2)))
    return np.stack(entropies)


def _calls(model, inputs):
    """[(layer, args, kwargs)] of each call of attention, as the model makes it for these inputs."""
    calls = [n for n in calls_in(model) if isinstance(n.operation, PositionalAttention)]
    if not calls:
        raise ValueError("The model has no PositionalAttention of its own to look at.")
    given = [(node.arguments.args, node.arguments.kwargs) for node in calls]
    every = (x for x in keras.tree.flatten(given) if isinstance(x, keras.KerasTensor))
    tensors = list({id(x): x for x in every}.values())
    found = keras.tree.flatten(keras.Model(model.input, tensors)(inputs))  # of one, no list
    found = dict(zip(map(id, tensors), found, strict=True))
    given = keras.tree.map_structure(lambda x: found.get(id(x), x), given)
    return [(node.operation, *each) for node, each in zip(calls, given, strict=True)]


def cross_attention(model, source_ids, target_ids, block=-1):
    """Computes where each token of a target looks in its source, in one block of the decoder.

    Args:
        model: a model of `build_encoder_decoder`.
        source_ids, target_ids: one row each: (1, S) and (1, T), without padding.
        block: int. Number of the decoder's block; default the last.

    Returns:
        (heads, T, S) array of weights. Row t is of the step that writes token t + 1.

    Example:

    >>> model = build_encoder_decoder(100, hidden_size=32, num_hidden_layers=2,
    ...     num_attention_heads=2, intermediate_size=64)
    >>> cross_attention(model, np.array([[7, 8, 9, 2]]), np.array([[1, 9, 8]])).shape
    (2, 3, 4)
    """
    depth = EncoderDecoder(model.layers).depth
    if not -depth <= block < depth:
        raise ValueError(
            f"block={block}: the decoder has {depth} blocks, give 0 to {depth - 1}, or -1 for the "
            "last."
        )
    layer = model.get_layer(f"Decoder-{block % depth}-{CROSS}")
    both = keras.tree.flatten(layer.input)[:2]
    queries, memory = keras.Model(model.input, both)([source_ids, target_ids], training=False)
    _, weights = layer(queries, memory, return_attention_scores=True)[:2]
    return ops.convert_to_numpy(weights)[0]


def rotary_terms(q, k, query_bias, key_bias, rotary=None):
    """The four terms of rotary attention with biased queries and keys, by distance.

    (q_i + a)' R_(j-i) (k_j + b) = q'Rk + a'Rk + q'Rb + a'Rb, each divided by sqrt(D) and averaged
    over all pairs of tokens i - j apart. The middle two are small if queries and keys point in all
    directions; the last one does not depend on the text.

    Args:
        q, k: (B, T, H, D) arrays, without their biases.
        query_bias, key_bias: (H, D) arrays a and b.
        rotary: `RotaryEmbedding` that rotates; default one with default arguments.

    Returns:
        dict: `distance` (T,), 0 .. T - 1; `qk`, `ak`, `qb`, `ab` and `sum`, each (H, T).

    Example:

    >>> q, k = np.random.normal(size=(2, 4, 64, 2, 32))
    >>> a = b = np.tile([1.0, 0.0], (2, 16))  # Sandwich's
    >>> rotary_terms(q, k, a, b)["ab"].shape
    (2, 64)

    Reference: Su Jianlin, [RoPE + bias](https://kexue.fm/archives/9577).
    """
    rotary = RotaryEmbedding() if rotary is None else rotary
    config = {**rotary.get_config(), "use_bias": False, "dtype": "float32"}
    rotation = type(rotary).from_config(config)
    q, k = np.asarray(q, "float32"), np.asarray(k, "float32")
    length, size = q.shape[1], q.shape[3]
    ones = np.ones((1, length, 1, 1), "float32")
    a, b = (ones * np.asarray(bias, "float32") for bias in (query_bias, key_bias))
    sides = map(ops.convert_to_numpy, (*rotation((q, k)), *rotation((a, b))))
    sides = dict(zip("qkab", sides, strict=True))
    terms = {"distance": np.arange(length)}
    for one in "qa":
        for other in "kb":
            left, right = sides[one], sides[other]
            product = np.einsum("bqhd,bkhd->hqk", left, right, optimize=True)
            product = product / max(len(left), len(right)) / np.sqrt(size)
            terms[one + other] = np.stack(
                [product.diagonal(-r, 1, 2).mean(-1) for r in range(length)], axis=-1
            )
    terms["sum"] = terms["qk"] + terms["ak"] + terms["qb"] + terms["ab"]
    return terms


def rotary_terms_of(layer, states):
    """Returns `rotary_terms` of an attention layer with a rotary encoding.

    The biases are the sum of those of its projections (of a `GatedAttentionUnit` the offsets of
    queries and keys) and those of its rotary encoding. A norm of heads takes the former in.

    Args:
        layer: a built `PositionalAttention`.
        states: (B, T, E) array of hidden states; see `attention_inputs`.

    Example:

    >>> layer = PositionalAttention(2, 32, encodings=["rotary"])
    >>> states = np.random.normal(size=(1, 64, 48))
    >>> _ = layer(states, states)
    >>> rotary_terms_of(layer, states)["sum"].shape
    (2, 64)
    """
    rotary = layer.encodings[_index(layer, RotaryEmbedding)]
    heads = list(map(ops.convert_to_numpy, layer._project(states, states, states)[:2]))
    count = heads[0].shape[2]
    contents, biases = [], []
    learned = (rotary.query_bias, rotary.key_bias) if rotary.use_bias else (0.0, 0.0)
    for x, bias, more in zip(heads, _biases_of_heads(layer), learned, strict=True):
        bias = np.zeros((1, x.shape[-1])) if bias is None else ops.convert_to_numpy(bias)
        bias = np.reshape(bias, (-1, x.shape[-1]))
        x = np.repeat(x, count // x.shape[2], axis=2)  # heads that share keys
        bias = np.repeat(bias, count // len(bias), axis=0)
        contents.append(x - bias)
        biases.append(bias + ops.convert_to_numpy(more))
    return rotary_terms(*contents, *biases, rotary=rotary)


def _biases_of_heads(layer):
    """What is added to every query and to every key, or None."""
    if not layer.use_bias or layer.head_norm:  # a norm leaves no sum of content and bias
        return None, None
    if isinstance(layer, GatedAttentionUnit):
        return layer.query_offset, layer.key_offset
    return layer.query_dense.bias, layer.key_dense.bias


def contextual_positions(layer, states, causal=True):
    """Computes CoPE's gates over a text, and the positions that they add up to.

    Args:
        layer: a built `PositionalAttention` with a `ContextualPositionEmbedding`.
        states: (B, T, E) array of hidden states; see `attention_inputs`.
        causal: bool. Whether a query sees no later key.

    Returns:
        dict: `gates` and `positions`, (B, H, T, T), the positions before they are capped.

    Example:

    >>> layer = PositionalAttention(2, 32, encodings=["cope"])
    >>> states = np.random.normal(size=(1, 10, 48))
    >>> _ = layer(states, states, use_causal_mask=True)
    >>> contextual_positions(layer, states)["gates"].shape
    (1, 2, 10, 10)
    """
    place = _index(layer, ContextualPositionEmbedding)
    config = layer.get_config()
    config["encodings"].insert(place, Recorder())
    copy = type(layer).from_config(config)
    copy.build(states.shape, states.shape)
    copy.set_weights(layer.get_weights())
    copy(states, states, use_causal_mask=causal, return_attention_scores=True)
    recorder, cope = copy.encodings[place : place + 2]
    gates = cope.gates(recorder.logits, recorder.queries, recorder.grid)
    positions = cope.positions(gates, recorder.grid)
    return {"gates": ops.convert_to_numpy(gates), "positions": ops.convert_to_numpy(positions)}


def _index(layer, kind):
    """Index of the first encoding of a class in a layer's list."""
    for index, encoding in enumerate(layer.encodings):
        if isinstance(encoding, kind):
            return index
    raise ValueError(
        f"The layer has no {kind.__name__} among its encodings: "
        f"{[type(encoding).__name__ for encoding in layer.encodings]}."
    )
