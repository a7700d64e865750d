"""Where the project is hosted, and what names it: badges, links, commands of installation.

`ADDRESS` is the only place. After a change `python docs/generate/repository.py` brings the other
files in step, which tests/test_docs.py compares. Without an address they speak of a clone.
"""

import functools
import json
import pathlib
import re

# Such as "https://github.com/OWNER/NAME"; empty while the project has no public address.
ADDRESS = ""

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACE = "<this repository>"
BADGE = re.compile(r"^\[!\[Open in Colab\].*\n", re.MULTILINE)
LICENCE = re.compile(r"^\[!\[Licence.*\n", re.MULTILINE)
COLAB = "https://colab.research.google.com"


def badge(address, notebook):
    """The line that opens a notebook in Colab, which reads from GitHub; else empty."""
    _, github, name = address.partition("github.com/")
    link = f"{COLAB}/github/{name}/blob/main/notebooks/{notebook}"
    return f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]({link})\n" if github else ""


def cloned(text, address):
    """A page with the command to clone the project."""
    return re.sub(r"git clone .*", f"git clone {address or PLACE}", text)


def readme(text, address):
    text = cloned(BADGE.sub("", text), address)
    return LICENCE.sub(
        lambda line: line[0] + badge(address, "02_encodings_side_by_side.ipynb"), text
    )


def setup(text, address):
    """setup.cfg: the links of the package's page in an index."""
    text = re.sub(r"^url = .*\nproject_urls =\n(    .*\n)*", "", text, flags=re.MULTILINE)
    if not address:
        return text
    links = {
        "Source": address,
        "Issues": f"{address}/issues",
        "Changelog": f"{address}/blob/main/CHANGELOG.md",
        "Documentation": f"{address}/blob/main/docs/index.md",
    }
    lines = [f"    {name} = {link}\n" for name, link in links.items()]
    block = f"url = {address}\nproject_urls =\n{''.join(lines)}"
    return text.replace("license_expression", f"{block}license_expression", 1)


def site(text, address):
    """mkdocs.yml: the link to the repository."""
    text = re.sub(r"^repo_(url|name): .*\n", "", text, flags=re.MULTILINE)
    lines = f"repo_url: {address}\nrepo_name: keras_posenc\n" if address else ""
    return text.replace("edit_uri", f"{lines}edit_uri", 1)


def notebook(name, text, address):
    """A notebook: its badge, and where its first cell takes the library from."""
    content = json.loads(text)
    first, install = content["cells"][:2]
    title, _, rest = re.sub(f"{BADGE.pattern}\n", "", _source(first), flags=re.M).partition("\n\n")
    shown = badge(address, name)
    _set_source(first, "\n\n".join([title, *[shown.strip()] * bool(shown), rest]))
    package = "keras_posenc[text,plots]" + f" @ git+{address}" * bool(address)
    code = re.sub(r"^SOURCE = .*", f'SOURCE = "{package}"', _source(install), flags=re.MULTILINE)
    _set_source(install, code)
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _source(cell):
    return "".join(cell["source"])


def _set_source(cell, text):
    cell["source"] = text.splitlines(keepends=True) if isinstance(cell["source"], list) else text


# File that names the address -> function (text, address) -> text.
FILES = {
    ROOT / "README.md": readme,
    ROOT / "docs" / "start" / "install.md": cloned,
    ROOT / "setup.cfg": setup,
    ROOT / "mkdocs.yml": site,
    **{
        path: functools.partial(notebook, path.name)
        for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
    },
}


if __name__ == "__main__":
    for path, way in FILES.items():
        path.write_text(way(path.read_text("utf-8"), ADDRESS), "utf-8")
