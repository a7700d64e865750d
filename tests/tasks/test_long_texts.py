"""Digests and distant facts: what they are made of, and that no part of a text gives it away."""

import collections

import numpy as np
import pytest

from keras_posenc.tasks.long_texts import COLORS, digests, distant_facts
from keras_posenc.text import Texts

pytestmark = pytest.mark.once


def posts(groups=4, each=6):
    """Every word says its group and its post."""
    texts = [" ".join([f"g{g}p{p}"] * 9) for g in range(groups) for p in range(each)]
    return Texts(texts, [f"g{g}" for g in range(groups) for _ in range(each)], [0] * len(texts))


def test_most_of_a_digest_is_of_its_label():
    made = digests(posts(each=60), 20, seed=1, shares=(4, 2, 1), most_words=5)
    assert collections.Counter(made.labels) == dict.fromkeys(("g0", "g1", "g2", "g3"), 5)
    first, used = [], set()
    for text, label in zip(made.texts, made.labels, strict=True):
        parts = [part.split() for part in text.split("\n\n")]
        assert all(len(part) == 5 and len(set(part)) == 1 for part in parts)
        assert len({part[0] for part in parts} - used) == 7, "a post twice"
        used |= {part[0] for part in parts}
        counts = collections.Counter(part[0][:2] for part in parts)
        assert sorted(counts.values()) == [1, 2, 4] and counts[label] == 4
        first.append(parts[0][0][:2] == label)
    assert 0.2 < np.mean(first) < 0.9, "shuffled"
    again = digests(posts(each=60), 20, seed=1, shares=(4, 2, 1), most_words=5)
    assert again.texts == made.texts


def test_neither_end_of_a_distant_fact_tells_its_truth():
    fillers = [" ".join(f"w{i}" for i in range(500)), "too short"]
    made = distant_facts(fillers, 400, words=60, seed=2)
    assert collections.Counter(made.labels) == {"true": 200, "false": 200}
    by_color = {end: collections.defaultdict(list) for end in ("first", "last")}
    for text, label in zip(made.texts, made.labels, strict=True):
        words = text.split()
        assert len(words) == 70 and words[5].startswith("w") and words[64].startswith("w")
        assert words[0] == words[65]
        first, last = words[3], words[68]
        assert {first, last} <= set(COLORS) and (first == last) == (label == "true")
        by_color["first"][first].append(label)
        by_color["last"][last].append(label)
    for found in by_color.values():
        for labels in found.values():
            assert 0.2 < np.mean([label == "true" for label in labels]) < 0.8


def test_what_cannot_be_made():
    with pytest.raises(ValueError, match="3 groups a digest, but the posts are of 2"):
        digests(posts(2), 3)
    with pytest.raises(ValueError, match="The 3 posts of g0 are not enough for 2 digests"):
        digests(posts(each=3), 2)
    with pytest.raises(ValueError, match=r"must be the largest. Received: \(2, 2, 1\)"):
        digests(posts(), 3, shares=(2, 2, 1))
    with pytest.raises(ValueError, match="None of 1 fillers has 9 words"):
        distant_facts(["too short"], 3, words=9)
    for words in (-1, (3, 2)):
        with pytest.raises(
            ValueError, match=r"from a lowest to a highest number. Received: \(?-?[13]"
        ):
            distant_facts(["too short"], 3, words=words)


def test_the_distance_of_facts_is_drawn_between_two_numbers():
    made = distant_facts([" ".join(["w"] * 9)], 60, words=(0, 9))
    assert {len(text.split()) - 10 for text in made.texts} == set(range(10))
