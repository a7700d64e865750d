"""Writes `saved/`: what this version saves, for the tests of later versions to load.

PYTHONPATH=.:tests KERAS_BACKEND=torch python tests/references/make_saved.py

Run it only to add what no directory there has: the files of earlier versions must stay as they are.
"""

import json
import pathlib
import shutil
import tempfile

import keras
import numpy as np
from conftest import TINY_CONFIG, WORDS

from keras_posenc import Tokenizer, build_transformer_model
from keras_posenc.models.sentence_embedding import embedder
from keras_posenc.training import TextModel, finetune, load_finetuned, load_text_model

SAVED = pathlib.Path(__file__).parent / "saved"
SENTENCES = [["w1", "w2", "w3"], ["w2", "w4"], ["w3", "w1", "w4", "w9"], ["w7", "w8"]]
DATA = {
    "classify": ([" ".join(words) for words in SENTENCES], ["a", "b", "a", "b"]),
    "tag": (SENTENCES, [["B-x", "O", "O"], ["O", "B-y"], ["O"] * 4, ["B-x", "I-x"]]),
    "qa": (
        [("w1", "w1 w2 w3"), ("w2", "w2 w4"), ("w3", "w5 w3")],
        [[(0, 2)], [(3, 5)], []],
    ),
}


def main():
    expected = {}
    with tempfile.TemporaryDirectory() as folder:
        bert = pretrained(pathlib.Path(folder) / "bert")
        for task, data in DATA.items():
            output = pathlib.Path(folder) / task
            options = {"max_length": 24, "epochs": 1, "token_budget": 256, "learning_rate": 1e-2}
            finetune(bert, data, output, task=task, verbose=0, **options)
            keep(output, SAVED / task, "labels.json")
            model = load_finetuned(SAVED / task)
            outputs = model.model.predict_on_batch(model.batches(data[0])[0])
            expected[task] = {"labels": model.label_names, "outputs": np.round(outputs, 5).tolist()}
        model = embedder(build_transformer_model(bert, hierarchical_position=True))
        TextModel(model, Tokenizer(bert), 32, prompt="w1 ").save(pathlib.Path(folder) / "text")
        keep(pathlib.Path(folder) / "text", SAVED / "text_model", "text_model.json")
        vectors = load_text_model(SAVED / "text_model").predict(DATA["classify"][0], verbose=0)
        expected["text_model"] = np.round(vectors, 5).tolist()
    (SAVED / "expected.json").write_text(json.dumps(expected, indent=1), "utf-8")


def pretrained(folder):
    folder.mkdir()
    keras.utils.set_random_seed(0)
    config = TINY_CONFIG | {"max_position_embeddings": 16, "num_hidden_layers": 1}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", "utf-8")
    build_transformer_model(config).save(folder / "model.keras")
    return folder


def keep(output, folder, settings):
    folder.mkdir(parents=True)
    for name in ("model.keras", "tokenizer.json", settings):
        shutil.copy(output / name, folder / name)


if __name__ == "__main__":
    main()
