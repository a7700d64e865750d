import json

import keras
import numpy as np
import pytest
from conftest import TINY_CONFIG, WORDS

from keras_posenc import Tokenizer, build_transformer_model, finetune, pretrain, save_checkpoint
from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.models.heads_in import heads_in
from keras_posenc.text import CausalBatches, read_texts
from keras_posenc.training import pretrain_summary, pretraining, progress, runs

SETTINGS = dict(max_length=16, steps=6, optimizer="adamw:1e-2", token_budget=256)


@pytest.fixture(scope="module")
def with_head(tmp_path_factory):
    """A checkpoint of one layer and 16 positions, with dropout and a head over the vocabulary."""
    folder = tmp_path_factory.mktemp("with_head")
    keras.utils.set_random_seed(0)
    changes = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    config = TINY_CONFIG | changes | {"max_position_embeddings": 16, "num_hidden_layers": 1}
    save_checkpoint(build_transformer_model(config, with_mlm=True), folder)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def texts(corpus):
    return read_texts(corpus / "train.tsv").texts


def weights(folder):
    model = build_transformer_model(folder, with_mlm=True)
    return {v.path: keras.ops.convert_to_numpy(v) for v in model.trainable_variables}


@pytest.mark.once
@pytest.mark.parametrize("kind", ["eurobert", "llama"])
def test_an_untied_head_is_trained_further(kind, texts, tmp_path):
    """It has no bias to be found by."""
    sizes = {key: value for key, value in TINY_CONFIG.items() if key != "type_vocab_size"}
    config = sizes | {"model_type": kind, "hidden_act": "silu", "pad_token_id": 0}
    source = build_transformer_model(config, with_mlm=True)
    save_checkpoint(source, tmp_path / "source")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (tmp_path / "source" / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    objective = "causal" if kind == "llama" else "mlm"
    settings = SETTINGS | {"steps": 1, "optimizer": "adamw:1e-4", "objective": objective}
    metrics = pretrain(tmp_path / "source", texts, tmp_path / "out", verbose=False, **settings)
    assert not metrics["new_head"]
    before, after = (
        open_checkpoint(tmp_path / each)["lm_head.weight"] for each in ("source", "out")
    )
    assert 0 < np.abs(after - before).max() < 1e-3


@pytest.mark.once
def test_a_killed_run_goes_on_to_the_same_end(with_head, texts, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runs, "SAVE_EVERY", 0)
    whole = pretrain(with_head, texts, tmp_path / "whole", **SETTINGS)
    out = capsys.readouterr().out
    assert "6 steps of 256 tokens, rows of 16" in out and " left" in out and "new" not in out

    def killed(words):
        if words.startswith("step 4"):
            raise KeyboardInterrupt

    monkeypatch.setattr(progress, "TO_A_FILE", 0)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(pretraining, "printer", lambda verbose: killed)
        pretrain(with_head, texts, tmp_path / "cut", **SETTINGS)
    assert (tmp_path / "cut" / "state.zip").exists()
    capsys.readouterr()
    cut = pretrain(with_head, texts, tmp_path / "cut", **SETTINGS)
    assert capsys.readouterr().out.startswith("resuming after step 3 of 6\nstep 4 of 6, loss ")
    assert cut["losses"] == pytest.approx(whole["losses"], rel=1e-4)
    assert cut["before"] == whole["before"]
    one, other = weights(tmp_path / "cut"), weights(tmp_path / "whole")
    for path in one:
        np.testing.assert_allclose(one[path], other[path], rtol=1e-4, atol=1e-5, err_msg=path)
    before = (tmp_path / "cut" / "model.safetensors").stat().st_mtime_ns
    assert pretrain(with_head, texts, tmp_path / "cut", verbose=False, **SETTINGS) == cut
    assert (tmp_path / "cut" / "model.safetensors").stat().st_mtime_ns == before
    files = {path.name for path in (tmp_path / "cut").iterdir()}
    assert files >= {"config.json", "metrics.json", "model.safetensors", "recipe.json", "vocab.txt"}
    assert "state.zip" not in files
    config = json.loads((tmp_path / "cut" / "config.json").read_text())
    assert config["hidden_dropout_prob"] == 0.1
    with pytest.raises(ValueError, match="other settings: steps was 6 and is now 7.*overw"):
        pretrain(with_head, texts, tmp_path / "cut", **{**SETTINGS, "steps": 7})


@pytest.mark.once
def test_the_result_learned_and_is_read_by_transformers_and_finetune(
    pretrained, corpus, tmp_path, capsys
):
    """From a checkpoint without a head, to more positions than it had."""
    metrics = pretrain(
        pretrained,
        corpus / "train.tsv",
        tmp_path / "out",
        max_length=24,
        epochs=60,
        optimizer="adamw:1e-2",
        token_budget=1024,
        max_ngram=2,
    )
    assert "no head over the vocabulary: a new one is trained" in capsys.readouterr().out
    assert metrics["new_head"] and metrics["after"]["loss"] < metrics["before"]["loss"] - 0.5
    assert "steps in" in pretrain_summary(metrics)
    assert heads_in(tmp_path / "out") == {"with_mlm": True}
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    reference = transformers.BertForMaskedLM.from_pretrained(tmp_path / "out").eval()
    ids = np.arange(2, 26)[None]
    with torch.no_grad():
        expected = reference(torch.tensor(ids)).logits.numpy()
    ours = build_transformer_model(tmp_path / "out", with_mlm="linear")
    found = ours.predict({"token_ids": ids, "segment_ids": ids * 0}, verbose=0)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    tuned = finetune(
        tmp_path / "out",
        corpus / "train.tsv",
        tmp_path / "tuned",
        max_length=24,
        epochs=1,
        verbose=0,
    )
    assert tuned["train"]["epochs"] == 1


@pytest.mark.once
@pytest.mark.parametrize("objective", ["mlm", "causal", "unilm"])
def test_short_texts_share_rows(with_head, texts, tmp_path, objective, monkeypatch):
    """In fewer batches; a killed run goes on; and runs from before there were packed rows do."""
    short = [text[:8] for text in texts]
    corpus = [(text, text) for text in short] if objective == "unilm" else short
    settings = SETTINGS | {"steps": 3, "objective": objective, "verbose": False}
    whole = pretrain(with_head, corpus, tmp_path / "whole", pack=True, **settings)
    assert whole["losses"][2] < whole["losses"][0]

    taken = []

    def stop(progress, loss=None):
        taken.append(loss)
        if len(taken) - taken.count(None) == 2:  # without the batches of the evaluation
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(runs, "SAVE_EVERY", 0)
        patch.setattr(progress.Progress, "step", stop)
        pretrain(with_head, corpus, tmp_path / "cut", pack=True, **settings)
    cut = pretrain(with_head, corpus, tmp_path / "cut", pack=True, **settings)
    assert cut["losses"] == pytest.approx(whole["losses"], rel=1e-4)
    alone = pretrain(with_head, corpus, tmp_path / "alone", **settings)
    path = tmp_path / "alone" / "recipe.json"
    path.write_text(
        json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "pack"})
    )
    assert pretrain(with_head, corpus, tmp_path / "alone", **settings) == alone
    with pytest.raises(ValueError, match="other settings: pack was False and is now True"):
        pretrain(with_head, corpus, tmp_path / "alone", pack=True, **settings)


@pytest.mark.once
@pytest.mark.parametrize("objective", ["causal", "unilm"])
def test_next_tokens_are_learned(with_head, texts, tmp_path, objective):
    corpus = texts if objective == "causal" else [(text[:11], text[12:23]) for text in texts]
    metrics = pretrain(
        with_head,
        corpus,
        tmp_path / "out",
        objective=objective,
        validation=corpus[:8],
        **{**SETTINGS, "steps": 20},
        verbose=False,
    )
    assert metrics["after"]["loss"] < metrics["before"]["loss"] - 0.1
    # By hand: the mean of -log p of the next token.
    application = {"causal": "lm", "unilm": "unilm"}[objective]
    model = build_transformer_model(tmp_path / "out", application=application)
    total = np.zeros(2)
    batches = CausalBatches(corpus[:8], Tokenizer(tmp_path / "out"), 16, shuffle=False)
    for inputs, targets, counts in map(batches.__getitem__, range(len(batches))):
        shares = model.predict(inputs, verbose=0)
        target_shares = np.take_along_axis(shares, targets[..., None], axis=-1)[..., 0]
        total += [-(counts * np.log(target_shares)).sum(), counts.sum()]
    assert metrics["after"]["loss"] == pytest.approx(total[0] / total[1], rel=1e-4)


@pytest.mark.once
def test_a_folder_that_gets_the_output_is_read_as_before(with_head, texts, tmp_path):
    for number, text in enumerate(texts[:8]):
        (tmp_path / f"{number}.txt").write_text(text)
    for output in (tmp_path / "output", tmp_path):
        options = {"verbose": False, **SETTINGS, "steps": 1}
        metrics = pretrain(with_head, tmp_path, output, **options)
        assert (output / "vocab.txt").exists()
        assert pretrain(with_head, tmp_path, output, **options) == metrics


@pytest.mark.once
def test_what_cannot_be_pretrained(with_head, texts, tmp_path):
    def refused(message, error=ValueError, corpus=texts, **settings):
        with pytest.raises(error, match=message):
            pretrain(with_head, corpus, tmp_path / "none", verbose=False, **settings)

    refused(
        "`objective` must be one of .'mlm', 'causal', 'unilm'.. Received: 'clm'", objective="clm"
    )
    refused("`max_length` must be an integer of at least 3. Received: 2", max_length=2)
    refused("`epochs` must be a positive integer. Received: 0", epochs=0)
    refused("validation=None: give texts, or the share of the corpus", validation=None)
    refused("`steps` must be a positive integer. Received: 0", steps=0)
    refused("`masked` must be a number above 0 and below 1. Received: 1", masked=1)
    refused("`max_ngram` must be a positive integer. Received: 0", max_ngram=0)
    refused("`extension` must be one of .'hierarchical'.*Received: 'half'", extension="half")
    refused(
        "has 16 positions, and max_length=24 needs more: give an extension",
        max_length=24,
        extension=None,
    )
    refused("`validation` must be a number above 0 and below 1", validation=1.5)
    refused("`corpus` has 1 texts, of which none can be held out", corpus=texts[:1])
    refused("`validation` must be a path.*a float below 1.*Received: 1", TypeError, validation=1)
    refused("`corpus` must be a path, a Texts or a list.*Received: 3", TypeError, corpus=3)
    refused("`corpus` must be a path, a Texts or a list", TypeError, corpus=set(texts))
    refused("Text 0 is 3: this objective needs a str", TypeError, corpus=[3, "a"])
    # Numbered as they were given, not as they are when some of them are held out.
    refused(f"Text {len(texts)} has half a surrogate pair", corpus=[*texts, "w1 \ud800"])
    refused(r"needs a \(prompt, answer\) pair of str", TypeError, objective="unilm")
    assert not (tmp_path / "none" / "metrics.json").exists()
