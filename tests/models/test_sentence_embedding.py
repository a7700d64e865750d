"""Embedders against sentence-transformers: the same vectors out of the same directory."""

import json
import os
import shutil

import keras
import numpy as np
import pytest
from published import QWEN3, publish

from keras_posenc import (
    TextBatches,
    TextModel,
    build_transformer_model,
    embed,
    embedder,
    load_text_model,
    read_texts,
)
from keras_posenc.heads import MaskedPooling
from keras_posenc.models.pooling import POOLINGS
from keras_posenc.retrieval import LateSpans, open_embedder
from keras_posenc.retrieval.embedder import predicted
from keras_posenc.text import truncation

TEXTS = ["w1 w2 w3 w4 w5 w6 w7", "w8", "w9 w1 w9", "w2 w3"]
SIZES = {**QWEN3, "vocab_size": 48, "max_position_embeddings": 64}
GEMMA = {
    "use_bidirectional_attention": True,
    "sliding_window": 8,
    "query_pre_attn_scalar": 8,
    "pad_token_id": 0,
    "layer_types": ["sliding_attention", "full_attention"],
}


def write_tokenizer(folder, first, last, pad):
    """A tokenizer of words that puts special tokens around a text."""
    import tokenizers
    import transformers

    special = ["<pad>", "<bos>", "<eos>", "<mask>", "<unk>"]
    vocabulary = {word: i for i, word in enumerate([*special, *(f"w{n}" for n in range(35))])}
    rust = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    rust.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    around = [(token, vocabulary[token]) for token in (first, last) if token]
    rust.post_processor = tokenizers.processors.TemplateProcessing(
        single=" ".join(filter(None, [first, "$A", last])), special_tokens=around
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=rust,
        pad_token=pad,
        unk_token="<unk>",
        bos_token="<bos>",
        eos_token="<eos>",
        mask_token="<mask>",
        model_max_length=32,
        padding_side="left" if first is None else "right",
    )
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="session")
def gemma_like(tmp_path_factory):
    """As EmbeddingGemma: both ways, the mean, two dense layers, length 1, a prompt by name."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    folder = tmp_path_factory.mktemp("gemma")
    publish(folder / "encoder", "Gemma3TextModel", **SIZES, **GEMMA)
    write_tokenizer(folder / "encoder", "<bos>", "<eos>", "<pad>")
    torch.manual_seed(0)
    linear = torch.nn.Identity()
    parts = [
        modules.Transformer(str(folder / "encoder")),
        modules.Pooling(16, "mean"),
        modules.Dense(16, 24, bias=False, activation_function=linear),
        modules.Dense(24, 12, bias=True, activation_function=torch.nn.Tanh()),
        modules.Normalize(),
    ]
    model = SentenceTransformer(modules=parts, prompts={"query": "w30 w31 "}, device="cpu")
    model.save(str(folder / "saved"), create_model_card=False)
    return folder / "saved"


@pytest.fixture(scope="session")
def qwen_like(tmp_path_factory):
    """As Qwen3-Embedding: causal, the last token, which is the token that texts are padded with."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    folder = tmp_path_factory.mktemp("qwen")
    publish(folder / "encoder", "Qwen3Model", **SIZES)
    write_tokenizer(folder / "encoder", None, "<eos>", "<eos>")
    parts = [
        modules.Transformer(str(folder / "encoder")),
        modules.Pooling(16, "lasttoken"),
        modules.Normalize(),
    ]
    model = SentenceTransformer(modules=parts, device="cpu")
    model.save(str(folder / "saved"), create_model_card=False)
    return folder / "saved"


def reference(directory, texts, **options):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(directory), device="cpu")
    return model.encode(texts, show_progress_bar=False, **options)


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max()))


def test_minilm(minilm):
    texts = ["Train short, test long.", "", "Was it the whale? " * 30, "東京 🙂"]
    model = open_embedder(minilm)
    encoded = model.tokenizer.encode_batch(texts, max_length=256)
    batches = TextBatches(encoded, tokenizer=model.tokenizer, shuffle=False)
    assert_same(model.of_batches(batches, verbose=0), reference(minilm, texts))


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="only it traces shapes")
def test_predictions_of_all_shapes_are_one_program(pretrained):
    model = open_embedder(pretrained, token_budget=32)
    batches = model.batches(TEXTS * 5, fixed_shapes=model.max_length)
    assert len(batches.shapes) > 2
    found = model.predict(TEXTS * 5, verbose=0)
    list(predicted(model.model, TEXTS * 5, 0, tokenizer=model.tokenizer, token_budget=32))
    # `predict` and `predict_on_batch` give it batches of different structures.
    assert model.model.predict_function.experimental_get_tracing_count() == 2
    alone = np.concatenate([model.predict([text], verbose=0) for text in TEXTS])
    assert_same(found, np.tile(alone, (5, 1)))
    assert model.model.predict_function.experimental_get_tracing_count() == 2


def test_texts_alone_have_the_vectors_that_they_have_together(pretrained, capsys):
    model = open_embedder(pretrained)
    together = model.predict(TEXTS, verbose=0)
    assert_same(np.concatenate([model.predict([text], verbose=0) for text in TEXTS]), together)
    assert capsys.readouterr().out == ""
    model.predict(TEXTS[:1])
    assert "1/1" in capsys.readouterr().out


@pytest.mark.once
def test_gemma_like(gemma_like, tmp_path):
    model = open_embedder(gemma_like)
    found = model.predict(TEXTS, verbose=0)
    assert found.shape == (4, 12) and found.dtype == "float32"
    assert_same(found, reference(gemma_like, TEXTS))
    assert_same(
        open_embedder(gemma_like, prompt="query").predict(TEXTS, verbose=0),
        reference(gemma_like, TEXTS, prompt_name="query"),
    )
    model.save(tmp_path)
    again = open_embedder(tmp_path)
    np.testing.assert_array_equal(again.predict(TEXTS, verbose=0), found)


@pytest.mark.once
def test_qwen_like(qwen_like, tmp_path):
    model = open_embedder(qwen_like)
    assert_same(model.predict(TEXTS, verbose=0), reference(qwen_like, TEXTS))
    model.save(tmp_path)
    again = open_embedder(tmp_path)
    assert_same(again.predict(TEXTS, verbose=0), reference(qwen_like, TEXTS))


@pytest.mark.once
@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize(
    "modes",
    [
        ("cls",),
        ("max",),
        ("mean_sqrt_len_tokens",),
        ("weightedmean",),
        ("lasttoken",),
        ("cls", "max", "mean"),
    ],
)
def test_every_pooling_in_both_dialects(gemma_like, tmp_path, modes, older):
    shutil.copytree(gemma_like, tmp_path, dirs_exist_ok=True)
    rows = json.loads((tmp_path / "modules.json").read_text())
    (tmp_path / "modules.json").write_text(json.dumps(rows[:2]))
    config = {"embedding_dimension": 16, "pooling_mode": list(modes)}
    if older:
        names = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens"}
        names |= {"weightedmean": "weightedmean_tokens"}
        flags = {f"pooling_mode_{names.get(mode, mode)}": True for mode in modes}
        config = {"word_embedding_dimension": 16, **flags}
    (tmp_path / rows[1]["path"] / "config.json").write_text(json.dumps(config))
    assert_same(open_embedder(tmp_path).predict(TEXTS, verbose=0), reference(tmp_path, TEXTS))


@pytest.mark.once
def test_a_norm_and_dropout(gemma_like, tmp_path):
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    norm = modules.LayerNorm(16)
    torch.nn.init.normal_(norm.norm.weight)
    torch.nn.init.normal_(norm.norm.bias)
    parts = [modules.Transformer(str(gemma_like)), modules.Pooling(16), norm, modules.Dropout(0.5)]
    model = SentenceTransformer(modules=parts, device="cpu")
    model.save(str(tmp_path), create_model_card=False)
    assert_same(open_embedder(tmp_path).predict(TEXTS, verbose=0), reference(tmp_path, TEXTS))


@pytest.mark.once
def test_an_encoder_alone(pretrained):
    """Is pooled by its mean; a model's vectors have length 1 besides."""
    ids = np.array([[2, 7, 9, 3, 0], [2, 8, 3, 0, 0]])
    encoder = build_transformer_model(pretrained)
    features = encoder.predict([ids, 0 * ids], verbose=0)
    expected = np.stack([features[0, :4].mean(0), features[1, :3].mean(0)])
    assert_same(embedder(pretrained).predict([ids, 0 * ids], verbose=0), expected)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert_same(embedder(encoder).predict([ids, 0 * ids], verbose=0), expected)
    both = embedder(encoder, pooling=["cls", "last"], normalize=False)
    expected = np.stack([features[0, [0, 3]], features[1, [0, 2]]]).reshape(2, -1)
    assert_same(both.predict([ids, 0 * ids], verbose=0), expected)


@pytest.mark.once
@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_pooling_without_a_mask_is_of_all_tokens(pooling):
    x = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")
    layer = MaskedPooling(pooling)
    found = layer(x), layer(x, mask=np.ones((2, 5), bool))
    assert_same(*map(keras.ops.convert_to_numpy, found))


# ---------------------------------------------------------------- texts of any length
@pytest.mark.once
def test_texts_beyond_the_length_of_the_model(minilm, book_excerpts, caplog):
    """Cut, and told once; stretched, more of them is read; in chunks, all of them."""
    texts = read_texts(book_excerpts, label=False).texts[:2]
    truncation._log.cache_clear()  # what was said before in this process is not said again
    cut = embed(minilm, texts, verbose=0)
    assert_same(cut, reference(minilm, texts))
    stretched = embed(minilm, texts, max_length=600, verbose=0)
    first, untrained, last = [message.split(":")[0] for message in caplog.messages]
    assert first == "2 of 2 texts are longer than max_length=256"
    assert "has 512 trained positions, and those up to max_length=600 are not trained" in untrained
    assert last == "2 of 2 texts are longer than max_length=600"
    model = open_embedder(minilm, max_length=600)
    ids = np.array([model.tokenizer.encode(texts[0], max_length=600)[0]])
    expected = embedder(minilm, hierarchical_position=True).predict([ids, 0 * ids], verbose=0)
    assert_same(stretched[:1], expected)
    chunked = embed(minilm, texts, reading="chunks:256", verbose=0)
    pieces = [w for w, _ in model.tokenizer.windows(texts[0], 256)]
    encoder = embedder(minilm)
    rows = [encoder.predict([np.array([w]), 0 * np.array([w])], verbose=0)[0] for w in pieces]
    mean = np.average(rows, axis=0, weights=[len(w) for w in pieces])
    assert_same(chunked[0], mean / np.linalg.norm(mean))


@pytest.mark.once
def test_shards_are_the_rows_of_all_texts(pretrained):
    texts = [f"w{n} w{n + 1}" for n in range(7)]
    options = {"max_length": 12, "verbose": 0}
    whole = embed(pretrained, texts, **options)
    shards = [embed(pretrained, texts, shard=f"{n}/3", **options) for n in (1, 2, 3)]
    assert [len(shard) for shard in shards] == [2, 2, 3]
    np.testing.assert_allclose(np.concatenate(shards), whole, atol=1e-5)
    spans = [[(0, 2)], [(0, 2), (3, 5)], [(3, 5)]]
    some = embed(pretrained, texts[:3], reading=LateSpans(spans), shard="2/3", **options)
    assert some.of(texts[1:2]) == ["w1", "w2"]
    for shard in ("4/3", "0/3", "1", "1/x", 2):
        with pytest.raises(ValueError, match="`shard` must be"):
            embed(pretrained, texts, shard=shard, **options)
    with pytest.raises(ValueError, match="`shard` is of no text: 7 texts have at most 7 parts"):
        embed(pretrained, texts, shard="1/9", **options)


def test_rotary_embedders_are_scaled(gemma_like):
    """Its own length ends at 32 tokens, its positions nowhere."""
    text = " ".join(f"w{n % 20}" for n in range(60))
    plain = embed(gemma_like, [text], max_length=100, verbose=0)
    scaled = embed(gemma_like, [text], max_length=100, extension="linear:4", verbose=0)
    assert np.abs(plain - scaled).max() > 1e-3
    with pytest.raises(ValueError, match="`factor`|factor"):
        embed(gemma_like, [text], extension="yarn")


# ---------------------------------------------------------------- what cannot be read
@pytest.fixture
def copied(gemma_like, tmp_path):
    """A copy of a directory, and a function that changes a row of its modules.json."""
    folder = tmp_path / "copy"
    shutil.copytree(gemma_like, folder)

    def change(row, **values):
        path = folder / "modules.json"
        rows = json.loads(path.read_text())
        rows[row] |= values
        path.write_text(json.dumps(rows))

    return folder, change


@pytest.mark.once
@pytest.mark.parametrize(
    ("row", "values", "message"),
    [
        (1, {"path": "../1_Pooling"}, "is refused: it names '../1_Pooling' as a folder beside it"),
        (1, {"path": "/etc"}, "is refused: it names '/etc' as a folder"),
        (1, {"path": "a\\..\\b"}, "is refused: it names"),
        (2, {"path": ".."}, "is refused: it names '..' as a folder"),
        (
            1,
            {"type": "custom.Pooling"},
            "names a module 'custom.Pooling', which is not read; those",
        ),
        (1, {"type": "sentence_transformers.models.CNN"}, "names a module '.*CNN', which is not"),
        (0, {"type": "sentence_transformers.models.Dense"}, "lists Dense, Pooling.*an embedder is"),
        (1, {"type": 3}, "is damaged .it lists something else.: it should list modules, each with"),
    ],
)
def test_modules_that_are_refused(copied, row, values, message):
    folder, change = copied
    change(row, **values)
    with pytest.raises(ValueError, match=message):
        embedder(folder)


@pytest.mark.once
def test_a_dense_module_that_names_no_activation_has_a_tanh(copied):
    """As in sentence-transformers, whose first versions did not write it."""
    folder, _ = copied
    expected = open_embedder(folder).predict(TEXTS, verbose=0)
    path = folder / "3_Dense" / "config.json"
    config = json.loads(path.read_text())
    assert config.pop("activation_function").endswith(".Tanh")
    path.write_text(json.dumps(config))
    np.testing.assert_array_equal(open_embedder(folder).predict(TEXTS, verbose=0), expected)


@pytest.mark.once
def test_links_out_of_the_directory_are_refused(copied, tmp_path):
    folder, _ = copied
    shutil.move(folder / "1_Pooling", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", folder / "1_Pooling")
    with pytest.raises(ValueError, match="1_Pooling is refused: it is a link to a file else"):
        embedder(folder)
    os.unlink(folder / "1_Pooling")
    with pytest.raises(FileNotFoundError, match="a folder that is not beside it: 1_Pooling"):
        embedder(folder)
    (folder / "1_Pooling").mkdir()
    os.symlink(tmp_path / "elsewhere" / "config.json", folder / "1_Pooling" / "config.json")
    with pytest.raises(ValueError, match="config.json is refused: it is a link to a file else"):
        embedder(folder)


@pytest.mark.once
@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("1_Pooling", {"pooling_mode": "median"}, "pooling_mode must be one or several of cls, "),
        (
            "2_Dense",
            {"activation_function": "os.system"},
            "activation 'os.system' is not supported",
        ),
        ("2_Dense", {"use_residual": True}, "a Dense with use_residual=True is not supported"),
        ("4_Normalize", {"module_input_name": "x"}, "Normalize with module_input_name='x' is not"),
    ],
)
def test_settings_that_are_refused(copied, file, change, message):
    folder, _ = copied
    path = folder / file / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=message):
        embedder(folder)


@pytest.mark.once
def test_files_that_are_refused(copied, tmp_path):
    folder, _ = copied
    with pytest.raises(FileNotFoundError, match="There is no directory .*nowhere to read"):
        embedder(tmp_path / "nowhere")
    shutil.copy(folder / "3_Dense" / "model.safetensors", folder / "2_Dense")
    with pytest.raises(ValueError, match=r"2_Dense: linear.weight has the shape .* fits what"):
        embedder(folder)
    shutil.copy(folder / "model.safetensors", folder / "2_Dense")
    with pytest.raises(ValueError, match="holds .*, and a Dense has linear.bias, linear.weight"):
        embedder(folder)
    (folder / "1_Pooling" / "config.json").write_text("[]")
    with pytest.raises(ValueError, match="config.json is damaged .it holds a list"):
        embedder(folder)
    (folder / "1_Pooling" / "config.json").write_text("{")
    with pytest.raises(ValueError, match="config.json is damaged .*Download it again"):
        embedder(folder)


@pytest.mark.once
def test_arguments_that_are_refused(pretrained, gemma_like, tmp_path):
    encoder = build_transformer_model(pretrained)
    message = "extension are for building an encoder, and `source` is one"
    with pytest.raises(TypeError, match=message):
        embedder(encoder, extension="tile")
    with pytest.raises(ValueError, match=r"needs the features \(B, T, D\) of an encoder without"):
        embedder(pretrained, with_pool=True, ignore_invalid_weights=True)
    with pytest.raises(
        ValueError,
        match="output is a .npy file, which NumPy reads, or a .jsonl or .parquet file with",
    ):
        embed(pretrained, ["w1"], "x")
    with pytest.raises(ValueError, match="chunks reads all of a document and max_length cuts"):
        embed(pretrained, ["w1"], reading="chunks:8", max_length=9)
    with pytest.raises(ValueError, match=r"one row \(B, D\) for each text: give an embedder"):
        TextModel(encoder, open_embedder(pretrained).tokenizer)
    with pytest.raises(FileNotFoundError, match="is not what TextModel.save wrote: it lacks model"):
        load_text_model(tmp_path)
    model = open_embedder(gemma_like)
    TextModel(model.model, model.tokenizer).save(tmp_path)
    path = tmp_path / "text_model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"max_length": "long"}))
    with pytest.raises(ValueError, match="text_model.json is damaged"):
        load_text_model(tmp_path)
    shutil.copytree(gemma_like, tmp_path / "copy")
    path = tmp_path / "copy" / "1_Pooling" / "config.json"
    path.write_text(json.dumps({"pooling_mode": "mean", "include_prompt": False}))
    with pytest.raises(ValueError, match='leaves its prompt out of the pooling.*give prompt=""'):
        open_embedder(tmp_path / "copy", prompt="query")
    path = tmp_path / "copy" / "config_sentence_transformers.json"
    path.write_text(json.dumps({"prompts": ["a"]}))
    with pytest.raises(ValueError, match="`prompts` must be texts by name. Found"):
        open_embedder(tmp_path / "copy")
