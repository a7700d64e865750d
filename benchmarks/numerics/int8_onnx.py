"""Size, processor time and error of MiniLM in int8, exported for onnxruntime.

    KERAS_BACKEND=torch python -m benchmarks.numerics.int8_onnx

Four files embed posts of 20 Newsgroups in turns, with one thread: this library's export in float32
and in int8, and that of transformers' encoder by `torch.onnx.export`, also quantized by
onnxruntime. The error is the lowest cosine between the vectors of int8 and float32 of one library.
Results go to benchmarks/results/int8_onnx.json.
"""

import json
import pathlib
import statistics
import tempfile
import time

import numpy as np
import onnxruntime
import torch
import transformers
from onnxruntime.quantization import QuantType, quantize_dynamic

from benchmarks.shared.data import CORPORA, MINILM
from keras_posenc import export_model
from keras_posenc.retrieval import open_embedder
from keras_posenc.text import read_texts

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "int8_onnx.json"
SHAPES = [(8, 96), (4, 384), (3, 200)]
TURNS = 7


KINDS = "float32", "int8", "transformers float32", "transformers int8"

PAIRS = [
    ("int8", "float32"),
    ("float32", "transformers float32"),
    ("int8", "transformers int8"),
    ("transformers int8", "transformers float32"),
]


def main():
    model = open_embedder(MINILM, max_length=512)
    texts = read_texts(f"{CORPORA}/20newsgroups-test.tab").texts[:2000:10]
    with tempfile.TemporaryDirectory() as folder:
        paths = {kind: pathlib.Path(folder, f"{kind}.onnx") for kind in KINDS}
        write(model.model, *paths.values())
        report = {"megabytes": {k: round(p.stat().st_size / 1e6, 1) for k, p in paths.items()}}
        sessions = {kind: session(path) for kind, path in paths.items()}
        for rows, length in SHAPES:
            report[f"{rows} x {length}"] = compared(sessions, model.tokenizer, texts, rows, length)
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


def write(model, float32, int8, peer, peer_int8):
    """Writes the four files."""
    export_model(model, float32)
    export_model(model, int8, quantize="int8")
    encoder = transformers.BertModel.from_pretrained(MINILM, add_pooling_layer=False).eval()
    encoder.config.return_dict = False
    ids, axes = torch.ones((2, 16), dtype=torch.int64), {0: "batch", 1: "length"}
    axes = {axis: torch.export.Dim(name) for axis, name in axes.items()}
    program = torch.onnx.export(
        encoder,
        (ids, torch.ones_like(ids)),
        input_names=["input_ids", "attention_mask"],
        dynamic_shapes={"input_ids": axes, "attention_mask": axes},
        dynamo=True,
    )
    program.save(peer, external_data=False)
    quantize_dynamic(peer, peer_int8, weight_type=QuantType.QInt8, per_channel=True)


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options)


def compared(sessions, tokenizer, texts, rows, length):
    """Median seconds of each file, their ratios in a turn, and the errors, on texts that fill the
    rows."""
    encoded = [ids for ids, _ in tokenizer.encode_batch(texts, max_length=length)]
    ids = np.array([each for each in encoded if len(each) == length][:rows])
    seconds, vectors = {kind: [] for kind in sessions}, {}
    for _ in range(TURNS):
        for kind, each in sessions.items():
            began = time.process_time()
            vectors[kind] = embed(each, ids)
            seconds[kind].append(time.process_time() - began)
    ratio = {
        f"{one} of {base}": round(
            statistics.median(a / b for a, b in zip(seconds[one], seconds[base], strict=True)), 2
        )
        for one, base in PAIRS
    }
    pairs = {"ours": KINDS[:2], "transformers": KINDS[2:]}
    return {
        "seconds": {kind: round(statistics.median(each), 3) for kind, each in seconds.items()},
        "ratio": ratio,
        "least_cosine": {
            name: round(float((vectors[a] * vectors[b]).sum(axis=1).min()), 4)
            for name, (a, b) in pairs.items()
        },
    }


def embed(session, ids):
    """A vector of length 1 for each text; the features of transformers are averaged here."""
    by_name = {"input_ids": ids, "attention_mask": 0 * ids + 1}
    names = {x.name: x.type for x in session.get_inputs()}
    if "attention_mask" not in names:  # ours masks padding by itself, and has no segments here
        by_name = dict.fromkeys(names, 0 * ids) | {next(iter(names)): ids}
    types = {"tensor(int32)": "int32", "tensor(int64)": "int64"}
    inputs = {name: by_name[name].astype(types[kind]) for name, kind in names.items()}
    (found,) = session.run(None, inputs)
    vectors = found.mean(axis=1) if found.ndim == 3 else found
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


if __name__ == "__main__":
    main()
