"""Classification of long texts made of real ones, in which reading further must pay.

Labels of whole texts come from parts that lie anywhere (`digests`), or from two parts far apart of
which neither is enough alone (`distant_facts`). Give each of training, validation and test sources
of its own: what is drawn here is drawn from what is given.
"""

import numpy as np

from keras_posenc.text import Texts

NAMES = (
    "Anna", "Ben", "Clara", "David", "Emma", "Frank", "Grace", "Henry", "Irene", "Jack", "Kate",
    "Louis", "Maria", "Nora", "Oscar", "Paul", "Rose", "Sam", "Tom", "Vera",
)  # fmt: skip
COLORS = (
    "red", "blue", "green", "yellow", "black", "white", "brown", "purple", "orange", "gray",
)  # fmt: skip


def digests(posts, count, seed=0, shares=(4, 2, 2), most_words=250):
    """Digests of several posts from a few groups; the label is the majority group.

    No post is in two digests, so that digests are independent.

    `posts`: `Texts` with labels, the groups. `count`: digests to make. `shares`: posts of each
    group in a digest; the first is the largest. `most_words`: where a post is cut, so that none is
    most of a digest. Returns `Texts` with labels of which the numbers differ by at most one.

    Example:

    >>> posts = Texts(["a b", "a c", "x y", "x z"], ["one", "one", "two", "two"], [1, 2, 3, 4])
    >>> digests(posts, 1, shares=(2, 1)).labels[0] in ("one", "two")
    True
    """
    groups = sorted(set(posts.labels))
    if len(groups) < len(shares):
        raise ValueError(f"{len(shares)} groups a digest, but the posts are of {len(groups)}.")
    if shares[0] <= max(shares[1:], default=0):
        raise ValueError(f"The first of the shares must be the largest. Received: {shares!r}")
    by_group = {group: [] for group in groups}
    for text, group in zip(posts.texts, posts.labels, strict=True):
        by_group[group].append(" ".join(text.split()[:most_words]))
    rng = np.random.default_rng(seed)
    left = {
        group: [unused[i] for i in rng.permutation(len(unused))]
        for group, unused in by_group.items()
    }
    texts, labels = [], []
    for number in range(count):
        first = groups[number % len(groups)]
        others = [group for group in groups if group != first]
        chosen = [first, *rng.choice(others, len(shares) - 1, replace=False)]
        parts = []
        for group, share in zip(chosen, shares, strict=True):
            unused = left[str(group)]
            if len(unused) < share:
                raise ValueError(
                    f"The {len(by_group[str(group)]):,} posts of {group} are not enough for "
                    f"{count:,} digests, which share none: ask for fewer digests, or give more."
                )
            parts += [unused.pop() for _ in range(share)]
        texts.append("\n\n".join(parts[i] for i in rng.permutation(len(parts))))
        labels.append(first)
    order = rng.permutation(count)
    return Texts([texts[i] for i in order], [labels[i] for i in order], list(range(1, count + 1)))


def distant_facts(fillers, count, words, seed=0):
    """Texts with a fact at the start and a true or false statement about it at the end.

    "Anna has a red box. ... Anna has a blue box." Half the statements are true. Neither end is
    enough alone, nor is the text between: without comparing the two, a guess is right half of the
    time.

    `fillers`: list of str, real texts; what is between is cut from one of them. `count`: int. Texts
    to make. `words`: int, or a pair of ints (lowest, highest). Words between the two statements.
    Returns `Texts` with the labels "true" and "false", as many of each.

    Example:

    >>> made = distant_facts(["so it went on and on"], 4, words=3)
    >>> sorted(made.labels), len(made.texts[0].split())
    (['false', 'false', 'true', 'true'], 13)
    """
    low, high = (words, words) if isinstance(words, int) else words
    if not 0 <= low <= high:
        raise ValueError(f"words must be from a lowest to a highest number. Received: {words!r}")
    long = [text.split() for text in fillers]
    long = [text for text in long if len(text) >= high]
    if not long:
        raise ValueError(f"None of {len(fillers)} fillers has {high} words.")
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for number in range(count):
        name, color, other = rng.choice(NAMES), *rng.choice(COLORS, 2, replace=False)
        filler = long[rng.integers(len(long))]
        size = rng.integers(low, high + 1)
        start = rng.integers(0, len(filler) - size + 1)
        true = number % 2 == 0
        between = " ".join(filler[start : start + size])
        last = color if true else other
        texts.append(f"{name} has a {color} box. {between} {name} has a {last} box.")
        labels.append("true" if true else "false")
    order = rng.permutation(count)
    return Texts([texts[i] for i in order], [labels[i] for i in order], list(range(1, count + 1)))
