"""Columns as in CoNLL: a line is a word with its tag, a blank line ends a text."""

import itertools
import re
import typing

from keras_posenc.files.untrusted import quote
from keras_posenc.text.documents import is_word
from keras_posenc.text.tables import lines_of

# Tags of entities. A tag of this form is believed even where it occurs once.
SCHEME = re.compile("O|[BIESLMU]-.+")
# What a first line has in its first and last fields if it names the columns.
WORD_COLUMN = re.compile("form|text|tokens?|words?", re.I)
TAG_COLUMN = re.compile("(ner|pos)?[-_]?(tag|label)s?|ner|ne-.+|[ux]?pos|bio|iob|misc", re.I)


# The columns of CoNLL-U, and its numbers of words: 2-3 is written as one but is two, 3.1 is none.
CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
NUMBER = re.compile("[0-9]+([-.][0-9]+)?")


class Line(typing.NamedTuple):
    """A line that is not blank, in fields."""

    number: int
    content: str
    tabs: bool  # what separates the fields
    fields: list

    @property
    def shape(self):
        return self.tabs, len(self.fields)

    @property
    def tag(self):
        return self.fields[-1]


def read_columns(path, content, with_tags):
    """Reads the words and tags of a file in columns.

    Columns are separated by tabs, or by ASCII spaces in a line without tabs: any other space, as in
    10\u00a0000, is part of its word. Comments ("# sent_id = 1"), lines of -DOCSTART- and a line of
    column names are not words.

    `path`: the file, for errors. `content`: str, what it holds. `with_tags`: whether the last
    column has tags. Returns `(texts, labels, lines)`: lists of words, lists of tags, and the line
    numbers where the texts begin.
    """
    blocks = [block for block in _blocks(content) if block]
    words = _words_of([line for block in blocks for line in block])
    texts = [[line for line in block if line.number in words] for block in blocks]
    texts = [text for text in texts if text]
    for line in (line for text in texts for line in text):
        _check(path, line, with_tags)
    if not texts:
        raise ValueError(f"{path} has no word.")
    _refuse_counted(path, texts)
    return (
        [[line.fields[0] for line in text] for text in texts],
        [[line.tag for line in text] for text in texts],
        [text[0].number for text in texts],
    )


def read_conllu(path, content, column):
    """Reads the words of a file in CoNLL-U, and one of its columns as their tags.

    A word of several, such as 2-3, is read as these, since they have the tags; empty nodes, such as
    3.1, are not words. A space in a word becomes a no-break space.

    Otherwise as `read_columns`. `column`: str, one of `CONLLU`; None or False for upos.
    """
    column = column or "upos"
    if column not in CONLLU[2:]:
        raise ValueError(
            f"{path} has no column of tags {quote(column)}; there are {', '.join(CONLLU[2:])}."
        )
    place, blocks = CONLLU.index(column), [[]]
    for number, line in lines_of(content):
        fields = line.split("\t")
        if not line.strip():
            blocks.append([])
        elif not line.startswith("#"):
            if len(fields) != len(CONLLU) or not NUMBER.fullmatch(fields[0]):
                raise ValueError(
                    f"{path}, line {number}: {quote(line)} is no line of CoNLL-U, ten columns "
                    "with tabs between, the number of the word first."
                )
            word, tag = fields[1].replace(" ", "\u00a0"), fields[place]
            if fields[0].isdigit():
                if not is_word(word) or not tag:
                    raise ValueError(f"{path}, line {number}: no word, or no {column}.")
                blocks[-1].append((word, tag, number))
    texts = [list(zip(*block, strict=True)) for block in blocks if block]
    if not texts:
        raise ValueError(f"{path} has no word.")
    words, tags, numbers = zip(*texts, strict=True)
    return list(map(list, words)), list(map(list, tags)), [first for first, *_ in numbers]


def _blocks(content):
    """Lists of the lines between blank lines and lines of -DOCSTART-."""
    blocks = [[]]
    for number, text in lines_of(content):
        tabs = "\t" in text
        fields = [field.strip(" ") for field in text.split("\t" if tabs else " ")]
        fields = fields if tabs else list(filter(None, fields))
        if not text.strip() or fields[0].casefold().startswith("-docstart-"):
            blocks.append([])
        else:
            blocks[-1].append(Line(number, text, tabs, fields))
    return blocks


def _words_of(lines):
    """The numbers of the lines that are words."""
    sure = [line for line in lines if not line.fields[0].startswith("#")]
    if sure and _names_columns(sure):
        sure = sure[1:]
    shapes, tags = {line.shape for line in sure}, {line.tag for line in sure}
    has_scheme = all(map(SCHEME.fullmatch, tags))

    def is_comment(line):
        """A comment seldom has the shape of the words; where it has, as "# sent_id = 1" among four
        columns, its end is no tag."""
        if len(line.fields) == 1 and line.content != "#":
            return False
        if line.shape not in shapes or " " in line.fields[0]:
            return True
        if line.tabs:
            return False
        if line.tag in tags or line.tag == line.fields[0] or SCHEME.fullmatch(line.tag):
            return False
        return has_scheme or any("=" in field for field in line.fields[1:])

    doubtful = [line for line in lines if line.fields[0].startswith("#")]
    return {line.number for line in (*sure, *itertools.filterfalse(is_comment, doubtful))}


def _names_columns(lines):
    """Whether the first line names the columns: its last field is the tag of no other line."""
    first = lines[0]
    return (
        len(first.fields) > 1
        and bool(WORD_COLUMN.fullmatch(first.fields[0]) and TAG_COLUMN.fullmatch(first.tag))
        and first.tag not in {line.tag for line in lines[1:]}
    )


def _check(path, line, with_tags):
    where, fields = f"{path}, line {line.number}", line.fields
    if with_tags and len(fields) < 2:
        raise ValueError(f"{where}: one column, {quote(line.content)}: give word and tag.")
    if not is_word(fields[0]) or not line.tag:
        raise ValueError(f"{where}: {quote(line.content)} is not a word and its tag.")


def _refuse_counted(path, texts):
    """Refuses a first column that counts the words of each text, as in CoNLL-U and GermEval."""
    first = [[line.fields[0] for line in text] for text in texts]
    numbers = [word for text in first for word in text]
    counted = all(text[0] in ("0", "1", "1-2") for text in first) and max(map(len, first)) > 2
    if counted and all(re.fullmatch(r"\d+([-.]\d+)?", word) for word in numbers):
        raise ValueError(
            f"{path}, line {texts[0][0].number}: the first column counts the words. Leave the "
            "columns of the words and of their tags, as `cut -f 2,4` does, or name a file of "
            "Universal Dependencies .conllu."
        )
