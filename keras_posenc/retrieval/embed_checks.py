"""Which arguments of `embed` go together."""

import pathlib

from keras_posenc import checks
from keras_posenc.untrusted import quote


def check_parts(part_size, output, late, spans):
    checks.whole("part_size", part_size)
    if spans is not None:
        raise ValueError(
            "`part_size` reads texts part by part, and not their `spans`: give `chunks` and "
            "late=True, or give each call a `shard`."
        )
    suffixes = (".jsonl",) if late else (".npy", ".jsonl")
    if output is None or pathlib.Path(output).suffix not in suffixes:
        raise ValueError(
            f"`part_size` needs a {' or '.join(suffixes)} file as `output`, to write into. "
            f"Received: {output!r}"
        )


def check_kind(multi, sparse, chunked, prompt, ignore, dimension):
    if multi and sparse:
        raise ValueError("`multi` and `sparse` are for models of two kinds: give one of them.")
    if (multi or sparse) and ignore is not None:
        raise ValueError(
            f"{'multi' if multi else 'sparse'}=True reads every tensor of its directory: leave "
            f"`ignore` out. Received: ignore={quote(ignore)}"
        )
    if (multi or sparse) and dimension is not None:
        raise ValueError(
            f"`dimension` cuts one vector per text or chunk: leave {'multi' if multi else 'sparse'}"
            f" out. Received: dimension={quote(dimension)}"
        )
    if (multi or sparse) and (chunked or prompt is not None):
        raise ValueError(
            f"{'multi' if multi else 'sparse'}=True reads whole texts, with the markers and "
            "prompts of the directory: leave `chunks`, `late`, `spans` and `prompt` out."
        )


def check_chunking(chunks, late, overlap, spans, max_length):
    if late and (chunks is None) == (spans is None):
        raise ValueError(
            "late=True needs the chunks of each text: give either `chunks`, a number of tokens, or "
            f"`spans`. Received: chunks={chunks!r}, spans={'None' if spans is None else '...'}"
        )
    if chunks is not None and spans is not None:
        raise ValueError(
            f"`spans` are the chunks of each text: leave `chunks` out. Received: chunks={chunks!r}"
        )
    if overlap and (not late or spans is not None):
        raise ValueError(
            "`overlap` is for neighbouring chunks of late chunking: give `chunks` and late=True "
            f"with it. Received: overlap={overlap!r}"
        )
    if chunks is not None and not late and max_length is not None:
        raise ValueError(
            "chunks reads all of a text and max_length cuts it off: give one of them. "
            f"Received: chunks={chunks!r}, max_length={max_length!r}"
        )
