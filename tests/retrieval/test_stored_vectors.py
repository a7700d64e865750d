"""Stored vectors whose fields contradict each other, that are not finite, or whose scores tie."""

import json
import shutil
import types

import numpy as np
import pytest

from keras_posenc import embed
from keras_posenc.retrieval import open_embedder, search
from keras_posenc.retrieval.dense.late_chunking import ChunkVectors
from keras_posenc.retrieval.embedding_record import EmbeddingRecord
from keras_posenc.retrieval.nearest import nearest
from keras_posenc.retrieval.sparse.vectors import SparseVectors


@pytest.mark.once
@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"starts": [0]}, "must have a number per vector"),
        ({"texts": [0, 1, 1]}, "must have a number per vector"),
        ({"texts": [-1, 0]}, "must have the number of a text, from 0"),
        ({"starts": [0, 5]}, "and an end after its start. Received: text 1, start 5, end 5"),
        ({"ends": [3.0, 5.0]}, "must be whole numbers. Received: int64, int64, float64"),
    ],
)
def test_chunks_whose_fields_do_not_fit(pretrained, tmp_path, change, match):
    fields = {"vectors": np.eye(16)[:2], "texts": [0, 1], "starts": [0, 2], "ends": [3, 5]}
    fields = {name: np.array(value) for name, value in (fields | change).items()}
    with pytest.raises(ValueError, match=match):
        ChunkVectors(**fields)
    np.savez(tmp_path / "x.npz", **fields)
    with pytest.raises(ValueError, match=rf"x.npz is damaged.*{match[:20]}"):
        search(pretrained, tmp_path / "x.npz", "w1", verbose=0)


@pytest.mark.once
@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"indices": [-4, 1, 2]}, "`indices` must rise in each row and be from 0 to 4"),
        ({"indices": [0, 2, 1]}, "`indices` must rise in each row and be from 0 to 4"),
        ({"indices": [0, 1, 4]}, "`indices` must rise in each row and be from 0 to 4"),
        ({"indices": [0.0, 1.0, 2.0]}, "must be whole numbers. Received: float64 and int64"),
        ({"offsets": [0, 1]}, "`offsets` must rise from 0 to the number of indices, 3"),
        ({"offsets": [0, 4, 3]}, "`offsets` must rise from 0 to the number of indices, 3"),
        ({"values": [1.0, 2.0]}, "`values` must have a number per index"),
    ],
)
def test_sparse_vectors_whose_fields_do_not_fit(change, match):
    fields = {"indices": [0, 1, 2], "values": [1.0, 2.0, 3.0], "offsets": [0, 1, 3]}
    assert len(SparseVectors(**{n: np.array(v) for n, v in fields.items()}, size=4)) == 2
    with pytest.raises(ValueError, match=match):
        SparseVectors(**{n: np.array(v) for n, v in (fields | change).items()}, size=4)


@pytest.mark.once
@pytest.mark.parametrize(
    ("row", "match"),
    [
        ('{"id": 2, "start": 5, "end": 2, "vector": [1]}', "line 2: .*a chunk from 5 to 2"),
        ('{"id": 2, "vector": [1]}', "line 2: not a row that `embed` wrote .*'start'"),
    ],
)
def test_chunks_of_a_table_have_places(pretrained, tmp_path, row, match):
    first = '{"id": 1, "start": 0, "end": 2, "vector": [1]}'
    (tmp_path / "x.jsonl").write_text(f"{first}\n{row}\n")
    with pytest.raises(ValueError, match=match):
        search(pretrained, tmp_path / "x.jsonl", "w1", verbose=0)


@pytest.mark.once
def test_the_best_five_begin_the_best_ten(pretrained):
    vectors = embed(pretrained, ["w9 w9", *["w1 w2"] * 60, "w3"], verbose=0)
    vectors[1:61] = vectors[1]
    best = [
        [row["id"] for row in search(pretrained, vectors, "w1 w2", top_k=k, verbose=0)]
        for k in (5, 10, 61)
    ]
    assert best[0] == best[1][:5] == best[2][:5] == [2, 3, 4, 5, 6] and best[1] == best[2][:10]
    found = nearest(vectors[1:2], vectors, 7, rows=4)  # over blocks, too
    assert found[0][0].tolist() == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.once
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_stored_vectors_that_are_not_finite(pretrained, tmp_path, suffix, value):
    vectors = embed(pretrained, ["w1", "w2", "w3"], verbose=0)
    vectors[1, 3] = value
    path = tmp_path / f"x{suffix}"
    if suffix == ".npy":
        np.save(path, vectors)
    else:
        np.savez(path, vectors=vectors, texts=np.arange(3), starts=np.arange(3), ends=[9, 9, 9])
    with pytest.raises(ValueError, match=rf"x{suffix}: vector 2 has a score that is no finite"):
        search(pretrained, path, "w1", verbose=0)


@pytest.mark.once
def test_a_model_whose_numbers_are_not_finite(pretrained, tmp_path):
    from keras_posenc import save_checkpoint

    model = open_embedder(pretrained)
    weight = model.model.get_layer("Transformer-0-FeedForward").weights[-1]
    weight.assign(np.full(weight.shape, np.nan))
    shutil.copytree(pretrained, tmp_path / "model")
    save_checkpoint(model.model, tmp_path / "model")
    what = "The model's outputs are not finite numbers: a weight is NaN or infinite, or a number is"
    for options in ({}, {"reading": "chunks:4"}, {"reading": "late:4"}):
        for output in (None, tmp_path / "x.jsonl"):
            with pytest.raises(ValueError, match=what):
                embed(tmp_path / "model", ["w1 w2 w3 w4 w5"], output, verbose=0, **options)
    with pytest.raises(ValueError, match=what):
        search(tmp_path / "model", np.eye(16, dtype="float32"), "w1", verbose=0)
    assert not list(tmp_path.glob("x.jsonl*"))


def test_vectors_before_an_interruption_are_not_known_to_have_length_1(tmp_path):
    opening = types.SimpleNamespace(directory="model", fingerprint="")
    record = EmbeddingRecord(tmp_path / "v.npy", opening, {}, None, None)
    record.saw(np.eye(3), before=2)
    record.write({"bytes": 1, "digest": ""})
    assert json.loads(record.path.read_text())["unit"] is False
