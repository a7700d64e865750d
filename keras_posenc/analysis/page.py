"""The frame of a report page, its style, and what stands in its sections."""

import base64
import html
import string

from keras_posenc.analysis import plot
from keras_posenc.files.untrusted import visible
from keras_posenc.files.writing import write_text

PAGE = string.Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light dark; --text: #1c1c1c; --page: #fff; --quiet: #555; --line: #ddd;
        --shade: #bbb; --code: #f5f5f5; }
@media (prefers-color-scheme: dark) {
  :root { --text: #ddd; --page: #1c1d21; --quiet: #a5a5a5; --line: #3c3d42; --shade: #77787d;
          --code: #28292e; }
  img { filter: brightness(.85); }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page);
       max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 1rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--line); }
/* What is wider than a phone scrolls; a shadow at a table's right edge shows that there is more. */
section, .wide { overflow-x: auto; }
.wide { background:
  linear-gradient(to left, var(--page) 40%, transparent) right / 2rem 100% no-repeat local,
  linear-gradient(to left, var(--shade), transparent) right / .6rem 100% no-repeat scroll; }
/* Below its least width, the letters of a figure cannot be read. */
img { max-width: 100%; min-width: 30rem; height: auto; display: block; background: #fff; }
pre { background: var(--code); padding: .6rem .8rem; overflow-x: auto; font-size: .88rem; }
.verdict { font-size: 1.05rem; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem .25rem 0; text-align: left; vertical-align: top;
         border-bottom: 1px solid var(--line); }
.pairs td { overflow-wrap: anywhere; }
thead th { border-bottom: 1px solid var(--quiet); } tbody th { font-weight: 600; }
details { margin: .6rem 0; } summary { cursor: pointer; font-weight: 600; }
.note { color: var(--quiet); font-size: .88rem; }
</style>
</head>
<body>
<h1>$title</h1>
$body
</body>
</html>
""")


def write_page(path, title, parts, function):
    """Writes a page, whose empty parts are left out, and logs where it has no figures."""
    body = "\n".join(filter(None, parts))
    write_text(path, PAGE.substitute(title=escaped(title), body=body))
    plot.warn_without_matplotlib(path, function)


def escaped(value):
    """A value as text of a page, control characters included."""
    return html.escape(visible(str(value)))


def section(heading, body):
    """A section under a heading; nothing where it has no body."""
    return f"<section><h2>{escaped(heading)}</h2>\n{body}\n</section>" if body else ""


def picture(description, draw, *args, **options):
    """The figure that a function draws, as an image inside the page: an image's letters and ids
    meet no other image's. Without Matplotlib the description stands in its place.
    """
    if not plot.has_matplotlib():
        return f"<p class=note>{escaped(description)} Not drawn: Matplotlib is not installed.</p>"
    data = base64.b64encode(plot.to_svg(draw(*args, **options)).encode()).decode()
    return f'<img alt="{escaped(description)}" src="data:image/svg+xml;base64,{data}">'


def table(names, rows):
    """An HTML table; the first cell of each row heads it."""
    head = "".join(f"<th>{escaped(name)}</th>" for name in names)
    body = "\n".join(
        f"<tr><th>{escaped(first)}</th>"
        + "".join(f"<td>{escaped(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    head = f"<thead><tr>{head}</tr></thead>"
    return f"<div class=wide><table>{head}<tbody>{body}</tbody></table></div>"


def pairs(rows):
    """A table of names and what they stand for."""
    body = "\n".join(
        f"<tr><th>{escaped(name)}</th><td>{escaped(value)}</td></tr>" for name, value in rows
    )
    return f"<div class=wide><table class=pairs><tbody>{body}</tbody></table></div>"


def code(text):
    """Lines of a program."""
    return "<pre>" + "\n".join(map(escaped, text.split("\n"))) + "</pre>"


def details(heading, body):
    """What is shown on a click."""
    return f"<details><summary>{escaped(heading)}</summary>{body}</details>"
