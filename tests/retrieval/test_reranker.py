"""Cross-encoders against `CrossEncoder` of sentence-transformers, there and back."""

import itertools
import json
import shutil

import keras
import numpy as np
import pytest

from keras_posenc import TextBatches, TextModel, embedder, rerank
from keras_posenc.cli import main
from keras_posenc.heads import ranking
from keras_posenc.losses import MarginMSE
from keras_posenc.retrieval import Reranker
from keras_posenc.text import FloatLabels

QUERY = "who lives where?"
DOCUMENTS = ["Two text, three.", "one two three four five six seven eight " * 9, "ten", "nine (s)"]


@pytest.fixture(scope="module")
def plain(tiny_model):
    """A directory of transformers, with a head of one output."""
    return tiny_model("BertForSequenceClassification", num_labels=1)


@pytest.fixture(scope="module")
def published(plain, tmp_path_factory):
    """The same as sentence-transformers saves it, with a prompt and another activation."""
    import torch
    from sentence_transformers import CrossEncoder

    folder = tmp_path_factory.mktemp("published") / "model"
    model = CrossEncoder(
        str(plain),
        device="cpu",
        prompts={"question": "text: "},
        activation_fn=torch.nn.Identity(),
        local_files_only=True,
    )
    model.save_pretrained(str(folder))
    return folder


def peer(folder, **arguments):
    from sentence_transformers import CrossEncoder

    return CrossEncoder(str(folder), device="cpu", local_files_only=True, **arguments)


def test_equal_to_sentence_transformers(plain, published):
    pairs = [(QUERY, document) for document in DOCUMENTS]
    for folder in (plain, published):
        reference, ours = peer(folder), Reranker(folder)
        np.testing.assert_allclose(
            ours.predict(pairs, verbose=0), reference.predict(pairs), atol=1e-5, rtol=0
        )
        ranked, expected = ours.rank(QUERY, DOCUMENTS, verbose=0), reference.rank(QUERY, DOCUMENTS)
        assert [each["corpus_id"] for each in ranked] == [e["corpus_id"] for e in expected]
        np.testing.assert_allclose(
            [each["score"] for each in ranked], [e["score"] for e in expected], atol=1e-5, rtol=0
        )
    prompted = Reranker(published, prompt="question").predict(pairs[:1], verbose=0)
    expected = peer(published).predict(pairs[:1], prompt_name="question")
    np.testing.assert_allclose(prompted, expected, atol=1e-5, rtol=0)
    assert abs(prompted - ours.predict(pairs[:1], verbose=0)).item() > 1e-3


@pytest.mark.once
def test_of_two_activations_that_is_taken_which_sentence_transformers_takes(published, tmp_path):
    """Each place of a name in turn, and each two of them, with another name in every place."""
    places = {
        "settings": ("config_sentence_transformers.json", "activation_fn"),
        "nested": ("config.json", "sentence_transformers", "activation_fn"),
        "old": ("config.json", "sbert_ce_default_activation_function"),
    }
    names = ("activation.Tanh", "activation.Sigmoid", "linear.Identity")
    names = dict(zip(places, names, strict=True))
    pairs, scores = [(QUERY, document) for document in DOCUMENTS], {}
    for chosen in [c for n in (1, 2, 3) for c in itertools.combinations(places, n)]:
        folder = tmp_path / "-".join(chosen)
        shutil.copytree(published, folder)
        for place, (file, *keys, last) in places.items():
            config = json.loads((folder / file).read_text())
            inner = config
            for key in keys:
                inner = inner.setdefault(key, {})
            inner.pop(last, None)
            if place in chosen:
                inner[last] = f"torch.nn.modules.{names[place]}"
            (folder / file).write_text(json.dumps(config))
        scores[chosen] = Reranker(folder).predict(pairs, verbose=0)
        np.testing.assert_allclose(
            scores[chosen], peer(folder).predict(pairs), atol=1e-5, err_msg=str(chosen)
        )
    singles = [scores[place,] for place in places]
    assert all(np.abs(a - b).max() > 1e-3 for a, b in itertools.combinations(singles, 2))


@pytest.mark.once
def test_several_outputs_as_sentence_transformers(tiny_model):
    folder = tiny_model("BertForSequenceClassification", num_labels=3)
    pairs = [(QUERY, document) for document in DOCUMENTS]
    ours = Reranker(folder)
    np.testing.assert_allclose(
        ours.predict(pairs, verbose=0), peer(folder).predict(pairs), atol=1e-5, rtol=0
    )
    with pytest.raises(
        ValueError,
        match="rank needs a cross-encoder with one output, .* a classifier with 3 outputs",
    ):
        ours.rank(QUERY, DOCUMENTS)


@pytest.mark.once
@pytest.mark.parametrize("name, column", [("LABEL_0", 0), ("LABEL_2", 2)])
def test_the_score_is_the_probability_of_a_named_label(tiny_model, name, column):
    folder = tiny_model("BertForSequenceClassification", num_labels=3)
    pairs = [(QUERY, document) for document in DOCUMENTS]
    logits = Reranker(folder).logits(pairs, verbose=0).astype("float64")
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    ours = Reranker(folder, label=name)
    np.testing.assert_allclose(ours.predict(pairs, verbose=0), expected[:, column], atol=1e-6)
    order = np.argsort(-expected[:, column]).tolist()
    found = rerank(folder, QUERY, DOCUMENTS, label=name, verbose=0)
    assert [each["corpus_id"] for each in found] == order
    assert [each["corpus_id"] for each in ours.rank(QUERY, DOCUMENTS, verbose=0)] == order
    windows = Reranker(folder, label=name, reading="chunks:20,overlap=3")
    assert windows.predict(pairs, verbose=0).shape == (len(pairs),)


@pytest.mark.once
def test_what_a_label_is_follows_the_problem_of_the_model(tiny_model, tmp_path):
    pairs = [(QUERY, document) for document in DOCUMENTS]
    folder = shutil.copytree(
        tiny_model("BertForSequenceClassification", num_labels=3), tmp_path / "model"
    )
    config = json.loads((folder / "config.json").read_text())
    for problem in ("multi_label_classification", "regression"):
        (folder / "config.json").write_text(json.dumps(config | {"problem_type": problem}))
        logits = Reranker(folder).logits(pairs, verbose=0)[:, 1]
        if problem == "regression":
            with pytest.raises(ValueError, match="which has numbers for outputs: leave it out"):
                Reranker(folder, label="LABEL_1")
        else:
            found = Reranker(folder, label="LABEL_1").predict(pairs, verbose=0)
            np.testing.assert_allclose(found, 1 / (1 + np.exp(-logits)), atol=1e-6)


@pytest.mark.once
def test_a_label_that_the_model_does_not_have(tiny_model, plain):
    folder = tiny_model("BertForSequenceClassification", num_labels=3)
    with pytest.raises(ValueError, match="give one of .*LABEL_0.*Received: label='entailment'"):
        Reranker(folder, label="entailment")
    with pytest.raises(ValueError, match="one output, the score: leave it out"):
        Reranker(plain, label="LABEL_0")


@pytest.mark.once
def test_a_long_document_has_the_score_of_its_best_window(plain):
    reranker, short = Reranker(plain, reading="chunks:20,overlap=3"), Reranker(plain)
    tokenizer = reranker.tokenizer
    windows = tokenizer.windows(DOCUMENTS[1], 20, stride=3, question=QUERY)
    assert len(windows) > 5
    batches = TextBatches(windows, tokenizer=tokenizer, shuffle=False)
    apart = TextModel(short.model, tokenizer).of_batches(batches, verbose=0)
    expected = 1 / (1 + np.exp(-apart.max()))
    scores = reranker.predict([(QUERY, document) for document in DOCUMENTS], verbose=0)
    np.testing.assert_allclose(scores[1], expected, atol=1e-6)
    rest = [(QUERY, document) for document in DOCUMENTS if document != DOCUMENTS[1]]
    np.testing.assert_allclose(np.delete(scores, 1), short.predict(rest, verbose=0), atol=1e-6)


@pytest.mark.once
def test_one_stretched_pass_is_saved_as_plain_positions(plain, published, tmp_path):
    pair = [(QUERY, DOCUMENTS[1])]
    for number, folder in enumerate((plain, published)):
        stretched = Reranker(folder, max_length=128)
        target = tmp_path / str(number)
        assert str(target / "model.safetensors") in stretched.save(target)
        expected = stretched.predict(pair, verbose=0)
        np.testing.assert_allclose(
            peer(target, max_length=128).predict(pair), expected, atol=1e-5, rtol=0
        )
        again = Reranker(target, max_length=128)
        np.testing.assert_allclose(again.predict(pair, verbose=0), expected, atol=1e-6)
    assert Reranker(tmp_path / "1").max_length == 128  # as its settings name it
    assert peer(tmp_path / "1").prompts["question"] == "text: "


@pytest.mark.once
def test_a_new_head_is_trained_and_saved(tiny_model, tmp_path):
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    folder = tiny_model("BertModel", num_hidden_layers=1, initializer_range=0.1, **still)
    reranker = Reranker(folder, label_names=["score"])
    groups = [(("one", "one"), ("one", "two")), (("three four", "four"), ("three four", "two"))]
    batches = TextBatches(
        groups, FloatLabels([[3, 0], [3, 0]]), reranker.tokenizer, apart=True, shuffle=False
    )
    assert batches.shapes == [(2, 2, 8)]
    model = ranking(reranker.model, num_documents=2)
    model.compile(keras.optimizers.Adam(0.01), MarginMSE())
    before = model.evaluate(batches, verbose=0)
    model.fit(batches, epochs=12, verbose=0)
    assert model.evaluate(batches, verbose=0) < before / 4
    reranker.save(tmp_path / "trained")
    pairs = [pair for group in groups for pair in group]
    expected = reranker.predict(pairs, verbose=0)
    np.testing.assert_allclose(
        peer(tmp_path / "trained").predict(pairs), expected, atol=1e-5, rtol=0
    )


@pytest.mark.once
def test_rerank_reads_a_file_and_writes_one(plain, tmp_path):
    source, target = tmp_path / "documents.txt", tmp_path / "new" / "ranked.jsonl"
    source.write_text("\n".join(DOCUMENTS), "utf-8")
    found = rerank(plain, QUERY, source, target, top_k=2, verbose=0)
    lines = [json.loads(line) for line in target.read_text("utf-8").splitlines()]
    assert lines == found and len(found) == 2
    ranked = Reranker(plain).rank(QUERY, DOCUMENTS, verbose=0)
    assert [each["corpus_id"] for each in found] == [each["corpus_id"] for each in ranked[:2]]
    assert found[0]["text"] == DOCUMENTS[found[0]["corpus_id"]].strip()
    assert [each["id"] for each in found] == [each["corpus_id"] + 1 for each in found]
    assert [each["rank"] for each in found] == [1, 2]
    source = tmp_path / "documents.jsonl"
    rows = [{"text": text, "id": f"d{n}"} for n, text in enumerate(DOCUMENTS)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    named = rerank(plain, QUERY, source, verbose=0)
    assert [each["id"] for each in named] == [f"d{each['corpus_id']}" for each in named]
    hits = [
        {"query": QUERY, "rank": 1, "score": 0.5, "id": n, "start": 0, "end": 3, "text": text}
        | ({"title": f"title {n}"} if n else {})
        for n, text in enumerate(DOCUMENTS)
    ]
    for each in rerank(plain, QUERY, hits, verbose=0):
        kept = ("id", "start", "end", "title", "text")
        hit = hits[each["corpus_id"]]
        assert [each.get(key) for key in kept] == [hit.get(key) for key in kept]
    # A search by words may find nothing.
    assert rerank(plain, QUERY, [], target, verbose=0) == [] and target.read_text() == ""
    with pytest.raises(ValueError, match="or what `search` found, .* a dict without id, query"):
        rerank(plain, QUERY, [{"text": "one", "score": 1.0}])
    with pytest.raises(ValueError, match="`output` must be a .jsonl file. Received: 'ranked.tsv'"):
        rerank(plain, QUERY, DOCUMENTS, "ranked.tsv")


@pytest.mark.once
@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            {"reading": "chunks:20", "max_length": 20},
            "chunks reads all of a document and max_length cuts",
        ),
        ({"reading": "late:20"}, "A cross-encoder reads a query with each chunk, and has no"),
        ({"reading": "chunks:20,overlap=-1"}, "`overlap` must be an integer from 0 to 19. Rec"),
        ({"max_length": 3}, "`max_length` must be an integer of at least 4. Received: 3"),
    ],
)
def test_refused_arguments(plain, arguments, message):
    with pytest.raises(ValueError, match=message):
        Reranker(plain, **arguments)


@pytest.mark.once
def test_refused_texts(plain):
    reranker = Reranker(plain, reading="chunks:12,overlap=4")
    with pytest.raises(
        ValueError, match="Chunks must have at least 13 tokens: the special tokens, a"
    ):
        reranker.rank("who lives where one two", ["three"])
    with pytest.raises(TypeError, match="`pairs` must be a list of .query, document. pairs of str"):
        reranker.predict(["one text"])
    with pytest.raises(TypeError, match="`documents` must be a list. Received: 'three'"):
        reranker.rank("one", "three")
    with pytest.raises(TypeError, match="`documents` must be a list. Received: None"):
        reranker.rank("one", None)
    with pytest.raises(TypeError, match="`pairs` must be a list. Received: None"):
        reranker.predict(None)
    with pytest.raises(TypeError, match="`prompt` must be a str. Received: 3"):
        Reranker(plain, prompt=3)
    with pytest.raises(ValueError, match="max_position=1000000 is out of reach: stretch='hier"):
        Reranker(plain, max_length=1_000_000)
    with pytest.raises(ValueError, match="`top_k` must be a positive integer. Received: 0"):
        reranker.rank("one", ["three"], top_k=0)
    with pytest.raises(ValueError, match="Text 0 is empty"):
        reranker.rank("one", [" "])
    with pytest.raises(ValueError, match="`query` must not be empty. Received: ''"):
        reranker.rank("", ["three"])


@pytest.mark.once
def test_refused_directories(published, minilm, tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no directory .* to read a cross-encoder"):
        Reranker(tmp_path / "none")
    with pytest.raises(ValueError, match="is an embedder, not a cross-encoder: open it with open_"):
        Reranker(minilm)
    other = tmp_path / "other"
    shutil.copytree(published, other)
    settings = json.loads((other / "config_sentence_transformers.json").read_text())
    settings["activation_fn"] = "torch.nn.modules.activation.Hardshrink"
    (other / "config_sentence_transformers.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match="the activation 'torch.*Hardshrink' is not supported"):
        Reranker(other)
    with pytest.raises(ValueError, match="a cross-encoder, not an embedder: open it with Reranker"):
        embedder(published)
    with pytest.raises(ValueError, match="is a file: give a directory to write into"):
        Reranker(published).save(other / "modules.json")


@pytest.fixture
def certain(plain, tmp_path):
    """The plain cross-encoder with logits above 17, whose sigmoid is 1.0 in float32."""
    import safetensors.numpy

    folder = tmp_path / "certain"
    shutil.copytree(plain, folder)
    weights = safetensors.numpy.load_file(folder / "model.safetensors")
    weights["classifier.bias"] = weights["classifier.bias"] + 40
    safetensors.numpy.save_file(weights, folder / "model.safetensors")
    return folder


@pytest.mark.once
def test_equal_scores_of_a_sigmoid_are_ordered_by_their_logits(plain, certain):
    reranker = Reranker(certain)
    found = reranker.rank(QUERY, DOCUMENTS, verbose=0)
    assert {each["score"] for each in found} == {1.0}
    numbers = [each["corpus_id"] for each in found]
    expected = Reranker(plain).rank(QUERY, DOCUMENTS, verbose=0)
    assert numbers == [each["corpus_id"] for each in expected] != sorted(numbers)
    pairs = [(QUERY, document) for document in DOCUMENTS]
    ours, lower = (Reranker(folder).logits(pairs, verbose=0) for folder in (certain, plain))
    np.testing.assert_allclose(ours, lower + 40, atol=1e-4)


@pytest.mark.once
def test_a_classifier_orders_nothing(tiny_model, capsys, tmp_path):
    folder = tiny_model("BertForSequenceClassification", num_labels=3)
    (tmp_path / "texts.txt").write_text("one\ntwo\n")
    assert main(["rerank", str(folder), QUERY, str(tmp_path / "texts.txt")]) == 2
    assert "for the task regress; to classify, use" in capsys.readouterr().err
