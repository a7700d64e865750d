"""How much a tokenizer file can ask for: memory, and longer texts than it is given."""

import base64
import binascii
import re

from keras_posenc.untrusted import parse_json

MOST = 64  # times; "a" -> "aa" sixty times over would be 2^60


def growth(normalizer):
    """How many characters the steps of a normalizer can make of one, at most.

    Args:
        normalizer: of `tokenizers`, or None.

    Returns:
        float.
    """
    if normalizer is None:
        return 1.0
    factor, steps = 1.0, [parse_json(normalizer.__getstate__())]
    while steps:
        step = steps.pop()
        steps += step.get("normalizers", [])
        factor *= _growth(step)
    return factor


def _growth(step):
    """Of one step. The tables of SentencePiece write at most 18 characters for one, as Unicode's
    own compatible forms do; once they have, nothing is left to write out."""
    if step["type"] == "Prepend":
        return 1.0 + len(step["prepend"])
    if step["type"] == "Precompiled":
        return 4.0
    if step["type"] != "Replace":
        return 1.0
    pattern, length = step["pattern"], len(step["content"])
    # A regular expression may match one character, or none.
    replaced = len(pattern.get("String", "x"))
    return max(1.0, length / replaced) if replaced else 1.0 + length


def check_charsmap(charsmap):
    """Checks that a table of SentencePiece is as long as it says: Rust takes the memory at once.

    Args:
        charsmap: bytes, with the length of a part in the first four.

    Raises:
        ValueError: it is not.
    """
    said, there = int.from_bytes(charsmap[:4], "little"), max(len(charsmap) - 4, 0)
    if said > there:
        raise ValueError(
            f"the table of its normalization says that a part of it takes {said} bytes, and has "
            f"{there}"
        )


def check_charsmaps(data):
    """Checks those in a tokenizer.json, before it is parsed.

    Args:
        data: bytes of the file.

    Raises:
        ValueError: one is not as long as it says.
    """
    # JSON may write a letter by its number, and a slash with a backslash before it.
    letters = re.sub(
        rb"\\u00([2-7][0-9a-fA-F])", lambda match: bytes.fromhex(match[1].decode()), data
    )
    letters = letters.replace(rb"\/", b"/")
    for match in re.finditer(rb'"precompiled_charsmap"\s*:\s*"([^"]*)"', letters):
        try:
            charsmap = base64.b64decode(match[1])
        except binascii.Error:
            continue  # Rust refuses it too
        check_charsmap(charsmap)
