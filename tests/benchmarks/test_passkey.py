"""`bench_passkey`: ways of reading against direct computations, resumption, refusals."""

import json

import numpy as np
import pytest

from benchmarks.long_texts.passkey_table import passkey_table
from benchmarks.long_texts.passkeys import bench_passkey
from benchmarks.shared.reading import by_words, embedded, first_rank
from keras_posenc import build_transformer_model
from keras_posenc.checkpoints import save_checkpoint
from keras_posenc.tasks.retrieval import passkeys
from keras_posenc.text import Tokenizer


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@pytest.mark.once
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_embeddings_do_not_hang_on_their_padding(pretrained, pooling):
    model, tokenizer = build_transformer_model(pretrained), Tokenizer(pretrained)
    rows = [[7, 8, 9, 10], [11, 12]]
    found = embedded(model, tokenizer, rows, pooling)
    for row, values in zip(rows, found, strict=True):
        ids = np.array([tokenizer.assemble(row)[0]])
        inputs = {"token_ids": ids, "segment_ids": np.zeros_like(ids)}
        features = np.asarray(model.predict_on_batch(inputs))[0]
        pooled = features.mean(0) if pooling == "mean" else features[0]
        np.testing.assert_allclose(values, unit(pooled), atol=1e-5)


@pytest.fixture
def english(minilm, tiny_config, tmp_path):
    """A directory of a tiny BERT of 48 positions and random weights that reads English."""
    tokenizer, folder = Tokenizer(minilm), tmp_path / "english"
    sizes = {"vocab_size": tokenizer.vocab_size, "max_position_embeddings": 48}
    config = {**tiny_config, **sizes, "initializer_range": 0.5}
    save_checkpoint(build_transformer_model(config, return_keras_model=False), folder)
    tokenizer.save(folder)
    return folder


@pytest.mark.once
def test_each_way_reads_as_it_says(english, tmp_path):
    """Scores of a text of two chunks, from features computed here."""
    ways = ["truncate", "chunks_max", "chunks_mean", "words", "tile", "hierarchical"]
    given = dict(lengths=[48, 80], documents=5, seeds=[1], verbose=False)
    results = bench_passkey(english, ways, output=tmp_path / "bench", **given)
    scores = {result["model"]: result["scores"] for result in results}
    assert scores["words"] == {"48": [1.0] * 5, "80": [1.0] * 5}
    for way in ("truncate", "chunks_max", "chunks_mean", "tile", "hierarchical"):
        assert scores[way]["48"] == scores["truncate"]["48"]

    tokenizer = Tokenizer(english)
    made = passkeys(tokenizer, 80, 5, seed=1)

    def read(model, ids):
        ids = np.array([tokenizer.assemble(ids)[0]], "int32")
        features = model.predict_on_batch({"token_ids": ids, "segment_ids": np.zeros_like(ids)})
        return unit(np.asarray(features)[0].mean(0))

    short = build_transformer_model(english)
    tile = build_transformer_model(english, extension="tile", max_position=80)
    queries = [read(short, ids) for ids in tokenizer.contents(made.queries)]
    chunks = [[read(short, ids[:46]), read(short, ids[46:])] for ids in made.documents]
    expected = {
        "truncate": [values[0] for values in chunks],
        "chunks_mean": [unit(np.mean(values, axis=0)) for values in chunks],
        "tile": [read(tile, ids) for ids in made.documents],
    }
    for way, found in expected.items():
        assert scores[way]["80"] == first_rank(np.array(queries) @ np.array(found).T)
    highest = [[max(q @ one for one in values) for values in chunks] for q in queries]
    assert scores["chunks_max"]["80"] == first_rank(np.array(highest))


@pytest.mark.once
def test_what_is_done_is_not_repeated(pretrained, tmp_path):
    given = dict(ways=["words", "truncate"], lengths=[64], documents=3, verbose=False)
    output = tmp_path / "bench"
    first = bench_passkey(pretrained, output=output, **given)
    path = output / "lengths.json"
    rows = json.loads(path.read_text())
    rows[0]["scores"] = [0.0, 0.0, 1.0]
    path.write_text(json.dumps(rows))
    changed = {**first[0], "scores": {"64": [0.0, 0.0, 1.0]}, "accuracy": {"test": {"64": 1 / 3}}}
    assert bench_passkey(pretrained, output=output, **given) == [changed, first[1]]
    longer = bench_passkey(pretrained, output=output, **{**given, "lengths": [64, 80]})
    assert list(longer[0]["scores"]) == ["64", "80"]
    assert json.loads((output / "results.json").read_text()) == longer
    assert bench_passkey(pretrained, output=output, **given) == [changed, first[1]]
    with pytest.raises(ValueError, match="made with documents=3, not 4: give another output"):
        bench_passkey(pretrained, output=output, **{**given, "documents": 4})


@pytest.mark.once
def test_needles_and_further_checkpoints(pretrained, tmp_path):
    stretched = tmp_path / "longer"
    model = build_transformer_model(
        pretrained, extension="tile", max_position=80, return_keras_model=False
    )
    save_checkpoint(model, stretched, positions=80)
    Tokenizer(pretrained).save(stretched)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("w1 w2 w3. w4 w5 w6.\nw7 w8. w9 w10 w11.\n")
    given = dict(lengths=[48, 72], documents=4, verbose=False, output=tmp_path / "bench")
    results = bench_passkey(pretrained, ["tile"], [stretched], corpus=corpus, **given)
    assert [(result["task"], result["model"]) for result in results] == [
        ("needle", "tile"),
        ("needle", "longer"),
    ]
    assert results[0]["scores"] == results[1]["scores"]
    with pytest.raises(ValueError, match="serves 80 positions: .* Received: 96"):
        bench_passkey(pretrained, [], [stretched], **{**given, "lengths": [96]})
    with pytest.raises(ValueError, match="there is another way 'longer'"):
        bench_passkey(pretrained, [], [stretched, stretched], **given)


@pytest.mark.once
def test_words_by_the_published_formula():
    documents, k1, b = [[1, 1, 2], [2, 3], [3, 3, 3, 4]], 1.2, 0.75
    found = by_words([[1, 3]], documents)
    for values, score in zip(documents, found[0], strict=True):
        expected = 0.0
        for token in (1, 3):
            tf, df = values.count(token), sum(token in other for other in documents)
            idf = np.log(1 + (3 - df + 0.5) / (df + 0.5))
            expected += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(values) / 3))
        assert score == pytest.approx(expected)
    # What every query asks for alike says nothing of which document is meant.
    both = by_words([[1, 9], [4, 9]], [*documents[:2], [9, 3, 3, 4]])
    np.testing.assert_array_equal(both, by_words([[1], [4]], [*documents[:2], [9, 3, 3, 4]]))
    assert by_words([[9], [9, 9]], documents[:2] + [[9]])[:, 2].all()


@pytest.mark.once
@pytest.mark.parametrize(
    ("ways", "more", "words"),
    [
        (["skim"], {}, "Unknown way 'skim': there are chunks_max, chunks_mean"),
        (["tile:alpha=0.2"], {}, "alpha=0.2 belongs to hierarchical, not to tile"),
        (["tile:base=2"], {}, "tile:base=2: tile has no 'base'; there are alpha, kept_rows"),
        (["words:k1=2"], {}, "words:k1=2: words has no arguments"),
        (
            ["words"],
            {"pooling": "sum"},
            "`pooling` must be one of .*Received: 'sum'",
        ),
    ],
)
def test_what_is_refused(pretrained, ways, more, words):
    with pytest.raises(ValueError, match=words):
        bench_passkey(pretrained, ways, verbose=False, **more)


@pytest.mark.once
def test_the_table_pairs_queries():
    def run(way, seed, scores):
        return {"task": "passkey", "model": way, "seed": seed, "scores": scores, "chance": 0.5,
                "train_lengths": [1, 512]}  # fmt: skip

    results = [
        run("chunks_max", 0, {"512": [1, 1], "1024": [1, 0], "2048": [1, 0]}),
        run("tile", 0, {"512": [1, 1], "1024": [1, 1], "2048": [0, 1]}),
        run("words", 0, {"512": [1, 1], "1024": [1, 1]}),
    ]
    lines = passkey_table(results).splitlines()
    half = 1.96 * np.std([-0.5, 1.0], ddof=1) / np.sqrt(2)
    assert lines[2] == "| chunks_max | 100 | 50 | 50 |  |"
    assert lines[3] == f"| tile | 100 | 100 | 50 | +25.0 ± {100 * half:.1f} |"
    # Over the length that both have.
    assert lines[4].startswith("| words | 100 | 100 | – | +50.0 ± ")
    always = [run("chunks_max", 0, {"1024": [0, 0, 1]}), run("words", 0, {"1024": [1, 1, 1]})]
    always += [run("tile", seed, {"1024": [0, 0, 0]}) for seed in (0, 1)]
    last = passkey_table(always + [run("chunks_max", 1, {"1024": [1, 1, 1]})]).splitlines()[-1]
    assert (
        last == "Chance is 50.0. Beyond 512 tokens, against chunks_max: better words; worse tile."
    )
