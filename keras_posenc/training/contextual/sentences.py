"""The sentences of a text, and the words in them."""

import re

# The end of a sentence with the quotes that close it, before a space; a full stop of Chinese or
# Japanese, which no space follows; a blank line.
_END = re.compile(r"""(?:[.!?…]["'”’»)\]]*(?=\s)|[。！？][”’」』）]*|\n[ \t\r]*(?=\n))\s*""")
_ABBREVIATION = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|St|Prof|No|vs|[A-Z])\.\s*$")
WORD = re.compile(r"[^\W\d_]+(?:[-’'][^\W\d_]+)*")


LONGEST = 20  # words


def sentences_of(text):
    """Cuts a text into its sentences, stripped, and long ones, such as text without full stops,
    into parts of at most 20 words, which end at a comma if there is one in the second half.

    Example:

    >>> sentences_of("Ada met Mr. Smith. She left!  He stayed.")
    ['Ada met Mr. Smith.', 'She left!', 'He stayed.']
    """
    return [part for sentence in _sentences(text) for part in _parts(sentence.split())]


def _parts(words):
    while len(words) > LONGEST:
        ends = [i + 1 for i in range(LONGEST // 2, LONGEST) if words[i][-1] in ",;:—"]
        last = ends[-1] if ends else LONGEST
        yield " ".join(words[:last])
        words = words[last:]
    if words:
        yield " ".join(words)


def _sentences(text):
    found, start = [], 0
    for end in _END.finditer(text):
        if not _ABBREVIATION.search(text[max(start, end.start() - 8) : end.end()]):
            found.append(text[start : end.end()])
            start = end.end()
    return [*found, text[start:]]
