"""Small documents of every task, which a tiny model tells apart by their words."""

import numpy as np


def words(rng, length):
    return [f"w{n}" for n in rng.integers(0, 30, length)]


def several(rng, count):
    """w30 says "x", w31 "y", w32 "z"; often none."""
    texts, labels = [], []
    for _ in range(count):
        has = rng.random(3) < 0.4
        text = [*words(rng, 6), *(f"w{30 + n}" for n in range(3) if has[n])]
        texts.append(" ".join(rng.permutation(text)))
        labels.append([name for name, there in zip("xyz", has, strict=True) if there])
    return texts, labels


def numbered(rng, count):
    """The share of w30."""
    texts, labels = [], []
    for _ in range(count):
        share = int(rng.integers(0, 11))
        texts.append(" ".join(rng.permutation(["w30"] * share + words(rng, 10 - share))))
        labels.append(share / 10)
    return texts, labels


def tagged(rng, count):
    """w30 begins a PER, on which w32 goes; w31 a LOC, with w33."""
    texts, labels = [], []
    for _ in range(count):
        text, tags = [], []
        while len(text) < 20:
            word = f"w{rng.integers(20, 32)}"
            kind = {"w30": "PER", "w31": "LOC"}.get(word)
            more = int(rng.integers(0, 3)) if kind else 0
            text += [word, *["w32" if kind == "PER" else "w33"] * more]
            tags += [f"B-{kind}" if kind else "O", *[f"I-{kind}"] * more]
        texts.append(text)
        labels.append(tags)
    return texts, labels


def asked(rng, count, length=40):
    """Where are w30 and w31, side by side? In one of four passages they are not."""
    texts, labels = [], []
    for number in range(count):
        passage, place = words(rng, length), int(rng.integers(0, length))
        if number % 4:
            passage[place:place] = ["w30", "w31"]
        passage = " ".join(passage)
        start = passage.find("w30 w31")
        texts.append(("w33 w34", passage))
        labels.append([(start, start + 7)] if start >= 0 else [])
    return texts, labels


def paired(rng, count):
    """Texts of the same five words belong together."""
    groups = []
    for _ in range(count):
        each = words(rng, 5)
        groups.append((" ".join(each), " ".join(rng.permutation(each)), " ".join(words(rng, 5))))
    return groups


def seeded(kind, seed, count):
    return kind(np.random.default_rng(seed), count)
