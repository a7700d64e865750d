"""Late interaction against PyLate, Stanford's ColBERT and sentence-transformers, and back.

PyLate needs stand-ins for some of its modules beside this transformers (references/
make_late_interaction.py), so sentence-transformers reads here what is saved in PyLate's format.
PyLate 1.6.0 with the stand-ins gives the same vectors, also of an extended table.
"""

import json
import shutil

import keras
import numpy as np
import pytest
from conftest import TINY_CONFIG, WORDS

from keras_posenc import build_transformer_model, embed, embedder, save_checkpoint
from keras_posenc.checkpoints.safetensors import write_safetensors
from keras_posenc.folders.folder import Folder
from keras_posenc.folders.written import write_files
from keras_posenc.losses import MarginMSE, MaxSimRanking
from keras_posenc.retrieval import LateInteraction, MultiVectors, Vectors, maxsim, open_embedder
from keras_posenc.retrieval.late_interaction.files import read_late_interaction
from keras_posenc.text import FloatLabels

QUERIES = ["who lives where?", "one"]
DOCUMENTS = ["Two text, three. (four)!", "five six seven " * 30, "nine; nine"]


@pytest.fixture(scope="module")
def reference():
    """The vectors that PyLate and Stanford's code give, see references/make_late_interaction.py."""
    from conftest import COLBERTS

    return np.load(COLBERTS)


def peer(folder):
    from sentence_transformers import MultiVectorEncoder

    return MultiVectorEncoder(str(folder), device="cpu", local_files_only=True)


def compare(found, expected):
    assert len(found) == len(expected)
    for ours, wanted in zip([found[n] for n in range(len(found))], expected, strict=True):
        assert ours.shape == tuple(wanted.shape)
        np.testing.assert_allclose(ours, np.asarray(wanted), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["pylate", "stanford"])
def test_equal_to_the_published_code(name, colberts, reference):
    model = LateInteraction(colberts / name)
    compare(model.encode_queries(QUERIES, 0), [reference[f"{name}:q{n}"] for n in range(2)])
    compare(model.encode_documents(DOCUMENTS, 0), [reference[f"{name}:d{n}"] for n in range(3)])


@pytest.mark.once
@pytest.mark.parametrize("name", ["pylate", "stanford"])
def test_saved_in_the_published_format(name, colberts, tmp_path):
    model = LateInteraction(colberts / name)
    dense = next(layer for layer in model.model.layers if layer.name == "Dense-0")
    dense.set_weights([weights * 2 + 1 for weights in dense.get_weights()])  # as training would
    model.save(tmp_path / "saved")
    old, new = ({p.name for p in f.rglob("*")} for f in (colberts / name, tmp_path / "saved"))
    assert new - old <= {"vocab.txt"} and old <= new
    for again in (LateInteraction(tmp_path / "saved"), peer(tmp_path / "saved")):
        ours = hasattr(again, "encode_queries")
        encode = again.encode_queries if ours else again.encode_query
        compare(model.encode_queries(QUERIES, 0), list(encode(QUERIES)))
        encode = again.encode_documents if ours else again.encode_document
        compare(model.encode_documents(DOCUMENTS, 0), list(encode(DOCUMENTS)))


@pytest.mark.once
@pytest.mark.parametrize("expansion", [("min", True, 9), ("min", False, 9), ("fixed", True, 12)])
def test_equal_to_sentence_transformers(expansion, tiny_model, tmp_path):
    import torch
    from sentence_transformers import MultiVectorEncoder

    torch.manual_seed(0)
    strategy, attend, length = expansion
    published = MultiVectorEncoder(
        str(tiny_model("BertModel")),
        device="cpu",
        local_files_only=True,
        prompts={"query": "text: ", "document": "short "},
    )
    published[0].query_expansion = {"strategy": strategy, "attend": attend, "length": length}
    published[2].skiplist_words = [".", "one"]
    published[2].skiplist_tasks = ["query", "document"]
    published.save_pretrained(str(tmp_path / "model"))
    published, model = peer(tmp_path / "model"), LateInteraction(tmp_path / "model")
    queries = [*QUERIES, "two three four five six seven eight nine ten"]
    compare(model.encode_queries(queries, 0), published.encode_query(queries))
    compare(model.encode_documents(DOCUMENTS, 0), published.encode_document(DOCUMENTS))
    found = maxsim(model.encode_queries(queries, 0), model.encode_documents(DOCUMENTS, 0))
    expected = published.similarity(
        published.encode_query(queries), published.encode_document(DOCUMENTS)
    )
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-4, rtol=0)
    ranked = model.rank(queries[0], DOCUMENTS, verbose=0)
    assert [each["corpus_id"] for each in ranked] == np.argsort(-found[0]).tolist()


@pytest.mark.once
@pytest.mark.parametrize("strategy", [None, "min", "fixed"])
@pytest.mark.parametrize("family", ["bert", "roformer"])
def test_documents_without_a_length_are_read_whole(family, strategy, pretrained, tmp_path):
    """As far as there are positions; RoFormer has no table of them."""
    encoder, saved = tmp_path / "encoder", tmp_path / "saved"
    config = {**TINY_CONFIG, "model_type": family, "max_position_embeddings": 48}
    save_checkpoint(build_transformer_model(config), encoder)
    shutil.copy(pretrained / "vocab.txt", encoder)
    kinds = {"": "Transformer", "1_Dense": "Dense"}
    modules = [{"path": path, "type": f"sentence_transformers.{kinds[path]}"} for path in kinds]
    dense = {"activation_function": "torch.nn.modules.linear.Identity"}
    expansion = strategy and {"strategy": strategy, "length": 7, "attend": True}
    files = {
        "modules.json": modules,
        "1_Dense/config.json": dense,
        "sentence_bert_config.json": {"query_expansion": expansion},
    }
    write_files(encoder, {path: json.dumps(content) for path, content in files.items()})
    kernel = np.random.default_rng(0).normal(size=(4, 16)).astype("float32")
    write_safetensors(encoder / "1_Dense" / "model.safetensors", {"linear.weight": kernel})
    model = LateInteraction(encoder)
    texts = [" ".join(WORDS * 2), "w1"]
    found = model.encode_documents(texts, 0)
    size = 48 if family == "bert" else 72
    assert [len(found[n]) for n in range(2)] == [size, 3]
    sizes = {None: [size, 3], "min": [size, 7], "fixed": [7, 7]}[strategy]
    queries = model.encode_queries(texts, 0)
    assert [len(queries[n]) for n in range(2)] == sizes
    model.save(saved)
    again = LateInteraction(saved)
    assert (again.query, again.document) == (model.query, model.document)
    compare(found, again.encode_documents(texts, 0))


@pytest.mark.once
def test_a_stretched_encoder_reads_long_documents(colberts, tmp_path):
    long = LateInteraction(colberts / "pylate", max_length=100)
    found = long.encode_documents(DOCUMENTS, 0)
    assert len(found[1]) == 93 > 48  # tokens, with the marker; the table has 48 rows
    long.save(tmp_path / "long")
    again = LateInteraction(tmp_path / "long")
    assert again.document.length == 100 and again.query == long.query
    compare(found, peer(tmp_path / "long").encode_document(DOCUMENTS))


@pytest.mark.once
@pytest.mark.parametrize("seed", range(5))
def test_maxsim_in_blocks(seed):
    rng = np.random.default_rng(seed)

    def vectors(count):
        sizes = rng.integers(1, 9, count)
        return MultiVectors(
            rng.normal(size=(sizes.sum(), 4)).astype("float32"),
            np.concatenate([[0], np.cumsum(sizes)]),
        )

    queries, documents = vectors(5), vectors(17)
    expected = [
        [sum((documents[d] @ vector).max() for vector in queries[q]) for d in range(17)]
        for q in range(5)
    ]
    for block in (1, 700, 2**20):
        np.testing.assert_allclose(maxsim(queries, documents, block), expected, rtol=1e-4)


@pytest.mark.once  # the losses run on every backend: tests/training/test_ranking.py
@pytest.mark.parametrize("target", ["in batch", "teacher"])
def test_training(target, colberts, tmp_path):
    folder = tmp_path / "still"
    shutil.copytree(colberts / "stanford", folder)
    config = json.loads((folder / "config.json").read_text())
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config | rates))
    model = LateInteraction(folder)
    groups = [("one two", "one", "ten"), ("three", "three four, five", "six"), ("who", "who", "is")]
    labels = FloatLabels([[9.0, 4.0]] * 3) if target == "teacher" else None
    batches = model.batches(groups, labels, shuffle=False)
    assert batches.shapes == [(3, 3, 16)]
    training = model.training_model(3)
    loss = MarginMSE() if target == "teacher" else MaxSimRanking()
    training.compile(keras.optimizers.Adam(1e-3), loss)
    outputs = training.predict_on_batch(batches[0][0])
    # The vectors that count are those that encoding gives, and no others.
    order = {text: n for n, text in enumerate(batches_order(model, batches, groups))}
    for number, (query, *documents) in enumerate(groups):
        row = outputs[order[number]]
        compare(MultiVectors(row[0][row[0, :, -1] > 0][:, :-1], np.array([0, 12])),
                [model.encode_queries([query], 0)[0]])  # fmt: skip
        for side, document in enumerate(documents, 1):
            kept = row[side][row[side, :, -1] > 0][:, :-1]
            expected = model.encode_documents([document], 0)[0]
            np.testing.assert_allclose(kept, expected, atol=1e-5)
    before = training.evaluate(batches, verbose=0)
    training.fit(batches, epochs=8, verbose=0)
    assert training.evaluate(batches, verbose=0) < 0.9 * before


def test_queries_are_computed_at_their_own_length(colberts):
    """Behind the tokens that a query may have, its row is padding."""
    model = LateInteraction(colberts / "pylate")
    training = model.training_model(2)
    tokens = training.get_layer("Tokens")
    length = tokens.query_length
    assert length == max(model.query.length, model.query.expand or 0)
    pairs = [("one two", "three " * (length + 20)), ("four", "five six")]
    inputs, _ = model.batches(pairs)[0][:2]
    assert inputs["token_ids"].shape[2] > length
    short = np.asarray(training.predict_on_batch(inputs))
    tokens.query_length = None
    whole = keras.ops.convert_to_numpy(training(inputs))
    scored = short[..., -1] > 0
    np.testing.assert_array_equal(short[..., -1], whole[..., -1])
    np.testing.assert_allclose(short[scored], whole[scored], atol=1e-5)
    assert not short[:, 0, length:].any() and whole[:, 0, length:].any()


def batches_order(model, batches, groups):
    """The numbers of the groups in the order of the rows of the only batch."""
    rows = batches[0][0]["token_ids"][:, 0]
    known = {tuple(ids): n for n, (ids, _) in enumerate(
        model._rows([group[0] for group in groups], model.query))}  # fmt: skip
    return [known[tuple(row[:12].tolist())] for row in rows]


@pytest.mark.once
def test_embed_by_token(colberts, tmp_path):
    folder, target = colberts / "pylate", tmp_path / "vectors.npz"
    found = embed(folder, DOCUMENTS, target, verbose=0)
    compare(found, list(LateInteraction(folder).encode_documents(DOCUMENTS, 0)))
    written = MultiVectors(**np.load(target))
    np.testing.assert_array_equal(written.vectors, found.vectors)
    np.testing.assert_array_equal(written.offsets, found.offsets)
    queries = embed(folder, QUERIES, queries=True, verbose=0)
    compare(queries, list(LateInteraction(folder).encode_queries(QUERIES, 0)))
    rows = embed(folder, DOCUMENTS, tmp_path / "parts.jsonl", part_size=2, verbose=0)
    assert rows == len(DOCUMENTS)
    compare(Vectors.load(tmp_path / "parts.jsonl").values, list(found))
    with pytest.raises(ValueError, match="is a model of late interaction, which takes no reading"):
        embed(folder, QUERIES, reading="late:3")
    with pytest.raises(ValueError, match="takes no ignore: leave it out. Received: ignore="):
        open_embedder(folder, ignore=["a.*"])
    with pytest.raises(ValueError, match="max_length belong to opening .* which is open: give"):
        embed(open_embedder(folder), QUERIES, max_length=8)


@pytest.mark.once
def test_refused_texts_and_sizes(colberts):
    model = LateInteraction(colberts / "pylate")
    with pytest.raises(TypeError, match="Texts must be a list of str. Received: .'a', 'b'"):
        model.encode_queries([("a", "b")])
    with pytest.raises(TypeError, match="Group 1 must be a tuple .query, document, .... of str"):
        model.batches([("one", "two"), ("one",)])
    with pytest.raises(
        ValueError, match="`num_texts` must be an integer of at least 2. Received: 1"
    ):
        model.training_model(1)
    with pytest.raises(ValueError, match="`top_k` must be a positive integer. Received: 0"):
        model.rank("one", DOCUMENTS, top_k=0, verbose=0)
    with pytest.raises(ValueError, match="must be of one size. Received: 2 and 3 numbers"):
        maxsim(*(MultiVectors(np.ones((1, n)), np.array([0, 1])) for n in (2, 3)))
    for offsets in ([0, 2], [0, 1, 1, 3], [1, 3], [[0, 3]]):
        with pytest.raises(ValueError, match="`offsets` must rise from 0 to the number of vectors"):
            MultiVectors(np.ones((3, 2)), np.array(offsets))


@pytest.mark.once
def test_refused_directories(colberts, minilm, tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no directory"):
        LateInteraction(tmp_path / "none")
    with pytest.raises(ValueError, match="a model of late interaction, not an embedder: open it"):
        embedder(colberts / "pylate")

    def changed(name, file, **changes):
        folder = tmp_path / f"{name}-{len(list(tmp_path.iterdir()))}"
        shutil.copytree(colberts / name, folder)
        settings = json.loads((folder / file).read_text()) | changes
        (folder / file).write_text(json.dumps(settings))
        return folder

    config = "config_sentence_transformers.json"
    for folder, message in (
        (
            changed("stanford", "config.json", architectures=["BertModel"]),
            "has neither modules.json",
        ),
        (changed("pylate", config, query_prefix="[X]"), "has no token '.X.'"),
        (changed("pylate", config, query_length="12"), "`query_length` must be an int, at least 1"),
        (changed("pylate", config, skiplist_words="."), "`skiplist_words` must be a list of texts"),
        (
            changed("pylate", config, skiplist_words=["[CLS]", "[Q] ", "[D] ", "[SEP]", "one"]),
            "Text 1 has no token that is not skipped: leave it out",
        ),
        (changed("stanford", "artifact.metadata", doc_maxlen=0), "`doc_maxlen` must be an int"),
        (changed("stanford", "artifact.metadata", doc_token_id=1), "`doc_token_id` must be a text"),
    ):
        with pytest.raises(ValueError, match=message):
            model = LateInteraction(folder)
            model.encode_queries(["one"], 0)
            model.encode_documents(["two", "one"], 0)


@pytest.mark.once
@pytest.mark.parametrize("expansion", [{"strategy": "most"}, {"length": 8}, True])
def test_an_expansion_has_a_strategy(expansion, colberts, tmp_path):
    shutil.copytree(colberts / "pylate", tmp_path, dirs_exist_ok=True)
    (tmp_path / "config_sentence_transformers.json").write_text("{}")
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps({"query_expansion": expansion}))
    with pytest.raises(ValueError, match="query_expansion must have a strategy, one of"):
        read_late_interaction(Folder.of(tmp_path))


@pytest.mark.once
def test_positions_counted_by_padding_and_masked_expansions(colberts, tmp_path):
    shutil.copytree(colberts / "pylate", tmp_path, dirs_exist_ok=True)
    config = {**TINY_CONFIG, "model_type": "mpnet", "type_vocab_size": 0, "pad_token_id": 1}
    config |= {"vocab_size": json.loads((tmp_path / "config.json").read_text())["vocab_size"]}
    save_checkpoint(build_transformer_model(config), tmp_path)
    with pytest.raises(ValueError, match="counts positions by its padding, and expands queries by"):
        LateInteraction(tmp_path)


@pytest.mark.once
@pytest.mark.parametrize(
    "name, file, key",
    [
        ("stanford", "artifact.metadata", "mask_punctuation"),
        ("stanford", "artifact.metadata", "attend_to_mask_tokens"),
        ("pylate", "config_sentence_transformers.json", "do_query_expansion"),
        ("pylate", "config_sentence_transformers.json", "attend_to_expansion_tokens"),
        ("native", "sentence_bert_config.json", "attend"),
    ],
)
def test_a_switch_is_true_or_false(name, file, key, colberts, tmp_path):
    """A text such as "false" would count as true in Python, and change the scores."""
    shutil.copytree(colberts / name.replace("native", "pylate"), tmp_path, dirs_exist_ok=True)
    if name == "native":  # sentence-transformers' settings stand with the transformer
        (tmp_path / "config_sentence_transformers.json").write_text("{}")
    settings, switch = json.loads((tmp_path / file).read_text()), {}
    for value in (True, False, "false", "no", "true", 0, []):
        given = {"query_expansion": {"strategy": "min", "length": 8, key: value}}
        given = given if name == "native" else {key: value}
        (tmp_path / file).write_text(json.dumps(settings | given))
        if isinstance(value, bool):
            switch[value] = read_late_interaction(Folder.of(tmp_path))[1:]
            continue
        with pytest.raises(ValueError, match=f"`{key}` must be true or false. Found "):
            read_late_interaction(Folder.of(tmp_path))
    assert switch[True] != switch[False]
