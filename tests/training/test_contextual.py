"""Contextual training: names and words, counterfactual copies, the loss, and a whole run."""

import contextlib
import io
import json
import re
import shutil
import types

import keras
import numpy as np
import pytest
from conftest import TINY_CONFIG
from contextual_texts import ENGLISH, OPENING, PEOPLE, SHORT, TEXTS, write_embedder
from keras import ops

from keras_posenc import Tokenizer, build_transformer_model, export_model, read_config
from keras_posenc.analysis.contextual import verdict as verdict_of
from keras_posenc.folders.folder import open_folder
from keras_posenc.folders.sentence_transformers import read_modules, read_pooling
from keras_posenc.folders.written import sentence_transformers_files, with_pooling
from keras_posenc.retrieval import embed_spans, open_embedder
from keras_posenc.training import contextual_summary, contextualize, finetune, runs
from keras_posenc.training.contextual.batches import CopyBatches, Prompted
from keras_posenc.training.contextual.copies import COPIES, PASSAGES, draw
from keras_posenc.training.contextual.corpus import Corpus
from keras_posenc.training.contextual.measure import Measure, cases
from keras_posenc.training.contextual.pronouns import language_of
from keras_posenc.training.contextual.sentences import sentences_of, words_in
from keras_posenc.training.contextual.training import ContextualModel, ContextualTraining
from keras_posenc.training.stretching.windows import Reader


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Folder of a random embedder of 64 positions, whose tokenizer knows the names."""
    return write_embedder(tmp_path_factory.mktemp("contextual"))


@pytest.fixture
def corpus(small):
    return Corpus(TEXTS, Tokenizer(small), ENGLISH, 126, 1.0, OPENING)


def with_modules(small, folder, pooling):
    """A copy of the embedder as a directory of sentence-transformers that pools in a way."""
    shutil.copytree(small, folder)
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": pooling}))
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


@pytest.mark.once
def test_sentences_end_where_readers_would_say():
    text = "Mr. Smith left! “Who?” Dr. No asked.\n\nA title\n\n他走了。她来了。 end"
    assert sentences_of(text) == [
        "Mr. Smith left!", "“Who?”", "Dr. No asked.", "A title", "他走了。", "她来了。", "end",
    ]  # fmt: skip
    parts = sentences_of(" ".join(["word"] * 14 + ["comma,"] + ["word"] * 20))
    assert [len(part.split()) for part in parts] == [15, 20]
    assert sentences_of(" \n ") == []


@pytest.mark.once
def test_words_are_frequent_in_their_text_and_rare_in_others():
    words = words_in([sentences_of(text) for text in TEXTS])
    assert [set(some) for some in words] == [
        {word for word in (name.lower(), thing) if len(word) > 3} for name, *_, thing in PEOPLE
    ]
    chinese = words_in([["茶园很大。", "茶园下雨。", "他的茶园。", "茶园。"], ["没有。", "下雨。"]])
    assert chinese == [["茶园"], []]


@pytest.mark.once
def test_the_language_is_that_whose_words_are_frequent():
    assert language_of(TEXTS) == "en"
    assert language_of(["Der Müller hat die Mühle am Fluss verkauft.", "茶园很大。"]) is None
    assert language_of([]) is None


def test_the_arrays_of_a_step_have_the_passages_in_their_places(small, corpus):
    tokenizer = Tokenizer(small)
    make = CopyBatches(tokenizer, 128, 700, skips=True)
    jumps = set()
    for step in range(20):
        rng = np.random.default_rng(step)
        copies = draw(corpus, rng)
        batch = make(copies, rng)
        ids, members = batch.inputs["token_ids"], batch.inputs["members"]
        for copy in range(COPIES):
            for number, place in enumerate(copies.passages):
                inside = members[copy, number] > 0
                (expected,) = tokenizer.contents([copies.texts[copy][place]])
                assert ids[copy, inside].tolist() == list(expected)
                np.testing.assert_allclose(members[copy, number].sum(), 1, atol=1e-6)
        assert (
            batch.real.reshape(COPIES, PASSAGES).sum(axis=1).tolist() == [len(copies.passages)] * 4
        )
        assert not batch.kept[members[0].sum(axis=0) > 0].any() and batch.kept.any()
        steps = np.diff(batch.inputs["position_ids"], axis=1)
        assert batch.inputs["position_ids"].max() < 700
        jumps |= {int(steps.max())}
        assert ((steps > 1).sum(axis=1) <= 1).all() and len(set(steps.max(axis=1))) == 1
    assert 1 in jumps and len(jumps) > 5


@pytest.mark.once
def test_a_passage_is_cut_where_its_copy_is(small, corpus):
    """Corpora of longer texts: what is cut off is in no mean, nor is the token behind the cut."""
    tokenizer, cut = Tokenizer(small), 0
    make = CopyBatches(tokenizer, 64, 700, skips=True, window=64)
    for step in range(10):
        rng = np.random.default_rng(step)
        copies = draw(corpus, rng)
        inputs = make(copies, rng).inputs
        for ids, members, text in zip(
            inputs["token_ids"], inputs["members"], copies.texts, strict=True
        ):
            last = int((ids != tokenizer.pad_id).sum()) - 1  # [SEP]
            assert not members[:, last:].any()
            sums = members.sum(axis=1)
            np.testing.assert_allclose(sums[sums > 0], 1, atol=1e-6)
            ends = np.cumsum([make.before, *map(len, tokenizer.contents(text))])
            spans = [(ends[place], ends[place + 1]) for place in copies.passages]
            assert (sums > 0).sum() == sum(start < last for start, _ in spans)
            cut += sum(start < last < end for start, end in spans)
    assert cut > 0


@pytest.mark.once
def test_the_prompt_of_documents_stands_before_all_that_is_read(small, tmp_path, corpus):
    tokenizer = Prompted(Tokenizer(small), "we met ")
    prefix = [token for part in Tokenizer(small).contents(["we met"]) for token in part]
    rng = np.random.default_rng(0)
    batch = CopyBatches(tokenizer, 128, 700, skips=True, window=64)(draw(corpus, rng), rng)
    rows = batch.inputs["token_ids"], batch.inputs["alone_ids"], batch.named_ids, batch.near_ids
    for ids in rows:
        ids = ids[ids[:, 0] != tokenizer.pad_id]
        assert len(ids) and (ids[:, 1:3] == prefix).all()
    # A run reads the directory's prompt, and keeps it.
    prompted = with_modules(small, tmp_path / "prompted", "mean")
    prompts = json.dumps({"prompts": {"query": "we", "passage": "we met "}})
    (prompted / "config_sentence_transformers.json").write_text(prompts)
    settings = {**SHORT, "steps": 1, "test": TEXTS}
    losses = [
        contextualize(source, TEXTS, tmp_path / name, **settings)[1]["losses"]
        for name, source in (("with", prompted), ("without", small))
    ]
    assert losses[0] != losses[1]
    assert open_embedder(tmp_path / "with", prompt="passage").prompt == "we met "


@pytest.mark.once
def test_near_context_is_that_of_a_window_of_the_copy(small, corpus):
    """The teacher reads a window of the first copy; what is near a cut end of it is not kept."""
    tokenizer = Tokenizer(small)
    make = CopyBatches(tokenizer, 128, 700, skips=True, window=40)
    cut = set()
    for step in range(20):
        rng = np.random.default_rng(step)
        copies = draw(corpus, rng)
        batch = make(copies, rng)
        text = [t for part in tokenizer.contents(copies.texts[0]) for t in part]
        start = batch.near_place - make.before
        part = text[start : start + 38]
        assert batch.near_ids[0, 1 : 1 + len(part)].tolist() == part
        places = np.flatnonzero(batch.kept) - make.before
        assert places.size == 0 or places.min() >= start + 9 * (start > 0)
        end = start + len(part)
        assert places.size == 0 or places.max() < end - 9 * (end < len(text))
        cut |= {(start > 0, end < len(text))}
    assert (True, True) in cut


@pytest.mark.once
def test_the_teacher_reads_the_passages_that_there_are(small, corpus):
    encoder, tokenizer = build_transformer_model(small), Tokenizer(small)
    rng = np.random.default_rng(2)
    batch = CopyBatches(tokenizer, 128, 700, skips=True, window=64)(draw(corpus, rng), rng)
    assert 0 < batch.real.sum() < len(batch.real)
    teacher = types.SimpleNamespace(teacher=Reader(encoder, tokenizer, 64))
    found = ContextualTraining.named(teacher, batch)
    read = encoder.predict_on_batch(
        {"token_ids": batch.named_ids, "segment_ids": 0 * batch.named_ids}
    )
    expected = np.einsum("nl,nld->nd", batch.named_weights, read)
    rows = batch.real > 0
    np.testing.assert_allclose(found[rows], expected[rows], atol=1e-5)


def reference_loss(found, alone, near, y, temperature=0.05):
    """The loss by its formula, in float64."""

    def unit(x):
        return x / np.linalg.norm(x, axis=-1, keepdims=True)

    rows = y["real"] > 0
    s, t = unit(found)[rows], unit(y["passages"])[rows]
    scores = s @ t.T / temperature
    numbers = y["same"][rows]
    scores[(numbers[:, None] == numbers) & ~np.eye(len(numbers), dtype=bool)] = -np.inf
    right = np.diag(scores)
    entropy = [
        np.log(np.exp(x - r[:, None]).sum(1)) for x, r in ((scores, right), (scores.T, right))
    ]
    first = len(alone)
    kept = 1 - (unit(alone) * unit(y["passages"])[:first]).sum(-1)
    close = 1 - (unit(near) * unit(y["near"])).sum(-1)
    return (
        np.mean(entropy)
        + np.mean(1 - (s * t).sum(-1))
        + np.mean(kept[y["real"][:first] > 0])
        + 3 * np.mean(close[y["kept"] > 0])
    )


def test_the_loss_is_its_formula(small):
    rng = np.random.default_rng(0)
    made = {"passages": rng.normal(size=(8, 5)), "alone": rng.normal(size=(2, 5)),
            "near": rng.normal(size=(7, 5))}  # fmt: skip
    y = {
        "passages": rng.normal(size=(8, 5)),
        "near": rng.normal(size=(7, 5)),
        "real": np.array([1, 1, 1, 0, 1, 0, 1, 1.0]),
        "kept": np.array([1, 1, 0, 1, 1, 0, 0.0]),
        "same": np.arange(8),
    }
    model = ContextualModel(build_transformer_model(small))
    loss = model.compute_loss(
        y=y, y_pred={k: ops.convert_to_tensor(v, "float32") for k, v in made.items()}
    )
    expected = reference_loss(made["passages"], made["alone"], made["near"], y)
    np.testing.assert_allclose(float(loss), expected, rtol=1e-4)
    # If all vectors are the same, the passages are guessed.
    same = {**y, "passages": np.ones((8, 5)), "near": made["near"]}
    guessed = {**made, "passages": np.ones((8, 5)), "alone": np.ones((2, 5))}
    guessed = {k: ops.convert_to_tensor(v, "float32") for k, v in guessed.items()}
    np.testing.assert_allclose(
        float(model.compute_loss(y=same, y_pred=guessed)), np.log(6), rtol=1e-4
    )
    # A passage that is another one's copy is no other one.
    copies = {**y, "same": np.array([0, 1, 0, 3, 4, 4, 6, 0])}
    expected = reference_loss(made["passages"], made["alone"], made["near"], copies)
    found = {k: ops.convert_to_tensor(v, "float32") for k, v in made.items()}
    np.testing.assert_allclose(
        float(model.compute_loss(y=copies, y_pred=found)), expected, rtol=1e-4
    )
    # What stands in places without a passage does not count; elsewhere it does.
    for row, same in ((3, True), (4, False)):
        y["passages"][row] += 1
        other = float(model.compute_loss(y=y, y_pred=made))
        assert (abs(other - float(loss)) < 1e-4) == same


@pytest.mark.parametrize("prompt", ["", "near people: "])
def test_a_passage_has_the_vector_of_late_chunking(small, corpus, prompt):
    """What is trained and measured is what `embed_spans` gives, also behind a prompt."""
    encoder = build_transformer_model(small, hierarchical_position=0.2)
    tokenizer = Prompted(Tokenizer(small), prompt)
    measure = Measure([], [], Reader(encoder, tokenizer, 64), encoder, tokenizer, 512)
    (case, *_) = cases(corpus, [60], 0, 500)
    vectors = measure._in_context(measure._student_features)(case)[0]
    text, spans = "", []
    for number, sentence in enumerate(case.texts[0]):
        text = f"{text} {sentence}".lstrip()
        if number in case.passages:
            spans.append((len(text) - len(sentence), len(text)))
    model = open_embedder(small, max_length=512, extension="hierarchical:0.2", prompt=prompt)
    found = embed_spans(model, [text], [spans[:-1]], verbose=0).vectors
    expected = vectors[: len(found)] / np.linalg.norm(vectors[: len(found)], axis=-1, keepdims=True)
    found = found / np.linalg.norm(found, axis=-1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_cases_hold_the_name_in_the_first_sentence_only(corpus):
    for case in cases(corpus, [60, 100], 0, 160):
        for introduction, sentences in zip(case.introductions, case.texts, strict=True):
            assert sentences[0] == introduction
        rest = {tuple(sentences[1:]) for sentences in case.texts}
        assert len(rest) == 1 and len(set(case.introductions)) == len(case.texts)
        assert case.passages and len(case.named[0]) == len(case.passages)
        assert all(sum(map(len, map(str.split, text))) <= 160 for text in case.texts)


@pytest.fixture(scope="module")
def run(small, tmp_path_factory):
    """The directory of a run, its report and what it printed."""
    out, printed = tmp_path_factory.mktemp("run") / "out", io.StringIO()
    with contextlib.redirect_stdout(printed):
        _, report = contextualize(small, TEXTS, out, test=TEXTS, **SHORT | {"verbose": True})
    return out, report, printed.getvalue()


def test_a_run_gives_an_embedder_that_reads_further(small, run):
    out, report, printed = run
    assert "names and" in printed
    assert len(report["losses"]) == 2 and all(0 < loss < 30 for loss in report["losses"])
    # The first loss is about that of guessing: log of the passages, and of vectors that differ.
    assert json.loads((out / "metrics.json").read_text())["found"] == report["found"]
    assert report["found"][0].keys() == {"tokens", "windows", "first_sentence", "trained"}
    # Whole sentences fill the distance.
    assert 340 < report["found"][0]["tokens"] <= 400
    assert -1 <= report["sentences"]["similarity"] <= 1
    assert "tokens back to the name" in contextual_summary(report)
    model = open_embedder(out, max_length=700)
    assert model.predict([" ".join(TEXTS)], verbose=0).shape == (1, TINY_CONFIG["hidden_size"])
    again = contextualize(small, TEXTS, out, test=TEXTS, **SHORT)[1]
    assert again == report


@pytest.mark.once
def test_what_it_writes_is_fine_tuned_and_exported(run, tmp_path):
    out, *_ = run
    labels = [text.split()[0] for text in TEXTS[:-1]] + ["other"]
    settings = {"epochs": 1, "max_length": 200, "verbose": 0}
    finetune(out, (TEXTS, labels), tmp_path / "tuned", **settings)
    assert read_config(tmp_path / "tuned").max_position == 700
    model = build_transformer_model(out, sequence_length=None)
    export_model(model, tmp_path / "model.onnx")


def test_passages_learn_the_name_far_before_them(small, corpus):
    """One step, taken again and again: the copies differ in nothing but distant names."""
    tokenizer, rng = Tokenizer(small), np.random.default_rng(1)
    student = build_transformer_model(small, hierarchical_position=0.2, custom_position_ids=True)
    model = ContextualModel(student)
    model.compile(keras.optimizers.Adam(1e-2))
    batch = CopyBatches(tokenizer, 128, 700, skips=True, window=64)(draw(corpus, rng), rng)
    width = TINY_CONFIG["hidden_size"]
    targets = {
        "passages": rng.normal(size=(COPIES * PASSAGES, width)),
        "near": rng.normal(size=(batch.kept.size, width)),
        "kept": 0 * batch.kept,
        "real": batch.real,
        "same": np.arange(COPIES * PASSAGES),
    }
    losses = [float(np.ravel(model.train_on_batch(batch.inputs, targets))[0]) for _ in range(150)]
    assert losses[-1] < losses[0] / 2


@pytest.mark.once
@pytest.mark.parametrize(
    ("losses", "trained", "similarity", "words"),
    [
        ([], 0.2, 1.0, "Nothing was trained. By a name more than a window before them, 20% of"),
        ([1.0], 0.9, 0.99, "90% of the passages are found after training, and 20% by the original"),
        ([1.0], 0.9, 0.9, "cosine 0.970 .* by 0.900 with it, below 0.95: take fewer steps"),
        ([1.0], 0.2, 0.99, "Training brought nothing: give more texts or more steps."),
    ],
)
def test_the_report_says_what_was_found_and_what_it_cost(losses, trained, similarity, words):
    rows = [{"tokens": t, "windows": 0.2, "trained": trained} for t in (400, 800)]
    report = {"found": rows, "losses": losses, "chance": 0.25}
    report["sentences"] = {"similarity": similarity, "agreement": 0.97}
    found = verdict_of(report)
    assert re.search(words, found) and "chance is 25%" in found
    rows[1]["tokens"] = 410
    assert "By a distant name" in verdict_of(report)


@pytest.mark.once
def test_a_run_that_was_killed_goes_on_to_the_same_end(small, tmp_path, monkeypatch):
    settings = {**SHORT, "steps": 3, "test": TEXTS}
    whole = contextualize(small, TEXTS, tmp_path / "whole", **settings)[1]

    computed, step = [], ContextualTraining.step

    def killed(self, *arguments):
        computed.append(arguments)
        if len(computed) == 3:
            raise KeyboardInterrupt
        return step(self, *arguments)

    monkeypatch.setattr(runs, "SAVE_EVERY", 0)
    monkeypatch.setattr(ContextualTraining, "step", killed)
    with pytest.raises(KeyboardInterrupt):
        contextualize(small, TEXTS, tmp_path / "killed", **settings)
    resumed = contextualize(small, TEXTS, tmp_path / "killed", **settings)[1]
    assert len(computed) == 4 and computed[3] == computed[2]  # the step that was interrupted
    np.testing.assert_allclose(resumed["losses"], whole["losses"], rtol=1e-4)


@pytest.mark.once
def test_what_cannot_be_trained(small, tmp_path, caplog):
    def refused(message, error=ValueError, texts=TEXTS, source=small, **settings):
        with pytest.raises(error, match=message):
            contextualize(source, texts, tmp_path / "out", **{**SHORT, "test": TEXTS, **settings})
        assert not (tmp_path / "out" / "recipe.json").exists()

    refused("None of 2 texts has a word of four letters", texts=["Too short.", "Nothing here."])
    refused("to measure on. .* or `test`", test=["Too short."])
    refused("train_length.* at least 128", train_length=100)
    refused("max_length.* at least 128", max_length=100)
    refused("`language` must be one of", language="xx")
    refused("names.* at most 1", names=1.5)
    for texts in ([1, 2], [None], {"text": TEXTS}, [("a", "b")], None):
        refused("`texts` must be a list", TypeError, texts=texts)
    refused("`test` must be a list", TypeError, test=3)
    refused("None of 0 texts has a word", texts=[], test=None)
    assert "There is one text" not in caplog.text
    broken = [*TEXTS, "half \ud800"]
    refused(f"Text {len(TEXTS)} has half a surrogate pair", texts=broken, test=None)
    refused("`opening` must be .* at least 0.* -0.5", opening=-0.5)
    refused("log_n", log_n=1)
    refused("There is no directory", FileNotFoundError, source=tmp_path / "none")
    refused(
        "must pool by one of mean, cls, last, .* pools by max: take",
        source=with_modules(small, tmp_path / "max", "max"),
    )


@pytest.mark.once
@pytest.mark.parametrize(("pooling", "place"), [("cls", 0), ("lasttoken", -1)])
def test_an_embedder_of_one_token_gets_means(small, tmp_path, monkeypatch, pooling, place):
    """Its targets are the vectors that the original gives, and what is written pools by the
    mean."""
    source, targets = with_modules(small, tmp_path / "source", pooling), []

    def named(self, batch):
        vectors = original(self, batch)
        targets.append((self, batch, vectors))
        return vectors

    original = ContextualTraining.named
    monkeypatch.setattr(ContextualTraining, "named", named)
    contextualize(source, TEXTS, tmp_path / "out", **{**SHORT, "test": TEXTS, "steps": 1})
    ((training, batch, vectors),) = targets
    assert training.model.near == 0
    encoder, rows = build_transformer_model(small), np.flatnonzero(batch.real)
    for row in rows[:4]:
        ids = batch.named_ids[row][batch.named_ids[row] != training.tokenizer.pad_id][None]
        features = encoder.predict_on_batch({"token_ids": ids, "segment_ids": 0 * ids})
        np.testing.assert_allclose(vectors[row], features[0, place], atol=1e-5)
    texts = ["Ada sold cheese at the market.", "Then Otto went home."]
    expected = open_embedder(source).predict(texts, verbose=0)
    found = training.measure.teacher_vectors(texts)
    found, expected = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (found, expected))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    config = json.loads((tmp_path / "out" / "1_Pooling" / "config.json").read_text())
    assert config["pooling_mode"] == "mean"
    model = build_transformer_model(tmp_path / "out")
    ids = np.array([Tokenizer(small).encode(texts[0])[0]])
    mean = model.predict_on_batch({"token_ids": ids, "segment_ids": 0 * ids})[0].mean(axis=0)
    (vector,) = open_embedder(tmp_path / "out", max_length=64).predict(texts[:1], verbose=0)
    cosine = vector @ mean / np.linalg.norm(vector) / np.linalg.norm(mean)
    assert cosine == pytest.approx(1, abs=1e-5)


@pytest.mark.once
@pytest.mark.parametrize("dialect", ["new", "old"])
def test_the_files_of_a_directory_pool_in_another_way(small, tmp_path, dialect):
    folder = with_modules(small, tmp_path / "model", "cls")
    config = folder / "1_Pooling" / "config.json"
    if dialect == "old":
        flags = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
        config.write_text(json.dumps({"word_embedding_dimension": 8, **flags}))
    files = with_pooling(sentence_transformers_files(open_folder(folder), 64), "mean")
    for name, content in files.items():
        (folder / name).write_bytes(content)
    assert read_pooling(read_modules(open_folder(folder))[1])[0] == ["mean"]
    assert with_pooling({}, "mean") == {}


@pytest.mark.once
@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_the_teacher_pools_as_its_directory(small, corpus, pooling):
    tokenizer, rng = Tokenizer(small), np.random.default_rng(3)
    make = CopyBatches(tokenizer, 128, 700, skips=True, window=64, pooling=pooling)
    batch = make(draw(corpus, rng), rng)
    for ids, weights in zip(batch.named_ids, batch.named_weights, strict=True):
        count = int((ids != tokenizer.pad_id).sum())
        expected = np.zeros(len(ids))
        if count:
            chosen = {"mean": slice(0, count), "cls": slice(0, 1), "last": slice(count - 1, count)}
            expected[chosen[pooling]] = 1 / (count if pooling == "mean" else 1)
        np.testing.assert_allclose(weights, expected, atol=1e-6)
    # The student averages in all cases.
    assert np.allclose(batch.inputs["alone_members"].sum(axis=1), batch.real[:6])
    assert (batch.inputs["alone_members"].max(axis=1) < 1).all()
