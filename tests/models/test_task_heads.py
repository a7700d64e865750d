"""The heads that come with checkpoints: transformers' logits, there and back."""

import json

import keras
import numpy as np
import pytest
from keras import ops
from published import SIZES, answer, publish, token_ids
from selection import on_all

from keras_posenc import build_transformer_model, save_checkpoint
from keras_posenc.analysis import open_model
from keras_posenc.heads import classifier, regressor, token_classifier
from keras_posenc.models.heads_in import heads_in
from keras_posenc.models.model import model_on

SMALL = {**SIZES, "num_hidden_layers": 1, "max_position_embeddings": 16}
ROBERTA = {**SMALL, "type_vocab_size": 1, "pad_token_id": 1}
LLAMA = {**SMALL, "num_key_value_heads": 1, "head_dim": 8}
DISTIL = {
    "vocab_size": 40,
    "dim": 16,
    "n_layers": 1,
    "n_heads": 2,
    "hidden_dim": 24,
    "max_position_embeddings": 16,
}
DEBERTA = {
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "position_biased_input": False,
    "share_att_key": True,
    "type_vocab_size": 0,
    "pooler_hidden_size": 16,
}
GPT2 = {"vocab_size": 40, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16}
GPT2 |= {"pad_token_id": 0}
MODERN = {**SMALL, "local_attention": 6, "pad_token_id": 0, "classifier_bias": True}
FAMILIES = {
    "Bert": SMALL,
    "Roberta": ROBERTA,
    "XLMRoberta": ROBERTA,
    "DistilBert": DISTIL,
    "Electra": {**SMALL, "embedding_size": 12},
    "MPNet": {**SMALL, "pad_token_id": 1},
    "Albert": {**SMALL, "embedding_size": 12},
    "DebertaV2": {**SMALL, **DEBERTA},
    "ModernBert": MODERN,
}
LABELS = {0: "low", 1: "middle", 2: "high"}
CASES = [(family, "ForSequenceClassification", config) for family, config in FAMILIES.items()]
CASES += [
    (family, f"For{task}", config)
    for family, config in FAMILIES.items()
    for task in ("TokenClassification", "QuestionAnswering")
]
CASES += [
    ("ModernBert", "ForSequenceClassification", {**MODERN, "classifier_pooling": "mean"}),
    ("DebertaV2", "ForSequenceClassification", {**SMALL, **DEBERTA, "pooler_hidden_act": "tanh"}),
    ("Qwen3", "ForSequenceClassification", LLAMA),
    ("Gemma3Text", "ForSequenceClassification", LLAMA),
    ("Ultrabert", "ForSequenceClassification", {**LLAMA, "classifier_pooling": "mean"}),
    ("Ultrabert", "ForTokenClassification", LLAMA),
    ("Ultrabert", "ForQuestionAnswering", LLAMA),
    *(
        ("EuroBert", "ForSequenceClassification", {**LLAMA, "classifier_pooling": pooling})
        for pooling in ("late", "mean", "bos")
    ),
    ("EuroBert", "ForTokenClassification", LLAMA),
    *((family, "ForTokenClassification", LLAMA) for family in ("Llama", "Mistral", "Qwen2")),
    ("Gte", "ForSequenceClassification", SMALL),
    ("Gte", "ForTokenClassification", SMALL),
    ("NomicBert", "ForSequenceClassification", SMALL),
    ("JinaEmbeddingsV3", "ForSequenceClassification", ROBERTA),
    ("JinaEmbeddingsV3", "ForQuestionAnswering", ROBERTA),
    ("GPT2", "ForSequenceClassification", GPT2),
    ("GPT2", "ForTokenClassification", GPT2),
    ("GPT2", "ForQuestionAnswering", GPT2),
    ("OpenAIPrivacyFilter", "ForTokenClassification", {**LLAMA, "num_local_experts": 4}),
]
TASKS = {
    "ForSequenceClassification": "sequence_classification",
    "ForTokenClassification": "token_classification",
    "ForQuestionAnswering": "question_answering",
}


def logits(model, ids, real):
    """Of transformers' model: of a span both, (B, T, 2)."""
    import torch

    if "QuestionAnswering" not in type(model).__name__:
        return answer(model, ids, real)
    feeds = {"input_ids": ids, "attention_mask": real}
    with torch.no_grad():
        found = model(**{name: torch.tensor(x, dtype=torch.int64) for name, x in feeds.items()})
    return np.stack([found.start_logits.numpy(), found.end_logits.numpy()], -1)


def check(found, expected, real):
    if expected.ndim == 3:
        found, expected = found[real], expected[real]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def numbers(model, ids):
    feeds = [ids, 0 * ids][: len(model.inputs)]
    return ops.convert_to_numpy(model(feeds, training=False))


# Of what families have in common one of each is enough on the other backends.
ON_ALL = [case for case in CASES if case[0] in ("Bert", "ModernBert")][:4]
ON_ALL += [case for case in CASES if case[0] == "EuroBert"][:1]


@pytest.mark.parametrize(
    ("family", "ending", "config"), on_all(ON_ALL, CASES), ids=lambda x: str(x)[:30]
)
def test_the_logits_of_transformers_and_back(tmp_path, family, ending, config):
    import transformers

    spans = ending == "ForQuestionAnswering"
    labels = {} if spans else {"id2label": LABELS, "label2id": {b: a for a, b in LABELS.items()}}
    reference = publish(tmp_path / "theirs", family + ending, **config, **labels)
    ids, real = token_ids(9, config.get("pad_token_id", 0))
    ours = build_transformer_model(tmp_path / "theirs", head=TASKS[ending])
    expected = logits(reference, ids, real)
    check(numbers(ours, ids), expected, real)
    assert spans or ours.transformer.config.label_names == list(LABELS.values())
    save_checkpoint(ours, tmp_path / "ours")
    auto = getattr(transformers, f"AutoModel{ending}")
    again = auto.from_pretrained(tmp_path / "ours").eval()
    assert type(again) is type(reference) and (spans or again.config.id2label == LABELS)
    check(logits(again, ids, real), expected, real)
    assert heads_in(tmp_path / "ours", config=tmp_path / "ours") == {"head": TASKS[ending]}


@pytest.mark.once
def test_a_head_that_is_trained_here_runs_in_a_pipeline_of_transformers(tmp_path, pretrained):
    """From an encoder without a head; Keras trains it, transformers' pipeline names its labels."""
    import transformers

    labels = ["bad", "good"]
    model = build_transformer_model(pretrained, head="sequence_classification", label_names=labels)
    # The checkpoint has no pooler either, and says so.
    fresh = {"Sequence-Output/kernel", "Sequence-Output/bias"}
    fresh |= {"Pooler-Dense/kernel", "Pooler-Dense/bias"}
    assert fresh <= set(model.transformer.account.initialised)
    random = np.random.default_rng(0)
    ids = np.concatenate([np.full((64, 1), 2), random.integers(5, 40, (64, 8))], 1)
    good = (ids == 7).any(1).astype("int32")
    model.compile(
        keras.optimizers.Adam(1e-2), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    model.fit([ids, 0 * ids], good, epochs=3, verbose=0)
    save_checkpoint(model, tmp_path)
    (tmp_path / "vocab.txt").write_text((pretrained / "vocab.txt").read_text())
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    pipeline = transformers.pipeline("text-classification", model=str(tmp_path), device="cpu")
    text = "w2 w3 w20"
    (found,) = pipeline([text], top_k=None)
    ids = np.array([pipeline.tokenizer(text)["input_ids"]])
    scores = numbers(model, ids)[0]
    expected = np.exp(scores) / np.exp(scores).sum()
    found = {row["label"]: row["score"] for row in found}
    assert [found[label] for label in labels] == pytest.approx(expected.tolist(), abs=1e-5)
    again = build_transformer_model(tmp_path, head="sequence_classification")
    np.testing.assert_array_equal(numbers(again, ids), scores[None])


@pytest.mark.once
@pytest.mark.parametrize("name", ["Tagger", "Span"])
def test_layers_on_an_encoder_that_are_a_head_of_transformers(tmp_path, name):
    """A dense layer on the features is what transformers' classes have, and is written as such."""
    import transformers

    encoder = build_transformer_model({**SMALL, "hidden_act": "gelu"})
    make = {"Tagger": lambda: keras.layers.Dense(3, name="Tagger"), "Span": Ends}[name]
    model = model_on(encoder, make()(encoder.output), "head")
    labels = ["O", "B-PER", "I-PER"] if name == "Tagger" else None
    save_checkpoint(model, tmp_path, label_names=labels)
    kind = "TokenClassification" if labels else "QuestionAnswering"
    reference = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(tmp_path).eval()
    ids, real = token_ids(9)
    check(logits(reference, ids, real), numbers(model, ids), real)
    if labels:
        assert list(reference.config.id2label.values()) == labels
        save_checkpoint(model, tmp_path)
        config = json.loads((tmp_path / "config.json").read_text())
        assert config["id2label"] == {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}
        with pytest.raises(ValueError, match="has 3 outputs: name each. Received: label_names=..a"):
            save_checkpoint(model, tmp_path, label_names=["a"])
        with pytest.raises(ValueError, match="`label_names` are those of a head's outputs"):
            save_checkpoint(encoder, tmp_path, label_names=["a"])


class Ends(keras.layers.Layer):
    """A layer around the dense one."""

    def __init__(self):
        super().__init__(name="Span")
        self.supports_masking = True
        self.ends = keras.layers.Dense(2, name="ends")

    def build(self, shape):
        self.ends.build(shape)

    def call(self, x):
        return self.ends(x)


POOLED = {
    "classifier": lambda encoder: classifier(encoder, 3, dropout_rate=0),
    "regressor": lambda encoder: regressor(encoder, 2, "max", dropout_rate=0),
}


@pytest.mark.once
@pytest.mark.parametrize("name", POOLED)
def test_a_head_that_transformers_lacks_is_saved_with_its_pooling(tmp_path, name):
    """Stretched positions, and a second save, keep it; the encoder alone leaves it out."""
    import transformers

    encoder = build_transformer_model(SMALL | {"hidden_act": "gelu"}, hierarchical_position=True)
    model = POOLED[name](encoder)
    labels = [f"{name} {i}" for i in range(model.output_shape[-1])]
    save_checkpoint(model, tmp_path, positions=24, label_names=labels)
    assert heads_in(tmp_path, config=tmp_path) == {"head": "sequence_classification"}
    again = build_transformer_model(tmp_path, head="sequence_classification")
    ids, real = token_ids(20)
    np.testing.assert_allclose(numbers(again, ids), numbers(model, ids), atol=1e-6)
    assert again.transformer.config.label_names == labels
    save_checkpoint(again, tmp_path / "again")
    third = build_transformer_model(tmp_path / "again", head="sequence_classification")
    np.testing.assert_allclose(numbers(third, ids), numbers(model, ids), atol=1e-6)
    reference = transformers.AutoModel.from_pretrained(tmp_path).eval()
    check(numbers(encoder, ids), answer(reference, ids, real), real)
    save_checkpoint(build_transformer_model(tmp_path), tmp_path / "encoder")
    assert "task_head" not in json.loads((tmp_path / "encoder" / "config.json").read_text())


@pytest.mark.once
@pytest.mark.parametrize("name, sizes", [("qwen3", LLAMA), ("modernbert", MODERN)])
def test_a_tagger_is_saved_with_a_warning_if_no_class_of_transformers_reads_it(
    name, sizes, tmp_path, caplog
):
    encoder = build_transformer_model({"hidden_act": "silu", **sizes, "model_type": name})
    model = token_classifier(encoder, 3)
    save_checkpoint(model, tmp_path, label_names=["O", "B-x", "I-x"])
    assert ("no class with this head" in caplog.text) == (name == "modernbert")
    again = build_transformer_model(tmp_path, head="token_classification")
    ids, _ = token_ids(9)
    np.testing.assert_allclose(numbers(again, ids), numbers(model, ids), atol=1e-6)


@pytest.mark.once
@pytest.mark.parametrize(
    "record",
    [
        5,
        {},
        {"task": "tagging", "pooling": None},
        {"task": "sequence_classification", "pooling": None},
        {"task": "token_classification", "pooling": "mean"},
        {"task": ["token_classification"], "pooling": None},
    ],
)
def test_a_damaged_task_head_is_refused(record):
    with pytest.raises(ValueError, match="`task_head` must name a `task`, one of .* Received: "):
        build_transformer_model(
            {**SMALL, "hidden_act": "gelu", "task_head": record}, head="token_classification"
        )


@pytest.mark.once
def test_heads_that_are_refused(tmp_path, pretrained):
    publish(tmp_path, "BertForTokenClassification", **SMALL)
    message = "a 'BertForTokenClassification', whose head is head='tok.*; give .label_names. for"
    with pytest.raises(ValueError, match=message):
        build_transformer_model(tmp_path, head="sequence_classification")
    with pytest.raises(ValueError, match="`head` must be one of .* Received: 'tagging'"):
        build_transformer_model(tmp_path, head="tagging")
    head = {"head": "sequence_classification"}
    model = build_transformer_model(pretrained, label_names=["a", "b"], **head)
    assert model.transformer.config.label_names == ["a", "b"]
    with pytest.raises(ValueError, match="`label_names` are those of a `head`: name it"):
        build_transformer_model(pretrained, label_names=["a", "b"])
    with pytest.raises(ValueError, match="`label_names` must list names, each once. Received: "):
        build_transformer_model(pretrained, head="sequence_classification", label_names=["a", "a"])
    with pytest.raises(ValueError, match="`head` is a model's only one. .*with_mlm"):
        build_transformer_model(tmp_path, head="token_classification", with_mlm=True)
    with pytest.raises(ValueError, match="missing .Pooler-Dense/kernel.*Nothing was loaded"):
        build_transformer_model(pretrained, head="sequence_classification")
    sizes = {**SMALL, "hidden_act": "gelu", "model_type": "neobert"}
    with pytest.raises(ValueError, match="NeoBERT with head='token_classification' is not support"):
        build_transformer_model(sizes, head="token_classification")
    for names in ({"0": "a", "2": "b"}, ["a"], {"0": 1}):
        wrong = {**SMALL, "hidden_act": "gelu", "id2label": names}
        with pytest.raises(
            ValueError, match="`id2label` must name the labels 0, 1, 2, .* Received"
        ):
            build_transformer_model(wrong, head="token_classification")


@pytest.mark.once
def test_a_squad_head_of_google(tmp_path):
    model = build_transformer_model(
        {**SMALL, "hidden_act": "gelu"}, head="question_answering", label_names=["start", "end"]
    )
    written = save_checkpoint(model, tmp_path, format="google")
    assert any(path.endswith(".index") for path in written)
    again = build_transformer_model(tmp_path, head="question_answering")
    ids, _ = token_ids(9)
    np.testing.assert_array_equal(numbers(again, ids), numbers(model, ids))


# ---------------------------------------------------------------- what of a checkpoint is kept
DECODER = {**SMALL, "num_key_value_heads": 1}
T5 = {"vocab_size": 40, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
OTHERS = {
    "ElectraForMultipleChoice": {**SMALL, "embedding_size": 12},
    "GPT2DoubleHeadsModel": GPT2,
    "LlamaForQuestionAnswering": DECODER,
    "T5ForSequenceClassification": T5,
}


@pytest.mark.once
@pytest.mark.parametrize("name", OTHERS)
def test_a_head_that_is_not_built_does_not_stop_the_encoder(name, tmp_path):
    reference = publish(tmp_path, name, **OTHERS[name])
    encoder = getattr(reference, reference.base_model_prefix)
    ids, real = token_ids(9)
    expected = answer(getattr(encoder, "encoder", encoder) if "T5" in name else encoder, ids, real)
    check(numbers(build_transformer_model(tmp_path), ids), expected, real)


HEADS_KEPT = [
    ("BertForPreTraining", SMALL, {"with_pool", "with_nsp", "with_mlm"}),
    ("ElectraForPreTraining", {**SMALL, "embedding_size": 12}, {"with_discriminator"}),
    ("ElectraForMaskedLM", {**SMALL, "embedding_size": 12}, {"with_mlm"}),
    ("ModernBertForMaskedLM", {**MODERN, "decoder_bias": False}, {"with_mlm"}),
    ("ModernBertModel", MODERN, set()),
    ("EuroBertForMaskedLM", {**DECODER, "mlp_bias": False}, {"with_mlm"}),
    ("EuroBertModel", DECODER, set()),
    ("LlamaForCausalLM", {**DECODER, "tie_word_embeddings": False}, {"with_mlm"}),
    ("LlamaForCausalLM", {**DECODER, "tie_word_embeddings": True}, {"with_mlm"}),
    ("LlamaModel", {**DECODER, "tie_word_embeddings": True}, set()),
    ("Gemma3ForCausalLM", {**DECODER, "head_dim": 8}, {"with_mlm"}),
    ("GPT2LMHeadModel", GPT2, {"with_mlm"}),
    ("T5EncoderModel", {"vocab_size": 40, "d_model": 16, "d_kv": 8, "num_layers": 1}, set()),
]


@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "config", "heads"),
    HEADS_KEPT,
    ids=[f"{n}-{i}" for i, (n, *_) in enumerate(HEADS_KEPT)],
)
def test_a_converted_checkpoint_has_all_heads_and_tensors(tmp_path, name, config, heads):
    """Also a head of tokens without a bias, or without any weight of its own."""
    from safetensors.numpy import load_file

    publish(tmp_path / "theirs", name, **config)
    assert heads_in(tmp_path / "theirs", config=tmp_path / "theirs") == dict.fromkeys(heads, True)
    save_checkpoint(open_model(tmp_path / "theirs"), tmp_path / "ours")
    files = [
        # transformers puts no prefix before the names of a model without a head.
        {tensor.removeprefix("model."): array for tensor, array in load_file(file).items()}
        for file in (tmp_path / each / "model.safetensors" for each in ("theirs", "ours"))
    ]
    assert files[0].keys() == files[1].keys()
    for tensor, array in files[0].items():
        np.testing.assert_array_equal(files[1][tensor], array, err_msg=tensor)
    written = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert written["architectures"] == [name]


@pytest.mark.once
def test_a_file_without_the_head_that_its_config_names_has_none(tmp_path):
    """As embedding models made of decoders, whose config names the class they were made of."""
    publish(tmp_path, "LlamaModel", **DECODER, tie_word_embeddings=False)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(
        json.dumps(config | {"architectures": ["LlamaForCausalLM"]})
    )
    assert heads_in(tmp_path, config=tmp_path) == {}
    assert heads_in(tmp_path) == {}
