"""Writes small files with an earlier release: a model, a fine-tuned run, vectors and records.

    git archive 4c232929 keras_posenc | tar x -C /tmp/release
    PYTHONPATH=/tmp/release KERAS_BACKEND=torch python make.py 0.3.0 tests/references/released

The releases are a2a3725d (0.2.0), 4c232929 (0.3.0) and df5d5e56 (0.4.0).
"""

import json
import os
import pathlib
import shutil
import sys

import keras
import numpy as np

import keras_posenc
from keras_posenc import build_transformer_model, embed, finetune

WORDS = "one two three four five six seven".split()
CONFIG = {
    "model_type": "bert",
    "vocab_size": 12,
    "hidden_size": 4,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 4,
    "max_position_embeddings": 8,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}
TEXTS = ["one two three", "four five six seven one two three four five six", "seven"]


def main(version, folder):
    assert keras_posenc.__version__ == version
    root = pathlib.Path(folder) / version
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    os.chdir(root)  # so that no file has a path of this machine
    root, encoder = pathlib.Path(), pathlib.Path("encoder")
    encoder.mkdir()
    keras.utils.set_random_seed(0)
    (encoder / "config.json").write_text(json.dumps(CONFIG, indent=1), "utf-8")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (encoder / "vocab.txt").write_text("\n".join([*special, *WORDS]) + "\n", "utf-8")
    build_transformer_model(CONFIG).save(encoder / "model.keras")
    rows = [f"{'ab'[n % 2]}\t{text}" for n, text in enumerate(TEXTS * 4)]
    train = root / "train.tsv"
    train.write_text("\n".join(["label\ttext", *rows]) + "\n", "utf-8")
    finetune(encoder, train, root / "run", max_length=12, stretch="hierarchical", epochs=1)
    train.unlink()
    for name in (".lock", "history.csv", "steps.csv"):
        (root / "run" / name).unlink(missing_ok=True)
    found = keras_posenc.load_finetuned("run").predict(TEXTS, verbose=0)
    np.save("run.npy", found)
    late = {"chunks": 3, "late": True, "max_length": 12, "alpha": 0.3}
    embed(encoder, TEXTS, root / "whole.npy", verbose=0)
    embed(encoder, TEXTS, root / "mean.jsonl", chunks=6, verbose=0)
    embed(encoder, TEXTS, root / "late.npz", **late, verbose=0)


main(*sys.argv[1:])
