"""A name on the Hugging Face Hub in the place of a path: the error has the download."""

import pathlib
import sys

import numpy as np
import pytest

import keras_posenc
from benchmarks.long_texts.passkeys import bench_passkey
from keras_posenc.analysis import inspect_checkpoint, open_model
from keras_posenc.checkpoints.reader import with_lora
from keras_posenc.cli import main
from keras_posenc.retrieval import mine_hard_negatives, search
from keras_posenc.text import Tokenizer

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def without_the_package(monkeypatch):
    """hf:// names are downloaded where huggingface_hub is installed: see test_download.py."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)


NAME = "sentence-transformers/all-MiniLM-L6-v2"
COMMAND = f"hf download {NAME} --local-dir all-MiniLM-L6-v2"

OPENERS = {
    "build_transformer_model": keras_posenc.build_transformer_model,
    "open_checkpoint": keras_posenc.checkpoints.open_checkpoint,
    "read_config": keras_posenc.read_config,
    "Tokenizer": Tokenizer,
    "embedder": keras_posenc.embedder,
    "open_embedder": keras_posenc.retrieval.open_embedder,
    "embed": lambda name: keras_posenc.embed(name, ["a text"]),
    "load_finetuned": keras_posenc.load_finetuned,
    "inspect_checkpoint": inspect_checkpoint,
    "stretch": lambda name: keras_posenc.stretch(name, ["a text"], "out", max_length=1024),
    "finetune": lambda name: keras_posenc.finetune(name, (["a", "b"], ["c", "d"]), "out"),
    "pretrain": lambda name: keras_posenc.pretrain(name, ["a text"], "out"),
    "evaluate": lambda name: keras_posenc.training.evaluate(name, (["a"], ["b"])),
    "predict": lambda name: keras_posenc.training.predict(name, ["a text"]),
    "Reranker": keras_posenc.retrieval.Reranker,
    "rerank": lambda name: keras_posenc.rerank(name, "a", ["a text"]),
    "LateInteraction": keras_posenc.retrieval.LateInteraction,
    "SparseEmbedder": keras_posenc.retrieval.SparseEmbedder,
    "search": lambda name: search(name, np.ones((1, 2), "float32"), "a"),
    "mine_hard_negatives": lambda name: mine_hard_negatives(name, [("a", "b"), ("c", "d")]),
    "a cross-encoder to mine with": lambda name: mine_hard_negatives(
        "none", [("a", "b"), ("c", "d")], reranker=name
    ),
    "an adapter": lambda name: with_lora({"a": np.eye(2)}, name),
    "bench_passkey": lambda name: bench_passkey(name),
    "open_model": open_model,
}
# What is given -> the download that the error names.
NAMES = {
    NAME: COMMAND,
    f"hf://{NAME}": COMMAND,
    f"hf://{NAME}@v1.0": f"hf download {NAME} --revision v1.0 --local-dir all-MiniLM-L6-v2",
    f"https://huggingface.co/{NAME}": COMMAND,
    f"https://huggingface.co/{NAME}/tree/main/": f"hf download {NAME} --revision main --local-dir",
    "all-MiniLM-L6-v2": COMMAND,
    "bert-base-uncased": "hf download google-bert/bert-base-uncased --local-dir bert-base-unc",
    "xlm-roberta-base": "hf download FacebookAI/xlm-roberta-base --local-dir xlm-roberta-base",
}


@pytest.mark.parametrize("kind", [str, pathlib.Path])
@pytest.mark.parametrize("opener", OPENERS)
def test_a_name_on_the_hub_is_answered_by_its_download(opener, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, command in NAMES.items():
        with pytest.raises(FileNotFoundError, match=command):
            OPENERS[opener](kind(name))


@pytest.mark.parametrize(
    "command",
    ["inspect", "convert X out", "embed X texts.txt --output a.npy", "predict X --file texts.txt",
     "evaluate X table.tsv", "finetune X table.tsv out", "pretrain X texts.txt out",
     "stretch X texts.txt out", "search X vectors.npy one", "rerank X one texts.txt",
     "mine X pairs.tsv out.jsonl", "plot similarity X", "plot gates X --text a"],
)  # fmt: skip
def test_the_command_line_answers_as_well(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("one\ntwo\n")
    (tmp_path / "table.tsv").write_text("text\tlabel\none\ta\ntwo\tb\nthree\tb\n")
    (tmp_path / "pairs.tsv").write_text("anchor\tpositive\none\ttwo\nthree\tfour\n")
    np.save(tmp_path / "vectors.npy", np.ones((1, 2), "float32"))
    for name, download in NAMES.items():
        words = command.split() if " " in command else [command, "X"]
        assert main([name if word == "X" else word for word in words]) == 2
        assert download in capsys.readouterr().err


@pytest.mark.parametrize(
    "path", ["nowhere", "/no/where", "a/b/c", "here/file", "../a", "bert-mine", "hf:"]
)
def test_other_paths_are_not_taken_for_names(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    with pytest.raises(FileNotFoundError) as error:
        keras_posenc.checkpoints.open_checkpoint(path)
    assert "hf download" not in str(error.value)
