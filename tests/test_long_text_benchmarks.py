"""The benchmarks on long texts: what is read, by whom, and what its intervals carry."""

import types
from unittest import mock

import numpy as np
import pytest
from benchmark_modules import imported

pytestmark = pytest.mark.once

NAMES = "distant_facts features fine_tuned fine_tuned_tasks passkey reading_tasks readings rivals"
(
    distant_facts, features, fine_tuned, fine_tuned_tasks, passkey, reading_tasks, readings, rivals
) = imported("benchmarks.long_texts", NAMES)  # fmt: skip
(intervals,) = imported("benchmarks.shared", "intervals")


def test_chunks_to_train_on_have_the_label_of_the_whole(fine_tuned_tasks, reading_tasks, tmp_path):
    readings = reading_tasks.Readings(tmp_path)
    made = fine_tuned_tasks.digest_texts("train", 5)
    task = fine_tuned_tasks.WholeTexts(readings, made, made, {}, 2048)
    chunks = task.data[fine_tuned_tasks.MEAN]
    assert task.data[fine_tuned_tasks.SHORT] is task.data[fine_tuned_tasks.WHOLE] is made
    ids = readings.tokenizer.contents(made.texts)
    counts = [-(-len(row) // 510) for row in ids]
    assert chunks.labels == np.repeat(made.labels, counts).tolist() and max(counts) > 1
    parts = readings.tokenizer.contents(chunks.texts)
    assert max(map(len, parts)) <= 520
    assert np.isclose(sum(map(len, parts)), sum(map(len, ids)), rtol=0.01)
    one, other = (set(reading_tasks.drawn_digests(320, seed)) for seed in (0, 1))
    assert len(one) == len(other) == 200 and one != other


def test_seasons_to_train_on_and_to_test_on_are_of_other_episodes(
    fine_tuned_tasks, reading_tasks, tmp_path, monkeypatch
):
    readings = reading_tasks.Readings(tmp_path)
    episodes = fine_tuned_tasks.named_episodes(readings)
    monkeypatch.setattr(fine_tuned_tasks, "named_episodes", lambda readings: episodes)
    one, other = (fine_tuned_tasks.seasons(readings, seed) for seed in (0, 1))
    assert one.test.texts == other.test.texts and one.train.texts != other.train.texts
    assert not {*one.train.texts, *other.train.texts} & {*one.test.texts}
    assert {one.train.labels.count(season) for season in one.train.labels} == {9}
    assert {one.test.labels.count(season) for season in one.test.labels} == {8}


def test_lines_are_classified_by_the_mean_of_their_words(
    fine_tuned_tasks, reading_tasks, tmp_path, monkeypatch
):
    """Each reading holds whole lines; what it does not hold is the most frequent friend's."""
    lines = fine_tuned_tasks.Lines(reading_tasks.Readings(tmp_path), 0, {}, 1024, 6, 2)
    whole, chunks, first = (
        lines.data[way]
        for way in (fine_tuned_tasks.WHOLE, fine_tuned_tasks.CHUNKS, fine_tuned_tasks.SHORT)
    )
    assert len(whole.texts) == len(first.texts) == 3 < len(chunks.texts)
    assert sum(chunks.texts, []) == sum(whole.texts, [])
    assert sum(chunks.labels, []) == sum(whole.labels, [])
    sizes = [len(ids) for ids in lines.tokenizer.contents([" ".join(t) for t in chunks.texts])]
    assert max(sizes) <= 510 < sum(sizes) / 3
    assert all(text == chunk for text, chunk in zip(first.texts[:1], chunks.texts, strict=False))

    class Listener:
        """A model that hears Ross in every word but the first of each text, where Joey shouts."""

        label_names = ["O", *fine_tuned_tasks.FRIENDS]

        def judged(self, texts, verbose):
            found = []
            for words in texts:
                logits = np.zeros((len(words), 7))
                logits[:, 0], logits[:, self.label_names.index("Ross")] = 9, 1
                logits[0, self.label_names.index("Joey")] = 1000
                found.append(types.SimpleNamespace(logits=logits))
            return found, None

    monkeypatch.setattr(fine_tuned_tasks, "load_finetuned", lambda folder: Listener())
    for way in lines.ways:
        scores = lines.correct(way, tmp_path)
        for episode, score in zip(lines.test, scores, strict=True):
            short = len(lines.parts(way, episode)[0][0])
            is_right, words = [], 0
            starts = np.cumsum([0, *(len(t) for t, _ in lines.parts(way, episode))])
            for line, name in episode:
                guess = "Joey" if line and words in starts else "Ross"
                guess = lines.most if way == fine_tuned_tasks.SHORT and words >= short else guess
                words += len(line)
                is_right += [guess == name] if line and name != "O" else []
            assert score == pytest.approx(np.mean(is_right), abs=1e-4)


def test_fine_tuned_ways_are_paired_by_digest(fine_tuned, fine_tuned_tasks):
    correct = {
        fine_tuned_tasks.SHORT: [[0, 0, 1, 1]] * 2,
        fine_tuned_tasks.WHOLE: [[1, 0, 1, 1], [0, 1, 1, 1]],
    }
    rows = [
        {"task": "digests", "way": way, "seed": seed, "scores": right}
        for way, seeds in correct.items()
        for seed, right in enumerate(seeds)
    ]
    rows.append({**rows[0], "task": "seasons"})
    table, verdict = fine_tuned.table(rows, "digests"), fine_tuned.verdict(rows, "digests")
    assert f"| {fine_tuned_tasks.WHOLE} | 75.0% ± 28.3 | +25.0 ± 28.3 |" in table
    assert verdict.endswith("+25.0 ± 28.3 points, no significant difference.")
    rows[-2]["losses"] = [0.5, 0.25]
    assert "0.50 (0.50 to 0.50). Over 20 updates after: 0.25 (" in fine_tuned.verdict(
        rows, "digests"
    )


def test_the_loss_is_shown_where_texts_grow(fine_tuned, tmp_path):
    losses = [(0.5, 4.0), (1.0, 2.0), (1.25, 1.0), (1.5, 3.0), (2.0, 9.0)]
    lines = ["epoch,loss", *(f"{epoch},{loss}" for epoch, loss in losses)]
    (tmp_path / "steps.csv").write_text("\n".join(lines) + "\n")
    assert fine_tuned.around_growth(tmp_path, count=2) == [3.0, 2.0]
    assert fine_tuned.around_growth(tmp_path, 1.5, 2) == [2.0, 9.0]


def test_passkeys_of_further_lengths_and_seeds_join_the_table(passkey):
    def row(seed, documents=4, **scores):
        found = {n[1:]: [score] * documents for n, score in scores.items()}
        mean = {n: float(np.mean(values)) for n, values in found.items()}
        settings = {"documents": documents}
        return {"model": "tile", "seed": seed, "scores": found, "settings": settings,
                "seconds": dict.fromkeys(found, 1.0), "accuracy": {"test": mean}}  # fmt: skip

    rows = passkey.merged([row(0, n256=1, n512=0), row(1, n256=1), row(0, n512=1, n1024=0)])
    assert [row["seed"] for row in rows] == [0, 1]
    assert rows[0]["accuracy"]["test"] == {"256": 1, "512": 1, "1024": 0}
    assert list(rows[0]["scores"]) == list(rows[0]["seconds"]) == ["256", "512", "1024"]
    with pytest.raises(ValueError, match="Not one table"):
        passkey.merged([row(0, n256=1), row(0, documents=8, n512=1)])


def test_near_and_distant_facts_are_on_either_side_of_512_tokens(distant_facts):
    tokenizer = distant_facts.Tokenizer(distant_facts.MINILM)
    train, test = (
        [len(ids) + 2 for ids in tokenizer.contents(part.texts)] for part in distant_facts.parts(0)
    )
    (near, _), (far, _) = distant_facts.REACHES[1536].test
    assert len(test) == near + far and max(test[:near]) <= 512 and max(train + test) <= 1536
    assert min(test[near:]) > 512 + 16, "no chunk has both facts"
    assert sum(n > 512 for n in train) == distant_facts.TRAIN[-1][0]
    far = [
        [len(ids) + 2 for ids in tokenizer.contents(part.texts)]
        for part in distant_facts.parts(0, 4096)
    ]
    assert [max(part) <= 4096 for part in far] == [True, True]
    assert [sum(n > 1536 for n in part) > 10 for part in far] == [True, True]


def test_distant_facts_are_scored_by_length_and_by_seed(distant_facts):
    ways = {distant_facts.SHORT: [1, 1, 0, 1, 0, 0], distant_facts.WHOLE: [1, 1, 1, 1, 1, 0]}
    rows = [{"length": 1536, "tokens": [100, 400, 600, 700, 1100, 1200], "right": ways}] * 2
    correct = distant_facts.table(rows)
    assert "| stretched, one pass | 75.0% ± 32.1 | +50.0 ± 37.0 |" in correct
    assert "| tokens (texts) | seeds | 1–512 (4) | 513–768 (4) | 1,025–1,280 (4) |" in correct
    assert "| stretched, one pass | 75 / 75 | 100 | 100 | 50 |" in correct
    assert "| first 512 tokens | 25 / 25 | 100 | 50 | 0 |" in correct
    assert "+50.0 ± 37.0 points, better" in distant_facts.verdict(rows)


def test_ways_are_compared_on_the_same_units(rivals, intervals):
    """Seeds are averaged within a unit: as many units as there are, however many seeds."""
    one, other = np.array([[1, 1, 0, 1], [1, 0, 0, 1]]), np.array([[0, 1, 0, 0], [0, 1, 0, 1]])
    row = intervals.paired(one, other)
    more = one.mean(0) - other.mean(0)
    assert row["accuracy"] == 0.625 and row["more"] == pytest.approx(more.mean())
    assert row["more_half"] == pytest.approx(1.96 * np.std(more, ddof=1) / 2)
    few, many = {"a": one, "b": other}, {"a": np.tile(one, 20), "b": np.tile(other, 20)}
    assert rivals.compared(few, "a", ["b", "c"]).endswith("no significant difference.")
    assert rivals.compared(many, "a", ["b"]) == "a against b: +25.0 ± 12.3 points, better."
    assert rivals.compared(many, "b", ["a"]) == "b against a: -25.0 ± 12.3 points, worse."
    assert rivals.compared(few, "a", ["c"]) == ""
    pairs = [("b", ["a"]), ("a", ["c"])]
    assert rivals.comparisons(many, pairs).endswith(
        "|---|---|---|\n| b against a | -25.0 ± 12.3 | worse |"
    )
    lines = rivals.table(many, "b").splitlines()
    assert lines[2:] == [
        "| a | 62.5% ± 9.1 | +25.0 ± 12.3 |",
        "| b | 37.5% ± 9.1 |  |",
    ]


def test_lines_that_a_chunk_cuts_have_the_mean_of_all_their_tokens(
    features, pretrained, tmp_path, monkeypatch
):
    monkeypatch.setattr(features, "CHUNK", 12)
    encoder = features.FrozenEncoder(pretrained, tmp_path)
    ids, spans = list(range(5, 30)), [(0, 4), (4, 13), (13, 25)]
    found = encoder.lines_in_chunks(ids, spans)
    tokens = [encoder.lines(part, [(i, i + 1) for i in range(len(part))])
              for _, part in encoder.parts(ids)]  # fmt: skip
    tokens = np.concatenate(tokens)
    assert [len(part) for _, part in encoder.parts(ids)] == [10, 10, 5]
    for (a, b), values in zip(spans, found, strict=True):
        np.testing.assert_allclose(values, tokens[a:b].mean(0), atol=1e-5)
    # What is known is not computed again.
    again = features.FrozenEncoder(pretrained, tmp_path)
    np.testing.assert_array_equal(again.lines_in_chunks(ids, spans), found)
    assert again.model is None


def test_units_are_scored_by_the_share_of_their_items(readings, reading_tasks):
    labels, units = ["a", "b", "a", "a", "b"], [7, 7, 7, 3, 3]
    halves = [([0, 1, 3], [2, 4]), ([2, 4], [0, 1, 3])]
    task = reading_tasks.Task(labels, units, lambda seed: halves, {}, validations=1)
    assert readings.scored(task, lambda train, test, inner: "a" * len(test), 0) == [0.5, 0.6667]


def test_episodes_are_in_one_part_only(reading_tasks, monkeypatch):
    monkeypatch.setattr(
        reading_tasks,
        "episodes_of_friends",
        lambda readings, written: [
            (f"{i % 10:02}", ["Ross", "All", "Joey"], [[5], [6], [7]]) for i in range(200)
        ],
    )
    unread = mock.Mock()
    seasons = reading_tasks.seasons_of_friends(unread)
    assert len(set(seasons.labels)) == 10 and len(seasons.labels) == 120
    tested = [i for _, test in seasons.parts(1) for i in test]
    assert sorted(tested) == list(range(120))
    assert all(not set(train) & set(test) for train, test in seasons.parts(1))
    speakers = reading_tasks.speakers_of_friends(unread)
    ((train, test),) = speakers.parts(0)
    ((_, other),) = speakers.parts(1)
    values = [{speakers.units[i] for i in part} for part in (train, test)]
    assert not values[0] & values[1] and len(values[1]) == 40 and test == other
    assert speakers.labels == ["Ross", "Joey"] * 160


def test_a_line_of_a_digest_has_the_group_of_its_post(reading_tasks):
    readings = mock.Mock(room=lambda length: 30)
    readings.tokenizer.contents = lambda lines: [list(range(len(line.split()))) for line in lines]
    lines = reading_tasks.lines_of_digests(readings, 8, 4)
    (texts, items, labels), _ = readings.of_lines.call_args
    assert len(texts) == 12 and all(20 <= sum(map(len, text)) <= 30 for text in texts)
    assert all(len(line) == 10 for text in texts for line in text[:2])
    posts = reading_tasks.posts_of("train")
    starts = [" ".join(text.split()[:10]) for text in posts.texts]
    begun = dict(zip(starts, posts.labels, strict=True))
    digests = reading_tasks.digest_texts("train", 8).texts
    found = [begun[" ".join(digest.split()[:10])] for digest in digests]
    assert found == [labels[items.index((text, 0))] for text in range(8)]
    ((train, test),) = lines.parts(0)
    assert {lines.units[i] for i in test} == set(range(8, 12))
    assert len({lines.units[i] for i in train}) == 5
