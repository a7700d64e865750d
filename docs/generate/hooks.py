"""What mkdocs calls: pages and pictures that are made from the code, results and notebooks."""

import pathlib
import posixpath
import re
import sys
import warnings

from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import blocks  # noqa: E402
import families  # noqa: E402
import gallery  # noqa: E402

# Keras variables (3.15) have no `copy` argument in `__array__`, which NumPy 2 asks for.
warnings.filterwarnings("ignore", message="__array__ implementation doesn't accept a copy")
ROOT = pathlib.Path(__file__).resolve().parents[2]
# Pages of the repository that are pages of the site, too.
TOP_PAGES = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")


# A tag that fetches something from elsewhere when a page is opened.
FETCHED = re.compile(
    r"<(?:img|script|iframe)[^>]+src=\"https?://[^>]*>|<link[^>]+href=\"https?://[^>]*>"
)


@event_priority(100)  # before mkdocs-jupyter, which is to find the notebooks
def on_files(files, config):
    """Adds files of results, notebooks, TOP_PAGES."""

    def add(where, content):
        files.append(File.generated(config, where, content=content))

    for path in sorted([*blocks.BENCH.glob("*.*"), *blocks.RESULTS.glob("*.*")]):
        if path.suffix in (".json", ".svg", ".png"):
            folder = "results/bench" if path.parent == blocks.BENCH else "results"
            add(f"{folder}/{path.name}", path.read_bytes())
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        files.append(File(f"notebooks/{path.name}", str(ROOT), config.site_dir, False))
    for name in TOP_PAGES:
        text = (ROOT / name).read_text("utf-8").replace("](docs/", "](")
        for other in TOP_PAGES:
            text = text.replace(f"]({other})", f"]({other.lower()})")
        add(name.lower(), text)
    return files


def on_page_markdown(markdown, page, config, files):
    """The tables are in the pages; the files of results have another place on the site."""
    return markdown.replace("](../../benchmarks/results/", "](../results/")


def on_page_content(html, page, config, files):
    """Notebooks link to files of the repository, which have other places on the site."""
    html = kept_together(html)
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    html = re.sub(r'href="\.\./docs/([^"#]+)\.md', r'href="../\1.html', html)
    html = re.sub(r'href="(\w+)\.ipynb', r'href="\1.html', html)
    pages = {file.dest_uri for file in files}
    for target in re.findall(r'href="([^":#]+\.\w+)["#]', html):
        goal = posixpath.normpath(posixpath.join("notebooks", target))
        if goal not in pages:
            raise PluginError(f"{page.file.src_uri} links to {target}, which is not on the site")
    return html


def kept_together(html):
    """The page without line breaks inside intervals, as in 83 ± 14, and inside names of options."""
    html = html.replace(" ± ", "&nbsp;±&nbsp;")
    return re.sub(r"<code>(--[\w-]+)", r'<code><span class="option">\1</span>', html)


def on_config(config):
    """Lists the pages of the gallery and of the families in the navigation."""
    made = {
        "Gallery": ["gallery/index.md", *(f"gallery/{name}.md" for name in gallery.PAGES)],
        "Families": ["guides/families.md", *(f"families/{name}.md" for name in families.names())],
    }

    def listed(part):
        if isinstance(part, str):
            return part
        ((title, pages),) = part.items()
        return {title: made.get(title) or [listed(page) for page in pages]}

    config.nav = [listed(part) for part in config.nav]
    return config


def on_post_page(output, page, config):
    """Takes out what pages of notebooks would fetch: badges, and scripts."""
    if page.file.src_uri.endswith(".ipynb"):
        output = re.sub(rf"(?:{FETCHED.pattern})(?:</script>)?", "", output)
    if found := FETCHED.search(output):
        raise PluginError(f"{page.file.src_uri} fetches from elsewhere: {found[0]}")
    return output
