"""The weight tables: what each of our variables is called elsewhere."""

import pytest

from keras_posenc.checkpoints import BERT, ROBERTA, TABLES
from keras_posenc.checkpoints.names import KINDS, TASK_LAYERS

pytestmark = pytest.mark.once


def test_names_of_a_kernel():
    name = "Transformer-11-MultiHeadSelfAttention/query/kernel"
    assert [place[:2] for place in BERT.names(name)] == [
        ("bert/encoder/layer_11/attention/self/query/kernel", False),
        ("bert.encoder.layer.11.attention.self.query.weight", True),
        ("encoder.layer.11.attention.self.query.weight", True),
    ]
    assert ROBERTA.names(name)[1][:2] == (
        "roberta.encoder.layer.11.attention.self.query.weight",
        True,
    )


def test_names_of_a_norm_are_old_and_new():
    assert [place.name for place in BERT.names("Embedding-Norm/gamma")] == [
        "bert/embeddings/LayerNorm/gamma",
        "bert.embeddings.LayerNorm.weight",
        "bert.embeddings.LayerNorm.gamma",
        "embeddings.LayerNorm.weight",
        "embeddings.LayerNorm.gamma",
    ]


def test_heads():
    assert [place[:2] for place in BERT.names("NSP-Proba/kernel")] == [
        ("cls/seq_relationship/output_weights", True),
        ("cls.seq_relationship.weight", True),
    ]
    assert BERT.written_name("MLM-Bias/bias", "google").name == "cls/predictions/output_bias"
    assert BERT.written_name("MLM-Bias/bias", "huggingface").name == "cls.predictions.bias"
    assert ROBERTA.written_name("MLM-Norm/gamma", "huggingface")[:2] == (
        "lm_head.layer_norm.weight",
        False,
    )


@pytest.mark.parametrize(
    "name",
    [
        "Embedding-Position/fresh",
        "Embedding-Norm/beta_dense/kernel",
        "Transformer-0-FeedForward/intermediate_2/kernel",
        "Transformer-FeedForward/output/kernel",
        "Classifier/kernel",
        "Embedding-Token/kernel",
        "kernel",
    ],
)
def test_variables_without_a_name(name):
    assert BERT.names(name) == []


@pytest.mark.parametrize("family", TABLES)
def test_no_two_variables_share_a_name(family):
    """But for the heads of tasks: a checkpoint has one of them."""
    table = TABLES[family]
    seen = {}
    for layer, (_, kind) in table.rows.items():
        for part in KINDS[kind] if layer not in TASK_LAYERS else ():
            variable = f"{layer}/{part}".replace("{i}", "0")
            for place in table.names(variable):
                assert seen.setdefault(place.name, variable) == variable


def test_why_unused():
    assert BERT.why_unused("cls.predictions.decoder.bias", {}) == "not asked for"
    assert BERT.why_unused("bert.pooler.dense.weight", {}) == "not asked for"
    assert BERT.why_unused("bert.pooler.dense.weight", {"Pooler-Dense": None}) is None
    assert BERT.why_unused("bert/x/adam_v", {}) == "optimizer slot"
    assert BERT.why_unused("embeddings.position_ids", {}) == "buffer"
    assert BERT.why_unused("classifier.weight", {}) == "not asked for"
    assert BERT.why_unused("score.weight", {}) == "a task's head"
    assert BERT.why_unused("encoder.layer.0.x", {}) is None
