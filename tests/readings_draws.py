"""Draws readings of texts, and compares the vectors with those by definition.

    python tests/readings_draws.py --seconds 600 --seed 1    # prints what fails
    python tests/readings_draws.py --seed 1 --only "12: late + parts"    # one again

A case has two to five options of `readings_cases.py`.
"""

import argparse
import itertools
import json
import math
import pathlib
import tempfile
import time
import unittest.mock

import keras
import numpy as np
from attention_draws import Pairs, seed_of_the_day
from many_devices import two_devices_for_tensorflow
from readings_cases import OPTIONS, Case, excluded

from keras_posenc import embed
from keras_posenc.adapters.sides import Sides
from keras_posenc.retrieval import (
    Chunks,
    DenseEmbedder,
    LateChunks,
    LateSpans,
    Passages,
    open_embedder,
    search,
)
from keras_posenc.text.truncation import LOGGER

NEAR = 1e-4  # vectors that are short once they are cut show more rounding at length 1


def ours(case, folder, devices=None):
    """(rows of the texts that are read, ids of all, what `embed` returns, its file, hits)."""
    rng, options = case.rng, case.options
    model, texts, ids = folder / "model", case.texts, list(range(1, len(case.texts) + 1))
    case.write(model)
    titles = [each["title"] for each in case.more] if "title" in case.more[0] else None
    if "file" in options:
        texts, titles = folder / "texts.jsonl", titles and "title"
        ids = [f"t{number}" for number in rng.permutation(len(ids))]
        rows = zip(ids, case.texts, case.more, strict=True)
        lines = [json.dumps({"id": key, "text": text} | more) for key, text, more in rows]
        texts.write_text("\n".join(lines), "utf-8")
    opening = {"prompt": case.prompt, "dimension": case.dimension, "reading": None}
    sizes = case.reading["size"], case.reading["overlap"]
    if case.kind == "spans":
        opening["reading"] = LateSpans([each["spans"] for each in case.more])
    elif case.kind == "chunks":
        opening["reading"] = Chunks(*sizes)
    elif case.kind == "passages":
        opening["reading"] = Passages(*sizes, titles)
    elif case.kind != "whole":
        opening["reading"] = LateChunks(*sizes, titles, case.reading.get("windows"))
    if not isinstance(titles, list) and case.kind not in ("spans", "whole") and rng.random() < 0.5:
        opening["reading"] = str(opening["reading"])
    if "max_length" in options and case.kind != "chunks":
        opening["max_length"] = case.length
    if "saved" in options:
        open_embedder(model, **opening).save(folder / "saved")
        model, opening = folder / "saved", {"reading": opening["reading"]}
    if "opened" in options:
        budget = int(rng.choice([64, 300, 8192]))
        model, opening = open_embedder(model, **opening, token_budget=budget), {}
    call = {"queries": case.side == "query", "verbose": 0, **opening}
    rows, output, hits, only = range(len(case.texts)), None, None, None
    if "shard" in options:
        count = int(rng.integers(1, min(3, len(rows)) + 1))
        number = int(rng.integers(1, count + 1))
        call["shard"] = f"{number}/{count}"
        rows = rows[(number - 1) * len(rows) // count : number * len(rows) // count]
    if options & {"output", "parts", "resumed", "search"}:
        chunked = case.kind in ("passages", "late", "windows") and case.side == "document"
        suffix = ".npz" if chunked or case.kind == "spans" else ".npy"
        if options & {"parts", "resumed"}:
            call["part_size"] = int(rng.integers(1, len(rows) + 2))
            suffix = ".npy" if suffix == ".npy" else ".jsonl"
        output = folder / f"vectors{rng.choice([suffix, '.jsonl'])}"
    if "resumed" in options:
        _stopped(
            int(rng.integers(-(-len(rows) // call["part_size"]))), model, texts, output, **call
        )
    call |= {"devices": devices} if devices and "opened" not in options else {}
    found = embed(model, texts, output, **call)
    some = [row for row in rows if case.more[row].get("spans", [1])]  # with vectors
    if "search" in options and some:
        if rng.random() < 0.7:
            only = rng.permutation(some)[: int(rng.integers(1, len(some) + 1))]
            only = [ids[row] for row in only]
        asked = {"texts": texts} if only or rng.random() < 0.5 else {}
        unnamed = case.prompt is not None and "query" not in case.prompts
        if unnamed and not options & {"opened", "saved"}:
            asked["prompt"] = ""
        asked |= {"per_document": rng.random() < 0.4, "top_k": int(rng.integers(1, 8))}
        case.asked = asked = asked | {"only": only}
        hits = search(model, output, case.queries, verbose=0, **asked)
    if "copies" in options and "opened" in options and case.kind in ("whole", "chunks"):
        _check_copies(case, model)
    return rows, ids, found, output and _written(output, "id" if "file" in options else "row"), hits


def _check_copies(case, model):
    """In the adapters, which rank, the vectors of copies are the same to the last bit."""
    vectors = Sides(model).encode_documents(case.texts)
    first = {}
    for text, vector in zip(case.texts, vectors, strict=True):
        same = first.setdefault(text.upper(), vector)
        assert same.tobytes() == vector.tobytes(), "copies differ"


def _stopped(parts, *args, **kwargs):
    """A call of `embed` that is stopped after so many parts."""
    encode, done = DenseEmbedder.encode, []

    def limited(*args, **kwargs):
        done.append(1)
        if len(done) > parts:
            raise KeyboardInterrupt
        return encode(*args, **kwargs)

    with unittest.mock.patch.object(DenseEmbedder, "encode", limited):
        try:
            embed(*args, **kwargs)
        except KeyboardInterrupt:
            return
    raise AssertionError(f"all parts were read by {parts} calls")


def _written(output, name):
    """(id or None, start, end, vector) of each row of a file."""
    if output.suffix == ".jsonl":
        rows = map(json.loads, output.read_text("utf-8").splitlines())
        return [(row[name], row.get("start"), row.get("end"), row["vector"]) for row in rows]
    if output.suffix == ".npy":
        return [(None, None, None, row) for row in np.load(output)]
    file = np.load(output)
    return list(zip(itertools.repeat(None), file["starts"], file["ends"], file["vectors"]))


def check(case, folder, devices=None):
    """Raises AssertionError where ours is not the reference."""
    rows, ids, found, written, hits = ours(case, pathlib.Path(folder), devices)
    chunks = [
        (place, ids[row], *chunk)
        for place, (row, of_text) in enumerate(zip(rows, case.expected(rows), strict=True))
        for chunk in of_text
    ]
    vectors = np.array([vector for *_, vector in chunks])
    if hasattr(found, "starts"):
        places = np.stack([found.texts, found.starts, found.ends], axis=-1).tolist()
        assert places == [[place, *span] for place, _, *span, _ in chunks], "places"
        found = found.vectors
    if isinstance(found, int):  # the number of texts in a file
        assert found == len(rows), "count"
    elif len(vectors) or len(found):
        close(found, vectors, "vectors")
    if written is not None:
        assert len(written) == len(chunks), "rows of the file"
        for (key, *span, vector), (_, row, *expected, other) in zip(written, chunks, strict=True):
            assert key in (None, row) and span in ([None, None], expected), "places in the file"
            close(np.array([vector]), other[None], "file")
    if hits is not None:
        check_hits(case, hits, chunks)


def close(found, expected, what):
    assert found.shape == expected.shape, f"{what}: {found.shape} for {expected.shape}"
    error = np.abs(found - expected).max(axis=1) / np.maximum(1, np.abs(expected).max(axis=1))
    assert error.max() < NEAR, f"{what}: {(error >= NEAR).sum()} off by {error.max():.3g}"


def check_hits(case, hits, chunks):
    """Each query's best, in their order, with the scores of the reference."""
    only = case.asked["only"]
    kept = [each for _, *each in chunks if only is None or each[0] in only]
    sides = [np.array(case.expected_queries()), np.array([vector for *_, vector in kept])]
    if not case.dot:
        sides = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in sides]
    keys = [key for key, *_ in kept]
    first = {key: place for place, key in enumerate(keys)}
    count = min(case.asked["top_k"], len(first if case.asked["per_document"] else kept))
    assert [hit["rank"] for hit in hits] == [*range(1, count + 1)] * len(case.queries), "ranks"
    for number, scores in enumerate(sides[0] @ sides[1].T):
        near = NEAR * max(1, np.abs(scores).max())
        best_of = scores
        if case.asked["per_document"]:
            best_of = [
                max(s for k, s in zip(keys, scores, strict=True) if k == key) for key in first
            ]
        of_query = hits[number * count :][:count]
        for hit, best in zip(of_query, np.sort(best_of)[::-1][:count], strict=True):
            assert abs(hit["score"] - best) < near, "order"
            span = (hit["start"], hit["end"]) if "start" in hit else None
            of_hit = [
                abs(score - best) < near
                for (key, *at, _), score in zip(kept, scores, strict=True)
                if key == hit["id"] and span in (None, tuple(at))
            ]
            assert any(of_hit), "score"


def check_one(seed, number, options, devices=None):
    """Draws and checks the case of a seed and its number."""
    case = Case(np.random.default_rng([seed, number]), options)
    with tempfile.TemporaryDirectory() as folder:
        check(case, folder, devices if number % 2 else None)


def run(seed, most=math.inf, seconds=math.inf, devices=None, report=print):
    """(number of cases, failures, `Pairs`)."""
    rng, began, failures, count = np.random.default_rng(seed), time.monotonic(), [], 0
    pairs = Pairs(rng, OPTIONS, excluded, most=3)
    while count < most and time.monotonic() - began < seconds:
        options = pairs.options()
        count += 1
        try:
            check_one(seed, count, options, devices)
            pairs.count(options)
        except Exception as error:
            failures.append(f"{count}: {' + '.join(options)}: {error!r:.400}")
            report(failures[-1], flush=True)
        if count % 20 == 0:
            keras.backend.clear_session()
    return count, failures, pairs


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--most", type=float, default=math.inf, help="number of cases")
    parser.add_argument("--seed", type=int, default=seed_of_the_day())
    parser.add_argument("--only", help="the beginning of a line of a case that failed")
    parser.add_argument(
        "--devices", type=int, help="of JAX or TensorFlow, which half of the calls share"
    )
    given = parser.parse_args()
    LOGGER.disabled = True  # that texts are cut
    if given.devices and keras.backend.backend() == "tensorflow":
        two_devices_for_tensorflow()
    if given.only:
        number, options = given.only.split(": ")[:2]
        return check_one(given.seed, int(number), options.split(" + "), given.devices)
    count, failures, pairs = run(given.seed, given.most, given.seconds, given.devices)
    missing = len(pairs.missing())
    print(f"seed {given.seed}: {count} cases, {len(failures)} failed; {missing} pairs not met")
    raise SystemExit(bool(failures))


if __name__ == "__main__":
    main()
