"""Two English Bibles verse by verse: Tyndale's of about 1530, and the King James Version.

Both come inside PyPI packages, as modules whose text and places of verses are literals; these are
read without importing them. Tyndale translated the New Testament, the five books of Moses and
Jonah, and much of the later version is his: a pair is often old and new spelling of the same words,
and sometimes another translation. Both texts are in the public domain.
"""

import ast
import functools

from benchmarks.shared.data import package_file

OLD, NEW = (
    package_file(f"pythonbible-{name}", f"pythonbible_{name}/plain_text_readers_bible.py")
    for name in ("tyn", "kjv")
)
# Whole books are held out, for the first three gospels share sentences: the letters from James to
# Jude, and the gospel of John.
VALIDATION, TEST = range(59, 66), (43,)


def verses(path):
    """Number of each verse, book * 1,000,000 + chapter * 1,000 + verse -> its text."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    (call,) = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    text, starts, ends = map(ast.literal_eval, call.args[1:4])
    # Brackets mark words that the original has not.
    return {
        number: " ".join(text[start : ends[number]].replace("[", "").replace("]", "").split())
        for number, start in starts.items()
    }


@functools.cache
def pairs(longest=120):
    """Part -> list of (old, new): the verses of at most `longest` characters in both."""
    old, new = verses(OLD), verses(NEW)
    found = {"train": [], "validation": [], "test": []}
    for number, text in old.items():
        pair = text, new.get(number, "")
        if all(pair) and max(map(len, pair)) <= longest:
            book = number // 1_000_000
            part = "test" if book in TEST else "validation" if book in VALIDATION else "train"
            found[part].append(pair)
    return found
