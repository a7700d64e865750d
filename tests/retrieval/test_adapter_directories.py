"""Directories with a LoRA adapter alone, as PEFT and sentence-transformers 6.2 save them."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_posenc import build_transformer_model, embed, finetune, rerank, search
from keras_posenc.checkpoints import open_checkpoint, save_checkpoint
from keras_posenc.cli import main
from keras_posenc.models import read_config
from keras_posenc.retrieval import Reranker, open_embedder
from keras_posenc.text import Tokenizer

pytestmark = pytest.mark.once

TEXTS = ["one two three", "who lives where", "four five"]
MODULE = "encoder.layer.1.attention.self.query"
POOLING = {"word_embedding_dimension": 16, "pooling_mode": "cls", "include_prompt": True}


def write(folder, base, module=MODULE):
    """Writes what PEFT does; returns what the adapter adds to a kernel."""
    rng = np.random.default_rng(0)
    factors = {"A": rng.normal(size=(2, 16)), "B": rng.normal(size=(16, 2))}
    name = "base_model.model.{}.lora_{}.weight"
    folder.mkdir(exist_ok=True)
    save_file(
        {name.format(module, side): each.astype("float32") for side, each in factors.items()},
        folder / "adapter_model.safetensors",
    )
    settings = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["query"]}
    settings["base_model_name_or_path"] = str(base)
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return factors["B"] @ factors["A"] * settings["lora_alpha"] / settings["r"]


def write_modules(folder):
    """Writes what sentence-transformers puts beside it, except the tokenizer."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    rows = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (path, kind) in enumerate(kinds.items())
    ]
    (folder / "modules.json").write_text(json.dumps(rows))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 5}')
    prompts = {"prompts": {"query": "who ", "document": ""}, "default_prompt_name": None}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(POOLING))


@pytest.fixture(scope="module")
def base(tiny_model):
    return tiny_model("BertModel")


@pytest.fixture(params=["peft", "sentence-transformers", "peft on an embedder"])
def folders(request, base, tmp_path):
    """A directory with an adapter, and one of the model that it makes of its base."""
    adapter, merged = tmp_path / "adapter", tmp_path / "merged"
    if request.param == "peft on an embedder":
        base = shutil.copytree(base, tmp_path / "base")
        write_modules(base)
    write(adapter, base)
    save_checkpoint(build_transformer_model(base, adapter=adapter), merged)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        if (base / name).is_file():
            shutil.copy(base / name, merged)
    if request.param == "sentence-transformers":
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(base / name, adapter)
        write_modules(adapter)
    if request.param != "peft":
        write_modules(merged)
    return adapter, merged


def test_convert_keeps_what_lies_beside_the_adapter(folders, tmp_path, capsys):
    adapter, _ = folders
    settings = json.loads((adapter / "adapter_config.json").read_text())
    base = settings["base_model_name_or_path"]
    found = []
    for number, arguments in enumerate(([str(adapter)], [base, "--adapter", str(adapter)])):
        output = tmp_path / f"converted-{number}"
        main(["convert", arguments[0], str(output), *arguments[1:]])
        found.append(embed(output, TEXTS, verbose=0))
    expected = embed(adapter, TEXTS, verbose=0)
    for vectors in found:
        np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert np.abs(embed(base, TEXTS, verbose=0) - expected).max() > 1e-3


def test_the_directory_is_read_as_the_merged_model(folders, base, tmp_path):
    adapter, merged = folders
    found, expected = (embed(each, TEXTS, verbose=0) for each in folders)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    shutil.copytree(merged, tmp_path / "plain", ignore=shutil.ignore_patterns("model.safetensors"))
    shutil.copy(base / "model.safetensors", tmp_path / "plain")
    plain = embed(tmp_path / "plain", TEXTS, verbose=0)
    assert np.abs(plain - expected).max() > 0.01  # what the adapter changes
    found, expected = (
        [(row["query"], row["id"], round(row["score"], 4)) for row in each]
        for each in (search(d, embed(d, TEXTS, verbose=0), TEXTS, verbose=0) for d in folders)
    )
    assert found == expected
    assert open_embedder(adapter).tokenizer.encode("who") == Tokenizer(merged).encode("who")


def test_it_is_fine_tuned_and_converted(folders, tmp_path):
    adapter, merged = folders
    train = (TEXTS * 4, ["a", "b", "c"] * 4)
    losses = []
    for name, folder in (("one", adapter), ("two", merged)):
        output = tmp_path / name
        finetune(folder, train, output, max_length=16, epochs=1, verbose=0)
        losses.append((output / "steps.csv").read_text().splitlines()[1].split(",")[1])
    assert losses[0] == losses[1]
    assert main(["convert", str(adapter), str(tmp_path / "out")]) == 0
    one, other = (open_checkpoint(each) for each in (tmp_path / "out", merged))
    assert any(name.endswith(f"{MODULE}.weight") for name in other)
    for name in other:
        np.testing.assert_array_equal(one[name], other[name])


def test_a_reranker_is_read_as_the_merged_model(tiny_model, tmp_path):
    base = tiny_model("BertForSequenceClassification", num_labels=1)
    added = write(tmp_path / "adapter", base, f"bert.{MODULE}")
    merged = shutil.copytree(base, tmp_path / "merged")
    arrays = load_file(merged / "model.safetensors")
    arrays[f"bert.{MODULE}.weight"] += added.astype("float32")
    save_file(arrays, merged / "model.safetensors", {"format": "pt"})
    pairs = [("who lives", text) for text in TEXTS]
    found, expected, without = (
        Reranker(folder).predict(pairs, verbose=0)
        for folder in (tmp_path / "adapter", merged, base)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert np.abs(without - expected).max() > 1e-4
    best = rerank(tmp_path / "adapter", pairs[0][0], TEXTS, verbose=0)
    assert [row["corpus_id"] for row in best] == np.argsort(-expected, kind="stable").tolist()


def test_an_adapter_on_an_adapter_and_a_circle_are_refused(tmp_path):
    write(tmp_path / "one", tmp_path / "two")
    write(tmp_path / "two", tmp_path / "one")
    for reads in (open_checkpoint, read_config, Tokenizer, open_embedder):
        with pytest.raises(ValueError, match="names another adapter as the base model"):
            reads(tmp_path / "one")


@pytest.mark.parametrize(
    "named, error, words",
    [
        ("org/model", FileNotFoundError, "holds a LoRA adapter alone, and its base model 'org/mod"),
        ("org/model", FileNotFoundError, "hf download org/model"),
        (None, ValueError, "names no base model. Received: None"),
        ("", ValueError, "names no base model. Received: ''"),
        ("adapter", ValueError, "names its own directory as the base model"),
        ("//host/share", ValueError, "names a network path as the base model"),
        (r"\\host\share", ValueError, "names a network path as the base model"),
    ],
)
def test_a_base_model_that_is_not_there(tmp_path, monkeypatch, named, error, words):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "adapter", "x")
    settings = {"peft_type": "LORA", "base_model_name_or_path": named}
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps(settings))
    for reads in (open_checkpoint, read_config, Tokenizer, open_embedder):
        with pytest.raises(error, match=words) as caught:
            reads(tmp_path / "adapter")
        assert 'as "base_model_name_or_path" in adapter_config.json' in str(caught.value)
