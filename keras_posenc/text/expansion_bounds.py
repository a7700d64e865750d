"""How much longer than it was a step of a tokenizer can make a text."""

import base64
import binascii
import math
import re

from keras_posenc.files.untrusted import quote

MOST = 64  # times; "a" -> "aa" sixty times over would be 2^60
STEPS = ("normalizers", "pretokenizers", "decoders", "processors")  # the keys of a Sequence


def growth(part):
    """How many characters a normalizer, pre-tokenizer or decoder can make of one, at most.

    `part`: as in tokenizer.json: an object, or None.
    """
    return math.prod(map(_growth, steps_of(part)))


def steps_of(part):
    """The steps of a part of tokenizer.json, in any order."""
    parts = [] if part is None else [part]
    while parts:
        step = parts.pop()
        if not isinstance(step, dict) or not isinstance(step.get("type"), str):
            raise ValueError(f"a part of it is {quote(step)}, not an object with a type")
        yield step
        for key in STEPS:
            inner = step.get(key, [])
            if not isinstance(inner, list):
                raise ValueError(f"its {key} are {quote(inner)}, not a list")
            parts += inner


def _growth(step):
    """Of one step, by what it holds: the library does not look at the type of everything.

    Unicode's compatible forms (NFKD) write at most 18 characters for one; once they have, nothing
    is left to write out, so that they are not counted.
    """
    factor = 1.0
    if "prepend" in step:
        factor += _length(step["prepend"])
    if "precompiled_charsmap" in step:
        factor *= max(1, charsmap_growth(_decoded(step["precompiled_charsmap"])))
    if "content" in step and "pattern" in step:
        pattern, length = step["pattern"], _length(step["content"])
        # A regular expression may match one character, or none.
        is_string = isinstance(pattern, dict) and pattern.keys() == {"String"}
        replaced = _length(pattern["String"]) if is_string else 1
        factor *= max(1.0, length / replaced) if replaced else 1.0 + length
    # Two characters per byte; the mark of a space in front of each word, or the space itself;
    # a space in place of nothing.
    doubles = step["type"] in ("ByteLevel", "Metaspace", "WordPiece")
    if doubles or "" in (step.get("suffix"), step.get("word_delimiter_token")):
        factor *= 2.0
    return factor


def _length(text):
    if not isinstance(text, str):
        raise ValueError(f"a part of it has {quote(text)} in place of a text")
    return len(text)


def _decoded(charsmap):
    try:
        return base64.b64decode(charsmap, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise ValueError("the table of its normalization is not in base64") from None


def charsmap_growth(charsmap):
    """How many characters the table of a SentencePiece normalizer writes for one, at most.

    `charsmap`: bytes: the length of a search tree, the tree, and all that it can write, with zeros
    between.
    """
    tree, length = int.from_bytes(charsmap[:4], "little"), max(len(charsmap) - 4, 0)
    if tree > length:
        raise ValueError(
            f"the table of its normalization declares that a part of it takes {tree} bytes, and "
            f"has {length}"
        )
    most = 0
    for match in re.finditer(rb"[^\0]+", memoryview(charsmap)[4 + tree :]):
        if match.end() - match.start() > most:
            most = max(most, len(re.sub(rb"[\x80-\xbf]", b"", match[0])))
    return most


def check_charsmap(charsmap):
    """Checks the table of a SentencePiece model. `charsmap`: bytes, as in `charsmap_growth`."""
    most = charsmap_growth(charsmap)
    if most > MOST:
        raise ValueError(
            f"the table of its normalization writes {most} characters for one, more than {MOST}"
        )
