"""Training texts larger than memory: what is read from memory maps equals what is in memory."""

import dataclasses
import errno
import json
import signal
import types

import numpy as np
import pytest
from forks import Fork
from task_data import asked, numbered, paired, seeded, several, tagged

from keras_posenc import Tokenizer
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.text import (
    CausalBatches,
    MaskedLanguageModelBatches,
    Texts,
    disk_list,
    read_texts,
)
from keras_posenc.text.disk_list import DiskList, DiskListWriter
from keras_posenc.training import cached_texts, finetune, pretrain
from keras_posenc.training.cached_texts import cached_documents
from keras_posenc.training.finetuning.tasks import TASKS
from keras_posenc.training.pretraining import cached_corpus, read_corpus
from keras_posenc.training.text_model import TextModel


def plain(task):
    """The task without dropout, if it has a head."""
    has_dropout = hasattr(task, "head_dropout")
    return dataclasses.replace(task, head_dropout=0.0) if has_dropout else task


KEYS = {"tag": ("tokens", "tags"), "qa": (("question", "context"), "answers")}
KEYS |= {"embed": (("anchor", "positive", "negative"), None)}


def classes(rng, count):
    texts = [
        " ".join(f"w{n}" for n in rng.integers(0, 30, rng.integers(3, 30))) for _ in range(count)
    ]
    return texts, [str(name) for name in rng.integers(0, 3, count)]


DATA = {
    "classify": classes,
    "multilabel": several,
    "regress": numbered,
    "tag": tagged,
    "qa": asked,
    "embed": paired,
}


def written(path, task, count=23, seed=0):
    """A .jsonl file of documents of a task."""
    data = seeded(DATA[task], seed, count)
    texts, labels = data if isinstance(data, tuple) else (data, [None] * count)
    text_keys, label_key = KEYS.get(task, ("text", "label"))
    with open(path, "w") as file:
        for text, label in zip(texts, labels, strict=True):
            cells = text if isinstance(text_keys, tuple) else (text,)
            names = text_keys if isinstance(text_keys, tuple) else (text_keys,)
            row = dict(zip(names, cells, strict=True))
            if task == "qa":
                label = [{"text": text[1][a:b], "answer_start": a} for a, b in label]
            file.write(json.dumps(row if label_key is None else {**row, label_key: label}) + "\n")
    return path


@pytest.fixture(scope="module")
def encoder(pretrained):
    config = json.loads((pretrained / "config.json").read_text())
    return build_transformer_model(config | {"max_position_embeddings": 48})


def epochs_of(batches):
    for epoch in range(2):
        batches.set_epoch(epoch)
        for number in range(len(batches)):
            inputs, *others = batches[number]
            yield from (inputs["token_ids"], inputs["segment_ids"], *others)


@pytest.mark.once
@pytest.mark.parametrize("task", TASKS)
def test_batches_from_memory_maps_equal_those_in_memory(
    tmp_path, monkeypatch, task, encoder, pretrained
):
    monkeypatch.setattr(cached_texts, "PART", 5)
    path, task = written(tmp_path / "train.jsonl", task), TASKS[task]
    in_memory = task.read(path, "train")
    on_disk = cached_documents(tmp_path / "cache", task, path, "train", None, None)
    columns = (list(getattr(on_disk, name)) for name in ("texts", "labels", "lines"))
    assert Texts(*columns) == in_memory
    assert all(isinstance(each, DiskList) for each in (on_disk.texts, on_disk.labels))
    names = task.label_names(on_disk)
    assert names == task.label_names(in_memory)
    stride = 4 if task.has_windows else None
    model = TextModel(
        plain(task).model(encoder, names),
        Tokenizer(pretrained),
        24,
        token_budget=200,
        label_names=names,
        task=task.name,
        stride=stride,
        prompts={"query": "w1 ", "document": "w2 "} if task.embeds else None,
    )
    options = {"shuffle": True, "seed": 3, **task.training_options}
    if task.name in ("classify", "tag"):
        options["class_weight"] = "balanced"
    both = [model.batches(each.texts, each.labels, **options) for each in (in_memory, on_disk)]
    expected, found = (list(epochs_of(batches)) for batches in both)
    assert len(found) == len(expected) > 10
    for one, other in zip(expected, found, strict=True):
        assert one.dtype == other.dtype and one.tolist() == other.tolist()
    assert both[0].lengths.tolist() == both[1].lengths.tolist()
    # Nothing of the tokens is in memory.
    assert isinstance(both[1]._tokens.base, np.memmap) and both[1].rows is None


@pytest.mark.once
def test_a_changed_file_is_read_and_encoded_again(tmp_path, encoder, pretrained):
    task, path = TASKS["classify"], tmp_path / "train.jsonl"
    read = []

    def documents(**options):
        part = lambda *args: read.append(1) or type(task).read_part(task, *args)  # noqa: E731
        counting = types.SimpleNamespace(
            name="classify", streamed=task.streamed, read_part=part,
            check_labels=task.check_labels, columns=task.columns,
        )  # fmt: skip
        return cached_documents(tmp_path / "cache", counting, path, "train", None, None)

    def token_ids(found):
        model = TextModel(
            plain(task).model(encoder, list("012")), Tokenizer(pretrained), 24, 200, list("012"),
            task="classify",
        )  # fmt: skip
        batches = model.batches(found.texts, found.labels)
        return [each.tolist() for each in epochs_of(batches)], batches

    for seed in (0, 1):
        written(path, "classify", seed=seed)
        for _ in range(2):
            (ids, _), (expected, _) = token_ids(documents()), token_ids(task.read(path, "train"))
            assert ids == expected
    assert len(read) == 2
    # The former texts and tokens are gone.
    (folder,) = (tmp_path / "cache").iterdir()
    assert len(list(folder.glob("tokens-*"))) == 1
    # Another length is another encoding of the same texts.
    found = documents()
    assert (
        len(token_ids(Texts(found.texts.take([3, 1]), found.labels.take([3, 1]), [1, 2]))[1]) == 1
    )
    assert len(list(folder.glob("tokens-*"))) == 2 and len(read) == 2


@pytest.mark.once
def test_files_of_a_cache_that_are_cut_off_or_missing_are_written_again(
    tmp_path, encoder, pretrained
):
    """As after a full disk, or a copy that was interrupted."""
    path, cache, task = written(tmp_path / "a.jsonl", "classify"), tmp_path / "c", TASKS["classify"]
    classifier = plain(task).model(encoder, list("012"))
    model = TextModel(classifier, Tokenizer(pretrained), 24, 200, list("012"), task="classify")

    def files():
        documents = cached_documents(cache, task, path, "train", None, None)
        model.batches(documents.texts, documents.labels)
        return {f.relative_to(cache): f.read_bytes() for f in cache.rglob("*") if f.is_file()}

    expected = files()
    assert len(expected) > 10
    for name, content in expected.items():
        for damaged in (None, b"", content[: len(content) // 2]):
            (cache / name).unlink()
            if damaged is not None:
                (cache / name).write_bytes(damaged)
            assert files() == expected


@pytest.mark.once
def test_a_killed_call_leaves_nothing_that_is_half_written(tmp_path):
    path = written(tmp_path / "train.jsonl", "classify")
    program = f"""
        import os, signal, sys
        from keras_posenc.training import cached_texts
        from keras_posenc.training.finetuning.tasks import TASKS

        task, cached_texts.PART = TASKS["classify"], 5
        parts = []

        def read_part(part):
            parts.append(part)
            if len(parts) == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return task.read_part(part, "train")

        cached_texts.cached_texts({str(tmp_path / "cache")!r}, {str(path)!r}, SETTINGS, read_part)
        """
    settings = {"task": "classify", "text": None, "label": None}
    process = Fork("code", program.replace("SETTINGS", repr(settings)))
    _, stderr = process.communicate()
    assert process.returncode == -signal.SIGKILL, stderr
    (left,) = (tmp_path / "cache").iterdir()
    assert left.name.startswith(".partial")
    task = TASKS["classify"]
    found = cached_documents(tmp_path / "cache", task, path, "train", None, None)
    assert list(found.texts) == read_texts(path).texts
    assert [each.name.split("-")[0] for each in (tmp_path / "cache").iterdir()] == ["texts"]


@pytest.mark.once
def test_a_run_from_memory_maps_equals_one_in_memory(tmp_path, pretrained, corpus):
    options = {"lengths": [(16, 1), (32, 1)], "longer": "skip", "validation": 0.25, "verbose": 0}
    options |= {"token_budget": 512, "optimizer": "adamw:1e-2"}
    path = corpus / "train.tsv"
    runs = [
        finetune(pretrained, path, tmp_path / name, cache=cache, **options)
        for name, cache in (("memory", None), ("disk", tmp_path / "cache"))
    ]
    for run in runs:
        run["train"].pop("seconds"), run.pop("finished")
    # Words are counted where the texts are in memory only.
    assert runs[0]["validation"].pop("baselines") and "baselines" not in runs[1]["validation"]
    assert runs[0] == runs[1]
    # It is the same run, which either call resumes.
    finetune(pretrained, path, tmp_path / "disk", **options)


def rows_of(objective):
    texts, labels = seeded(classes, 0, 24)
    if objective != "unilm":
        return [{"text": text} for text in texts]
    pairs = zip(texts, labels, strict=True)
    return [{"text": text, "label": f"w{name}"} for text, name in pairs]


@pytest.mark.once
@pytest.mark.parametrize("objective", ["mlm", "causal", "unilm"])
def test_pretraining_batches_of_several_files_equal_those_in_memory(
    tmp_path, pretrained, objective, monkeypatch
):
    monkeypatch.setattr(cached_texts, "PART", 5)
    rows = rows_of(objective)
    for number in range(2):
        lines = [json.dumps(row) for row in rows[number * 12 : number * 12 + 12]]
        (tmp_path / f"part-{number}.jsonl").write_text("\n".join(lines))
    (tmp_path / "all.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = (0.25, objective == "unilm")
    in_memory = read_corpus(tmp_path / "all.jsonl", *options)
    on_disk = read_corpus(tmp_path / "part-*.jsonl", *options, cache=tmp_path / "cache")
    assert on_disk.digest() == in_memory.digest() and on_disk.validation == in_memory.validation
    tokenizer, batches = Tokenizer(pretrained), []
    for texts in (in_memory.train, on_disk.train):
        if isinstance(texts, DiskList):
            texts = cached_corpus(texts, tokenizer, 16, objective == "mlm")
        kind = MaskedLanguageModelBatches if objective == "mlm" else CausalBatches
        batches.append(kind(texts, tokenizer, 16, token_budget=64))
    expected, found = (list(epochs_of(each)) for each in batches)
    assert len(found) == len(expected) > 10
    for one, other in zip(expected, found, strict=True):
        assert one.dtype == other.dtype and one.tolist() == other.tolist()


@pytest.mark.once
def test_pretraining_with_a_cache_is_the_same_run(tmp_path, pretrained, corpus):
    options = {"max_length": 16, "steps": 1, "token_budget": 64, "verbose": False}
    options |= {"validation": 0.1, "dropout_rate": 0.0}
    path = corpus / "train.tsv"
    one = pretrain(pretrained, path, tmp_path / "out", cache=tmp_path / "cache", **options)
    assert pretrain(pretrained, path, tmp_path / "out", **options) == one


@pytest.mark.once
def test_what_a_cache_cannot_hold_is_refused_by_name(tmp_path, pretrained, corpus):
    options = {"cache": tmp_path / "cache", "verbose": 0}
    with pytest.raises(TypeError, match="`cache` is for texts in files: .* Received: "):
        finetune(pretrained, (["w1"], ["a"]), tmp_path / "out", **options)
    (tmp_path / "tags.conll").write_text("w1 O\n")
    with pytest.raises(ValueError, match=r"tags.conll cannot be read in parts, as only files of "):
        finetune(pretrained, tmp_path / "tags.conll", tmp_path / "out", task="tag", **options)
    with pytest.raises(ValueError, match=r"with `cache`, task='tag' reads files of .jsonl, .parq"):
        finetune(pretrained, corpus / "train.tsv", tmp_path / "out", task="tag", **options)
    with pytest.raises(FileNotFoundError, match=r"No file .*none-\*.jsonl"):
        finetune(pretrained, tmp_path / "none-*.jsonl", tmp_path / "out", **options)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("w1 w2\n")
    with pytest.raises(ValueError, match=r"docs stands for documents, .* leave `cache` "):
        pretrain(pretrained, tmp_path / "docs", tmp_path / "out", **options)
    with pytest.raises(ValueError, match=r"\*.txt stands for documents, .* leave `cache` "):
        pretrain(pretrained, tmp_path / "docs" / "*.txt", tmp_path / "out", **options)
    with pytest.raises(ValueError, match="`cache` does not go with pack=True"):
        pretrain(pretrained, corpus / "train.tsv", tmp_path / "out", pack=True, cache="cache")
    assert not (tmp_path / "out").exists()


@pytest.mark.once
def test_texts_of_several_kinds_in_parts(tmp_path, monkeypatch, encoder, pretrained):
    """As in memory, although each part has one kind."""
    monkeypatch.setattr(cached_texts, "PART", 1)
    rows = [{"tokens": ["w1", "w2"], "tags": ["O", "O"]}, {"text": "w1 w2", "spans": []}]
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    task, tags = TASKS["tag"], ["O", "B-PER", "I-PER"]
    found = cached_documents(tmp_path / "cache", task, path, "train", None, None)
    model = TextModel(
        plain(task).model(encoder, tags), Tokenizer(pretrained), 24, label_names=tags, task="tag"
    )
    with pytest.raises(TypeError, match="Texts of several kinds, str and words: give one kind."):
        model.batches(found.texts, found.labels)
    with pytest.raises(
        ValueError, match="Among texts 1 to 1, numbered from 0: .* not one of the 3"
    ):
        bad = DiskListOf(tmp_path, [["O", "O"], [(0, 2, "LOC")]])
        model.batches(found.texts, bad)


def DiskListOf(folder, values):
    with DiskListWriter(folder, "values") as writer:
        writer.extend(values)
    return DiskList(folder, "values")


@pytest.mark.once
def test_a_list_on_disk_is_the_list(tmp_path):
    values = ["text", "caf\u00e9 \u6f22", ("a", "b"), ["x", ["y"], (1, 2.5)], None, 3, "\ud800"]
    found = DiskListOf(tmp_path, values)
    assert list(found) == values and found[-1] == values[-1] and found[1:3] == values[1:3]
    assert list(found.take([5, 0]).take([1])) == ["text"] and len(found.take([])) == 0
    with pytest.raises(IndexError):
        found[7]


@pytest.mark.once
def test_a_tokenizer_has_a_fingerprint_of_what_it_does(pretrained):
    one = Tokenizer(pretrained)
    assert one.fingerprint == Tokenizer(pretrained).fingerprint
    others = [Tokenizer(pretrained, special_in_text=True), Tokenizer(pretrained, lowercase=False)]
    others.append(Tokenizer(pretrained, pre_tokenize=str.split))
    assert len({each.fingerprint for each in (one, *others)}) == 4


@pytest.mark.once
def test_a_full_disk_is_an_error_with_the_path(tmp_path):
    def build(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left on device: '.*/cache/texts'"):
        disk_list.built_once(tmp_path / "cache", "texts", {}, build)
