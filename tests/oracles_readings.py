"""Vectors of texts by the definition of each reading, in float64 NumPy; nothing of ours here.

Each window, chunk or passage is computed alone: no batch, no padding, and no search for the places
of tokens. A `Tiny` is a BERT of random weights with the modules of sentence-transformers behind it.
"""

import math
import re
import unicodedata

import numpy as np

SENTENCE_ENDS = (r"[.!?…]+[\"'”’»)\]]*(?=\s)", r"\n[ \t\r]*\n", r"[。！？]+[”’」』）]*")
CLS, SEP = 2, 3
POOLINGS = {
    "mean": lambda x: x.mean(0),
    "cls": lambda x: x[0],
    "max": lambda x: x.max(0),
    "lasttoken": lambda x: x[-1],
    "mean_sqrt_len_tokens": lambda x: x.sum(0) / math.sqrt(len(x)),
    "weightedmean": lambda x: np.average(x, axis=0, weights=np.arange(1, len(x) + 1)),
}
erf = np.vectorize(math.erf)


def unit(x):
    return x / max(np.linalg.norm(x), 1e-12)


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


class Tiny:
    """An embedder: tokens, their features, and what their mean is made into.

    Args:
        vocabulary: list of str, the words and, with ##, pieces behind another.
        weights: dict of float32 arrays, by the names of transformers.
        heads: int. Of attention.
        pooling: str, a key of `POOLINGS`.
        modules: list of ("Dense", kernel, bias), ("LayerNorm", scale, offset), ("Normalize",).
    """

    def __init__(self, vocabulary, weights, heads, pooling, modules):
        self.ids = {word: number for number, word in enumerate(vocabulary)}
        self.weights = {name: each.astype("float64") for name, each in weights.items()}
        self.heads, self.pooling, self.modules = heads, pooling, modules

    def tokens(self, text):
        """(id, start, end) of the words of a text, without special tokens."""
        found, folded = [], "".join(unicodedata.normalize("NFD", x.lower())[0] for x in text)
        for word in re.finditer(r"[a-z0-9]+|[^\sa-z0-9]", folded):
            pieces, start = [], word.start()
            while start < word.end():
                before = "" if start == word.start() else "##"
                ends = range(word.end(), start, -1)
                end = next((e for e in ends if before + folded[start:e] in self.ids), None)
                if end is None:
                    pieces = [(self.ids["[UNK]"], *word.span())]
                    break
                pieces.append((self.ids[before + folded[start:end]], start, end))
                start = end
            found += pieces
        return found

    def features(self, ids):
        """(T, D) of a row of ids, special ones among them."""
        w, count = self.weights, len(ids)
        x = w["embeddings.word_embeddings.weight"][ids]
        x = x + [self._position(number) for number in range(count)]
        x = self._norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        layers = {int(name.split(".")[2]) for name in w if name.startswith("encoder")}
        for layer in sorted(layers):
            at = f"encoder.layer.{layer}."
            q, k, v = (
                self._dense(x, f"{at}attention.self.{name}").reshape(count, self.heads, -1)
                for name in ("query", "key", "value")
            )
            scores = softmax(np.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1]))
            mixed = np.einsum("hqk,khd->qhd", scores, v).reshape(count, -1)
            mixed = self._dense(mixed, f"{at}attention.output.dense")
            x = self._norm(x + mixed, f"{at}attention.output.LayerNorm")
            inner = self._dense(x, f"{at}intermediate.dense")
            inner = 0.5 * inner * (1 + erf(inner / math.sqrt(2)))
            x = self._norm(x + self._dense(inner, f"{at}output.dense"), f"{at}output.LayerNorm")
        return x

    def _position(self, number):
        """A row of the table; beyond it, those of the block and of the place in it (Su, 2020)."""
        table = self.weights["embeddings.position_embeddings.weight"]
        if number < len(table):
            return table[number]
        block, place = (table[n] - 0.4 * table[0] for n in divmod(number, len(table)))
        return (0.4 * block + 0.6 * place) / 0.6

    def _dense(self, x, name):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12)
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    @property
    def normalizes(self):
        return bool(self.modules) and self.modules[-1][0] == "Normalize"

    def vector(self, pooled, dimension=None):
        """What the modules make of a pooled vector, cut to its first numbers."""
        for kind, *arrays in self.modules:
            if kind == "Dense":
                pooled = np.tanh(pooled @ arrays[0].astype("float64").T + arrays[1])
            elif kind == "LayerNorm":
                centred = pooled - pooled.mean()
                pooled = centred / np.sqrt((centred**2).mean() + 1e-5) * arrays[0] + arrays[1]
            else:
                pooled = unit(pooled)
        pooled = pooled[:dimension]
        return unit(pooled) if self.normalizes else pooled

    def of_ids(self, ids, dimension=None):
        return self.vector(POOLINGS[self.pooling](self.features([CLS, *ids, SEP])), dimension)


def whole(tiny, text, prompt, length, dimension=None):
    """The vector of the beginning of a text that fits into `length` tokens."""
    ids = [token for token, _, _ in tiny.tokens(prompt + text)]
    return tiny.of_ids(ids[: length - 2], dimension)


def mean_of_chunks(tiny, text, prompt, size, overlap, dimension=None):
    """The mean of the vectors of chunks, which count by their tokens, special ones included."""
    ids = [token for token, _, _ in tiny.tokens(prompt + text)]
    chunks, room = [ids[: size - 2]], size - 2
    while (len(chunks) - 1) * (room - overlap) + room < len(ids):
        first = len(chunks) * (room - overlap)
        chunks.append(ids[first : first + room])
    weights = [len(chunk) + 2 for chunk in chunks]
    vectors = [tiny.of_ids(chunk, dimension) for chunk in chunks]
    mean = sum(w * v for w, v in zip(weights, vectors, strict=True)) / sum(weights)
    return unit(mean) if tiny.normalizes else mean


def spans_of(tiny, text, size, overlap, headings=()):
    """(start, end) of the chunks of a text, which is cut at its headings, too."""
    places = sorted({0, len(text), *(place for place in headings if 0 < place < len(text))})
    found = []
    for start, stop in zip(places[:-1], places[1:], strict=True):
        part = text[start:stop]
        if part.strip():
            found += [(start + a, start + b) for a, b in _chunks(tiny, part, size, overlap)]
    return found


def _chunks(tiny, text, size, overlap):
    tokens = tiny.tokens(text)
    ends = {match.end() for each in SENTENCE_ENDS for match in re.finditer(each, text)}
    # Whether a sentence ends between a token and the one before it.
    new = [False] + [
        any(one[2] <= end < other[2] for end in ends)
        for one, other in zip(tokens[:-1], tokens[1:], strict=True)
    ]
    spans, first = [], 0
    while True:
        last = first + size
        if last >= len(tokens):
            return [*spans, (tokens[first][1], tokens[-1][2])]
        in_second_half = [n for n in range(first + max(1, size // 2), last + 1) if new[n]]
        last = max(in_second_half, default=last)
        spans.append((tokens[first][1], tokens[last - 1][2]))
        first = max(last - overlap, first + 1)
        first = next((n for n in range(first, last) if new[n]), first)


def late(tiny, text, spans, prompt, length, dimension=None):
    """The vectors of spans: the mean of the features of their tokens, each as it is in the window
    of `length` tokens in which it has the most context."""
    shift = len(prompt)
    tokens = [(token, a - shift, b - shift) for token, a, b in tiny.tokens(prompt + text)]
    before = [CLS, *(token for token, _, end in tokens if end <= 0)]
    tokens = [each for each in tokens if each[2] > 0]
    room = length - len(before) - 1
    starts = [0]
    while starts[-1] + room < len(tokens):
        starts.append(starts[-1] + max(1, room - room // 4))
    windows = [
        tiny.features([*before, *(token for token, _, _ in tokens[start : start + room]), SEP])
        for start in starts
    ]
    context = [
        [min(n - start, start + room - 1 - n) for start in starts] for n in range(len(tokens))
    ]
    best = [each.index(max(each)) for each in context]
    vectors = []
    for start, end in spans:
        rows = []
        for number, (_, a, b) in enumerate(tokens):
            if a < end and b > start:
                window = windows[best[number]]
                rows += list(window[: len(before)]) if number == 0 else []
                rows.append(window[len(before) + number - starts[best[number]]])
                rows += [window[-1]] if number == len(tokens) - 1 else []
        vectors.append(tiny.vector(np.mean(rows, axis=0), dimension))
    return vectors


def read(tiny, text, reading, prompt, length, dimension=None):
    """[(start, end, vector)] of a text.

    `reading` has the kind, "whole", "chunks", "passages", "late" or "spans", and with it size,
    overlap, windows, and of this text spans, or its headings as a list of (start, title).
    """
    kind, size, overlap = (reading.get(name) for name in ("kind", "size", "overlap"))
    if kind == "whole":
        return [(0, len(text), whole(tiny, text, prompt, length, dimension))]
    if kind == "chunks":
        return [(0, len(text), mean_of_chunks(tiny, text, prompt, size, overlap, dimension))]
    if kind == "spans":
        spans, headings = reading["spans"], None
    else:
        headings = reading.get("headings")
        spans = spans_of(tiny, text, size, overlap, [place for place, _ in headings or ()])
    if kind != "passages":
        vectors = late(tiny, text, spans, prompt, length, dimension)
        if reading.get("windows"):
            near = late(tiny, text, spans, prompt, reading["windows"], dimension)
            vectors = [unit(unit(a) + unit(b)) for a, b in zip(vectors, near, strict=True)]
    if kind == "passages" or headings is not None:
        alone = []
        for start, end in spans:
            above = [title for place, title in headings or () if place <= start]
            title = above[-1] + "\n" if above and above[-1] else ""
            alone.append(whole(tiny, title + text[start:end], prompt, length, dimension))
        if kind == "passages":
            vectors = alone
        else:
            vectors = [unit(unit(a) + unit(b)) for a, b in zip(vectors, alone, strict=True)]
    return [(*span, vector) for span, vector in zip(spans, vectors, strict=True)]
