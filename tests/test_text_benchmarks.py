"""The benchmarks on pairs of texts, and on facts far back in a text."""

import itertools
import json
import sys

import numpy as np
import pytest
from benchmark_modules import imported

pytestmark = pytest.mark.once

old_english, text_retrieval, translation = imported(
    "benchmarks.encodings", "old_english text_retrieval translation"
)


def run_main(module, monkeypatch, *options):
    monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, options)])
    module.main()


def test_the_two_bibles_are_paired_and_books_are_held_out_whole(old_english):
    parts = old_english.pairs()
    assert {name: len(part) for name, part in parts.items()} == {
        "train": 5747,
        "validation": 198,
        "test": 548,
    }
    assert parts["test"][0] == (
        "In the beginnynge was the worde and the worde was with God: and the worde was God.",
        "In the beginning was the Word, and the Word was with God, and the Word was God.",
    )
    texts = [text for part in parts.values() for pair in part for text in pair]
    assert all(texts) and max(map(len, texts)) <= 120 and not any("[" in text for text in texts)


def test_words_are_aligned_by_what_they_occur_with(translation):
    pairs = [("das haus", "the house"), ("das buch", "the book"), ("ein buch", "a book")]
    found = translation.likeliest_words(pairs, rounds=20)
    assert found == {"das": "the", "haus": "house", "buch": "book", "ein": "a"}


def few_pairs():
    verses = [f"{a} {b} {c}" for a, b, c in itertools.permutations("ye olde kynge yt".split(), 3)]
    pairs = [(text, text.replace("y", "i").upper()) for text in verses]
    return {"train": pairs[:16], "validation": pairs[16:20], "test": pairs[20:]}


def test_an_interrupted_training_goes_on_as_if_it_had_not_been(translation, monkeypatch, tmp_path):
    monkeypatch.setattr(translation, "pairs", few_pairs)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    small = {"SIZES": sizes, "LENGTHS": (16,), "TOKENS": 64, "VOCABULARY": 50, "EVERY": 1}
    for name, value in small.items():
        monkeypatch.setattr(translation, name, value)
    way = "rotary"

    def run(name):
        path = tmp_path / f"{name}.json"
        options = ["--ways", way, "--steps", 3, "--results", path, "--folder", tmp_path / name]
        options += ["--beams", 2]
        run_main(translation, monkeypatch, *options)
        rows = json.loads(path.read_text())
        assert [row.get("rival", row.get("way")) for row in rows[:3]] == [
            "the source as it is",
            "the most frequent verse",
            "each word by its likeliest (IBM model 1)",
        ]
        (row,) = rows[3:]
        return {key: row[key] for key in ("curve", "test", "written")}

    whole = run("whole")
    checkpoint = translation.checkpoint

    def stop(folder, step):
        if step == 2:
            raise KeyboardInterrupt
        return checkpoint(folder, step)

    monkeypatch.setattr(translation, "checkpoint", stop)
    with pytest.raises(KeyboardInterrupt):
        run("parts")
    monkeypatch.setattr(translation, "checkpoint", checkpoint)
    assert run("parts") == whole
    assert list(whole["curve"]) == ["1", "2", "3"]
    assert whole["curve"]["3"]["loss"] < whole["curve"]["1"]["loss"]


def test_facts_stand_before_their_reach_and_are_asked_at_the_end(text_retrieval):

    class Text:
        def windows(self, part, rng, batch_size, length):
            return rng.integers(0, 9, (batch_size, length)).astype("int32")

    kinds = text_retrieval.KINDS
    facts = text_retrieval.Facts(Text(), 9 + 2 * kinds)
    counts, rng = [1, 2, 3, 4] * 8, np.random.default_rng(0)
    for questions, reach, length in ((None, 64, 64), (1, 64, 128)):
        ids, targets, weights = facts.sample(
            "train", len(counts), length, counts, questions, reach, rng
        )
        np.testing.assert_array_equal(ids[:, 1:], targets[:, :-1])
        for row, answers, weight, count in zip(ids, targets, weights, counts, strict=True):
            asked = count if questions is None else questions
            (places,) = np.nonzero(weight == text_retrieval.ANSWER_WEIGHT)
            assert places.tolist() == list(range(length - 2 * asked + 1, length, 2))[-asked:]
            planted = np.flatnonzero(row[: length - 2 * asked + 1] >= 9)
            assert len(planted) == 2 * count and max(planted) < reach
            value_of = dict(zip(row[planted[::2]], row[planted[1::2]], strict=True))
            assert len(value_of) == count, "no key has two values"
            assert [value_of[row[i]] for i in places] == answers[places].tolist()
            assert all(9 + kinds <= value < 9 + 2 * kinds for value in value_of.values())
            # What is drawn cannot be told, and the text has weight 1.
            assert set(weight[[i - 1 for i in planted if i]]) <= {0.0}
            assert set(weight[answers < 9]) == {1.0}


def test_readings_share_the_weights_of_their_training(
    text_retrieval, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(text_retrieval, "LENGTHS", (64, 128))
    path = tmp_path / "rows.json"
    options = ["--seeds", 0, "--steps", 1, "--test-rows", 2, "--results", path]
    names = ["rotary as it is", "ReRoPE", "FIRE"]
    run_main(text_retrieval, monkeypatch, *options, "--folder", tmp_path, "--readings", *names)
    found = {row["reading"]: row for row in json.loads(path.read_text())}
    assert list(found) == names
    loss = {name: row["text_loss"] for name, row in found.items()}
    assert loss["ReRoPE"]["64"] != loss["ReRoPE"]["128"] != loss["rotary as it is"]["128"]
    assert {file.name for file in tmp_path.glob("*.h5")} == {
        "rotary-1-0.weights.h5",
        "fire-64-1-0.weights.h5",
    }
    capsys.readouterr()
    rows = [{**found["FIRE"], "asked": 50, "right": dict.fromkeys(found["FIRE"]["right"], 25)}] * 2
    assert "| FIRE | 50 (40 to 60) | 50 (40 to 60) |" in text_retrieval.table(rows)
