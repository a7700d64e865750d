import math

import pytest

from benchmarks.extrapolation.perplexity_table import perplexity_table
from benchmarks.extrapolation.pictures import save_pictures
from benchmarks.extrapolation.published_results import published, source
from benchmarks.extrapolation.table import curves, curves_by_place, read_results, to_table
from keras_posenc.files.writing import write_text

pytestmark = pytest.mark.once


def result(seed, values, encodings="rotary", positions="consecutive", split="test", **more):
    return {
        "task": "bucket_sort",
        "model": "transformer",
        "encodings": encodings,
        "positions": positions,
        "seed": seed,
        "accuracy": {split: values},
        "chance": 0.2,
        "train_lengths": [1, 40],
        "seconds": {"training": 6.0, "testing": 2.0, "compiling": 1.0},
        "settings": {"steps": 1000},
        **more,
    }


RESULTS = [
    result(0, {"40": 1.0, "80": 0.5, "160": 0.3}),
    result(1, {"40": 0.9, "80": 0.7, "160": 0.5}),
    result(0, {"40": 0.8, "80": 0.8, "160": 0.8}, "log_n", "sorted"),
]


def test_the_table_is_of_the_longer_lengths_and_of_all_seeds():
    head, _, plain, random = to_table(RESULTS).splitlines()
    assert plain.startswith(
        "| bucket_sort | rotary | 95.0 | 60.0 | 50.0 | 40.0 | learned, kept in "
    )
    assert plain.endswith(" |  | 2 | 1,000 | 20.0 | 30.6 |")
    assert random.startswith(
        "| bucket_sort | log_n sorted ids | 80.0 | 80.0 | 80.0 | 80.0 | learne"
    )
    assert random.endswith("| rotary +30.0, one seed | 1 | 1,000 | 20.0 | – |")


def so(*values, **more):
    table = to_table([result(n, value, **more) for n, value in enumerate(values)])
    row = dict(zip(*(line.split(" | ") for line in table.splitlines()[::2]), strict=True))
    return row["verdict"]


def test_what_was_not_learned_is_distinguished_from_what_was_not_kept():
    assert so({"40": 0.3, "80": 0.25}) == "not learned"
    assert so({"40": 1.0, "80": 0.3}) == "learned, lost"
    assert so({"40": 0.7, "80": 0.69}) == "learned in part, kept"
    assert (
        so({"40": 1.0, "80": 0.9}, {"40": 0.3, "80": 0.3}) == "learned, kept (1); not learned (1)"
    )
    # Results of before trained lengths were tested.
    assert so({"80": 0.3}, {"80": 0.9}) == "near chance (1); above chance (1)"
    assert so({"40": 1.0}) == "learned"


def test_a_row_is_compared_with_what_it_adds_to():
    def row(encodings, positions, *values):
        return [result(n, {"80": v}, encodings, positions) for n, v in enumerate(values)]

    table = to_table(
        [
            *row("rotary", "consecutive", 0.3, 0.4),
            *row("rotary", "sorted", 0.8, 0.9),
            *row("rotary+log_n", "sorted", 0.7, 0.81),
            *row("rotary:base=9", "consecutive", 0.5, 0.39),
        ]
    )
    against = [line.split(" | ")[6] for line in table.splitlines()[2:]]
    assert against == [
        "",
        "rotary +50.0",
        "rotary sorted ids -9.5, overlaps",
        "rotary +9.5, overlaps",
    ]


def test_the_published_figure_stands_in_its_row():
    assert published(result(0, {}, "transformer_xl", "sorted")) == 100
    assert published(result(0, {}, model="tape_rnn")) == 70.7
    assert published(result(0, {}, "rotary+log_n")) is None
    assert published({**result(0, {}), "task": "counting:variables=3"}, "train") is None
    counted = {**result(0, {}, "cope:npos_max=16"), "task": "counting:variables=3"}
    assert published(counted, "train") == 98.8 and published(counted, "dense") is None
    assert "15,700 steps" in source(counted) and source({"task": "language_model"}) == ""
    counted["encodings"] += ",gate=values"
    assert published(counted, "train") is None
    text = to_table([{**result(0, {"80": 0.5}), "task": "x"}], lambda one, split: f"{split}: 7")
    assert text.endswith(" test: 7 |")


def test_models_and_splits_are_named():
    found = to_table(
        [
            result(0, {"80": 0.5}, model="lstm", split="sparse"),
            result(0, {"80": 0.5}, model="gau", split="sparse"),
        ]
    )
    assert "| bucket_sort, sparse | lstm | 50.0" in found
    assert "| bucket_sort, sparse | gau rotary | 50.0" in found


def test_curves():
    line = curves(RESULTS)["test"]["rotary"]
    assert line["length"] == [40, 80, 160]
    assert line["best"] == [1.0, 0.7, 0.5] and line["worst"] == [0.9, 0.5, 0.3]
    assert line["mean"] == pytest.approx([0.95, 0.6, 0.4])


def counts(*pairs):
    right, scored = zip(*pairs, strict=True)
    return {"right": list(right), "scored": list(scored)}


def text_result(seed, *far):
    """Trained on 40; right of 10 a span, at 40 and at 100, of which the last span has 5."""
    first, second = far
    places = {"40": counts((9, 10)), "100": counts((8, 10), (first, 10), (second, 5))}
    values = {"40": 0.9, "100": (8 + first + second) / 25}
    return result(seed, values, by_place={"test": places})


def test_far_tokens_are_those_beyond_the_training():
    results = [text_result(0, 5, 1), text_result(1, 8, 4), {**RESULTS[2], "by_place": {}}]
    head, _, far, without = to_table(results).splitlines()
    assert head.startswith("| task | model | trained | best | mean | worst | far | against |")
    assert "| 56.0 | 60.0 (40.0 to 80.0) |  | 2 |" in far
    assert "| 80.0 | – | rotary +12.0, one seed |" in without
    assert "far" not in to_table(RESULTS)


def test_perplexities_have_the_ranges_of_the_seeds():
    def of_context(seed, short, long, encodings):
        losses = {"40": math.log(short), "80": math.log(long)}
        return result(seed, {"40": 1.0}, encodings, by_context={"test": losses})

    seeds = [of_context(0, 10, 8, "rotary"), of_context(1, 20, 15, "rotary")]
    results = [*seeds, of_context(0, 10, 20, "sinusoidal"), *RESULTS]
    assert perplexity_table(results).splitlines() == [
        "| bucket_sort | 40 | 80 | longest against trained |",
        "|---|---|---|---|",
        "| rotary | 15.00 (10.00 to 20.00) | 11.50 (8.00 to 15.00) | 0.775 (0.750 to 0.800) |",
        "| sinusoidal | 10.00 | 20.00 | 2.000 |",
    ]
    assert perplexity_table(RESULTS) == ""
    figures = {"rotary": "4.1, 4.0"}
    text = perplexity_table(results, lambda one, split: figures.get(one["encodings"])).splitlines()
    assert text[0].endswith("| longest against trained | published |")
    assert text[2].endswith("| 4.1, 4.0 |") and text[3].endswith("| 2.000 | – |")


def test_curves_by_place_are_of_the_longest_text():
    line = curves_by_place([text_result(0, 5, 1), text_result(1, 8, 4)])["test"]["rotary"]
    assert line["length"] == [40, 80, 100]
    assert line["mean"] == pytest.approx([0.8, 0.65, 0.5])
    assert (line["best"], line["worst"]) == ([0.8, 0.8, 0.8], [0.8, 0.5, 0.2])


def test_texts_get_a_picture_by_place_too(tmp_path):
    paths = save_pictures([text_result(0, 5, 1)], tmp_path)
    assert [path.name for path in paths] == ["bucket_sort.svg", "bucket_sort-by-place.svg"]
    assert all(path.read_text("utf-8").startswith("<?xml") for path in paths)


def test_pictures_and_table_come_from_the_file_alone(tmp_path):
    import json

    write_text(tmp_path / "results.json", json.dumps(RESULTS))
    results = read_results(tmp_path / "results.json")
    assert to_table(results) == to_table(RESULTS)
    (path,) = save_pictures(results, tmp_path)
    assert path.name == "bucket_sort.svg"
    assert path.read_text("utf-8").startswith("<?xml")
