"""`lora_rank` and `freeze` of `finetune`: what is trained, what is saved, what is refused."""

import math

import keras
import numpy as np
import pytest

from keras_posenc import build_transformer_model
from keras_posenc.training import finetune, load_finetuned
from keras_posenc.training.trainable import choose_trainable, trainable_weights

TEXTS = [f"w{n} w{n + 1} w{2 * n}" for n in range(12)]
DATA = (TEXTS, list("abc") * 4)
SETTINGS = {"max_length": 8, "optimizer": "adamw:0.02", "validation": DATA, "verbose": 0}
SIZES = {"num_hidden_layers": 3, "hidden_size": 8, "num_attention_heads": 2, "vocab_size": 40}
SIZES |= {"intermediate_size": 16, "hidden_act": "gelu", "max_position": 16}


def arrays(model):
    return {variable.path: keras.ops.convert_to_numpy(variable) for variable in model.weights}


def changed(directory, pretrained):
    """Names of the layers of the encoder whose weights a training changed."""
    before = arrays(build_transformer_model(pretrained))
    after = arrays(load_finetuned(directory).model)
    assert before.keys() <= after.keys() and len(after) == len(before) + 2  # those of the head
    return {path for path in before if not np.allclose(before[path], after[path], atol=1e-7)}


def test_lora_is_merged_in_what_is_saved(tmp_path, pretrained):
    """What is evaluated has the factors, and what is saved their product, with the same results."""
    settings = SETTINGS | {"lora_rank": 2, "epochs": 1}
    metrics = finetune(pretrained, DATA, tmp_path / "run", **settings)
    paths = changed(tmp_path / "run", pretrained)
    assert paths and all("Transformer-0-" in path and "/kernel" in path for path in paths)
    assert {path.split("/")[0] for path in paths} == {
        "Transformer-0-MultiHeadSelfAttention",
        "Transformer-0-FeedForward",
    }
    saved = load_finetuned(tmp_path / "run")
    logits = saved.predict(TEXTS, verbose=0)
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    loss = -logs[np.arange(12), np.arange(12) % 3].mean()
    assert metrics["validation"]["loss"] == pytest.approx(loss, rel=1e-4)
    kernels = [w.shape for w in saved.model.weights if w.path in paths]
    factors = sum(2 * (math.prod(shape[:-1]) + shape[-1]) for shape in kernels)
    head = sum(math.prod(weight.shape) for weight in saved.model.layers[-1].weights)
    assert metrics["train"]["trainable_weights"] == factors + head
    saved.export(tmp_path / "exported")
    encoder = build_transformer_model(tmp_path / "exported")
    assert not any("lora" in variable.path for variable in encoder.weights)
    for path, array in arrays(encoder).items():
        np.testing.assert_allclose(array, arrays(saved.model)[path], atol=1e-6)


@pytest.mark.once
def test_frozen_weights_are_those_of_the_checkpoint(tmp_path, pretrained):
    settings = SETTINGS | {"freeze": ["embeddings", "*FeedForward*"], "epochs": 1}
    finetune(pretrained, DATA, tmp_path, **settings)
    attention = "Transformer-0-MultiHeadSelfAttention"
    layers = {path.split("/")[0] for path in changed(tmp_path, pretrained)}
    assert layers == {attention, f"{attention}-Norm"}


class Dies(keras.callbacks.Callback):
    now = False

    def on_epoch_begin(self, epoch, logs=None):
        if Dies.now and epoch == 1:
            raise KeyboardInterrupt


@pytest.mark.once
def test_a_resumed_run_has_the_factors_and_no_other_rank(tmp_path, pretrained):
    def run(name, rank=2):
        settings = SETTINGS | {"lora_rank": rank, "epochs": 2, "callbacks": [Dies()]}
        return finetune(pretrained, DATA, tmp_path / name, **settings)

    whole = run("whole")
    Dies.now = True
    try:
        with pytest.raises(KeyboardInterrupt):
            run("parts")
    finally:
        Dies.now = False
    with pytest.raises(ValueError, match="other settings: lora_rank was 2 and is now 3"):
        run("parts", rank=3)
    assert run("parts")["validation"]["loss"] == pytest.approx(whole["validation"]["loss"])


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("three_layers")
    model = build_transformer_model(**SIZES)
    model.save(folder / "model.keras")
    return folder / "model.keras"


def encoder_of(checkpoint, **options):
    return build_transformer_model(SIZES, checkpoint, **options)


@pytest.mark.once
@pytest.mark.parametrize(
    ("freeze", "trained"),
    [
        ("embeddings", {"Transformer-0", "Transformer-1", "Transformer-2"}),
        (2, {"Transformer-2"}),
        ([1, "Transformer-2-*"], {"Transformer-1"}),
        (3, set()),
    ],
)
def test_freeze_counts_layers_from_below(checkpoint, freeze, trained):
    encoder = encoder_of(checkpoint)
    total = trainable_weights(encoder)[1]
    choose_trainable(encoder, freeze=freeze)
    paths = [variable.path for variable in encoder.trainable_variables]
    assert {"-".join(path.split("-")[:2]) for path in paths} == trained
    assert trainable_weights(encoder)[1] == total
    assert trainable_weights(encoder)[0] == 600 * len(trained)


@pytest.mark.once
def test_lora_leaves_out_what_is_frozen(checkpoint):
    encoder = encoder_of(checkpoint)
    choose_trainable(encoder, lora_rank=1, freeze=[2, "*FeedForward*"])
    paths = [variable.path for variable in encoder.trainable_variables]
    assert len(paths) == 8 and all("Transformer-2-MultiHead" in path for path in paths)
    assert all("lora" in path for path in paths)


@pytest.mark.once
@pytest.mark.parametrize("settings", [{"lora_rank": 1}, {"freeze": "embeddings"}])
def test_new_positions_are_learned_all_the_same(checkpoint, settings):
    encoder = encoder_of(checkpoint, extension="fresh", max_position=32)
    choose_trainable(encoder, **settings)
    assert any("fresh" in variable.path for variable in encoder.trainable_variables)


@pytest.mark.once
@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"lora_rank": 0}, ValueError, "`lora_rank` must be a positive integer. Received: 0"),
        ({"lora_rank": True}, ValueError, "`lora_rank` must be a positive integer. Received: True"),
        (
            {"lora_rank": 17},
            ValueError,
            "`lora_rank` must be an integer from 1 to 16: no matrix .* Received: 17",
        ),
        (
            {"lora_rank": 2, "freeze": "*"},
            ValueError,
            "`freeze` leaves no matrix .* Received: lora_rank=2; leave one of them out",
        ),
        ({"freeze": 0}, ValueError, "`freeze` must be a positive integer. Received: 0"),
        (
            {"freeze": 2},
            ValueError,
            "`freeze` must be an integer from 1 to 1: .* 1 layers .* Received: 2",
        ),
        ({"freeze": []}, TypeError, '`freeze` must be "embeddings", .* Received: \\[\\]'),
        ({"freeze": True}, TypeError, '`freeze` must be "embeddings", .* Received: True'),
        ({"freeze": {"a": 1}}, TypeError, '`freeze` must be "embeddings", .* Received: {'),
        (
            {"freeze": ["embeddings", "*Attn*"]},
            ValueError,
            "`freeze` has '\\*Attn\\*', which matches none .* such as Embedding-.* give a pattern",
        ),
    ],
)
def test_what_cannot_be_frozen_is_refused(tmp_path, pretrained, settings, error, message):
    with pytest.raises(error, match=message):
        finetune(pretrained, DATA, tmp_path / "out", **SETTINGS | settings)
    assert not (tmp_path / "out" / "recipe.json").exists()
