import pytest

from keras_posenc.bench import curves, read_results, save_pictures, to_table
from keras_posenc.training.state import write_text

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
    _, _, plain, random = to_table(RESULTS).splitlines()
    assert plain == "| bucket_sort | rotary | 60.0 | 50.0 | 40.0 | 2 | 1,000 | 20.0 | 12% |"
    assert random.startswith("| bucket_sort | log_n sorted ids | 80.0 | 80.0 | 80.0 | 1 |")


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


def test_pictures_and_table_come_from_the_file_alone(tmp_path):
    import json

    write_text(tmp_path / "results.json", json.dumps(RESULTS))
    results = read_results(tmp_path / "results.json")
    assert to_table(results) == to_table(RESULTS)
    (path,) = save_pictures(results, tmp_path)
    assert path.name == "bucket_sort.svg"
    assert path.read_text("utf-8").startswith("<?xml")
