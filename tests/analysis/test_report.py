import base64
import html
import json
import pathlib
import re
import xml.etree.ElementTree as ElementTree

import pytest

from benchmarks.extrapolation.pictures import save_pictures
from keras_posenc.analysis import plot, write_report, write_stretch_report
from keras_posenc.analysis.report import FinetuneRun, read_run
from keras_posenc.analysis.report import verdict as verdict_of
from keras_posenc.metrics import scores as metrics
from keras_posenc.text import read_texts
from keras_posenc.training import finetune

pytestmark = pytest.mark.once

JUDGED = metrics.classification(
    [[2.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]],
    [0, 1, 1, 2],
    [90, 600, 700, 2000],
    3,
)


def write_run(folder, validation=JUDGED, test=None, labels=("<a>", "b & b", "c"), **recipe):
    """The files that a finished fine-tuning leaves for a report."""
    folder.mkdir()
    train = {
        "documents": 8,
        "epochs": 2,
        "steps": 4,
        "seconds": 90.0,
        "max_length": 1536,
        "padding_share": 0.1,
        "lengths": metrics.length_histogram([40, 90, 600, 3000]),
    }
    content = {"labels": list(labels), "train": train, "validation": validation, "test": test}
    content["versions"] = {"keras": "3", "backend": "jax"}
    (folder / "metrics.json").write_text(json.dumps(content))
    (folder / "recipe.json").write_text(json.dumps({"learning_rate": 1e-4, **recipe}))
    lines = ["epoch,max_length,steps,loss,accuracy,seconds,val_loss,val_accuracy"]
    lines += ["1,512,2,1.5,0.4,50,1.4,0.5", "2,1536,2,0.9,0.7,40,0.8,0.75"]
    if validation is None:
        lines = [line.rsplit(",", 2)[0] for line in lines]
    (folder / "history.csv").write_text("\n".join(lines) + "\n")
    (folder / "steps.csv").write_text("epoch,loss\n0.5,2.0\n1,1.5\n1.5,1\n2,0.9\n")
    return folder


def pictures(page):
    return [
        base64.b64decode(data).decode()
        for data in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    ]


def test_a_page_holds_its_pictures_and_needs_nothing_else(tmp_path):
    path = write_report(write_run(tmp_path / "run"))
    page = path.read_text("utf-8")
    assert path == tmp_path / "run" / "report.html"
    assert len(pictures(page)) == 4 and "img { max-width: 100%;" in page
    for picture in pictures(page):
        assert ElementTree.fromstring(picture).tag.endswith("svg")
    assert not re.findall(r'(?:src|href)="(?!data:)', page) and "<script" not in page
    headings = re.findall("<h2>(.*?)</h2>", page)
    assert headings == [
        "Results",
        "Accuracy by document length",
        "Learning curves",
        "Confusion matrix",
        "Document lengths",
        "About this run",
        "Settings",
    ]


def test_the_numbers_are_those_of_the_metrics(tmp_path):
    page = write_report(write_run(tmp_path / "run")).read_text("utf-8")
    low, high = JUDGED["interval"]
    assert f"75.0% ({100 * low:.1f}–{100 * high:.1f})" in page
    assert "<td>the first 1,536 tokens</td><td>1.5 min</td>" in page
    assert "<tr><th>b &amp; b</th><td>&lt;a&gt;</td><td>1</td></tr>" in page  # the one confusion
    assert "<th>learning_rate</th><td>0.0001</td>" in page


def test_runs_side_by_side(tmp_path):
    one = write_run(tmp_path / "one", alpha=0.4)
    two = write_run(tmp_path / "two", test=JUDGED)
    path = write_report({"512 tokens": one, "1,536 tokens": two}, tmp_path / "both.html", "Both")
    page = path.read_text("utf-8")
    assert "<title>Both</title>" in page and len(pictures(page)) == 6
    assert "<h2>Confusion matrix: 1,536 tokens</h2>" in page
    assert "<th>alpha</th><td>0.4</td><td>–</td>" in page


def test_settings_are_written_as_in_a_call(tmp_path):
    extension = {"table": "hierarchical", "alpha": 0.2, "kept_rows": 1}
    recipe = {"extension": extension, "use_ema": False, "layer_decay": None, "train": "0" * 16}
    page = write_report(write_run(tmp_path / "run", **recipe)).read_text("utf-8")
    assert "<th>extension</th><td>hierarchical:0.2,kept_rows=1</td>" in page
    assert "<th>use_ema</th><td>False</td>" in page
    assert "layer_decay" not in page and "0" * 16 not in page


def test_a_run_that_nothing_judged(tmp_path):
    page = write_report(write_run(tmp_path / "run", validation=None)).read_text("utf-8")
    assert "Not evaluated: no validation and no test documents were given" in page
    assert len(pictures(page)) == 2


def test_the_same_files_give_the_same_page(tmp_path):
    run = write_run(tmp_path / "run")
    one = write_report(run, tmp_path / "one.html").read_bytes()
    assert one == write_report(run, tmp_path / "two.html").read_bytes()


def test_a_run_without_a_mistake_has_no_confusions(tmp_path):
    write_run(tmp_path / "run", None, judged(20, 0), labels=("a", "b"))
    assert "<p>None.</p>" in write_report(tmp_path / "run").read_text("utf-8")


def test_a_directory_without_a_finished_run(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no finished fine-tuning: it has no metrics"):
        write_report(tmp_path)


def test_several_runs_need_a_path(tmp_path):
    run = write_run(tmp_path / "run")
    with pytest.raises(ValueError, match="needs a `path` to be written to"):
        write_report({"one": run})


def test_without_matplotlib_a_page_has_no_figures(monkeypatch, tmp_path, caplog):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    page = write_report(write_run(tmp_path / "run")).read_text("utf-8")
    assert pictures(page) == [] and page.count("Not drawn: Matplotlib is not installed.") == 4
    assert "75.0% (" in page and "<p class=verdict>Not shown to be better than always" in page
    (line,) = caplog.messages
    assert re.search(
        r"report\.html has no figures.*pip install matplotlib, then .*same command.* write_report",
        line,
    )
    assert save_pictures([], tmp_path) == []
    assert "pip install matplotlib, then the same command draws them" in caplog.messages[-1]
    with pytest.raises(ImportError, match="Figures need Matplotlib: pip install matplotlib"):
        plot.learning_curves([])


def judged(right, wrong):
    """Metrics on documents of two classes, as many of either."""
    logits = [[2.0, 0.0], [0.0, 2.0]] * right + [[0.0, 2.0], [2.0, 0.0]] * wrong
    count = right + wrong
    return metrics.classification(logits, [0, 1] * count, [9] * 2 * count, 2)


@pytest.mark.parametrize(
    ("right", "wrong", "verdict"),
    [
        (
            18,
            2,
            "Better than always predicting the most frequent class: accuracy is 90.0% on 40 test "
            "documents (95% interval 76.9–96.0), and that rule gives 50.0%.",
        ),
        (
            11,
            9,
            "Not shown to be better than always predicting the most frequent class: accuracy is",
        ),
        (
            2,
            18,
            "Worse than always predicting the most frequent class: accuracy is 10.0% on 40 test",
        ),
    ],
)
def test_the_verdict_compares_with_the_most_frequent_class(tmp_path, right, wrong, verdict):
    run = write_run(tmp_path / "run", test=judged(right, wrong), labels=("a", "b"), validation=None)
    words = verdict_of(read_run(run))
    assert words.startswith(verdict)
    assert "that rule gives 50.0%" in words and "Good" not in words


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (0.9, "Better than chance: Spearman is 0.900 on 12 test"),
        (0.3, "Not shown to be better than chance: Spearman is 0.300 on 12 test"),
        # The bound of 97.5% is 1.96 / sqrt(11) = 0.591.
        (0.6, "Better than chance: Spearman is 0.600 on 12 test"),
        (0.58, "Not shown to be better than chance: Spearman is 0.580 on 12 test"),
    ],
)
def test_the_verdict_on_numbers(value, verdict):
    run = FinetuneRun("a", "a", {"test": {"documents": 12, "spearman": value}, "validation": None,
                         "scores": {"spearman": "Spearman"}}, {}, [], [])  # fmt: skip
    assert verdict_of(run).startswith(verdict)
    run.metrics["task"] = "qa"
    assert run.parts == "windows"
    run.metrics["test"], run.metrics["scores"] = {"documents": 12, "f1": value}, {"f1": "F1"}
    assert verdict_of(run).startswith(f"F1 is {value:.3f} on 12 test documents. Comp")


def test_a_page_says_what_was_run(tmp_path, pretrained, corpus):
    """Model, data, date and the call, which runs as it stands and finds the run finished."""
    train = corpus / "train.tsv"
    settings = dict(validation=0.25, max_length=16, epochs=1, optimizer="adamw:2e-3", verbose=0)
    metrics = finetune(pretrained, train, tmp_path / "out", **settings)
    page = write_report(tmp_path / "out").read_text("utf-8")
    assert f"<th>model</th><td>{pretrained}</td>" in page
    assert f"<th>training data</th><td>{train}</td>" in page
    assert "<th>validation</th><td>25% of the training data</td>" in page
    assert f"<th>date</th><td>{metrics['finished']}</td>" in page
    call = html.unescape(re.search("<pre>(.*?)</pre>", page, re.DOTALL)[1])
    assert 'optimizer="adamw:0.002"' in call and "schedule" not in call
    assert eval(call, {"finetune": finetune}) == metrics


def test_texts_in_memory_are_keywords_of_the_call(tmp_path, pretrained, corpus):
    train = read_texts(corpus / "train.tsv")
    finetune(pretrained, train, tmp_path / "out", test=train, max_length=16, epochs=1, verbose=0)
    page = write_report(tmp_path / "out").read_text("utf-8")
    assert "<th>training data</th><td>in memory</td>" in page
    call = html.unescape(re.search("<pre>(.*?)</pre>", page, re.DOTALL)[1])
    found = eval(call, {"finetune": finetune, "train": train, "test": train})
    assert found["test"]["documents"] == len(train.texts)


def test_no_picture_leaves_a_window_or_a_changed_style():
    import matplotlib

    before = dict(matplotlib.rcParams)
    plot.score_by_length({"test": JUDGED["by_length"]})
    assert dict(matplotlib.rcParams) == before


def test_the_axis_of_scores_does_not_depend_on_the_last_bar():
    share = {"more_than": 0, "up_to": 512, "documents": 8, "accuracy": 0.5, "interval": [0.3, 0.7]}
    number = {"more_than": 512, "up_to": None, "documents": 8, "accuracy": 0.5}
    labels = {}
    for name, series in {
        "shares": {"a": [share]},
        "numbers": {"a": [number]},
        "both": {"a": [share], "b": [number]},
        "swapped": {"a": [number], "b": [share]},
        "none": {"a": []},
    }.items():
        (axes,) = plot.score_by_length(series).axes
        labels[name] = (axes.get_ylabel(), [bar.get_height() for bar in axes.patches])
    assert labels["shares"] == ("accuracy (%)", [50])
    assert labels["numbers"] == ("accuracy", [0.5])
    assert labels["both"] == labels["swapped"] == ("accuracy", [0.5, 0.5])
    assert labels["none"][1] == []


@pytest.mark.parametrize("count", [2, 20, 30, 80])
def test_confusion_matrices_of_any_size(count):
    matrix = [[5 if row == column else 0 for column in range(count)] for row in range(count)]
    figure = plot.confusion_matrix(matrix, [f"class {index}" for index in range(count)])
    (axes, _) = figure.axes
    assert len(axes.texts) == (count if count <= 25 else 0)
    assert axes.get_xlabel() == "predicted class" and axes.get_ylabel() == "true class"


def test_learning_curves_mark_the_stages_and_draw_each_series():
    history = [
        {"epoch": 1.0, "loss": 1.0, "accuracy": 0.5, "max_length": 512.0},
        {"epoch": 2.0, "loss": 0.5, "accuracy": 0.8, "max_length": 1536.0},
    ]
    steps = [{"epoch": 0.5, "loss": 1.2}, {"epoch": 1.0, "loss": 1.0}, {"epoch": 2.0, "loss": 0.5}]
    loss, accuracy = plot.learning_curves(history, steps).axes
    assert loss.texts[0].get_text() == "1,536 tokens"
    labels = [text.get_label() for text in accuracy.lines]
    assert "training" in labels and "validation" not in labels
    assert accuracy.lines[0].get_ydata().tolist() == [50, 80]
    assert loss.get_ylabel() == "cross-entropy (nats)" and loss.get_xlabel() == "epochs"


def test_lengths_of_stages_of_an_epoch_each_can_be_read():
    history = [
        {"epoch": float(epoch), "loss": 1 / epoch, "accuracy": 0.5, "max_length": length}
        for epoch, length in enumerate([48, 48, 48, 48, 48, 192, 512, 1536], start=1)
    ]
    figure = plot.learning_curves(history, [])
    figure.canvas.draw()
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.texts]
        assert len(boxes) == 3
        assert all(one.x1 < other.x0 for one, other in zip(boxes, boxes[1:], strict=False))


def test_a_page_about_a_stretching(tmp_path):
    rows = [
        {"from": i * 128, "to": (i + 1) * 128, "before": 0.8, "after": 0.9, "teacher": 0.88}
        for i in range(6)
    ]
    report = {"agreement": rows, "old_length": 512, "losses": [0.5, 0.4], "seconds": 9.0}
    report["versions"] = {"keras": "3", "backend": "jax"}
    (tmp_path / "metrics.json").write_text(json.dumps(report))
    (tmp_path / "recipe.json").write_text(json.dumps({"checkpoint": "<a>", "length": 768}))
    path = write_stretch_report(tmp_path)
    page = path.read_text("utf-8")
    assert path == tmp_path / "report.html" and len(pictures(page)) == 2
    assert (
        "than before training: the features beyond token 512 agree" in page
        and "cosine of 0.900" in page
    )
    assert "641–768" in page and "2 steps in 9 s" in page and "&lt;a&gt;" in page
    assert "Distant context" not in page  # of an earlier version, which did not measure it
    report["context"] = {"before": 0.125, "after": 0.75}
    (tmp_path / "metrics.json").write_text(json.dumps(report))
    page = write_stretch_report(tmp_path).read_text("utf-8")
    assert "Distant context" in page and "0.125" in page and "0.750" in page
    assert (
        "than before training: the features" in page
        and "Distant context is 0.750, and was 0.125." in page
    )
    same = [{**row, "after": row["before"]} for row in rows]
    (tmp_path / "metrics.json").write_text(json.dumps({**report, "agreement": same}))
    assert "No closer to the unstretched" in write_stretch_report(tmp_path).read_text("utf-8")
    (tmp_path / "metrics.json").write_text(json.dumps({**report, "losses": []}))
    assert len(pictures(write_stretch_report(tmp_path).read_text("utf-8"))) == 1
    with pytest.raises(FileNotFoundError, match="holds no finished stretching"):
        write_stretch_report(tmp_path / "nothing")


def test_a_score_of_each_class_in_one_run_and_of_all_in_another(pretrained, corpus, tmp_path):
    words, tags = [["w1", "w2", "w3"]] * 8, [["B-X", "O", "O"]] * 8
    arguments = {"epochs": 1, "max_length": 16, "verbose": 0}
    classes = {"test": corpus / "test.tsv", **arguments}
    finetune(pretrained, corpus / "train.tsv", tmp_path / "classes", **classes)
    tagged = {"test": (words, tags), "task": "tag", **arguments}
    finetune(pretrained, (words, tags), tmp_path / "tags", **tagged)
    runs = {name: tmp_path / name for name in ("tags", "classes")}
    page = pathlib.Path(write_report(runs, tmp_path / "both.html")).read_text("utf-8")
    assert "<td>–</td>" in page
