"""Tags of tokens: of words, of stretches of characters, or of ids."""

import re

import numpy as np

from keras_posenc.files.untrusted import quote
from keras_posenc.text.labels.protocol import Labels, class_id, class_ids
from keras_posenc.text.words import CHINESE

# Words as in files of tags: Chinese characters and punctuation marks are each one. A full stop or
# hyphen within a word, as in 20.5, belongs to it, and so do accents and joiners.
_INSIDE = r"[^\s!-/:-@\[-`{-~¡-¿،؛؟।॥‐-‧‰-⁞、-〿！-／：-＠［-｀｛-･]"
_WORD = re.compile(rf"{CHINESE}|(?:(?!{CHINESE}){_INSIDE})+(?:[-.]{_INSIDE}+)*|\S")


class NextTokenLabels(Labels):
    """The next token at each position, as language models and UniLM predict it.

    Targets are (B, T) int32. The weights (B, T) float32 are 0 where no token follows, or one of the
    next document of a row that holds several. A text is one row, truncated or in windows as in
    `TextBatches`; `CausalBatches` cuts long texts into rows of full length instead.

    Args:
        segment: int or None. Only tokens of this segment are to be predicted. In UniLM's "text,
            then its title", segment 1 is the title.

    Example:

    >>> pair = ([101, 7, 102, 8, 9, 102], [0, 0, 0, 1, 1, 1])
    >>> _, targets, weights = TextBatches([pair], NextTokenLabels(segment=1), pad_to=1)[0]
    >>> targets[weights > 0].tolist()
    [8, 9, 102]
    """

    of_tokens = True

    def __init__(self, segment=None):
        super().__init__()
        self.segment = segment

    def encode(self, texts, rows):
        return [self._entry(row) for row in rows]

    def _entry(self, row):
        following = np.asarray(row.segment_ids[1:])
        counts = np.ones(len(following)) if self.segment is None else following == self.segment
        if row.position_ids is not None:
            counts = counts * (np.asarray(row.position_ids[1:]) != 0)
        return np.asarray(row.token_ids[1:], "int32"), counts.astype("float32")

    def pad(self, entries, width):
        return pad_places(entries, width)


def pad_places(entries, width):
    """Pads `(targets, weights)` of rows, (n,) each, with 0 to (B, `width`) int32 and float32."""
    targets = np.zeros((len(entries), width), "int32")
    weights = np.zeros((len(entries), width), "float32")
    for row, (target, weight) in enumerate(entries):
        targets[row, : len(target)] = target
        weights[row, : len(weight)] = weight
    return targets, weights


OUTSIDE = "O"


class TagLabels(Labels):
    """A tag for each word, or spans of characters with their kinds, for `token_classifier`.

    Targets are (B, T) int32, weights (B, T) float32. The first token of a word has the tag of the
    word and weight 1. Everything else has weight 0: further tokens of a word (which repeat its tag,
    B- turned into I-), special tokens and padding (0). So compile with `weighted_metrics`. For a
    mean over the tags alone, use a loss of `reduction="mean_with_sample_weight"`.

    Args:
        values: list or None. One entry per text; None if not known. For a list of words, or of ids,
            the entry is a list with the tag of each. For a str, it is a list of `(start, end,
            kind)` in characters, which become B-kind, I-kind and O, all of weight 1.
        classes: list of str or None. The tags in the order of their ids; None takes
            `tag_names(values)`.

    Example:

    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "Ada", "Love", "##lace", "wrote"]
    >>> tokenizer = Tokenizer(vocabulary={word: i for i, word in enumerate(words)})
    >>> labels = TagLabels([["B-PER", "I-PER", "O"]])
    >>> text = ["Ada", "Lovelace", "wrote"]
    >>> _, tags, weights = TextBatches([text], labels, tokenizer, pad_to=1)[0]
    >>> [labels.classes[tag] for tag in tags[weights > 0]]
    ['B-PER', 'I-PER', 'O']
    """

    of_tokens = needs_offsets = True

    def __init__(self, values=None, classes=None):
        super().__init__(values)
        for number, entry in enumerate(values or ()):
            if isinstance(entry, str) or not all(map(_is_tag_or_span, entry)):
                raise TypeError(
                    f"Text {number} has the tags {quote(entry)}: give a list of tags, or of "
                    "(start, end, kind)."
                )
        self.classes = tag_names(values or ()) if classes is None else list(classes)
        self._ids = class_ids(self.classes)

    def encode(self, texts, rows):
        if self.values is None:
            return None
        places = [self._of_places(number, text) for number, text in enumerate(texts)]
        return [self._entry(row, *places[row.text]) for row in rows]

    def _of_places(self, number, text):
        """Where the words or spans of a text are, the ids of their first and further tokens, and
        whether all tokens count."""
        entry, spans = self.values[number], isinstance(text, str)
        if spans:
            entry = check_spans(number, text, entry)
            starts, ends = [start for start, _, _ in entry], [end for _, end, _ in entry]
            tags = [f"B-{kind}" for _, _, kind in entry]
        else:
            starts, ends = word_places(number, text)
            tags = check_tags(number, entry, len(starts))
        first = [class_id(self._ids, number, tag, "tag") for tag in tags]
        further = [
            self._ids.get(f"I-{tag[2:]}", first_id) if tag.startswith("B-") else first_id
            for tag, first_id in zip(tags, first, strict=True)
        ]
        return np.array(starts), np.array(ends), first, further, spans

    def _entry(self, row, starts, ends, first, further, all_count):
        words, is_first = words_of(row, starts, ends)
        outside = self._ids.get(OUTSIDE, 0)
        targets = [
            outside if word < 0 else (first if new else further)[word]
            for word, new in zip(words, is_first, strict=True)
        ]
        counts = row.offsets[:, 0] >= 0 if all_count else is_first
        return np.array(targets, "int32"), counts.astype("float32")

    def class_counts(self, entries):
        found = np.zeros(len(self.classes))
        for targets, counts in entries:  # one by one: they may be on disk
            found += np.bincount(targets, weights=counts, minlength=len(found))
        return found

    def pad(self, entries, width):
        return pad_places(entries, width)


def words_of(row, starts, ends):
    """The words, or spans, to which the tokens of a row belong.

    `row`: with offsets. `starts, ends`: (W,) ints, increasing, of the words in the text. Returns
    (T,) ints, -1 for a token of no word, and (T,) bools: whether a token is the first of its word.
    What a window shows of a word begun in the window before has no first token.
    """
    sides, begins, stops = row.offsets.T
    words = np.searchsorted(ends, begins, side="right")
    inside = (sides >= 0) & (words < len(ends))
    inside[inside] = (starts[words[inside]] < stops[inside]) & (begins < stops)[inside]
    words = np.where(inside, words, -1)
    is_first = inside & (np.diff(words, prepend=-1) != 0)
    if row.window:
        head = int(np.argmax(sides >= 0))
        if is_first[head]:
            is_first[head] = begins[head] <= starts[words[head]]
    return words, is_first


class WordsOf(list):
    """The words of a str, and their `places` in it: starts and ends, two arrays (W,)."""

    def __init__(self, text):
        found = list(_WORD.finditer(text))
        super().__init__(word[0] for word in found)
        self.places = np.array([word.span() for word in found], int).reshape(-1, 2).T


def word_places(number, text):
    """Starts and ends of the words of a text that is a list of words, or of ids.

    Words are joined by a space; an id is one character.
    """
    if isinstance(text, tuple) and len(text) == 2 and isinstance(text[0], str):
        raise TypeError(f"Text {number} is a pair; tags are of one text: a str or a list of words.")
    text = text[0] if isinstance(text, tuple) else text
    lengths = [len(word) + 1 if isinstance(word, str) else 1 for word in text]
    ends = np.cumsum(lengths)
    return ends - lengths, ends - [isinstance(word, str) for word in text]


def check_tags(number, tags, count):
    """The tags of `count` words, or ValueError."""
    if any(not isinstance(tag, str) for tag in tags):
        raise ValueError(
            f"Text {number} has spans of characters, but is a list of words: give one str."
        )
    if len(tags) != count:
        raise ValueError(f"Text {number} has {count} words but {len(tags)} tags: give one to each.")
    return tags


def check_spans(number, text, spans):
    """The spans of a text in their order, without the spaces at their ends."""
    if any(isinstance(span, str) for span in spans):
        raise ValueError(
            f"Text {number} has tags, but is one str: give its words as a list, or spans "
            "(start, end, kind) in characters."
        )
    if wrong := [span for span in spans if not _is_tag_or_span(span)]:
        raise ValueError(
            f"Text {number} has the span {quote(wrong[0])}: give (start, end, kind), two ints in "
            "characters and a str."
        )
    trimmed, before = [], (0, 0, None)
    for span in sorted(map(tuple, spans)):
        start, end, kind = span
        if not 0 <= start < end <= len(text) or not text[start:end].strip():
            raise ValueError(
                f"Text {number} has the span {quote(span)}, of no character: it has "
                f"{len(text)}, from 0 to {len(text) - 1}, and `end` is after the last."
            )
        if start < before[1]:
            raise ValueError(
                f"Text {number} has spans that meet, {quote(before)} and "
                f"{quote(span)}: a token has one tag."
            )
        before = span
        content = text[start:end]
        end -= len(content) - len(content.rstrip())
        trimmed.append((start + len(content) - len(content.lstrip()), end, kind))
    return trimmed


def tag_names(values):
    """All tags of examples: O first, then by kind.

    Args:
        values: as `TagLabels` takes them.

    Returns:
        list of str.

    Example:

    >>> tag_names([["O", "B-PER"], [(0, 3, "LOC")]])
    ['O', 'B-LOC', 'I-LOC', 'B-PER']
    """
    names = set()
    for entry in values:
        for each in entry:
            kinds = [each] if isinstance(each, str) else [OUTSIDE, f"B-{each[2]}", f"I-{each[2]}"]
            names.update(kinds)
    return sorted(names, key=lambda name: (name != OUTSIDE, name.partition("-")[::-1]))


def _is_tag_or_span(each):
    if isinstance(each, str):
        return True
    try:
        start, end, kind = each
    except (TypeError, ValueError):
        return False
    whole = isinstance(start, (int, np.integer)) and isinstance(end, (int, np.integer))
    return whole and isinstance(kind, str)
