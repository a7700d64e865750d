"""Every key that sentence-transformers writes for its four kinds of models: read, or refused.

The directories are saved by the real package.
"""

import json
import shutil

import numpy as np
import pytest
from sentence_transformers import (
    CrossEncoder,
    MultiVectorEncoder,
    SentenceTransformer,
    SparseEncoder,
)
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sentence_transformer.modules import Dropout, LayerNorm, Pooling
from sentence_transformers.sparse_encoder.modules import SpladePooling

from keras_posenc.retrieval import (
    LateInteraction,
    Reranker,
    SparseEmbedder,
    embed,
    open_embedder,
    search,
)

pytestmark = pytest.mark.once

TEXTS = ["one two three", "who lives where?", "ten long texts, nine short"]
MODEL = "config_sentence_transformers.json"
ENCODER = "sentence_bert_config.json"
# Kind -> its settings -> what becomes of each: what changes the result is "read", or "refused" by
# name; "weights" have the same number; "not needed" changes nothing that is computed.
EVERY = {"model_type": "read", "__version__": "not needed", "prompts": "read"}
EVERY |= {"default_prompt_name": "read"}
WHAT = {"transformer_task": "refused", "modality_config": "refused"}
WHAT |= {"module_output_name": "refused", "processing_kwargs": "refused"}
WHAT |= {"unpad_inputs": "not needed"}
SIDES = ("query_length", "document_length", "query_expansion")
NAMES = dict.fromkeys(("module_input_name", "module_output_name"), "refused")
KEYS = {
    "dense": {
        MODEL: EVERY | {"similarity_fn_name": "read", "truncate_dim": "read"},
        ENCODER: WHAT | dict.fromkeys(SIDES, "refused"),
        "1_Pooling": {
            "embedding_dimension": "weights", "pooling_mode": "read", "include_prompt": "read",
        },
        "2_Dense": NAMES | {
            "in_features": "weights", "out_features": "weights", "bias": "weights",
            "activation_function": "read", "use_residual": "refused",
        },
        "3_LayerNorm": {"dimension": "weights"},
        "4_Dropout": {"dropout": "not needed"},
        "5_Normalize": NAMES,
    },
    "cross": {
        MODEL: EVERY | {"activation_fn": "read", "keep_in_fp32_modules": "not needed"},
        ENCODER: WHAT | dict.fromkeys(SIDES, "refused"),
    },
    "sparse": {
        MODEL: EVERY | {"similarity_fn_name": "refused", "max_active_dims": "read"},
        ENCODER: WHAT | dict.fromkeys(SIDES, "refused"),
        "1_SpladePooling": {
            "pooling_strategy": "read", "activation_function": "read",
            "embedding_dimension": "weights",
        },
    },
    "multi": {
        MODEL: EVERY | {"similarity_fn_name": "refused"},
        ENCODER: WHAT | dict.fromkeys(SIDES, "read"),
        "1_Dense": NAMES | {
            "in_features": "weights", "out_features": "weights", "bias": "weights",
            "activation_function": "read", "use_residual": "refused",
        },
        "2_MultiVectorMask": {
            "skiplist_words": "read", "skiplist_tasks": "read", "keep_only_token_ids": "refused",
        },
        "3_Normalize": NAMES,
    },
}  # fmt: skip
CLASSES = {
    ENCODER: Transformer,
    "Pooling": Pooling,
    "Dense": Dense,
    "LayerNorm": LayerNorm,
    "Dropout": Dropout,
    "Normalize": Normalize,
    "SpladePooling": SpladePooling,
    "MultiVectorMask": MultiVectorMask,
}
# What is written in the place of each key that is not neutral.
OTHER = {
    "transformer_task": "text-generation",
    "modality_config": {
        "text": {"method": "forward", "method_output_name": "pooler_output"},
    },
    "module_output_name": "another",
    "module_input_name": "another",
    "processing_kwargs": {"text": {"add_special_tokens": False}},
    "query_length": 4,
    "document_length": 4,
    "query_expansion": {"strategy": "fixed", "length": 12, "attend": False},
    "use_residual": True,
    "keep_only_token_ids": [1, 2],
    "skiplist_words": ["one"],
    "skiplist_tasks": ["query"],
    "pooling_mode": "cls",
    "activation_function": "torch.nn.modules.activation.ReLU",
    "pooling_strategy": "sum",
    "unpad_inputs": False,
    "dropout": 0.5,
    "keep_in_fp32_modules": ["classifier"],
    "__version__": {"sentence_transformers": "9.0.0"},
}


@pytest.fixture(scope="module")
def saved(tiny_model, tmp_path_factory):
    """A model of each kind, saved by sentence-transformers with every setting."""
    import torch

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("saved")
    bert = str(tiny_model("BertModel"))
    parts = [Pooling(16, "mean"), Dense(16, 16), LayerNorm(16), Dropout(0.1), Normalize()]
    prompts = {"query": "who: ", "document": "text: "}
    SentenceTransformer(
        modules=[Transformer(bert), *parts], prompts=prompts, truncate_dim=8, device="cpu"
    ).save_pretrained(str(folder / "dense"))
    cross = str(tiny_model("BertForSequenceClassification", num_labels=1))
    CrossEncoder(cross, device="cpu").save_pretrained(str(folder / "cross"))
    masked = str(tiny_model("BertForMaskedLM"))
    SparseEncoder(masked, device="cpu", max_active_dims=5).save_pretrained(str(folder / "sparse"))
    multi = MultiVectorEncoder(bert, device="cpu")
    multi[2].skiplist_words = ["who"]
    multi.save_pretrained(str(folder / "multi"))
    return folder


def settings_of(folder):
    """File, or the folder of a module -> its settings."""
    files = {MODEL: folder / MODEL, ENCODER: folder / ENCODER}
    files |= {path.parent.name: path for path in folder.glob("*/config.json")}
    return {name: json.loads(path.read_text()) for name, path in files.items()}


@pytest.mark.parametrize("kind", KEYS)
def test_every_key_is_listed(saved, kind):
    """The keys in the files, and those that their classes write when a setting is not neutral."""
    found = settings_of(saved / kind)
    assert found.keys() == KEYS[kind].keys()
    for name, keys in KEYS[kind].items():
        written = set(found[name])
        if name != MODEL:
            written |= set(CLASSES[name.partition("_")[2] if name != ENCODER else name].config_keys)
        assert written <= keys.keys(), name
        extra = {"truncate_dim", "max_active_dims", "keep_in_fp32_modules"} if name == MODEL else ()
        assert keys.keys() <= written | set(extra), name


def opened(kind, folder):
    """Numbers that a model of the kind computes of texts, as queries and as documents."""
    if kind == "cross":
        return Reranker(folder).predict([(text, TEXTS[0]) for text in TEXTS], verbose=0)
    if kind == "dense":
        model = open_embedder(folder)
        return model.predict(TEXTS, verbose=0)
    model = (SparseEmbedder if kind == "sparse" else LateInteraction)(folder)
    both = model.encode_queries(TEXTS, verbose=0), model.encode_documents(TEXTS, verbose=0)
    values = "values" if kind == "sparse" else "vectors"
    return np.concatenate([getattr(each, values).ravel() for each in both])


def changed(saved, kind, name, key, target):
    """A copy of a directory with another value of a key."""
    shutil.copytree(saved / kind, target)
    path = target / name if name.endswith(".json") else target / name / "config.json"
    settings = json.loads(path.read_text())
    value = OTHER[key]
    if (name, key) == ("1_SpladePooling", "activation_function"):
        value = "log1p_relu"
    path.write_text(json.dumps({**settings, key: value}))
    return target


def test_queries_leave_out_no_tokens_where_no_task_is_named(saved, tmp_path):
    shutil.copytree(saved / "multi", tmp_path, dirs_exist_ok=True)
    path = tmp_path / "2_MultiVectorMask" / "config.json"
    settings = json.loads(path.read_text())
    assert settings.pop("skiplist_tasks") == ["document"]
    path.write_text(json.dumps(settings))
    np.testing.assert_array_equal(opened("multi", tmp_path), opened("multi", saved / "multi"))


EACH = [
    pytest.param(kind, name, key, what, id=f"{kind}-{name}-{key}")
    for kind, files in KEYS.items()
    for name, keys in files.items()
    for key, what in keys.items()
    if key in OTHER
]


@pytest.mark.parametrize("kind, name, key, what", EACH)
def test_every_key_is_read_or_refused(saved, tmp_path, kind, name, key, what):
    folder = changed(saved, kind, name, key, tmp_path / "model")
    if what == "refused":
        with pytest.raises(ValueError, match=key):
            opened(kind, folder)
        return
    before, after = opened(kind, saved / kind), opened(kind, folder)
    same = before.shape == after.shape and np.allclose(before, after, atol=1e-4)
    assert same == (what == "not needed")


def test_a_truncated_width_is_read(saved):
    reference = SentenceTransformer(str(saved / "dense"), device="cpu")
    expected = reference.encode(TEXTS, normalize_embeddings=True)
    assert expected.shape == (3, 8)
    found = open_embedder(saved / "dense").predict(TEXTS, verbose=0)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    whole = open_embedder(saved / "dense", dimension=16).predict(TEXTS, verbose=0)
    expected = reference.encode(TEXTS, truncate_dim=16, normalize_embeddings=True)
    np.testing.assert_allclose(whole, expected, atol=1e-5)


def test_the_number_of_active_tokens_is_read(saved):
    reference = SparseEncoder(str(saved / "sparse"), device="cpu").encode_document(TEXTS)
    vectors = SparseEmbedder(saved / "sparse").encode_documents(TEXTS, verbose=0)
    assert np.diff(vectors.offsets).tolist() == [5, 5, 5]
    np.testing.assert_allclose(vectors.dense(), reference.to_dense().numpy(), atol=1e-4)
    whole = SparseEmbedder(saved / "sparse", max_active=9).encode_documents(TEXTS, verbose=0)
    assert np.diff(whole.offsets).tolist() == [9, 9, 9]


def test_texts_and_queries_have_the_prompts_of_their_sides(saved, tmp_path):
    reference = SentenceTransformer(str(saved / "dense"), device="cpu")
    options = {"normalize_embeddings": True}
    documents = reference.encode_document(TEXTS, **options)
    queries = reference.encode_query(TEXTS, **options)
    plain = reference.encode(TEXTS, **options)
    assert min(abs(documents - queries).max(), abs(documents - plain).max()) > 1e-2
    found = embed(saved / "dense", TEXTS, tmp_path / "found.npy", verbose=0)
    np.testing.assert_allclose(found, documents, atol=1e-5)
    asked = embed(saved / "dense", TEXTS, queries=True, verbose=0)
    np.testing.assert_allclose(asked, queries, atol=1e-5)
    np.testing.assert_allclose(
        embed(saved / "dense", TEXTS, prompt="", verbose=0), plain, atol=1e-5
    )
    best = search(saved / "dense", tmp_path / "found.npy", TEXTS[1], verbose=0)
    scores = {row["id"]: row["score"] for row in best}
    expected = queries[1] @ documents.T
    np.testing.assert_allclose([scores[n] for n in (1, 2, 3)], expected, atol=1e-5)


@pytest.mark.parametrize("name", ["passage", "corpus"])
def test_a_prompt_of_documents_has_several_names(saved, tmp_path, name):
    shutil.copytree(saved / "dense", tmp_path / "model")
    path = tmp_path / "model" / MODEL
    prompts = {"query": "who: ", name: "text: "}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"prompts": prompts}))
    found = embed(tmp_path / "model", TEXTS, verbose=0)
    np.testing.assert_array_equal(found, embed(saved / "dense", TEXTS, verbose=0))


@pytest.mark.parametrize(
    "kind, name",
    [("dense", "manhattan"), ("sparse", "cosine"), ("multi", "mean_maxsim")],
)
def test_a_similarity_that_search_does_not_compute_is_refused(saved, tmp_path, kind, name):
    shutil.copytree(saved / kind, tmp_path / "model")
    path = tmp_path / "model" / MODEL
    path.write_text(json.dumps(json.loads(path.read_text()) | {"similarity_fn_name": name}))
    found = embed(tmp_path / "model", TEXTS, verbose=0)
    with pytest.raises(ValueError, match=f"similarity_fn_name='{name}' is not supported; those"):
        search(tmp_path / "model", found, "one", verbose=0)
    if kind == "multi":
        with pytest.raises(ValueError, match="similarity_fn_name='mean_maxsim' is not supported"):
            LateInteraction(tmp_path / "model").rank("one", TEXTS, verbose=0)


@pytest.mark.parametrize("kind, key", [("dense", "truncate_dim"), ("sparse", "max_active_dims")])
def test_sizes_that_are_none(saved, tmp_path, kind, key):
    shutil.copytree(saved / kind, tmp_path / "model")
    path = tmp_path / "model" / MODEL
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: 0}))
    with pytest.raises(ValueError, match=f"`{key}` must be an int, at least 1. Found 0"):
        opened(kind, tmp_path / "model")
