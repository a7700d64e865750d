"""What a tokenizer.json may ask for, checked before the library reads it.

The library bounds nothing: a file of some kilobytes can take all memory, or all time, when it is
read or with the first text.
"""

import os

from keras_posenc.files.untrusted import parse_json, quote
from keras_posenc.text.added import MOST_ADDED
from keras_posenc.text.expansion_bounds import MOST, growth, steps_of

MOST_LISTS = 2**22  # and objects; merges and pieces may be lists, of 100 bytes each in Python
MOST_TOKENS = 2**20  # of a vocabulary; the largest have 2^19
MOST_MERGES = 2**21
MOST_PIECE = 2**10  # characters of a token; the library's search tree is as deep
MOST_BRANCHES = 2**21  # of that tree, 350 bytes each; the largest vocabularies need about 2^20
MOST_STEPS = 2**7  # of a part: each runs over every text; real tokenizers have up to twenty
MOST_SPECIAL_TOKENS = 2**10  # tokens written around a text
MOST_AFFIX = 2**6  # characters that mark a piece of a word; written again for every piece tried
LAYOUTS = {"single": ["A"], "pair": ["A", "B"]}  # what a post-processor writes, once each
MOST_WORD = 2**10  # characters of a word whose pieces are all tried; BERT has 100
MOST_PATTERN = 2**12  # characters of a regular expression


def check_tokenizer(data):
    """Checks a tokenizer.json. `data`: bytes of the file."""
    _at_most("it has {} lists and objects", data.count(b"[") + data.count(b"{"), MOST_LISTS)
    whole = parse_json(data)
    if not isinstance(whole, dict):
        raise ValueError(f"it holds a {type(whole).__name__}")
    get = whole.get
    longer = growth(get("normalizer")) * growth(get("pre_tokenizer"))
    _at_most("its normalizer and pre_tokenizer can make a text {:.3g} times as long", longer, MOST)
    longer = growth(get("decoder"))
    _at_most("its decoder can make a text {:.3g} times as long", longer, MOST)
    for name in ("normalizer", "pre_tokenizer", "decoder", "post_processor"):
        steps = list(steps_of(get(name)))
        _at_most(f"its {name} has {{}} steps", len(steps), MOST_STEPS)
        for step in steps if name != "post_processor" else ():
            _check_lengths(f"a pattern of its {name}", step.get("pattern"), MOST_PATTERN)
    written = sum(_written(step) for step in steps_of(get("post_processor")))
    _at_most("its post_processor writes {} tokens around a text", written, MOST_SPECIAL_TOKENS)
    _check_lengths("a token of its post_processor", get("post_processor"), MOST_PIECE)
    _check_added(get("added_tokens"))
    _check_model(get("model"))


def _at_most(sentence, value, most):
    if value > most:
        raise ValueError(f"{sentence.format(value)}, more than {most}")


def _check_lengths(name, value, most):
    """Checks all texts in a JSON value."""
    values = [value]
    while values:
        value = values.pop()
        if isinstance(value, str):
            _at_most(f"{name} has {{}} characters", len(value), most)
        elif isinstance(value, (list, dict)):
            values += value
            values += value.values() if isinstance(value, dict) else ()


def _written(step):
    """How many tokens a step of the post-processor writes around a text or two, at most."""
    tokens = _object(step.get("special_tokens", {}), "special_tokens")
    # The library writes as many of both as there are, though they should be as many.
    counts = {
        name: max(len(_list(_object(t, name).get(key), key)) for key in ("ids", "tokens"))
        for name, t in tokens.items()
    }
    most = 0
    for layout in LAYOUTS:
        texts, count = [], 0
        for piece in _list(step.get(layout, []), layout):
            ((kind, value),) = _object(piece, layout, 1).items()
            name = _object(value, kind).get("id")
            if kind == "Sequence":
                texts.append(name)
            else:
                count += counts.get(name, 0) if isinstance(name, str) else 0
        if layout in step and sorted(map(str, texts)) != LAYOUTS[layout]:
            raise ValueError(
                f"its post_processor writes the texts {quote(texts)} for {layout!r}, not "
                f"{LAYOUTS[layout]}"
            )
        most = max(most, count)
    return most + ("sep" in step) * 3 + ("cls" in step)


def _object(value, name, length=None):
    if not isinstance(value, dict) or length not in (None, len(value)):
        raise ValueError(f"{quote(name)} has {quote(value)} in place of an object")
    return value


def _list(value, name):
    if not isinstance(value, list):
        raise ValueError(f"{quote(name)} has {quote(value)} in place of a list")
    return value


def _check_added(tokens):
    if tokens is None:
        return
    _at_most("it adds {} tokens", len(_list(tokens, "added_tokens")), MOST_ADDED)
    _check_lengths("an added token", tokens, MOST_PIECE)


def _check_model(model):
    if not isinstance(model, dict):  # the library reports what it lacks
        return
    vocabulary, merges = model.get("vocab"), model.get("merges")
    if isinstance(vocabulary, (list, dict)):
        _at_most("its model has {} tokens", len(vocabulary), MOST_TOKENS)
        tokens = (t[0] if isinstance(t, list) and t else t for t in vocabulary)
        longest = max((len(token) for token in tokens if isinstance(token, str)), default=0)
        _at_most("a token of its model has {} characters", longest, MOST_PIECE)
        if isinstance(vocabulary, list):
            check_tree(t[0] for t in vocabulary if isinstance(t, list) and t)
    if isinstance(merges, list):
        _at_most("its model has {} merges", len(merges), MOST_MERGES)
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        _check_lengths(f"{name} of its model", model.get(name), MOST_AFFIX)
    longest = model.get("max_input_chars_per_word")
    if isinstance(longest, (int, float)):
        _at_most("max_input_chars_per_word of its model is {}", longest, MOST_WORD)


def check_tree(pieces):
    """Checks the size of the search tree that the library makes of a Unigram model's pieces."""
    pieces = [piece.encode("utf-8", "replace") for piece in pieces if isinstance(piece, str)]
    if sum(map(len, pieces)) <= MOST_BRANCHES:
        return
    branches, before = 0, b""
    for piece in sorted(pieces):
        branches += len(piece) - len(os.path.commonprefix([before, piece]))
        before = piece
    _at_most("the search tree of its pieces has {} branches", branches, MOST_BRANCHES)
