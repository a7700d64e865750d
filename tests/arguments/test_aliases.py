"""Arguments by the names that other libraries have for them: one error, with the name here."""

import re

import pytest

from keras_posenc import (
    RotaryEmbedding,
    contextualize,
    embed,
    evaluate,
    finetune,
    predict,
    search,
    stretch,
)
from keras_posenc.arguments.aliases import HERE, argument_here
from keras_posenc.encodings import ALiBi, XPos
from keras_posenc.retrieval import LateInteraction, Reranker, open_embedder
from keras_posenc.text import TextBatches

pytestmark = pytest.mark.once

BUDGET = "batch_size is token_budget=, the number of tokens in a batch"
CALLS = [
    (finetune, {"batch_size": 8}, f"finetune has no argument batch_size: {BUDGET}[.]"),
    (finetune, {"lr": 1e-4}, 'lr is optimizer="adamw:2e-5"[.]'),
    (finetune, {"lr": 1, "maxlen": 9}, "no argument lr, maxlen: .*; maxlen is max_length=[.]"),
    (finetune, {"epoch": 3}, "did you mean epochs=[?]$"),
    (finetune, {"warmup_ratio": 0.1}, r"warmup_ratio is optimizer=Optimizer\(warmup=0.1\)"),
    (finetune, {"quux": 3}, "finetune has no argument quux[.]$"),
    (stretch, {"output_dir": "a"}, "output_dir is output=[.]"),
    (contextualize, {"max_seq_length": 9}, "max_seq_length is max_length=[.]"),
    (evaluate, {"batch_size": 8}, BUDGET),
    (predict, {"batch_size": 8}, BUDGET),
    (embed, {"truncate_dim": 8}, "embed has no argument truncate_dim: truncate_dim is dimension="),
    (search, {"k": 8}, "search has no argument k: k is top_k=[.]"),
    (open_embedder, {"batch_size": 8}, BUDGET),
    (LateInteraction, {"maxlen": 8}, "LateInteraction has no argument maxlen: maxlen is max_len"),
    (Reranker, {"batch_size": 8}, f"Reranker has no argument batch_size: {BUDGET}"),
    (TextBatches, {"batch_size": 8, "maxlen": 9}, f"{BUDGET}; maxlen is max_length=[.]"),
]


@pytest.mark.parametrize(("function", "arguments", "message"), CALLS, ids=range(len(CALLS)))
def test_arguments_of_other_libraries_are_named_as_ours(function, arguments, message):
    with pytest.raises(TypeError, match=message):
        function("none", "none", **arguments)


def test_keywords_of_keras_data_sets_are_taken():
    assert len(TextBatches([[7]], workers=2, max_queue_size=3)) == 1


def test_a_name_that_no_argument_has_is_no_alias():
    assert argument_here("--batch-size", ["seed"]) is None
    assert not any(name in HERE for name in ("token_budget", "max_length", "epochs", "output"))


@pytest.mark.parametrize(
    ("kind", "argument", "hint"),
    [
        (RotaryEmbedding, "max_wavelength", "max_wavelength is base=."),
        (XPos, "rope_theta", "rope_theta is base=."),
        (XPos, "scale_bas", "did you mean scale_base=?"),
        (ALiBi, "kwargs", ""),
    ],
)
def test_an_encoding_names_its_argument(kind, argument, hint):
    message = re.escape(f"{kind.__name__} has no argument {argument}{': ' if hint else '.'}{hint}")
    with pytest.raises(TypeError, match=f"{message}$"):
        kind(**{argument: 2.0})
