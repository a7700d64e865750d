"""Position distillation: windows, targets, the loss, and a whole run on a tiny encoder."""

import json
import tempfile

import keras
import numpy as np
import pytest
from conftest import TINY_CONFIG, WORDS
from keras import ops

from keras_posenc import Tokenizer, build_transformer_model, save_checkpoint
from keras_posenc.files.writing import PARTIAL
from keras_posenc.models.heads_in import heads_in
from keras_posenc.training import Source, progress, runs, stretch, stretch_summary
from keras_posenc.training.stretching import distillation
from keras_posenc.training.stretching.distillation import CorpusPieces
from keras_posenc.training.stretching.feature_losses import FeatureDistance, agreement
from keras_posenc.training.stretching.windows import (
    HeldOutText,
    Reader,
    context_kept,
    draw_passages,
    most_central,
    one_segment,
    window_starts,
)

LOCAL = {"local": 6, "global_every": 2}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Folder of a random BERT of two layers and 12 positions, which features tell apart."""
    folder = tmp_path_factory.mktemp("small")
    changes = {"hidden_dropout_prob": 0.1, "initializer_range": 0.3}
    keras.utils.set_random_seed(0)
    model = build_transformer_model({**TINY_CONFIG, **changes}, with_pool=True)
    rng = np.random.default_rng(0)
    model.set_weights([(w == 1) + 0.3 * rng.normal(size=w.shape) for w in model.get_weights()])
    save_checkpoint(model, folder)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def texts():
    rng = np.random.default_rng(0)
    return [" ".join(f"w{n}" for n in rng.integers(0, 35, 150)) for _ in range(4)]


def test_every_token_is_read_where_most_around_it_is_seen():
    for length, size, shift in ((50, 10, 0), (50, 10, 3), (7, 10, 0), (10, 10, 4), (51, 11, 2)):
        starts = window_starts(length, size, size // 2, shift)
        chosen = most_central(length, size, starts)

        def seen(token, start, length=length, size=size):
            """Tokens on the shorter side; the text's own ends are no lack."""
            if not start <= token < start + size:
                return -1
            left = token - start if start > 0 else length
            return min(left, start + size - 1 - token if start + size < length else length)

        for token in range(length):
            best = max(seen(token, start) for start in starts)
            assert seen(token, starts[chosen[token]]) == best >= 0


@pytest.mark.once
def test_a_short_text_is_read_as_it_is(small, texts):
    model, tokenizer = build_transformer_model(small), Tokenizer(small)
    reader = Reader(model, tokenizer, 12, token_budget=24)
    ids = tokenizer.contents(texts)[0]
    whole = np.array([tokenizer.assemble(ids[:10])[0]], "int32")
    plain = ops.convert_to_numpy(model(one_segment(model, whole)))[0]
    np.testing.assert_allclose(reader(np.array(ids[:10])), plain, atol=1e-5)
    # In a long text the first tokens are those of the first window, the last those of the last.
    features = reader(np.array(ids[:40]))
    assert features.shape == (42, 16)
    np.testing.assert_allclose(features[1:6], plain[1:6], atol=1e-5)
    last = np.array([tokenizer.assemble(ids[30:40])[0]], "int32")
    last = ops.convert_to_numpy(model(one_segment(model, last)))[0]
    np.testing.assert_allclose(features[-6:-1], last[-6:-1], atol=1e-5)
    # Windows that start 2 tokens before the text end 2 tokens earlier.
    first = np.array([tokenizer.assemble(ids[:8])[0]], "int32")
    first = ops.convert_to_numpy(model(one_segment(model, first)))[0]
    shifted = reader(np.array(ids[:40]), 0.4)
    np.testing.assert_allclose(shifted[1:6], first[1:6], atol=1e-5)
    assert np.abs(shifted[1:6] - features[1:6]).max() > 0.01


def test_the_loss_is_the_cosine_and_the_scaled_error():
    rng = np.random.default_rng(0)
    t, s = rng.normal(size=(2, 2, 5, 4)).astype("float32")
    cosine = (s * t).sum(-1) / np.linalg.norm(s, axis=-1) / np.linalg.norm(t, axis=-1)
    error = ((s - t) ** 2).sum(-1) / (t**2).sum(-1).mean()
    loss = FeatureDistance()
    expected = (1 - cosine + error).mean()
    np.testing.assert_allclose(float(loss(t, s)), expected, rtol=1e-5)
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    np.testing.assert_allclose(float(again(t, s)), expected, rtol=1e-5)
    np.testing.assert_allclose(agreement(t[0], s[0]), cosine[0], rtol=1e-5)


@pytest.mark.once
def test_steps_read_what_tests_do_not(small, texts):
    tokenizer = Tokenizer(small)
    corpus = CorpusPieces(texts, None, tokenizer, 24, seed=1)
    assert len(corpus.train) + len(corpus.held_out) == 4 * 151
    assert corpus.training(5).tolist() == corpus.training(5).tolist()
    assert corpus.training(5).tolist() != corpus.training(6).tolist()
    assert [len(piece) for piece in corpus.test(9)] == [22, 22]
    other = CorpusPieces(texts[:2], texts[2:], tokenizer, 24, seed=1)
    assert len(other.train) == len(other.held_out) == 302
    assert other.digest() != corpus.digest()
    row = corpus.inputs(corpus.training(0))
    assert row.shape == (24,) and row[0] == tokenizer.cls_id and row[-1] == tokenizer.sep_id


def test_a_stretched_encoder_is_a_checkpoint_as_any_other(small, texts, tmp_path, capsys):
    """It learns, is read back as it was, and stands in the report."""
    # One text over and over: what is learned is seen in few steps.
    texts = [" ".join(texts[0].split()[:38])]
    settings = dict(test=texts, max_length=40, steps=24, optimizer="adamw:3e-3", **LOCAL)
    model, report = stretch(small, texts, tmp_path / "out", **settings)
    assert np.mean(report["losses"][-8:]) < 0.9 * np.mean(report["losses"][:8])
    assert report["beyond"]["after"] > report["beyond"]["before"]
    assert set(report["context"]) == {"before", "after"}
    assert [row["from"] for row in report["agreement"]] == list(range(0, 40, 3))
    out = capsys.readouterr().out
    assert "24 steps of 40 tokens" in out and "step 24 of 24, loss " in out and " so far" in out
    assert "24 steps in" in stretch_summary(report)
    assert stretch_summary(report).count("\n") == 4 and "distant context" in stretch_summary(report)
    tokens = np.array([Tokenizer(tmp_path / "out").encode(texts[0], max_length=40)[0]], "int32")
    again = build_transformer_model(tmp_path / "out")
    features = [ops.convert_to_numpy(m(one_segment(m, tokens))) for m in (model, again)]
    np.testing.assert_array_equal(*features)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    window = {"name": "window", "window": 7, "global_tokens": 1}
    assert config["encodings"] == [[], [window]]
    assert config["max_position_embeddings"] == 40
    assert config["hidden_dropout_prob"] == 0.1
    assert heads_in(tmp_path / "out") == heads_in(small) == {"with_pool": True}
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"model.safetensors", "metrics.json", "recipe.json", "tokenizer.json"} <= files
    assert "state.zip" not in files
    _, same = stretch(small, texts, tmp_path / "out", **settings)
    assert same == report and "step" not in capsys.readouterr().out


@pytest.mark.once
def test_a_stretching_that_was_killed_goes_on_to_the_same_end(small, texts, tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "SAVE_EVERY", 0)
    monkeypatch.setattr(progress, "TO_A_FILE", 0)
    settings = dict(max_length=30, steps=6, optimizer="adamw:3e-3")
    whole, report = stretch(small, texts, tmp_path / "whole", **settings)

    def killed(words):
        if words.startswith("step 4"):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(distillation, "printer", lambda verbose: killed)
        stretch(small, texts, tmp_path / "cut", **settings)
    assert (tmp_path / "cut" / "state.zip").exists()
    cut, same = stretch(small, texts, tmp_path / "cut", **settings)
    assert same["losses"] == report["losses"] and same["agreement"] == report["agreement"]
    for one, other in zip(cut.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="other settings: steps was 6 and is now 7.*overw"):
        stretch(small, texts, tmp_path / "cut", **{**settings, "steps": 7})
    _, anew = stretch(small, texts, tmp_path / "cut", overwrite=True, **{**settings, "steps": 1})
    assert len(anew["losses"]) == 1


@pytest.mark.once
def test_a_model_is_stretched_as_its_checkpoint_is(small, texts):
    model = build_transformer_model(small)
    settings = dict(max_length=30, steps=2, test=texts[:1], verbose=False)
    _, one = stretch(small, texts, **settings)
    _, other = stretch(Source(model, tokenizer=small), texts, **settings)
    assert one["losses"] == other["losses"] and one["agreement"] == other["agreement"]


@pytest.mark.once
def test_what_a_kill_leaves_lies_in_the_output(small, texts, tmp_path, monkeypatch):
    """Nothing in the system's temporary folder; that of the output is removed by the next call."""
    system = tmp_path / "system"
    system.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(system))

    def left(*_):
        found = [path for path in tmp_path.glob("out*/.*") if path.is_dir()]
        there.append(([*system.iterdir()], found))
        raise InterruptedError

    there = []
    monkeypatch.setattr(distillation.Distillation, "run", left)
    model = Source(build_transformer_model(small), tokenizer=small)
    for checkpoint, name in ((small, "out"), (model, "out of a model")):
        with pytest.raises(InterruptedError):
            stretch(checkpoint, texts, tmp_path / name, max_length=30, steps=2)
    assert [left for left, _ in there] == [[], []]
    assert [len(folders) for _, folders in there] == [0, 1] and there[1][1][0].name.startswith(
        PARTIAL
    )


@pytest.mark.once
def test_passages_fit_into_one_window_with_the_opening():
    for length, size, seed in (
        (1534, 510, 0),
        (600, 510, 1),
        (511, 510, 2),
        (38, 10, 3),
        (3, 2, 4),
    ):
        rng = np.random.default_rng(seed)
        starts, count, margin, opening = draw_passages(length, size, rng)
        assert 1 <= len(starts) <= 3 and opening + count <= size
        assert 0 <= margin < count - margin
        assert all(0 <= start <= length - count for start in starts)
        inner = [row for start in starts for row in range(start + margin, start + count - margin)]
        assert len(set(inner)) == len(inner)
    assert len(draw_passages(1534, 510, np.random.default_rng(0))[0]) == 3


@pytest.mark.once
def test_the_context_kept_is_all_for_the_teacher_and_nothing_for_windows(small, texts):
    """The features of windows do not change with an opening that no window of theirs holds."""
    tokenizer = Tokenizer(small)
    teacher = Reader(build_transformer_model(small), tokenizer, 12)
    first, second = (np.array(ids[:38]) for ids in tokenizer.contents(texts)[:2])
    test = HeldOutText(first, teacher, second)
    starts, *_, opening = draw_passages(38, teacher.size, np.random.default_rng(0))
    assert test.other[:opening].tolist() == second[:opening].tolist()
    assert test.other[opening:].tolist() == first[opening:].tolist()
    windows = test.changes(teacher(first), teacher(test.other))
    assert len(windows) == len(starts)
    assert context_kept(windows) == pytest.approx(0, abs=1e-3)
    assert context_kept([(teacher, teacher) for teacher, _ in windows]) == pytest.approx(1)
    assert context_kept([(np.zeros(3), np.ones(3))]) == 0


@pytest.mark.once
def test_windows_begin_elsewhere_in_every_step(small, texts, tmp_path, monkeypatch):
    """And in the second reading of a test text, with which the first does not quite agree."""
    shifts = []

    class Recorded(Reader):
        def __call__(self, text, shift=0):
            shifts.append(shift)
            return super().__call__(text, shift)

    monkeypatch.setattr("keras_posenc.training.stretching.distillation.Reader", Recorded)
    settings = {"max_length": 40, "steps": 3, "verbose": False}
    _, report = stretch(small, texts, tmp_path / "out", **settings)
    assert len(set(shifts) - {0.0, 0.5}) == 3
    assert report["beyond"]["teacher"] < 0.999


@pytest.mark.once
def test_sharper_attention_is_that_of_the_teacher_too(small, texts, tmp_path, monkeypatch):
    teachers = []

    class Recorded(Reader):
        def __init__(self, model, *arguments):
            teachers.extend(model.transformer.options.encodings)
            super().__init__(model, *arguments)

    monkeypatch.setattr("keras_posenc.training.stretching.distillation.Reader", Recorded)
    settings = {"max_length": 40, "steps": 1, "verbose": False, "log_n": 8}
    scale = {"name": "log_n", "train_length": 8, "clipped": True}
    window = {"name": "window", "window": 7, "global_tokens": 1}
    stretch(small, texts, tmp_path / "out", **settings, **LOCAL)
    config, recipe = (
        json.loads((tmp_path / "out" / name).read_text()) for name in ("config.json", "recipe.json")
    )
    assert config["encodings"] == [[scale], [scale, window]]
    assert [[encoding.train_length for encoding in layer] for layer in teachers] == [[8], [8]]
    assert recipe["learning_rate"] == 1e-5 and recipe["log_n"] == 8


@pytest.mark.once
def test_what_cannot_be_stretched(small, texts, tmp_path):
    def refused(message, error=ValueError, source=small, corpus=texts, **settings):
        with pytest.raises(error, match=message):
            stretch(
                source, corpus, tmp_path / "out", verbose=False, **{"max_length": 40, **settings}
            )

    refused(
        "serves 12 positions already: give a max_length above that. Received: max_length=12",
        max_length=12,
    )
    refused(
        "`extension` must be one of .'hierarchical', 'tile', 'interpolate'.. Received: 'fresh'",
        extension="fresh",
    )
    refused("keeps features, and has no other .*keep='context'; .*`contextualize`", keep="context")
    refused("`global_every` selects .*set `local`, too. Received: global_every=2", global_every=2)
    refused("`global_every` must be a positive integer. Received: 0", local=4, global_every=0)
    refused("`local` must be a positive integer. Received: 0", local=0)
    refused("`log_n` must be an integer of at least 2: ln 1 is 0. Received: 1", log_n=1)
    refused("`steps` must be an integer of at least 0. Received: -1", steps=-1)
    refused("8 tokens to train on, which is not one piece of 40: give more", corpus=["w1 " * 45])
    for corpus in (3, None, {"text": texts}, set(texts), (text for text in texts)):
        refused("`texts` must be a list. Received: ", TypeError, corpus=corpus)
    refused("`test` must be a list of str. Received: 3 at 0", TypeError, test=[3])
    refused("stretch needs the path of a checkpoint, or a model", TypeError, source=5)
    model = build_transformer_model(small)
    refused("A model has no tokenizer with it: give Source.model", source=model)


@pytest.mark.once
def test_positions_that_begin_behind_the_padding_are_stretched_too(texts, small, tmp_path):
    """Those of RoBERTa, in layers that are local too."""
    config = {**TINY_CONFIG, "model_type": "roberta", "max_position_embeddings": 13}
    config["type_vocab_size"] = 1
    save_checkpoint(build_transformer_model(config, model="roberta"), tmp_path / "old")
    settings = dict(max_length=40, steps=1, verbose=False, local=4)
    source = Source(tmp_path / "old", model="roberta", tokenizer=small)
    model, report = stretch(source, texts, **settings)
    assert report["old_length"] == 12 and len(report["agreement"]) == 14
    config = model.transformer.config
    assert (config.max_position, config.position_offset, config.model_type) == (40, 1, "roberta")
