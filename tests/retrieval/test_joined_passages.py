"""pplx-embed against transformers' Qwen3 without causality: joined passages, and int8.

The published directories have code of their own, which does the same: it joins the passages of a
document by the separator token, averages the features between separators, and rounds 127 tanh.
"""

import json
import shutil

import keras
import numpy as np
import pytest
import tiny_tokenizers
from published import QWEN3, publish

from keras_posenc import TextModel, Tokenizer, embed, embedder, load_text_model
from keras_posenc.cli import main
from keras_posenc.layers.activations import rounded_tanh
from keras_posenc.retrieval import (
    LateChunks,
    LateSpans,
    Vectors,
    chunk_spans,
    embed_spans,
    open_embedder,
)
from keras_posenc.training import contextualize

# More rows than tokens, as in Qwen3.
SIZES = {**QWEN3, "vocab_size": 424, "max_position_embeddings": 256, "pad_token_id": 0}
SEPARATOR = "<|endoftext|>"
DOCUMENTS = [
    ["The quick brown foxes jump.", "They say so, don't they?", "1,234.56 lazy dogs"],
    ["One passage alone."],
    ["Größe, Straße", "漢字テスト 👩‍👩‍👧", "def f(x):\n    return x", "\n\nnew lines \n", "y"],
]
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "", "type": "st_quantize.FlexibleQuantizer"}
    | {"kwargs": ["quantization"]},
]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A function that writes a tiny directory with a class of Perplexity's code, and its model."""

    def write(name, modules=False, **settings):
        folder = tmp_path_factory.mktemp(name)
        model = publish(folder, "Qwen3Model", **SIZES)
        config = json.loads((folder / "config.json").read_text())
        config |= {"model_type": "bidirectional_pplx_qwen3", "architectures": ["PPLXQwen3Model"]}
        code = {"AutoConfig": "configuration.PPLXQwen3Config", "AutoModel": f"modeling.{name}"}
        config |= {"auto_map": code, "use_bidirectional_attention": True}
        (folder / "config.json").write_text(json.dumps(config))
        named = {"pad_token": SEPARATOR, "sep_token": SEPARATOR, **settings}
        kind = tiny_tokenizers.write("qwen2", folder, **named)
        tokenizer = kind.from_pretrained(folder, **named)
        tokenizer.save_pretrained(folder)
        if modules:
            (folder / "1_Pooling").mkdir()
            pooling = {"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True}
            (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
            (folder / "modules.json").write_text(json.dumps(MODULES))
        return folder, model, tokenizer

    return write


@pytest.fixture(scope="module")
def contextual(published):
    return published("PPLXQwen3ContextualModel")


@pytest.fixture(scope="module")
def independent(published):
    return published("PPLXQwen3Model", modules=True)


def features_of(model, ids):
    """The features (T, D) of one row, in which every token attends to all."""
    import torch

    everything = torch.zeros(1, 1, len(ids), len(ids))
    with torch.no_grad():
        found = model(input_ids=torch.tensor([ids]), attention_mask=everything)
    return found.last_hidden_state[0].numpy()


def means_of(parts, passages, length=None):
    """The means of the passages of a document: what stands between the separators.

    Of a longer document, each token is read in the window in which it is nearest to the centre.
    """
    _, model, tokenizer = parts
    ids = tokenizer(SEPARATOR.join(passages))["input_ids"]
    size = length or len(ids)
    starts = [0]
    while starts[-1] + size < len(ids):
        starts.append(starts[-1] + size - size // 4)
    windows = [features_of(model, ids[start : start + size]) for start in starts]
    rows = []
    for place in range(len(ids)):
        far = [abs(place - start - (size - 1) / 2) for start in starts]
        best = int(np.argmin(far))
        rows.append(windows[best][place - starts[best]])
    ends = [n for n, number in enumerate(ids) if number == tokenizer.sep_token_id] + [len(ids)]
    assert len(ends) == len(passages)
    first = [0, *(end + 1 for end in ends[:-1])]
    return np.array([np.mean(rows[a:b], axis=0) for a, b in zip(first, ends, strict=True)])


def spans_of(document, glue=" "):
    text, spans = "", []
    for passage in document:
        text += glue * bool(text)
        spans.append((len(text), len(text) + len(passage)))
        text += passage
    return text, spans


def same(found, means):
    """Whole numbers, each the nearest of 127 tanh of the mean."""
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.rint(found))
    np.testing.assert_array_less(np.abs(found - 127 * np.tanh(means)), 0.5 + 1e-3)
    assert len(np.unique(found)) > 8


def test_passages_of_several_documents_in_one_batch(contextual):
    texts, spans = zip(*map(spans_of, DOCUMENTS), strict=True)
    model = open_embedder(contextual[0])
    found = embed_spans(model, list(texts), list(spans), verbose=0)
    same(found.vectors, np.concatenate([means_of(contextual, each) for each in DOCUMENTS]))
    assert found.of(texts) == [passage for document in DOCUMENTS for passage in document]
    # What stands between passages is not read, and neither is their order of the caller's choice.
    other = spans_of(DOCUMENTS[0], " !!! ")
    again = embed_spans(model, [other[0]], [other[1]], verbose=0)
    np.testing.assert_array_equal(again.vectors, found.vectors[:3])
    # A neighbour changes a passage: this is no mean of passages read alone.
    alone = model.encode_documents(DOCUMENTS[0], verbose=0)
    assert not np.array_equal(alone, found.vectors[:3])


def test_queries_and_whole_texts_are_read_alone(contextual):
    texts = [document[0] for document in DOCUMENTS]
    expected = np.concatenate([means_of(contextual, [text]) for text in texts])
    model = open_embedder(contextual[0], reading="late:4")
    same(model.encode_queries(texts, verbose=0), expected)
    same(open_embedder(contextual[0]).encode_documents(texts, verbose=0), expected)
    same(embed(contextual[0], texts, reading="passages:64", verbose=0).vectors, expected)


def test_passages_that_the_package_makes_and_a_prompt(contextual):
    texts = [" ".join(document) for document in DOCUMENTS]
    model = open_embedder(contextual[0], reading="late:9,overlap=2", prompt="passage: ")
    found = model.encode_documents(texts, verbose=0)
    passages = [
        [text[start:end] for start, end in chunk_spans(text, model.tokenizer, 9, 2)]
        for text in texts
    ]
    assert max(map(len, passages)) > 2
    for of_text in passages:  # the prompt counts for the first passage, as in a text
        of_text[0] = "passage: " + of_text[0]
    same(found.vectors, np.concatenate([means_of(contextual, each) for each in passages]))


@pytest.mark.once
def test_windows_and_titles_are_added(contextual):
    text = " ".join(DOCUMENTS[0] + DOCUMENTS[2])
    model = open_embedder(contextual[0])
    passages = [text[start:end] for start, end in chunk_spans(text, model.tokenizer, 9)]

    def unit(rows):
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def rounded(parts, length=None):
        return unit(np.rint(127 * np.tanh(means_of(contextual, parts, length))))

    reading = LateChunks(9, titles=["A title"], windows=24)
    found = model.encode([text], "document", 0, reading).vectors
    expected = unit(rounded(passages) + rounded(passages, 24))
    alone = np.concatenate([rounded([f"A title\n{passage}"]) for passage in passages])
    np.testing.assert_allclose(found, unit(expected + alone), atol=1e-5)


def test_a_document_longer_than_the_window(contextual):
    text, spans = spans_of(DOCUMENTS[0] + DOCUMENTS[2])
    model = open_embedder(contextual[0], max_length=24)
    found = embed_spans(model, [text], [spans], verbose=0).vectors
    same(found, means_of(contextual, DOCUMENTS[0] + DOCUMENTS[2], length=24))
    longer = embed_spans(open_embedder(contextual[0]), [text], [spans], verbose=0).vectors
    assert not np.array_equal(found, longer)


def test_independent_texts_with_the_modules_of_sentence_transformers(independent):
    texts = [passage for document in DOCUMENTS for passage in document]
    expected = np.concatenate([means_of(independent, [text]) for text in texts])
    same(embed(independent[0], texts, verbose=0), expected)
    # Late chunking as of any other model: the text as it is, without separators.
    text, spans = spans_of(["The quick", ",brown foxes"], "")
    found = embed_spans(open_embedder(independent[0]), [text], [spans], verbose=0).vectors
    features = features_of(independent[1], independent[2](text)["input_ids"])
    first = len(independent[2]("The quick")["input_ids"])
    same(found, np.array([features[:first].mean(0), features[first:].mean(0)]))


@pytest.mark.once
def test_some_texts_without_a_passage(contextual):
    text, spans = spans_of(DOCUMENTS[0])
    reading = LateSpans([[], spans, []])
    found = embed(contextual[0], ["none", text, "none"], reading=reading, verbose=0)
    same(found.vectors, means_of(contextual, DOCUMENTS[0]))
    assert found.texts.tolist() == [1, 1, 1]


@pytest.mark.once
def test_the_separator_in_a_text_is_text(contextual):
    document = [f"The quick {SEPARATOR} fox", "y"]
    text, spans = spans_of(document)
    model = open_embedder(contextual[0])
    assert len(embed_spans(model, [text], [spans], verbose=0).vectors) == 2
    (window,) = model.tokenizer.contents([text])
    assert model.tokenizer.sep_id not in window


@pytest.mark.once
def test_saved_again(contextual, independent, tmp_path):
    text, spans = spans_of(DOCUMENTS[0])
    for number, folder in enumerate((contextual[0], independent[0])):
        model = open_embedder(folder)
        expected = embed_spans(model, [text], [spans], verbose=0).vectors
        model.save(tmp_path / f"{number}")
        again = open_embedder(tmp_path / f"{number}")
        np.testing.assert_array_equal(
            embed_spans(again, [text], [spans], verbose=0).vectors, expected
        )
        model._with_prompt("").save(tmp_path / f"{number}-keras")
        again = load_text_model(tmp_path / f"{number}-keras")
        np.testing.assert_array_equal(
            embed_spans(again, [text], [spans], verbose=0).vectors, expected
        )


@pytest.mark.once
def test_the_command_and_the_codes(contextual, tmp_path):
    lines = tmp_path / "texts.txt"
    lines.write_text("\n".join(" ".join(DOCUMENTS[0]) for _ in range(3)), "utf-8")
    output = tmp_path / "chunks.npz"
    given = ["embed", contextual[0], lines, "--output", output, "--reading", "late:9"]
    assert main(list(map(str, given))) == 0
    stored = Vectors.load(output)
    coded = stored.coded("int8")
    # The model's int8 are the codes.
    np.testing.assert_array_equal(coded.values.codes, stored.values)
    lengths = np.linalg.norm(stored.values, axis=1, keepdims=True)
    np.testing.assert_allclose(coded.values[:], stored.values / lengths, rtol=1e-5)
    [(one, _)], [(other, _)] = (each.search(stored.values[:1], 4) for each in (stored, coded))
    np.testing.assert_array_equal(one, other)
    zeros = Vectors.of(np.array([[0, 0], [300, 1], [0.5, -1]], "float32")).coded("int8")
    assert zeros.values.codes.tolist() == [[0, 0], [127, 0], [64, -127]]


def test_rounding_has_a_gradient():
    dense = keras.layers.Dense(3, kernel_initializer=keras.initializers.RandomNormal(seed=0))
    model = keras.Sequential([dense, keras.layers.Activation(rounded_tanh)])
    x, y = np.array([[0.3, -0.2]], "float32"), np.full((1, 3), 50, "float32")
    found = keras.ops.convert_to_numpy(model(x))
    exact = 127 * np.tanh(x @ keras.ops.convert_to_numpy(dense.kernel))
    np.testing.assert_array_equal(found, np.rint(exact))
    model.compile(keras.optimizers.SGD(1e-4), "mse")
    before = keras.ops.convert_to_numpy(dense.kernel)
    model.train_on_batch(x, y)
    assert np.abs(keras.ops.convert_to_numpy(dense.kernel) - before).min() > 0


@pytest.mark.once
def test_what_cannot_be_read(published, contextual, independent, tmp_path):
    folder = tmp_path / "unnamed"
    shutil.copytree(contextual[0], folder)
    for path in folder.glob("tokenizer_config.json"):
        config = json.loads(path.read_text())
        path.write_text(json.dumps({**config, "sep_token": None}))
    with pytest.raises(ValueError, match="separator, which no file names: give `sep_token` in tok"):
        open_embedder(folder)
    made = TextModel(embedder(contextual[0]), Tokenizer(contextual[0]))
    with pytest.raises(ValueError, match="`model` must read the separator of passages, and pads"):
        embed_spans(made, ["One"], [[(0, 3)]], verbose=0)
    folder = tmp_path / "module"
    shutil.copytree(independent[0], folder)
    rows = json.loads((folder / "modules.json").read_text())
    rows[2]["type"] = "st_quantize.Dense"
    (folder / "modules.json").write_text(json.dumps(rows))
    with pytest.raises(ValueError, match="names a module 'st_quantize.Dense', which is not read"):
        open_embedder(folder)
    with pytest.raises(ValueError, match="`checkpoint` must not read passages in their documents"):
        contextualize(contextual[0], ["One text. Another."], tmp_path / "out")
