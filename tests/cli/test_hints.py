"""Hints that have a call of Python name options and commands where the command line prints them."""

import re

import pytest
from published import SIZES, publish
from safetensors.numpy import load_file

from keras_posenc import build_transformer_model
from keras_posenc.cli.arguments import parser
from keras_posenc.cli.wording import in_options

pytestmark = pytest.mark.once

TOKENS, TABLE = (f"bert.embeddings.{name}_embeddings.weight" for name in ("word", "position"))


@pytest.mark.parametrize(
    ("command", "text", "words"),
    [
        (
            "rerank",
            "call rerank(Reranker(directory, token_budget=64), ..., reading='chunks:8') in place",
            "give --token-budget 64, --reading 'chunks:8' in place",
        ),
        ("finetune", 'two, text=("anchor", "positive").', "two, --text-column anchor,positive."),
        ("evaluate", "column, as read_texts(label=).", "column, as --label-column NAME."),
        (
            "embed",
            "has cls: build it with embedder(directory, pooling='mean').",
            "has cls: give --reading chunks:256.",
        ),
    ],
)
def test_calls_of_python_become_options(command, text, words):
    assert in_options(text, parser().flags(command)) == words


def test_hints_of_a_checkpoint_name_no_call_of_python(tmp_path):
    publish(tmp_path, "BertForMaskedLM", **SIZES)
    weights, config = load_file(tmp_path / "model.safetensors"), tmp_path / "config.json"

    def says(words, weights, **options):
        with pytest.raises(ValueError) as error:
            build_transformer_model(config, weights, with_mlm=True, **options)
        line = in_options(str(error.value), parser().flags("pretrain"))
        assert words in line
        assert not re.search(r"(path|directory|True|False|\.\.\.)[^ ]*\)|=(True|False)", line), line

    says("keras-posenc inspect CHECKPOINT --all lists them", weights, ignore=["cls.none.*"])
    other = {"cls.predictions.decoder.weight": weights[TOKENS][::-1].copy()}
    says("Set tie_word_embeddings to false in config.json for a head of", {**weights, **other})
    prefixed = {f"module.{name}": array for name, array in weights.items()}
    says("The names begin with 'module.': rename them in the file.", prefixed)
    says("to go beyond the table, give --extension.", {**weights, TABLE: weights[TABLE][:9]})
    kept = {name: array for name, array in weights.items() if "transform" not in name}
    says("The file has no MLM head: take a checkpoint that has one.", kept)
