"""From what a user has, lists or padded arrays of ids, to checked prompts of few lengths."""

import numpy as np

from keras_posenc import backend

SHORTEST = 16  # length of the shortest bucket


def bucket(length):
    """The least power of two that holds `length`, at least 16: one program serves them all."""
    return max(SHORTEST, 1 << (length - 1).bit_length())


def prepare(x, decoding, pad_id):
    """Checks prompts, or sources, and pads them on the right, to a length that many share.

    `x`: (B, T) ids, lists of ids, or a dict of them under "token_ids" and of what else the
    model takes. `decoding`: the `AfterPrompt` or `FromSource` that will read them. `pad_id`: fills
    up short rows of an array. Returns a dict of arrays: "token_ids" (B, P), "lengths" (B, 1),
    "segment_ids" and further inputs.
    """
    inputs = dict(x) if isinstance(x, dict) else {"token_ids": x}
    graph = getattr(decoding, "graph", None)
    _check_names(inputs, graph)
    given = inputs.pop("token_ids")
    rows = _rows(given, "token_ids")
    if pad_id == decoding.pad_token_id:
        cuts = [_unmasked(row, pad_id) for row in rows]
    else:
        cuts = _unpadded(rows, None if isinstance(given, (list, tuple)) else pad_id)
    tokens = [row[cut] for row, cut in zip(rows, cuts, strict=True)]
    _check_tokens(tokens, decoding.vocab_size)
    lengths = np.array([len(row) for row in tokens], "int32")
    if graph is not None and graph.max_position is not None:
        _check_room(lengths, decoding.max_length, graph.max_position)
    # Where nothing is compiled, no length is shared.
    columns = int(lengths.max()) if backend.TRAITS.eager else bucket(int(lengths.max()))
    filler = pad_id or 0
    if graph is None:
        # Without a token that it masks, a source is only as long as it is.
        if decoding.pad_token_id is None:
            columns, same = int(lengths.max()), len(set(lengths)) == 1
            if not same:
                raise ValueError(
                    "The model masks no padding token, so sources of one call need one length. "
                    f"Received: lengths from {lengths.min()} to {lengths.max()}"
                )
        return {"token_ids": _padded(tokens, columns, filler)}
    prepared = {"token_ids": _padded(tokens, columns, filler), "lengths": lengths[:, None]}
    if "segment_ids" in graph.names:
        segments = _segments(inputs.pop("segment_ids", None), rows, cuts, graph.by_segments)
        prepared["segment_ids"] = _padded(segments, columns, 0)
    further = {name: np.asarray(value) for name, value in inputs.items()}
    for name, value in further.items():
        if len(value) != len(rows):
            raise ValueError(
                f"`{name}` must have one row for each of the {len(rows)} prompts. "
                f"Received: shape {value.shape}"
            )
    return {**prepared, **further}


def _check_names(inputs, graph):
    takes = {"token_ids"} if graph is None else set(graph.names)
    needs = takes - {"segment_ids", "position_ids"}
    if not needs <= set(inputs) <= takes - {"position_ids"}:
        raise ValueError(
            f"The model takes {sorted(takes - {'position_ids'})}; segments of 0 and the positions "
            f"are made where they are left out. Received: {sorted(inputs)}"
        )


def _rows(x, name):
    """A list of arrays of ids."""
    rows = list(x) if isinstance(x, (list, tuple)) else np.asarray(x)
    if not isinstance(rows, list) and rows.ndim != 2:
        raise ValueError(
            f"`{name}` must be a list of lists of ids, or an array (B, T). "
            f"Received: shape {rows.shape}"
        )
    rows = [np.asarray(row) for row in rows]
    if not rows or any(row.ndim != 1 for row in rows):
        raise ValueError(
            f"`{name}` must be a list of lists of ids, one for each text. "
            f"Received: {len(rows)} rows of {[row.ndim for row in rows][:3]} dimensions"
        )
    wrong = [row.dtype for row in rows if len(row) and not np.issubdtype(row.dtype, np.integer)]
    if wrong:
        raise TypeError(f"`{name}` must hold integers. Received: {wrong[0]}")
    return rows


def _unmasked(row, pad_id):
    """The slice of a row without the token at its ends that the model masks in every place."""
    if pad_id is None:
        return slice(0, len(row))
    cut = _without(row, pad_id)
    if (row[cut] == pad_id).any():
        raise ValueError(
            f"A prompt has the padding token {pad_id} between its tokens: pad on the right. "
            f"Received: {row.tolist()[:20]}"
        )
    return cut


def _unpadded(rows, pad_id):
    """The slices of the rows of an array without padding by a token that also occurs in texts.

    What ends a row is padding. What begins a row is, if another row begins with a token; one that
    begins every row once starts the texts, as <|endoftext|> may. Lists, for which `pad_id` is None,
    are not padded.
    """
    if pad_id is None:
        return [slice(0, len(row)) for row in rows]
    cuts = [_without(row, pad_id) for row in rows]
    before = [cut.start for cut in cuts if cut.stop]
    if not before or min(before) == 0:
        return cuts
    if max(before) > 1:
        raise ValueError(
            f"Every prompt begins with the padding token {pad_id}, which this model does not mask: "
            "it may be padding or a start token. Give lists of ids, without padding. Received: "
            f"{rows[int(np.argmax(before))].tolist()[:20]}"
        )
    return [slice(0, cut.stop) for cut in cuts]


def _without(row, pad_id):
    """The slice of a row from its first to its last token that is not `pad_id`."""
    real = np.flatnonzero(row != pad_id)
    return slice(int(real[0]), int(real[-1]) + 1) if len(real) else slice(0, 0)


def _check_tokens(rows, vocab_size):
    for number, row in enumerate(rows):
        if not len(row):
            raise ValueError(
                f"Prompt {number} is empty: a text begins with at least one token, such as [CLS] "
                "or a start token."
            )
        if row.min() < 0 or row.max() >= vocab_size:
            wrong = row[(row < 0) | (row >= vocab_size)][0]
            raise ValueError(
                f"Prompt {number} has the token {wrong}, and the vocabulary the tokens 0 to "
                f"{vocab_size - 1}."
            )


def _check_room(lengths, max_length, max_position):
    longest = int(lengths.max())
    if longest + max_length - 1 > max_position:
        raise ValueError(
            f"A prompt of {longest} tokens and max_length={max_length} need "
            f"{longest + max_length - 1} positions, and the model has {max_position}: give "
            "shorter prompts, a smaller `max_length`, or stretch the table: "
            "hierarchical_position=True in build_transformer_model."
        )


def _segments(x, rows, cuts, by_segments):
    if x is None:
        return [np.zeros(len(row[cut]), "int32") for row, cut in zip(rows, cuts, strict=True)]
    segments = _rows(x, "segment_ids")
    if [len(row) for row in segments] != [len(row) for row in rows]:
        raise ValueError("`segment_ids` must have the shape of `token_ids`, one id a token.")
    segments = [row[cut] for row, cut in zip(segments, cuts, strict=True)]
    if by_segments and any(row.any() for row in segments):
        raise ValueError(
            "The prompt of a UniLM is segment 0, and segment 1 the answer that is to be written: "
            "leave `segment_ids` out."
        )
    return segments


def _padded(rows, columns, filler):
    padded = np.full((len(rows), columns), filler, "int32")
    for row, tokens in zip(padded, rows, strict=True):
        row[: len(tokens)] = tokens
    return padded
