"""How much longer a tokenizer.json can make a text before its tokens are looked up."""

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
    found, steps = 1.0, [parse_json(normalizer.__getstate__())]
    while steps:
        step = steps.pop()
        steps += step.get("normalizers", [])
        found *= _growth(step)
    return found


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
