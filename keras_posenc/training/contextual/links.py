"""Links from pronouns to the names that they stand for, and how much attention follows them."""

import difflib
import inspect

import keras
import numpy as np
from keras import ops

from keras_posenc.attention.call import Call, taking
from keras_posenc.attention.gau import GatedAttentionUnit
from keras_posenc.attention.layer import PositionalAttention
from keras_posenc.models.direct import calls_in
from keras_posenc.training.contextual.copies import COPIES, PASSAGES

LINKS = 3 * PASSAGES  # tokens of the passages of a copy that are linked to a name, at most
NORM = 8  # of the heads: large, so that one head that attends to the name is enough


def linked_tokens(copies, pieces, named, start, end, length):
    """Which tokens of each copy stand for a name, and where that name is.

    Args:
        copies: `Copies`.
        pieces: lists (C, S) of the token ids of each sentence.
        named: lists (C, P) of the token ids of each passage with its name.
        start, end: int. Place of the first token of the sentences in a row, and that behind the
            last which is read.
        length: int, T. Tokens of a row.

    Returns:
        dict of int32 arrays: `pronouns` (C, Q), places of tokens in whose place the teacher reads a
        name; `persons` (C, Q), the number of the person that each of them stands for, 0 where there
        is none; and `introduced` (C, T), the number of the person whose name that token introduces,
        0 in all others.
    """
    pronouns, persons = np.zeros((2, COPIES, LINKS), "int32")
    introduced = np.zeros((COPIES, length), "int32")
    for copy, sentences in enumerate(pieces):
        other, starts = pieces[copy - 1], np.cumsum([start, *map(len, sentences)])
        for sentence in {*copies.introductions} - {None}:
            # Copies differ in their names alone.
            places = starts[sentence] + replaced(sentences[sentence], other[sentence])
            introduced[copy, places[places < end]] = 1 + sentence
        links = [
            (starts[place] + token, 1 + sentence)
            for place, sentence, passage in zip(
                copies.passages, copies.introductions, named[copy], strict=True
            )
            if sentence is not None
            for token in replaced(sentences[place], passage)
        ]
        links = [each for each in links if each[0] < end and each[1] in introduced[copy]][:LINKS]
        if links:
            pronouns[copy, : len(links)], persons[copy, : len(links)] = np.transpose(links)
    return {"pronouns": pronouns, "persons": persons, "introduced": introduced}


def replaced(tokens, other):
    """The places, an int array, of those tokens in whose place another list has other tokens.

    Example:

    >>> replaced([5, 6, 7, 8], [5, 1, 2, 7, 8]).tolist()
    [1]
    """
    blocks = difflib.SequenceMatcher(None, tokens, other, autojunk=False).get_opcodes()
    places = [place for kind, *span, _, _ in blocks if kind == "replace" for place in range(*span)]
    return np.array(places, "int32")


def with_attention(encoder):
    """The encoder with one more input, `pronouns` (C, Q), places of tokens, and one more output for
    each attention layer: what these tokens attend to, (C, H, Q, T).

    Example:

    >>> model = with_attention(build_transformer_model("bert"))
    >>> rows = {"token_ids": np.full((1, 9), 5), "segment_ids": np.zeros((1, 9))}
    >>> maps = model({**rows, "pronouns": np.zeros((1, LINKS))})[1:]
    >>> maps[0].shape[2:]
    (36, 9)
    """
    places = keras.Input((LINKS,), dtype="int32", name="pronouns")
    maps = []
    for node in calls_in(encoder):
        layer, given = node.operation, node.arguments
        if not isinstance(layer, PositionalAttention) or isinstance(layer, GatedAttentionUnit):
            continue
        call = inspect.signature(layer.call).bind(*given.args, **given.kwargs).arguments
        queries = ops.take_along_axis(call.pop("query"), places[..., None], axis=1)
        ids = call.pop("query_positions", None)
        ids = places if ids is None else ops.take_along_axis(ids, places, axis=1)
        map_of = AttentionMap(layer, name=f"{layer.name}-map-{len(maps)}")
        maps.append(map_of(queries, query_positions=ids, **call))
    if not maps:
        raise ValueError(
            "`supervised_attention` needs layers whose heads attend to tokens, and this model has "
            "none: give 0."
        )
    return keras.Model([*encoder.inputs, places], [encoder.output, *maps])


class AttentionMap(keras.layers.Layer):
    """The attention map of a `PositionalAttention`, as an output of its own: Keras checks a graph
    as if all calls of a layer had as many outputs as the first."""

    def __init__(self, attention, **kwargs):
        super().__init__(dtype=attention.dtype_policy, **kwargs)
        self.attention, self.built, self.supports_masking = attention, True, True

    def compute_mask(self, inputs, previous_mask=None):
        return None

    @taking(Call)
    def call(self, *args, **kwargs):
        return self.attention(*args, **{**kwargs, "return_attention_scores": True})[1]

    def compute_output_spec(self, *args, **kwargs):
        kwargs["return_attention_scores"] = True
        return self.attention.compute_output_spec(*args, **kwargs)[1]


def attention_loss(maps, persons, introduced):
    """-ln of the attention that follows each link, (C, Q).

    With a_h the attention of a pronoun to all tokens of the name, in head h of any layer, it is
    -ln (sum_h a_h^8)^(1/8), which is 0 if one head attends to nothing else.

    Args:
        maps: list of (C, H, Q, T) attention maps.
        persons, introduced: as from `linked_tokens`.
    """
    names = ops.equal(introduced[:, None], persons[:, :, None])
    names = ops.cast(names, "float32")[:, None]
    found = [ops.sum(ops.cast(each, "float32") * names, axis=-1) for each in maps]
    found = ops.log(ops.concatenate(found, axis=1) + 1e-6)
    return -ops.logsumexp(NORM * found, axis=1) / NORM
