"""The text of a document, its title, and the path of headings above each of its parts.

HTML is read by Python's own parser, Markdown by markdown-it-py, reStructuredText by docutils, and
Python by `ast`. Text of .txt, .rst and .py files stays as it is, so that places in it are those of
the file.
"""

import ast
import html.parser
import re
import typing

from keras_posenc.files.untrusted import quote

OVERLINE = re.compile(r"([^\w\s])\1*\s*")
# Ends of lines to Python, and to docutils.
LINE, RST_LINE = re.compile(r"\r\n?|\n"), re.compile("\r\n?|[\n\x1c-\x1e\x85\u2028\u2029]")
SEPARATOR = " > "  # of the headings in a path
HEADINGS = {f"h{level}": level for level in range(1, 7)}
LEFT_OUT = {"script", "style", "template", "noscript", "svg"}
BLOCKS = set(
    "address article aside blockquote br caption dd div dl dt figcaption figure footer form header "
    "hr li main nav ol option section table tbody tfoot thead tr ul".split()
)
PARAGRAPHS = {"p", "pre", *HEADINGS}
# Tags of what is not shown, which would hide the rest of a document where they do not end.
HIDING = re.compile(rf"<(/?)({'|'.join(LEFT_OUT)}|title|textarea)(?=[\s>])(?![^<>]*/>)", re.I)
# Metadata of static sites at the start of Markdown, and the title in them.
FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\n(?=[\w-]+[ \t]*[:=])(.*?\n)\1[ \t]*(?:\n|$)", re.S)
TITLE = re.compile(r"^title[ \t]*[:=][ \t]*([^\s>|].*)", re.M)


class Document(typing.NamedTuple):
    """A document as it is read.

    `title`: str or None. The first heading. `headings`: list of (start in characters, path of
    headings), rising.
    """

    title: str | None
    text: str
    headings: list


class _Mark(typing.NamedTuple):
    """A heading: where it begins and ends in the text, its level and its words."""

    start: int
    end: int
    level: int
    words: str


def read_structure(name, suffix, content):
    """Reads a document.

    `name`: str. That of the file, without its suffix, which stands for a missing title. `suffix`:
    str, a key of `FORMATS`. `content`: str, that of the file. Returns `Document`. Its paths begin
    with its title. Raises ImportError if the parser of the format is not installed.
    """
    try:
        return FORMATS[suffix](name, content)
    except RecursionError:  # parts that are nested too deeply
        return _plain(name, content)


def title_at(headings, place):
    """The path of headings above a place of a text, or ""."""
    found = ""
    for start, path in headings:
        if start > place:
            break
        found = path
    return found


def with_title(title, passage):
    """A passage behind its title, in which the two are lines."""
    return f"{title}\n{passage}" if title else passage


def headings_of(title, number=0):
    """A title as a list of (start, title): that of a text, or of its parts.

    `title`: None, str, or such a list, in which None and "" are no title. `number`: int. That of
    the text, for an error.
    """
    if title is None or isinstance(title, str):
        return [(0, title)] if title else []
    if isinstance(title, (list, tuple)) and all(
        isinstance(each, (list, tuple)) and [*map(type, each)] == [int, str] for each in title
    ):
        return sorted(map(tuple, title))
    raise TypeError(
        "A title must be a str, or a list of (start in characters, title). Received for text "
        f"{number}: {quote(title)}"
    )


def _plain(name, content):
    return Document(name, content, [(0, name)])


def _of_html(name, content):
    ends = {found[2].lower(): found.start() for found in HIDING.finditer(content) if found[1]}

    def shown(tag):
        return tag[0] if tag.start() <= ends.get(tag[2].lower(), -1) else f"&lt;{tag[0][1:]}"

    parser = _Reader()
    parser.feed(HIDING.sub(shown, content))
    parser.close()
    text, marks = parser.result()
    return _document(name, text, marks, parser.title)


def _of_markdown(name, content):
    try:
        import markdown_it
    except ImportError:
        raise _missing("markdown-it-py", "Markdown") from None
    front = FRONT_MATTER.match(content)
    title = TITLE.search(front[2]) if front else None
    parser = markdown_it.MarkdownIt("commonmark", {"maxNesting": 10**6}).enable("table")
    page = parser.render(content[front.end() if front else 0 :])
    words = html.escape(title[1].strip().strip("\"'")) if title else ""
    return _of_html(name, f"<h1>{words}</h1>{page}")


def _of_rst(name, content):
    try:
        from docutils import frontend, nodes, utils
        from docutils.parsers import rst
    except ImportError:
        raise _missing("docutils", "reStructuredText") from None
    settings = frontend.get_default_settings(rst.Parser)
    settings.report_level, settings.halt_level = 5, 5  # what only Sphinx knows is no error
    settings.raw_enabled = settings.file_insertion_enabled = False
    tree = utils.new_document(name, settings)
    rst.Parser().parse(content, tree)
    starts, marks = _starts(content, RST_LINE), []
    for node in tree.findall(nodes.title):
        level, parent = 0, node.parent
        while parent is not None:
            level += isinstance(parent, nodes.section)
            parent = parent.parent
        if isinstance(node.parent, nodes.section) and node.line:  # not that of a table
            first = max(0, node.line - 2)  # its line is that of the underline
            over = first and OVERLINE.fullmatch(content[starts[first - 1] : starts[first]])
            end = (*starts, len(content))[node.line]
            marks.append(_Mark(starts[first - bool(over)], end, level, node.astext()))
    return _document(name, content, marks)


def _of_python(name, content):
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return _plain(name, content)
    starts, headings = (*_starts(content, LINE), len(content)), [(0, name)]

    def visit(nodes, path):
        for node in nodes:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            inner = f"{path}{SEPARATOR}{node.name}"
            headings.append((starts[first - 1], inner))
            if isinstance(node, ast.ClassDef):
                visit(node.body, inner)
            headings.append((starts[node.end_lineno], path))

    visit(tree.body, name)
    return Document(name, content, _with_text(content, headings))


def _document(name, text, marks, title=None):
    """The document with the paths of these headings."""
    title = marks[0].words if marks else title or name
    headings, above = [(0, title)], []
    last = 0
    for mark in marks:
        above = [each for each in above if each.level < mark.level] + [mark]
        words = [each.words for each in above]
        path = SEPARATOR.join(words if words[0] == title else [title, *words])
        # A heading directly below another begins no part of its own.
        if not text[last : mark.start].strip():
            headings[-1] = (headings[-1][0], path)
        else:
            headings.append((mark.start, path))
        last = mark.end
    return Document(title, text, headings)


def _with_text(text, headings):
    """The headings that have text before the next one."""
    kept = []
    for place, (start, path) in enumerate(headings):
        end = headings[place + 1][0] if place + 1 < len(headings) else len(text)
        if text[start:end].strip():
            kept.append((start, path))
    return kept or headings[:1]


def _starts(content, line):
    """Where lines start, by the pattern of their ends."""
    return [0, *(found.end() for found in line.finditer(content))]


def _missing(package, what):
    return ImportError(f"{what} needs {package}: pip install 'keras_posenc[documents]'.")


class _Reader(html.parser.HTMLParser):
    """The text of HTML, block by block, and its headings."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.title, self._parts, self._length, self._marks = None, [], 0, []
        self._out, self._pre, self._heading, self._in_title = 0, 0, None, False

    def handle_starttag(self, tag, attributes):
        self._in_title = tag == "title" and not self._out
        if tag in LEFT_OUT:
            self._out += 1
        elif tag in PARAGRAPHS or tag in BLOCKS:
            self._break(2 if tag in PARAGRAPHS else 1)
            self._pre += tag == "pre"
            if tag in HEADINGS:
                self._heading = (HEADINGS[tag], len(self._parts), self._length)
        elif tag in ("td", "th"):
            self._add(" ")

    def handle_endtag(self, tag):
        self._in_title = False
        if tag in LEFT_OUT:
            self._out = max(0, self._out - 1)
        elif tag in PARAGRAPHS or tag in BLOCKS:
            if tag in HEADINGS and self._heading is not None:
                level, first, start = self._heading
                words = " ".join("".join(self._parts[first:]).split())
                if words:
                    self._marks.append(_Mark(start, self._length, level, words))
                self._heading = None
            self._pre = max(0, self._pre - (tag == "pre"))
            self._break(2 if tag in PARAGRAPHS else 1)

    def handle_data(self, data):
        if self._in_title:
            self.title = self.title or " ".join(data.split()) or None
        elif not self._out:
            self._add(data if self._pre else re.sub(r"\s+", " ", data))

    def parse_marked_section(self, i, report=1):
        """Leaves out <![any[ as browsers do; Python's raises an error unless it is CDATA."""
        return self.parse_bogus_comment(i, report)

    def result(self):
        """(text, marks)"""
        return "".join(self._parts).rstrip(), self._marks

    def _add(self, data):
        last = self._parts[-1][-1] if self._parts else "\n"
        if last.isspace() and not self._pre:
            data = data.lstrip(" ")
        if data:
            self._parts.append(data)
            self._length += len(data)

    def _break(self, lines):
        """Ends a line, or a paragraph."""
        if not self._parts:
            return
        tail = "".join(self._parts[-2:])[-2:]
        missing = lines - (len(tail) - len(tail.rstrip("\n")))
        if missing > 0:
            self._parts.append("\n" * missing)
            self._length += missing


FORMATS = {
    ".txt": _plain,
    ".md": _of_markdown,
    ".markdown": _of_markdown,
    ".html": _of_html,
    ".htm": _of_html,
    ".rst": _of_rst,
    ".py": _of_python,
}
