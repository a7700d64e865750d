"""Writes the pages of the gallery and of the families, so that a code host shows them as well.

Run `python docs/generate/pages.py` after a change; tests/test_docs.py compares.
"""

import pathlib

import families
import gallery

DOCS = pathlib.Path(__file__).resolve().parents[1]


def pages():
    """dict place below docs/ -> Markdown."""
    made = {f"gallery/{name}.md": gallery.page(name) for name in gallery.PAGES}
    return made | {f"families/{name}.md": families.page(name) for name in families.names()}


def main():
    written = pages()
    for name in gallery.PAGES:
        written |= {f"gallery/{file}": svg for file, svg in gallery.pictures(name).items()}
    for place, text in written.items():
        (DOCS / place).parent.mkdir(exist_ok=True)
        (DOCS / place).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
