"""Every task from its documents to metrics, predictions and a report, on every backend."""

import dataclasses
import json

import keras
import numpy as np
import pytest
from task_data import asked, numbered, paired, seeded, several, tagged

from keras_posenc.analysis import write_report
from keras_posenc.cli import main
from keras_posenc.metrics.answers import Span
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.text import Texts
from keras_posenc.training import (
    Answer,
    Classify,
    Embed,
    TextModel,
    evaluate,
    finetune,
    load_finetuned,
    predict,
    summary,
    to_tsv,
)
from keras_posenc.training.finetuning.tasks import TASKS

# What each is trained with, how long, and what the score that matters most must reach.
RUNS = {
    "multilabel": (several, {"epochs": 8, "token_budget": 128}, 0.8),
    "regress": (numbered, {}, 0.8),
    "tag": (tagged, {"epochs": 8}, 0.75),
    "qa": (asked, {"epochs": 4}, 0.9),
    "embed": (paired, {}, 0.9),
}


@pytest.fixture(scope="module")
def bert(tmp_path_factory, pretrained):
    """`pretrained` with enough positions, so that nothing is stretched."""
    folder = tmp_path_factory.mktemp("bert")
    config = json.loads((pretrained / "config.json").read_text())
    config |= {"max_position_embeddings": 32, "hidden_dropout_prob": 0.0}
    config |= {"attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text((pretrained / "vocab.txt").read_text())
    keras.utils.set_random_seed(0)
    build_transformer_model(config).save(folder / "model.keras")
    return folder


def plain(task):
    """The task without dropout, if it has a head."""
    has_dropout = hasattr(TASKS[task], "head_dropout")
    return dataclasses.replace(TASKS[task], head_dropout=0.0) if has_dropout else task


@pytest.fixture(scope="module")
def runs(tmp_path_factory, bert):
    """A function that gives the output folder and the metrics of a task's run."""
    done = {}

    def run(task):
        if task not in done:
            kind, options, _ = RUNS[task]
            output = tmp_path_factory.mktemp("runs") / task
            usual = {"epochs": 5, "max_length": 24, "optimizer": "adamw:2e-2", "token_budget": 1024}
            metrics = finetune(
                bert,
                seeded(kind, 0, 96),
                output,
                task=plain(task),
                validation=0.2,
                test=seeded(kind, 1, 40),
                verbose=0,
                **usual | options,
            )
            done[task] = output, metrics
        return done[task]

    return run


# The others differ from this one in nothing that a backend sees.
EVERYWHERE = ("embed",)
TASKS_HERE = [
    pytest.param(task, marks=() if task in EVERYWHERE else pytest.mark.once) for task in RUNS
]


@pytest.mark.parametrize("task", TASKS_HERE)
def test_it_learns_and_is_saved(runs, task):
    output, metrics = runs(task)
    kind, _, enough = RUNS[task]
    headline = next(key for key in metrics["scores"] if key in metrics["test"])
    assert metrics["task"] == task and metrics["test"][headline] >= enough
    again = evaluate(output, seeded(kind, 1, 40), verbose=0)
    assert again["test"][headline] == pytest.approx(metrics["test"][headline], abs=1e-4)
    page = write_report(output).read_text("utf-8")
    title = metrics["scores"][headline]
    assert f"{title[0].upper()}{title[1:]} by document length" in page or task == "regress"
    assert "<h2>Each class</h2>" in page or task not in ("tag", "multilabel")
    assert title in summary(metrics) and "test      " in summary(metrics)


@pytest.mark.once
def test_several_labels_are_predicted(runs):
    output, _ = runs("multilabel")
    both, none = predict(output, ["w1 w30 w4 w31 w2", "w1 w2 w3 w4"], verbose=0)
    assert both.labels == ["x", "y"] and none.labels == []
    assert set(both.probabilities) == set("xyz")
    assert to_tsv([both, none]) == "x|y\n"
    late = "w1 w2 w3 " * 10 + "w30 w30"
    (cut,) = predict(output, [late], verbose=0)
    (chunked,) = predict(output, [late], chunks=12, pool="max", verbose=0)
    assert chunked.probabilities["x"] > 0.5 > cut.probabilities["x"]


@pytest.mark.once
def test_numbers_are_predicted(runs):
    output, _ = runs("regress")
    high, low = predict(output, ["w30 " * 9 + "w1", "w1 w2 w3 w4 w5 w6 w7 w8 w9 w2"], verbose=0)
    assert high.values[0] > low.values[0] + 0.3
    assert to_tsv([high]) == f"{high.values[0]:.6g}"
    (whole,) = predict(output, ["w30 " * 10 + "w1 " * 10], chunks=12, verbose=0)
    assert low.values[0] < whole.values[0] < high.values[0]


@pytest.mark.once
def test_tags_are_predicted_of_words_of_texts_and_of_chunks(runs):
    output, _ = runs("tag")
    words = ["w25", "w30", "w32", "w21", "w31"]
    (found,) = predict(output, [words], verbose=0)
    assert found.tags == ["O", "B-PER", "I-PER", "O", "B-LOC"]
    entity = {"kind": "PER", "start": 4, "end": 11, "text": "w30 w32"}
    assert found.entities[0] == entity and len(found.entities) == 2
    (text,) = predict(output, ["w25  w30 w32 w21"], verbose=0)
    assert text.tags is None
    assert text.entities == [{"kind": "PER", "start": 5, "end": 12, "text": "w30 w32"}]
    long = ["w21"] * 50 + ["w30"]
    assert predict(output, [long], verbose=0)[0].tags == ["O"] * 51  # cut off
    (chunked,) = predict(output, [long], chunks=16, verbose=0)
    assert chunked.tags == ["O"] * 50 + ["B-PER"]
    assert "PER 4-11 w30 w32" in to_tsv([found])


@pytest.mark.once
def test_a_tagger_of_words_reads_a_text_word_by_word(runs):
    """Training has no tags for further tokens of a word, so a text gets none there."""
    model = load_finetuned(runs("tag")[0])
    text = "w3 w8w31-w31.5, (w30)\u4e00\u4e01 \u0939\u093f\u0902\u0926\u0940\u0964"
    words = ["w3", "w8w31-w31.5", ",", "(", "w30", ")", "\u4e00", "\u4e01"]
    words += ["\u0939\u093f\u0902\u0926\u0940", "\u0964"]
    (whole,), (split,) = (model.judged([each], verbose=0)[0] for each in (text, words))
    assert [text[a:b] for a, b in zip(whole.starts, whole.ends, strict=True)] == words
    np.testing.assert_allclose(whole.logits, split.logits, atol=1e-5)
    entities = predict(runs("tag")[0], [text], verbose=0)[0].entities
    assert entities and all(text[e["start"] : e["end"]] == e["text"] for e in entities)


@pytest.mark.once
def test_spans_of_characters_are_learned_as_tags(tmp_path, bert):
    texts, tags = seeded(tagged, 0, 96)
    spans = []
    for words, tags_of_text in zip(texts, tags, strict=True):
        place, found = 0, []
        for word, tag in zip(words, tags_of_text, strict=True):
            if tag[0] == "B":
                found.append([place, place + len(word), tag[2:]])
            elif tag[0] == "I":
                found[-1][1] = place + len(word)
            place += len(word) + 1
        spans.append([tuple(span) for span in found])
    texts = [" ".join(words) for words in texts]
    options = {"max_length": 24, "epochs": 6, "optimizer": "adamw:2e-2", "token_budget": 1024}
    metrics = finetune(
        bert, (texts, spans), tmp_path / "out", task="tag", validation=0.2, verbose=0, **options
    )
    assert metrics["validation"]["f1"] > 0.7
    assert load_finetuned(tmp_path / "out").words is None  # spans may end within words


def test_an_answer_far_into_a_passage_is_found(runs):
    output, metrics = runs("qa")
    assert metrics["labels"] == ["answer", "no answer"]
    assert json.loads((output / "labels.json").read_text())["stride"] == 6
    passage = "w1 w2 " * 60 + "w30 w31 " + "w3 " * 60
    found, none = predict(output, [("w33 w34", passage), ("w33 w34", "w1 w2 " * 40)], verbose=0)
    assert found.answer == "w30 w31" == passage[found.start : found.end]
    assert none.answer == "" and (none.start, none.end) == (0, 0)
    assert 0.5 < found.probability <= 1
    with pytest.raises(ValueError, match="chunks=16: qa reads all of a text already, in windows"):
        predict(output, [("w33", "w1")], chunks=16)
    with pytest.raises(ValueError, match="Text 0 is 'w1': questions need a passage"):
        predict(output, ["w1"], verbose=0)


@pytest.mark.once
def test_pairs_without_scores_are_read_with_and_without_labels():
    pairs = [("a", "b"), ("c", "d")]
    read = TASKS["embed"].read
    for source in (pairs, (pairs, None), (pairs, [None, None])):
        found = read(source, "train")
        assert (found.texts, found.labels, found.lines) == (pairs, [None, None], [1, 2])


def test_an_embedder_is_saved_alone(runs):
    output, _ = runs("embed")
    model = load_finetuned(output).model
    assert model.output_shape == (None, 16)
    one, other, far = predict(output, ["w1 w2 w3 w4", "w4 w2 w1 w3", "w20 w25 w28"], verbose=0)
    cosine = lambda a, b: sum(x * y for x, y in zip(a.embedding, b.embedding, strict=True))  # noqa: E731
    assert cosine(one, one) == pytest.approx(1, abs=1e-5)
    assert cosine(one, other) > cosine(one, far) + 0.2
    (chunked,) = predict(output, ["w1 w2 w3 w4 " * 12], chunks=10, verbose=0)
    assert cosine(chunked, chunked) == pytest.approx(1, abs=1e-5)


@pytest.mark.once
def test_scored_pairs_and_triples(tmp_path, bert):
    groups = seeded(paired, 0, 60)
    scored = [group[:2] for group in groups] + [group[::2] for group in groups]
    options = {"max_length": 16, "epochs": 4, "optimizer": "adamw:2e-2", "token_budget": 1024}
    options |= {"task": "embed", "verbose": 0}
    labels = [1.0] * 60 + [0.0] * 60
    found = finetune(bert, (scored, labels), tmp_path / "s", validation=0.25, **options)
    assert found["labels"] == ["score"] and found["validation"]["spearman"] > 0.5
    assert write_report(tmp_path / "s").exists()
    pairs = [group[:2] for group in groups]
    found = finetune(bert, pairs, tmp_path / "p", validation=0.25, **{**options, "epochs": 1})
    assert found["labels"] == ["anchor", "positive"]
    with pytest.raises(ValueError, match="data, line 1: 3 texts without a score, where the train"):
        evaluate(tmp_path / "p", groups, verbose=0)


@pytest.mark.once
def test_the_commands(tmp_path, bert, capsys):
    texts, tags = seeded(tagged, 0, 24)
    content = "\n\n".join(
        "\n".join(f"{w}\t{t}" for w, t in zip(*each, strict=True))
        for each in zip(texts, tags, strict=True)
    )
    (tmp_path / "train.conll").write_text(content + "\n")
    output = str(tmp_path / "out")
    arguments = ["--task", "tag", "--validation", "0.25", "--epochs", "1", "--max-length", "24"]
    assert main(["finetune", str(bert), str(tmp_path / "train.conll"), output, *arguments]) == 0
    printed = capsys.readouterr().out
    assert 'task="tag"' in printed and "recall" in printed and "report.html" in printed
    assert main(["evaluate", output, str(tmp_path / "train.conll")]) == 0
    assert "precision" in capsys.readouterr().out
    assert main(["predict", output, "--text", "w30 w32", "--format", "jsonl"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"row", "entities", "tags"}
    # The same command again finds the run finished.
    assert main(["finetune", str(bert), str(tmp_path / "train.conll"), output, *arguments]) == 0


@pytest.mark.once
def test_the_command_answers(runs, capsys, tmp_path):
    output, _ = runs("qa")
    passage = "w1 w2 w30 w31 w4"
    asked = ["predict", str(output), "--question", "w33 w34", "--text", passage]
    assert main(asked) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[1].split("\t")[:2] == ["1", "w30 w31"]
    assert f'[("w33 w34", "{passage}")]' in captured.err
    rows = [{"question": "w33 w34", "context": passage}]
    (tmp_path / "asked.jsonl").write_text("\n".join(map(json.dumps, rows)))
    file = ["predict", str(output), "--file", str(tmp_path / "asked.jsonl")]
    assert main(file) == 0
    assert capsys.readouterr().out.splitlines()[1].split("\t")[1] == "w30 w31"
    assert main([*file, "--question", "who?"]) == 2
    assert "--question belongs to --text" in capsys.readouterr().err


@pytest.mark.once
def test_an_interrupted_run_of_a_task_goes_on(tmp_path, bert, monkeypatch):
    from keras_posenc.training.finetuning import trainer

    train = seeded(asked, 0, 24)
    options = {"task": "qa", "max_length": 24, "epochs": 2, "token_budget": 1024, "verbose": 0}
    whole = finetune(bert, train, tmp_path / "whole", test=train, **options)
    save, kept = trainer.save_state, []

    def stop(*arguments):
        save(*arguments)
        kept.append(arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "save_state", stop)
    with pytest.raises(KeyboardInterrupt):
        finetune(bert, train, tmp_path / "two", test=train, **options)
    monkeypatch.setattr(trainer, "save_state", save)
    again = finetune(bert, train, tmp_path / "two", test=train, **options)
    assert again["test"] == whole["test"] and len(kept) == 1


@pytest.mark.once
def test_what_was_saved_before_there_were_tasks_loads(finetuned, tmp_path):
    import shutil

    shutil.copytree(finetuned, tmp_path / "old")
    path = tmp_path / "old" / "labels.json"
    settings = json.loads(path.read_text())
    assert settings.pop("task") == "classify"
    path.write_text(json.dumps(settings))
    assert load_finetuned(tmp_path / "old").task == "classify"
    path.write_text(json.dumps({**settings, "task": "dance"}))
    with pytest.raises(ValueError, match="labels.json is damaged .task should be .*, not 'dance'"):
        load_finetuned(tmp_path / "old")
    metrics = json.loads((finetuned / "metrics.json").read_text("utf-8"))
    old = {key: value for key, value in metrics.items() if key not in ("task", "scores")}
    assert summary(old) == summary(metrics)


QA = (("q", "abc"),)


@pytest.mark.once
@pytest.mark.parametrize(
    ("task", "train", "match"),
    [
        (
            "dance",
            ([], []),
            "`task` must be one of .'classify', 'multilabel', .* Received: 'dance'",
        ),
        ("multilabel", (["a"], ["x"]), "on line 1 of train has the labels 'x': give a list of na"),
        ("multilabel", (["a"], [["x"]]), r"train has the labels \['x'\] only: give two or more"),
        ("multilabel", Texts(["a"], None, [1]), "holds texts without labels"),
        ("regress", (["a"], ["x"]), "on line 1 of train has the label 'x': give a finite number"),
        ("regress", (["a", "b"], [1, [1, 2]]), "train, line 2: 2 numbers where the training's fi"),
        ("regress", (["a", "b"], [1, None]), "train, line 2: the text has no label, but None"),
        ("tag", ([["a", "b"]], [["O"]]), "on line 1 of train has 2 words but 1 tags: give one to"),
        ("tag", (["abc"], [[(0, 4, "X")]]), r"on line 1 of train has the span \(0, 4, 'X'\)"),
        ("tag", ([["a"]], [["O"]]), r"train has the tags \['O'\] only: there is nothing to learn"),
        ("tag", (["abc"], [[(0, "a")]]), r"train has the span \(0, 'a'\): give \(start, end, kind"),
        ("tag", ([3], [["O"]]), "on line 1 of train is 3: give a str or a list of words"),
        ("qa", (QA, [3]), "answered by 3: give a pair"),
        ("qa", (QA, [[(2, 9)]]), r"on line 1 of train has the answer \(2, 9\), beyond its passage"),
        ("qa", (["abc"], [[(0, 1)]]), "on line 1 of train is 'abc', .* give a pair"),
        ("embed", ["abc"], "on line 1 of train is 'abc': give pairs, or tuples"),
        ("embed", (QA, [3]), "has the score 3: a cosine is from -1 to 1"),
        ("embed", [("a", "b"), ("a", "b", "c")], "train, line 2: 3 texts without a score, where"),
    ],
)
def test_documents_that_do_not_fit(tmp_path, bert, task, train, match):
    with pytest.raises(ValueError, match=match):
        finetune(bert, train, tmp_path, task=task, verbose=0)


@pytest.mark.once
def test_settings_and_labels_that_do_not_fit(tmp_path, bert, runs):
    with pytest.raises(ValueError, match="`stride` must be an integer of at least 0. Received: -1"):
        finetune(bert, seeded(asked, 0, 4), tmp_path, task=Answer(stride=-1))
    with pytest.raises(TypeError, match="on line 1 of train has the answer 0: give .start, end"):
        finetune(bert, (QA, [(0, 2)]), tmp_path, task="qa")
    with pytest.raises(ValueError, match="data, line 1: the tag 'B-X' is none of the training's"):
        evaluate(runs("tag")[0], ([["w1"]], [["B-X"]]))
    with pytest.raises(ValueError, match="data, line 1: the label 'q' is none of the training's 3"):
        evaluate(runs("multilabel")[0], (["w1"], [["q"]]))


@pytest.mark.once
def test_transformers_runs_what_was_finetuned(bert, runs, corpus, tmp_path):
    """A family's own head on longer texts than the checkpoint's, and a tagger."""
    transformers = pytest.importorskip("transformers")
    options = dict(max_length=40, epochs=1, verbose=0)
    task = Classify(pooling="head")
    finetune(bert, corpus / "train.tsv", tmp_path / "own", task=task, **options)
    load_finetuned(tmp_path / "own").export(tmp_path / "theirs")
    run = transformers.pipeline("text-classification", str(tmp_path / "theirs"), device="cpu")
    texts = ["w1 w4 w7", " ".join(f"w{n % 33}" for n in range(38))]
    for text, prediction in zip(texts, predict(tmp_path / "own", texts, verbose=0), strict=True):
        found = {row["label"]: row["score"] for row in run(text, top_k=None)}
        assert found == pytest.approx(prediction.probabilities, abs=1e-5)
    folder, _ = runs("tag")
    load_finetuned(folder).export(tmp_path / "tagger")
    run = transformers.pipeline("token-classification", str(tmp_path / "tagger"), device="cpu")
    words = ["w25", "w30", "w32", "w21", "w31"]
    (found,) = predict(folder, [words], verbose=0)
    assert [row["entity"] for row in run(" ".join(words), ignore_labels=[])] == found.tags
    folder, _ = runs("regress")
    trained = load_finetuned(folder)
    trained.export(tmp_path / "numbers")
    model = build_transformer_model(tmp_path / "numbers", head="sequence_classification")
    found = TextModel(model, trained.tokenizer, trained.max_length)
    expected = predict(folder, texts, verbose=0)
    values = np.array([each.values for each in expected])
    np.testing.assert_allclose(found.predict(texts, verbose=0), values, atol=1e-5)
    with pytest.raises(ValueError, match='pooling="head" is .* task=.embed. has one of its own'):
        finetune(
            bert, seeded(paired, 0, 8), tmp_path / "none", task=Embed(pooling="head"), **options
        )


@pytest.mark.once
def test_an_answer_begins_at_its_first_letter():
    """Tokens of bytes and of SentencePiece hold the space before a word."""
    passage, spans = "at  Ada's house", [Span(2, 7, 1.0), Span(0, 0, 0.0)]
    (found,) = TASKS["qa"].predictions([("Where?", passage)], [spans], None)
    assert (found.answer, found.start, found.end) == ("Ada", 4, 7)
    assert passage[found.start : found.end] == found.answer
