"""Size, processor time and error of MiniLM in int8, exported for onnxruntime.

    KERAS_BACKEND=torch python benchmarks/int8_onnx.py

The float32 and the int8 file embed posts of 20 Newsgroups in turns, with one thread. The error is
the lowest cosine of the vectors of a text. Results go to benchmarks/results/int8_onnx.json.
"""

import json
import pathlib
import statistics
import tempfile
import time

import numpy as np
import onnxruntime
from data import CORPORA, MINILM

from keras_posenc import export_model
from keras_posenc.retrieval import open_embedder
from keras_posenc.text import read_texts

RESULTS = pathlib.Path(__file__).parent / "results" / "int8_onnx.json"
SHAPES = [(8, 96), (4, 384), (3, 200)]
TURNS = 7


def main():
    model = open_embedder(MINILM, max_length=512)
    texts = read_texts(f"{CORPORA}/20newsgroups-test.tab").texts[:2000:10]
    with tempfile.TemporaryDirectory() as folder:
        paths = {kind: pathlib.Path(folder, f"{kind}.onnx") for kind in ("float32", "int8")}
        for kind, path in paths.items():
            export_model(model.model, path, quantize=None if kind == "float32" else kind)
        report = {"megabytes": {k: round(p.stat().st_size / 1e6, 1) for k, p in paths.items()}}
        sessions = {kind: session(path) for kind, path in paths.items()}
        for rows, length in SHAPES:
            report[f"{rows} x {length}"] = compared(sessions, model.tokenizer, texts, rows, length)
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options)


def compared(sessions, tokenizer, texts, rows, length):
    """Median seconds of each file, the ratio, and the error, on texts that fill the rows."""
    encoded = [ids for ids, _ in tokenizer.encode_batch(texts, max_length=length)]
    ids = np.array([each for each in encoded if len(each) == length][:rows], "int32")
    seconds, vectors = {kind: [] for kind in sessions}, {}
    for _ in range(TURNS):
        for kind, each in sessions.items():
            names = [x.name for x in each.get_inputs()]
            inputs = dict(zip(names, (ids, 0 * ids), strict=False))
            began = time.process_time()
            (vectors[kind],) = each.run(None, inputs)
            seconds[kind].append(time.process_time() - began)
    pairs = zip(seconds["int8"], seconds["float32"], strict=True)
    lengths = [np.linalg.norm(v, axis=1) for v in vectors.values()]
    cosines = (vectors["int8"] * vectors["float32"]).sum(axis=1) / np.prod(lengths, axis=0)
    return {
        "float32_seconds": round(statistics.median(seconds["float32"]), 3),
        "int8_of_float32": round(statistics.median(a / b for a, b in pairs), 2),
        "least_cosine": round(float(cosines.min()), 4),
    }


if __name__ == "__main__":
    main()
