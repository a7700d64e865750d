"""The next token, from a cache, of each kind of model: after a prompt, and from a source."""

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.attention.gau import GatedAttentionUnit
from keras_posenc.models.generation.graph import CausalGraph, reads_positions

# The names of a gated unit's arguments that attention calls otherwise.
OF_GATED_UNIT = {"query_positions": "positions", "value_mask": "mask"}


def decoding_of(model, start_id, max_length):
    """The decoding of a model: `AfterPrompt`, or `FromSource` for an encoder-decoder.

    Both have `begin(inputs)`, which reads the inputs and returns a context, the caches and the
    logits (B, V) of the first new token. Both have `step(tokens, place, context, caches)`, which
    appends tokens (B,) as number `place` = 1, 2, ... of the new text. It returns the logits of the
    next one and the caches. In the context and the caches, all tensors except scalars have the
    batch as their first axis.
    """
    checks.instance("model", model, keras.Model, "a model of Keras")
    names = {layer.name for layer in model.layers}
    if "Decoder-0-FeedForward" in names:
        return FromSource(model, start_id, max_length)
    if start_id is not None:
        raise ValueError(
            "`start_id` starts the target of an encoder-decoder; a language model goes on after "
            f"its prompt, so put a start token there. Received: start_id={start_id!r}"
        )
    return AfterPrompt(model, max_length)


class AfterPrompt:
    """Goes on after prompts (B, P), padded on the right, with a causal model or a UniLM.

    The cache has P columns for the prompt, of which the padding is masked, and then one for each
    new token. So a text is a row with a gap, which positions do not count. The last token of the
    prompt is read as the first step. A causal model has it in the prompt masked, or left out; a
    UniLM, whose prompt sees all of itself, masks the second reading.

    `model`: a functional `keras.Model`; see `CausalGraph`. `max_length`: int. Number of new tokens.
    """

    def __init__(self, model, max_length):
        self.graph = CausalGraph(model)
        self.max_length = max_length
        self.vocab_size = self.graph.vocab_size
        self.pad_token_id = self.graph.pad_token_id

    def begin(self, inputs):
        prompt, lengths = inputs["token_ids"], _lengths(inputs, self.pad_token_id)
        last = ops.maximum(lengths - 1, 0)
        segments = inputs.get("segment_ids")
        segments = ops.zeros_like(prompt) if segments is None else segments
        token, segment = (ops.take_along_axis(x, last, axis=1) for x in (prompt, segments))
        if not self.graph.by_segments and prompt.shape[1] not in (None, 1):
            # Of a causal model the last column is masked in each row: without it, nothing is masked
            # where all prompts are of one length.
            prompt, segments = prompt[:, :-1], segments[:, :-1]
        batch, columns = ops.shape(prompt)
        index = ops.arange(columns, dtype="int32")[None]
        context = {
            name: x
            for name, x in inputs.items()
            if name in self.graph.names and name not in ("token_ids", "segment_ids", "position_ids")
        }
        tensors = self._inputs(prompt, ops.minimum(index, last), segments, context)
        value_mask = index < lengths if self.graph.by_segments else index < last
        value_mask = backend.looked_at(value_mask)
        caches = self.graph.make_caches(batch, columns + self.max_length)
        arguments = {"value_mask": value_mask, **self._orders(0, columns, columns)}
        caches = self.graph.read(tensors, ops.minimum(index, last), _for(arguments), caches)
        context |= {"last": last, "segment": segment}
        if self.graph.by_position:
            index = ops.arange(columns + self.max_length, dtype="int32")[None]
            after = last + index - columns
            context["of_keys"] = ops.where(index < columns, ops.minimum(index, last), after)
        logits, caches = self._next(token[:, 0], 0, context, caches, again=True)
        return context, caches, logits

    def step(self, tokens, place, context, caches):
        return self._next(tokens, place, context, caches)

    def written(self, inputs):
        """The tokens (B, P) that are there from the start, and which of them are real."""
        lengths = _lengths(inputs, self.pad_token_id)
        index = ops.arange(ops.shape(inputs["token_ids"])[1], dtype="int32")[None]
        return inputs["token_ids"], index < lengths

    def _next(self, tokens, place, context, caches, again=False):
        graph, last = self.graph, context["last"]
        columns = ops.shape(caches[0].key_mask)[1] - self.max_length
        ids = last + place
        segments = context["segment"]
        if graph.by_segments:
            segments = ops.zeros_like(segments) if again else ops.ones_like(segments)
        real = not (again and graph.by_segments)
        value_mask = (ops.ones_like if real else ops.zeros_like)(last, dtype="bool")
        value_mask = backend.looked_at(value_mask, real)
        arguments = {"value_mask": value_mask, **self._orders(place, columns)}
        if graph.by_position:
            # No key is further on than the query, where an encoding asks how long the text is.
            of_keys = ops.minimum(context["of_keys"], ids)
            arguments |= {"query_positions": ids, "key_positions": of_keys}
        tensors = self._inputs(tokens[:, None], ids, segments, context)
        logits, caches = graph.next_logits(tensors, ids, _for(arguments), caches)
        return logits[:, 0], caches

    def _orders(self, place, columns, rows=1):
        """The order of a UniLM: 0 for the prompt, 1, 2, ... for the answer."""
        if not self.graph.by_segments:
            return {}
        of_rows = ops.zeros((1, rows), "int32") + ops.cast(place, "int32")
        index = ops.arange(columns + self.max_length, dtype="int32")[None]
        return {"query_order": of_rows, "key_order": ops.maximum(index - columns, 0)}

    def _inputs(self, tokens, ids, segments, context):
        values = {**context, "token_ids": tokens, "segment_ids": segments, "position_ids": ids}
        return [values[name] for name in sorted(self.graph.names, key=self.graph.names.get)]


class FromSource:
    """Writes the target of a source (B, S) with a model of `build_encoder_decoder`.

    `model`: the model, or one loaded from a file. `start_id`: int. The token that targets start
    with. `max_length`: int. Number of new tokens.
    """

    def __init__(self, model, start_id, max_length):
        # Importing the package imports this module, but not all that builds models.
        from keras_posenc.models.seq2seq import EncoderDecoder

        self.parts = EncoderDecoder(model.layers)
        self.table = self.parts.layers["Embedding-Token"]
        self.vocab_size = self.table.input_dim
        self.pad_token_id = self.table.pad_token_id
        whole = isinstance(start_id, int) and not isinstance(start_id, bool)
        if not whole or not 0 <= start_id < self.vocab_size:
            raise ValueError(
                "An encoder-decoder needs `start_id`, the token that targets start with, from 0 to "
                f"{self.vocab_size - 1}. Received: {start_id!r}"
            )
        self.start_id = start_id
        self.max_length = max_length

    def begin(self, inputs):
        source = inputs["token_ids"]
        batch, length = ops.shape(source)
        memory, mask = self.parts.encode(source), self.table.compute_mask(source)
        mask = ops.ones((batch, length), "bool") if mask is None else mask
        start, _ = self.written(inputs)
        caches = self.parts.make_caches(batch, length, self.max_length)
        logits, caches = self.parts.step(start, 0, caches, memory, mask)
        return {"memory": memory[:, :0], "mask": mask[:, :0]}, caches, logits

    def step(self, tokens, place, context, caches):
        memory, mask = context["memory"], context["mask"]
        return self.parts.step(tokens[:, None], place, caches, memory, mask)

    def written(self, inputs):
        """The start token (B, 1), which is real."""
        start = ops.full((ops.shape(inputs["token_ids"])[0], 1), self.start_id, "int32")
        return start, ops.ones_like(start, dtype="bool")


def _lengths(inputs, pad_token_id):
    """(B, 1) int32: how many tokens each prompt has."""
    if "lengths" in inputs:
        return ops.cast(inputs["lengths"], "int32")
    tokens = inputs["token_ids"]
    index = ops.arange(1, ops.shape(tokens)[1] + 1, dtype="int32")[None]
    if pad_token_id is None:
        return ops.zeros_like(tokens[:, :1]) + index[:, -1:]
    return ops.max(ops.where(tokens != pad_token_id, index, 0), axis=1, keepdims=True)


def _for(arguments):
    """A function from an attention layer to those of the arguments that it takes."""

    def of_layer(layer):
        named = dict(arguments)
        if not reads_positions(layer):
            named.pop("query_positions", None)
            named.pop("key_positions", None)
        if isinstance(layer, GatedAttentionUnit):
            named = {OF_GATED_UNIT.get(name, name): x for name, x in named.items()}
        return named

    return of_layer


def repeated(tensors, count):
    """Each text `count` times, one behind the other; numbers have no batch to repeat."""
    if count == 1:
        return tensors
    return keras.tree.map_structure(
        lambda x: ops.repeat(x, count, axis=0) if len(x.shape) else x, tensors
    )
