"""SentencePiece models (`spiece.model`, `spm.model` and the like): the content of the file.

It is a protocol buffer, sentencepiece_model.proto of SentencePiece, and is read without a package.
"""

import dataclasses
import math
import struct

from keras_posenc.checkpoints.leveldb import read_fields
from keras_posenc.files.untrusted import read_bytes, shorten
from keras_posenc.text.expansion_bounds import check_charsmap

MOST_BYTES = 2**26  # of a model; those of 256,000 pieces have 5 MB
MOST_PIECES = 2**20
MOST_PIECE = 2**10  # bytes; all ways to split a piece are tried
UNKNOWN, CONTROL, USER_DEFINED, BYTE = 2, 3, 4, 6  # kinds of pieces; a normal one is 1
ALGORITHMS = {1: "Unigram", 2: "BPE"}


@dataclasses.dataclass(frozen=True)
class SentencePiece:
    """A model as its file describes it.

    Attributes:
        pieces: list of (piece, score), by id.
        kinds: list of int, by id. UNKNOWN and so on.
        algorithm: str. "Unigram" or "BPE".
        byte_fallback: bool. Whether characters without a piece become bytes.
        charsmap: bytes. The table of the normalization; empty if there is none.
        prefix: bool. Whether a space is put before a text.
        trims: bool. Whether spaces at the ends are dropped, and runs of spaces reduced to one.
    """

    pieces: list
    kinds: list
    algorithm: str
    byte_fallback: bool
    charsmap: bytes
    prefix: bool
    trims: bool


def read_sentence_piece(path):
    """Reads a SentencePiece model. `path`: the file. Returns a `SentencePiece`."""
    data = read_bytes(path, MOST_BYTES)
    try:
        return _parsed(data)
    except (ValueError, IndexError, TypeError, AttributeError, struct.error) as error:
        raise ValueError(f"{path} is no SentencePiece model: {shorten(error)}.") from None


def _parsed(data):
    model = read_fields(data, MOST_PIECES)
    trainer, normalizer = (read_fields(model.get(n, [b""])[-1], MOST_PIECES) for n in (2, 3))
    pieces = [_piece(message, number) for number, message in enumerate(model.get(1, []))]
    kinds = [kind for _, _, kind in pieces]
    if UNKNOWN not in kinds:
        raise ValueError(f"among its {len(pieces)} pieces is none for what is unknown")
    charsmap = bytes(normalizer.get(2, [b""])[-1])
    check_charsmap(charsmap)
    algorithm = trainer.get(3, [1])[-1]
    if algorithm not in ALGORITHMS:
        raise ValueError("it splits into words or characters, and only Unigram and BPE are read")
    if not normalizer.get(5, [1])[-1]:
        raise ValueError("it leaves spaces as they are, and only models that mark them are read")
    return SentencePiece(
        pieces=[(piece, score) for piece, score, _ in pieces],
        kinds=kinds,
        algorithm=ALGORITHMS[algorithm],
        byte_fallback=bool(trainer.get(35, [0])[-1]),
        charsmap=charsmap,
        prefix=bool(normalizer.get(3, [1])[-1]),
        trims=bool(normalizer.get(4, [1])[-1]),
    )


def _piece(message, number):
    fields = read_fields(message)
    piece = fields.get(1, [b""])[-1]
    if len(piece) > MOST_PIECE:
        raise ValueError(f"its piece {number} is longer than {MOST_PIECE} bytes")
    piece = piece.decode("utf-8")
    (score,) = struct.unpack("<f", fields.get(2, [bytes(4)])[-1])
    if not piece or not math.isfinite(score):
        raise ValueError(f"its piece {number} is empty, or its score is no number")
    return piece, score, fields.get(3, [1])[-1]
