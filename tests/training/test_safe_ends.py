"""A run that diverges or would replace pretrained weights ends by an error, and saves nothing."""

import shutil

import numpy as np
import pytest

from keras_posenc import build_transformer_model
from keras_posenc.cli import main
from keras_posenc.heads import classifier
from keras_posenc.text import TextBatches, Texts
from keras_posenc.training import contextualize, finetune, load_finetuned, pretrain, stretch

pytestmark = pytest.mark.once
TEXTS = Texts(["w1 w2 w3", "w4 w5 w6"] * 6, ["a", "b"] * 6, range(1, 13))
QUICK = {"max_length": 16, "verbose": 0}
WILD = {"optimizer": "adamw:1e30", **QUICK}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("run", [finetune, pretrain], ids=lambda run: run.__name__)
def test_a_training_that_diverges_is_an_error(run, pretrained, tmp_path):
    more = {"epochs": 9} if run is finetune else {"steps": 9}
    texts = TEXTS if run is finetune else TEXTS.texts * 20
    with pytest.raises(ValueError, match="The loss after .* is (nan|inf): .* Lower learning_rate"):
        run(pretrained, texts, tmp_path / "out", **more, **WILD)
    assert not {"model.keras", "model.safetensors", "metrics.json"} & set(
        contents(tmp_path / "out")
    )


def test_predictions_of_a_model_that_diverged_are_an_error(pretrained, tmp_path):
    finetune(pretrained, TEXTS, tmp_path, epochs=1, **QUICK)
    finetuned = load_finetuned(tmp_path)
    weight = finetuned.model.weights[-1]
    weight.assign(np.full(weight.shape, np.nan))
    with pytest.raises(ValueError, match="logits are not finite numbers: the training has diverge"):
        finetuned.predict(["w1"], verbose=0)


@pytest.mark.parametrize(
    "run", [finetune, pretrain, stretch, contextualize], ids=lambda run: run.__name__
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_the_checkpoint_that_a_run_starts_from_stays(run, overwrite, tmp_path, pretrained):
    folder = shutil.copytree(pretrained, tmp_path / "model")
    vocabulary = (folder / "vocab.txt").read_text("utf-8").split()
    vocabulary[-3:] = ["ada", "otto", "nora"]  # unknown names would be one name
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", "utf-8")
    before = contents(folder)
    story = "Ada is here. Ada reads well. Ada was kind. I saw Ada sleep. We like Ada. "
    texts = [story.replace("Ada", name) * 20 for name in ("Ada", "Otto", "Nora")]
    texts = TEXTS if run is finetune else texts
    link = tmp_path / "link"
    link.symlink_to(folder)
    sizes = {} if run is stretch else {"max_length": 16}
    if run is contextualize:
        sizes = {"test": texts, "max_length": 128, "train_length": 128}
    with pytest.raises(ValueError, match="holds the checkpoint that the run starts from: give an"):
        run(folder, texts, link, overwrite=overwrite, verbose=0, **sizes)
    assert contents(folder) == before


def test_another_model_is_replaced_only_where_that_is_said(pretrained, tmp_path, capsys):
    other = shutil.copytree(pretrained, tmp_path / "other")
    before = contents(other)
    with pytest.raises(ValueError, match="other holds a model.keras without the recipe.json of"):
        pretrain(pretrained, TEXTS.texts * 20, other, steps=1, **QUICK)
    assert main(["convert", str(other), str(other)]) == 2
    assert "OUTPUT is the checkpoint" in capsys.readouterr().err
    assert contents(other) == before


def test_labels_that_do_not_count_from_0_are_refused(pretrained):
    model = classifier(build_transformer_model(pretrained), num_classes=2)
    model.compile("sgd", "sparse_categorical_crossentropy")
    ids = [[2, 5, 6, 3], [2, 7, 3]] * 2
    with pytest.raises(ValueError, match="Labels must be from 0 to 1, .* 2 outputs. Received: 2"):
        model.fit(TextBatches(ids, [1, 2, 1, 2]), verbose=0)
    with pytest.raises(ValueError, match="Labels must be from 0 to 1"):
        model.fit(TextBatches(ids, ["a", "b", "c", "a"]), verbose=0)
    model.fit(TextBatches(ids, [0, 1, 0, 1]), verbose=0)
