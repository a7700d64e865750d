"""Late chunking against token features of sentence-transformers, and its invariances."""

import re
import sys
import tracemalloc

import numpy as np
import pytest

from keras_posenc import TextModel, Tokenizer, embed, embedder
from keras_posenc.retrieval import LateSpans, chunk_spans, embed_spans, open_embedder
from keras_posenc.retrieval.dense import late_chunking

DOCUMENT = (
    "Ada is a chemist. " + "The sea was calm, and the wind blew. " * 9 + "She lives by the harbour."
)


@pytest.fixture(scope="module")
def model(minilm):
    return open_embedder(minilm)


def mean_of_span(features, offsets, start, end):
    """The mean of a span's tokens, with special tokens at either end of the text, in NumPy."""
    inside = [n for n, (a, b) in enumerate(offsets) if a < end and b > start]
    if inside[0] == 1:
        inside.insert(0, 0)
    if inside[-1] == len(offsets) - 2:
        inside.append(len(offsets) - 1)
    mean = np.mean(features[inside], axis=0, dtype="float64")
    return mean / np.linalg.norm(mean)


@pytest.mark.once
def test_equal_to_token_features_of_sentence_transformers(minilm, model):
    from sentence_transformers import SentenceTransformer

    published = SentenceTransformer(str(minilm), device="cpu")
    texts = [DOCUMENT, "東京 is large. It is old.", "One."]
    spans = [chunk_spans(text, model.tokenizer, tokens=24) for text in texts]
    found = embed_spans(model, texts, spans, verbose=0)
    features = published.encode(texts, output_value="token_embeddings", show_progress_bar=False)
    expected = []
    for text, of_text, feature in zip(texts, spans, features, strict=True):
        offsets = published.tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        rows = np.asarray(feature.cpu())[: len(offsets)]
        expected += [mean_of_span(rows, offsets, *span) for span in of_text]
    np.testing.assert_allclose(found.vectors, expected, atol=1e-5)
    assert found.texts.tolist() == [n for n, of_text in enumerate(spans) for _ in of_text]
    assert found.of(texts) == [
        t[a:b] for t, of_text in zip(texts, spans, strict=True) for a, b in of_text
    ]


@pytest.mark.once
def test_one_span_over_a_text_has_the_vector_of_the_text(model):
    texts = [DOCUMENT, "Short."]
    whole = embed_spans(model, texts, [[(0, len(text))] for text in texts], verbose=0)
    np.testing.assert_allclose(whole.vectors, model.predict(texts, verbose=0), atol=1e-6)


def calls_and_bytes(function):
    """How many functions a call calls, and the most memory that it takes."""
    calls = 0

    def count(frame, event, _):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    tracemalloc.start()
    try:
        function()
        return np.array([calls, tracemalloc.get_traced_memory()[1]])
    finally:
        tracemalloc.stop()


@pytest.mark.once
@pytest.mark.parametrize("overlap", [0, 3])
@pytest.mark.parametrize("unit", ["w1 ", "w1. ", "w1\n\n", "w1"])
def test_what_is_done_per_text_is_linear_in_it(unit, overlap):
    """Without the model: the chunks, the windows, and which tokens of which window are in which."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "w1", "##w", "##1", "."]
    tokenizer = Tokenizer(vocabulary={word: number for number, word in enumerate(words)})

    class Model:
        prompt, max_length = "w1: ", 32

    Model.tokenizer = tokenizer

    def work(count):
        text = unit * count
        spans = chunk_spans(text, tokenizer, 8, overlap)
        tokenizer.windows(text, 32, overlap)
        return lambda: late_chunking._windows(Model, text, spans, 0, None)

    few, many = (calls_and_bytes(lambda n=n: work(n)()) for n in (400, 3200))
    # Of 8 times the text; a square would be 64. Python keeps small numbers without memory.
    assert np.all(many < [10, 24] * few)


@pytest.mark.once
@pytest.mark.parametrize("seed", range(10))
def test_the_tokens_of_spans_are_those_that_overlap_them(seed):
    """Spans in any order, tokens of several per character, and tokens that are out of order."""
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, 40, 30)
    starts = np.sort(starts) if seed % 2 else starts
    offsets = np.stack([starts, starts + rng.integers(0, 5, 30)], axis=1)
    spans = [
        (a, a + b) for a, b in zip(rng.integers(0, 40, 20), rng.integers(1, 9, 20), strict=True)
    ]
    for (start, end), found in zip(spans, late_chunking._tokens_of(offsets, spans), strict=True):
        beside = [int(a == b) for a, b in offsets]
        expected = [
            number for number, (a, b) in enumerate(offsets)
            if a < end + beside[number] and b > start - beside[number]
        ]  # fmt: skip
        assert found.tolist() == expected


@pytest.mark.once
@pytest.mark.parametrize("family", ["roberta", "qwen2"])
def test_tokens_of_spaces_are_in_a_span(family, tmp_path):
    """Byte-level tokenizers have tokens of line ends, whose places in the text are empty."""
    import tiny_tokenizers
    import transformers

    tokenizer = tiny_tokenizers.write(family, tmp_path).from_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 24, "initializer_range": 0.5, "vocab_size": len(tokenizer)}
    config = transformers.RobertaConfig(**sizes, pad_token_id=1)
    transformers.RobertaModel(config).save_pretrained(tmp_path)
    model = open_embedder(tmp_path, max_length=64)
    texts = ["\r\nOne two\r\n\r\nand  three\r\n", " \u3000 wide", "  x", "👩‍👩‍👧 y \n"]
    whole = embed_spans(model, texts, [[(0, len(text))] for text in texts], verbose=0)
    np.testing.assert_allclose(whole.vectors, model.predict(texts, verbose=0), atol=1e-5)
    # Such a token belongs to the span that ends before it, too.
    close, wide = embed_spans(model, ["One\ntwo"], [[(0, 3), (0, 4)]], verbose=0).vectors
    np.testing.assert_allclose(close, wide, atol=1e-6)
    for size in (1, 2, 3):
        found = embed(tmp_path, texts, reading=f"late:{size}", max_length=64, verbose=0)
        assert all(chunk.strip() for chunk in found.of(texts))
        assert set(found.texts) == {0, 1, 2, 3}
    with pytest.raises(ValueError, match="The text has no token to make a chunk of"):
        chunk_spans("\r\n \n", model.tokenizer, tokens=2)


@pytest.mark.once
def test_a_prompt_stands_before_the_text_and_in_no_other_span(minilm):
    model = open_embedder(minilm, prompt="passage: ")
    whole = embed_spans(model, [DOCUMENT], [[(0, len(DOCUMENT))]], verbose=0)
    np.testing.assert_allclose(whole.vectors, model.predict([DOCUMENT], verbose=0), atol=1e-6)
    last = DOCUMENT.index("She")
    spans = [[(last, len(DOCUMENT))]]
    without = embed_spans(open_embedder(minilm), [DOCUMENT], spans, verbose=0).vectors
    assert 0.9 < (embed_spans(model, [DOCUMENT], spans, verbose=0).vectors @ without.T).item() < 1


@pytest.mark.once
def test_a_prompt_is_as_if_it_were_written_in_the_text(minilm):
    """Every chunk but the first, which the prompt is part of, has the same tokens either way."""
    plain, prompt = open_embedder(minilm), "A passage: "
    model = open_embedder(minilm, prompt=prompt)
    spans = chunk_spans(DOCUMENT, plain.tokenizer, tokens=12)[1:]
    found = embed_spans(model, [DOCUMENT], [spans], verbose=0).vectors
    moved = [(start + len(prompt), end + len(prompt)) for start, end in spans]
    expected = embed_spans(plain, [prompt + DOCUMENT], [moved], verbose=0).vectors
    np.testing.assert_allclose(found, expected, atol=1e-6)
    unprompted = embed_spans(plain, [DOCUMENT], [spans], verbose=0).vectors
    assert (np.abs(found - unprompted).max(axis=1) > 1e-3).all()


@pytest.mark.once
def test_a_chunk_depends_on_the_rest_of_its_document_and_on_no_other(model):
    other = DOCUMENT.replace("Ada", "Eve")
    start = DOCUMENT.index("She lives")
    spans = [[(start, len(DOCUMENT))]] * 2
    both = embed_spans(model, [DOCUMENT, other], spans, verbose=0).vectors
    assert np.abs(both[0] - both[1]).max() > 1e-3
    alone = embed_spans(model, [DOCUMENT], spans[:1], verbose=0).vectors
    np.testing.assert_allclose(alone[0], both[0], atol=1e-6)
    name = model.predict(["Ada", "Eve"], verbose=0)
    assert both[0] @ name[0] > both[1] @ name[0] and both[1] @ name[1] > both[0] @ name[1]


@pytest.mark.once
def test_a_long_text_is_read_in_windows(minilm):
    """The first chunk sees only the first window, so later text cannot change it."""
    short = open_embedder(minilm, max_length=64)
    ends = [n + 1 for n, letter in enumerate(DOCUMENT) if letter == "."]
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    found = embed_spans(short, [DOCUMENT], [spans], verbose=0).vectors
    assert found.shape == (len(spans), 384) and np.isfinite(found).all()
    changed = DOCUMENT.replace("She lives by the harbour.", "He sold the boat.")
    spans_changed = [*spans[:-1], (spans[-1][0], len(changed))]
    after = embed_spans(short, [changed], [spans_changed], verbose=0).vectors
    np.testing.assert_allclose(after[0], found[0], atol=1e-6)
    assert np.abs(after[-1] - found[-1]).max() > 1e-2
    # In the last window neither the name nor the first sentence is seen.
    renamed = embed_spans(short, [DOCUMENT.replace("Ada", "Eve")], [spans], verbose=0).vectors
    np.testing.assert_allclose(renamed[-1], found[-1], atol=1e-6)
    assert np.abs(renamed[0] - found[0]).max() > 1e-2


@pytest.mark.once
def test_each_word_is_read_with_its_neighbours(minilm):
    """Windows overlap, so no border of a window stands between two words."""
    short, words = open_embedder(minilm, max_length=16), ["sea", "wind"] * 20
    texts = [" ".join(words)]
    texts += [" ".join([*words[:n], "salt", *words[n + 1 :]]) for n in range(0, len(words), 2)]
    spans = [[match.span() for match in re.finditer(r"\w+", text)] for text in texts]
    vectors = embed_spans(short, texts, spans, verbose=0).vectors.reshape(len(texts), 40, -1)
    change = np.abs(vectors[1:] - vectors[0]).max(axis=-1)
    for row, place in zip(change, range(0, 40, 2), strict=True):
        near = [n for n in (place - 1, place + 1) if 0 <= n < 40]
        assert (row[near] > 1e-3).all(), place
        far = np.abs(np.arange(40) - place) >= 14
        assert (row[far] < 1e-6).all(), place


@pytest.mark.once
def test_a_stretched_model_sees_what_windows_do_not(minilm):
    long = "Ada is a chemist. " + "The sea was calm, and the wind blew. " * 80 + "She left."
    spans = [[(long.index("She"), len(long))]]
    texts = [long, long.replace("Ada", "Eve")]
    stretched = open_embedder(minilm, max_length=1024)
    vectors = embed_spans(stretched, texts, spans * 2, verbose=0).vectors
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-5
    windows = open_embedder(minilm, max_length=512)
    vectors = embed_spans(windows, texts, spans * 2, verbose=0).vectors
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


@pytest.mark.once
@pytest.mark.parametrize(
    "texts, spans, error, message",
    [
        ("a text", [[(0, 1)]], TypeError, "`texts` must be a list. Received: 'a text'"),
        (["ab"], 3, TypeError, "`spans` must be a list. Received: 3"),
        (["ab"], [None], TypeError, r"`spans\[0\]` must be a list. Received: None"),
        (["ab"], [[(0.5, 1)]], ValueError, r"must be \(start, end\), lie .*Received: \(0.5, 1\)"),
        (["ab"], [[(True, 2)]], ValueError, r"must be \(start, end\), lie .*Received: \(True, 2\)"),
        (["ab"], [[("a", 1)]], ValueError, r"must be \(start, end\), lie .*Received: \('a', 1\)"),
        (["ab"], [[None]], ValueError, r"must be \(start, end\), lie .*Received: None"),
        (["a"], [], ValueError, "one list per text. Received 0 lists for 1 texts"),
        ([3], [[(0, 1)]], TypeError, "Text 0 must be a str. Received: int"),
        (["ab"], [[(0, 3)]], ValueError, r"lie in its 2 characters.*Received: \(0, 3\)"),
        (["ab"], [[(1, 1)]], ValueError, r"not be empty. Received: \(1, 1\)"),
        (["ab"], [[(-1, 1)]], ValueError, r"Received: \(-1, 1\)"),
        (["ab"], [[]], ValueError, "at least one span. Received none"),
        (["a  b"], [[(0, 4), (1, 3)]], ValueError, r"span \(1, 3\) of text 0 has no token"),
    ],
)
def test_refused_spans(model, texts, spans, error, message):
    with pytest.raises(error, match=message):
        embed_spans(model, texts, spans, verbose=0)


@pytest.mark.once
def test_only_means_can_be_cut(minilm, model):
    pooled = TextModel(embedder(minilm, pooling="cls"), model.tokenizer)
    with pytest.raises(ValueError, match="pools by the mean. This one has cls"):
        embed_spans(pooled, ["a"], [[(0, 1)]])


@pytest.mark.once
def test_a_prompt_as_long_as_the_model_is_refused(minilm):
    model = open_embedder(minilm, max_length=8, prompt="a b c d e f g ")
    with pytest.raises(ValueError, match="max_length=8 leaves no room for text.* take 9"):
        embed_spans(model, ["a"], [[(0, 1)]], verbose=0)


@pytest.mark.once
def test_embed_cuts_texts_into_chunks(minilm, model, tmp_path):
    texts = [DOCUMENT, "One. Two."]
    found = embed(
        minilm, texts, tmp_path / "new" / "chunks.npz", reading="late:24,overlap=8", verbose=0
    )
    spans = [chunk_spans(text, model.tokenizer, 24, 8) for text in texts]
    expected = embed_spans(model, texts, spans, verbose=0)
    np.testing.assert_allclose(found.vectors, expected.vectors, atol=1e-6)
    written = np.load(tmp_path / "new" / "chunks.npz")
    for name in ("vectors", "texts", "starts", "ends"):
        np.testing.assert_array_equal(written[name], getattr(found, name))
    again = embed(minilm, texts, reading=LateSpans(spans), verbose=0)
    np.testing.assert_allclose(again.vectors, expected.vectors, atol=1e-6)


@pytest.mark.once
@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            {"reading": "late"},
            "`reading` must be like 'whole', 'ends', 'chunks:256' or 'late:256,over",
        ),
        ({"reading": "late:four"}, "`reading` must be like .* Received: 'late:four'"),
        ({"reading": "windows:4"}, "`reading` must be one of .*'late', .*Received: 'windows'"),
        ({"reading": "chunks:4,overlap=4"}, "`overlap` must be an integer from 0 to 3. Received"),
        ({"reading": "late:4", "output": "x.npy"}, "output is a .npz file"),
        ({"output": "x.npz"}, "output is a .npy file"),
        (
            {"reading": "late:4,overlap=3"},
            "`overlap` must be an integer from 0 to 2. Received",
        ),
    ],
)
def test_refused_chunking(minilm, arguments, message):
    with pytest.raises(ValueError, match=message):
        embed(minilm, ["a b c d e f"], verbose=0, **arguments)
