"""Draws the diagrams of the guides: stretching, late chunking, and one attention layer.

`python docs/generate/diagrams.py` writes them to docs/assets; tests/test_docs.py compares.
"""

import html
import pathlib

ASSETS = pathlib.Path(__file__).resolve().parents[1] / "assets"
BLUE, ORANGE, GREEN, GREY, INK = "#dbe7f6", "#fbe3cd", "#dcefdc", "#eeeeee", "#222222"


class Canvas:
    """An SVG picture of boxes, arrows and words, on a white ground for dark pages too."""

    def __init__(self, width, height, title):
        self.size, self.title, self.parts = (width, height), title, []

    def box(self, x, y, width, height, text="", fill=GREY, size=13):
        """A box with words in its middle; several lines are divided by line breaks."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" '
            f'fill="{fill}" stroke="#777777"/>'
        )
        lines = text.split("\n") if text else []
        for index, line in enumerate(lines):
            at = y + height / 2 + (index - (len(lines) - 1) / 2) * 1.25 * size + 0.35 * size
            self.text(x + width / 2, at, line, size, "middle")

    def text(self, x, y, words, size=13, anchor="start", bold=False):
        """Words in one line, from, to or around x."""
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"{weight}>'
            f"{html.escape(words)}</text>"
        )

    def arrow(self, *points, dashed=False):
        """A line through points, with a head at the last."""
        places = " ".join(f"{x:g},{y:g}" for x, y in points)
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<polyline points="{places}" fill="none" stroke="#444444" stroke-width="1.4"{dashes} '
            'marker-end="url(#head)"/>'
        )

    def svg(self):
        """The picture's text."""
        width, height = self.size
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" fill="{INK}" '
            'font-family="Helvetica, Arial, DejaVu Sans, sans-serif">',
            f"<title>{html.escape(self.title)}</title>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#444444"/></marker>'
            "</defs>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *self.parts,
            "</svg>\n",
        ])  # fmt: skip


def stretching():
    """One row of a position table becomes the sum of two; then training on windows' features."""
    c = Canvas(860, 330, "How stretch extends a position table and trains the new positions")
    c.text(20, 26, "1. New positions from two old rows", 15, bold=True)
    c.text(20, 50, "table of BERT: 512 rows", 12)
    for index, (name, fill) in enumerate(
        [("0", GREY), ("1", GREY), ("2", ORANGE), ("...", GREY), ("276", BLUE), ("...", GREY),
         ("511", GREY)]
    ):  # fmt: skip
        c.box(20, 60 + 28 * index, 90, 26, name, fill)
    c.text(175, 84, "position 1,300", 13, bold=True)
    c.text(175, 102, "= 2 × 512 + 276", 13)
    c.arrow((110, 129), (175, 150))
    c.arrow((110, 185), (175, 170))
    c.box(177, 136, 186, 50, "0.4 × row of block 2\n+ 0.6 × row of offset 276", GREEN)
    c.text(175, 212, "(rescaled, so that the first 512", 11)
    c.text(175, 227, "positions stay as they are)", 11)
    c.text(20, 290, "512 rows serve 512 × 512 = 262,144 positions.", 13)
    c.text(20, 310, "No new weights.", 13)
    c.text(400, 26, "2. Training, without labels", 15, bold=True)
    c.text(400, 52, "your text, 2,048 tokens", 12)
    for index in range(8):
        c.box(400 + 55 * index, 60, 53, 24, fill=GREY)
    for index in range(4):
        c.box(400 + 110 * index, 110, 104, 40, "original\n512 tokens", BLUE, 11)
        c.arrow((452 + 110 * index, 86), (452 + 110 * index, 108))
        c.arrow((452 + 110 * index, 152), (452 + 110 * index, 186))
    c.box(400, 188, 434, 26, "features of each token: the targets", GREY, 12)
    c.arrow((617, 254), (617, 216), dashed=True)
    c.text(627, 240, "loss: distance to the targets", 12)
    c.box(400, 256, 434, 40, "stretched encoder, all 2,048 tokens at once", GREEN)
    c.text(400, 316, "The result keeps the features and sees across windows.", 13)
    return c


def late_chunking():
    """Chunks that are embedded alone, and vectors of chunks that have read the document."""
    c = Canvas(860, 340, "Chunks embedded alone, and late chunking")
    chunks = ["Ada is a chemist.", "... 1,700 tokens ...", "She bought a house."]
    places = [(20, 240), (310, 240), (600, 240)]
    c.text(20, 26, "Each chunk alone: “she” could be anyone", 15, bold=True)
    for (x, width), chunk in zip(places, chunks, strict=True):
        c.box(x, 40, width, 28, chunk, GREY)
        c.arrow((x + width / 2, 70), (x + width / 2, 82))
        c.box(x, 84, width, 28, "encoder", ORANGE)
        c.arrow((x + width / 2, 114), (x + width / 2, 126))
        c.text(x + width / 2, 142, "vector", 12, "middle")
    c.text(20, 188, "Late chunking: one pass over the document, then one vector per chunk", 15,
           bold=True)  # fmt: skip
    for (x, width), chunk in zip(places, chunks, strict=True):
        c.box(x, 202, width, 28, chunk, GREY)
        c.arrow((x + width / 2, 232), (x + width / 2, 244))
        c.arrow((x + width / 2, 276), (x + width / 2, 300))
        c.text(x + width / 2 + 8, 292, "mean of its tokens", 11)
        c.text(x + width / 2, 318, "vector", 12, "middle")
    c.box(20, 246, 820, 28, "stretched encoder: every token attends to the whole document", GREEN)
    return c


def layer():
    """Where encodings act in one attention layer."""
    c = Canvas(860, 330, "Where position encodings act in PositionalAttention")
    call = 'PositionalAttention(num_heads, key_dim, encodings=["rotary", "log_n", ...])'
    c.text(20, 26, call, 15, bold=True)
    steps = [
        (20, "features,\nposition ids"), (170, "queries, keys,\nvalues"), (330, "scores\nq · k"),
        (480, "softmax"), (610, "weighted sum\nof values"), (760, "output"),
    ]  # fmt: skip
    widths = [110, 120, 110, 90, 110, 80]
    for (x, name), width in zip(steps, widths, strict=True):
        c.box(x, 60, width, 50, name, BLUE)
    for (x, _), width, (other, _) in zip(steps[:-1], widths, steps[1:], strict=False):
        c.arrow((x + width, 85), (other - 2, 85))
    hooks = [
        (20, 110, "position ids", ["random", "abacus", "coupled", "segment"]),
        (170, 120, "turn or scale heads", ["rotary, xpos", "alibi, sandwich", "log_n, ssmax",
                                           "pope, rerope"]),
        (330, 110, "change scores", ["t5, shaw, fire", "deberta, kerple", "cope, dape",
                                     "window: mask"]),
        (480, 90, "normalise", ["squared_relu", "stick_breaking", "sink_logits"]),
        (610, 110, "add to values", ["nezha, shaw"]),
    ]  # fmt: skip
    for x, width, title, names in hooks:
        c.arrow((x + width / 2, 150), (x + width / 2, 112))
        c.box(x - 4, 152, width + 8, 26, title, ORANGE, 12)
        for index, name in enumerate(names):
            c.text(x + width / 2, 200 + 19 * index, name, 12, "middle")
    c.text(
        20,
        296,
        "Encodings that change only queries and keys run on fused kernels. The others run in",
        13,
    )  # noqa: E501
    c.text(
        20,
        315,
        "blocks: the full attention matrix is never materialised, not even during training.",
        13,
    )  # noqa: E501
    return c


DIAGRAMS = {"stretching": stretching, "late-chunking": late_chunking, "layer": layer}


def pictures():
    """dict file in docs/assets -> SVG."""
    return {f"{name}.svg": draw().svg() for name, draw in DIAGRAMS.items()}


if __name__ == "__main__":
    for name, svg in pictures().items():
        (ASSETS / name).write_text(svg, "utf-8")
