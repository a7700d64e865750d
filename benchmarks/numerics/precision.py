"""Accuracy, size and speed of bfloat16 and int8, on real text with real weights.

    KERAS_BACKEND=tensorflow python -m benchmarks.numerics.precision     # minutes

MiniLM is fine-tuned in float32 on two groups of 20 Newsgroups, which look alike, and then asked for
its answers on their test texts in float32, in mixed bfloat16 and in int8 (`model.quantize("int8")`,
saved and read again). Times are medians over the batches after the first. The results go to
benchmarks/results/precision.json, one entry a backend.
"""

import argparse
import json
import pathlib
import statistics
import tempfile
import time

import keras
import numpy as np

from benchmarks.shared.data import CORPORA, MINILM
from keras_posenc import Tokenizer, build_transformer_model, read_texts
from keras_posenc.backend.seeding import set_random_seed
from keras_posenc.heads import classifier

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "precision.json"
GROUPS = ("comp.sys.ibm.pc.hardware", "comp.sys.mac.hardware")
BATCH = 16


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--train", type=int, default=640, help="texts to train on")
    parser.add_argument("--test", type=int, default=320, help="texts to test on")
    arguments = parser.parse_args()
    tokenizer = Tokenizer(MINILM)
    train = encoded(tokenizer, "train", arguments.train, arguments.length)
    inputs, labels = encoded(tokenizer, "test", arguments.test, arguments.length)
    set_random_seed(0)
    model = classifier(build_transformer_model(MINILM, hierarchical_position=True), len(GROUPS))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(1e-4), loss)
    model.fit(*train, batch_size=BATCH, epochs=2, verbose=2)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        rows = [row("float32", model, inputs, labels, folder)]
        expected = rows[0].pop("logits")
        keras.config.set_dtype_policy("mixed_bfloat16")
        half = classifier(build_transformer_model(MINILM, hierarchical_position=True), len(GROUPS))
        half.set_weights(model.get_weights())
        rows.append(row("mixed_bfloat16", half, inputs, labels, folder))
        keras.config.set_dtype_policy("float32")
        model.quantize("int8")
        quantized = model.predict(inputs, batch_size=BATCH, verbose=0)
        rows.append(row("int8", model, inputs, labels, folder))
        again = keras.saving.load_model(folder / "int8.keras").predict(
            inputs, batch_size=BATCH, verbose=0
        )
    for each in rows[1:]:
        logits = each.pop("logits")
        each["largest difference"] = round(float(np.abs(logits - expected).max()), 4)
        each["same answers"] = float((logits.argmax(-1) == expected.argmax(-1)).mean())
    rows[-1]["after reading again"] = float(np.abs(again - quantized).max())
    for each in rows:
        print(json.dumps(each))
    report = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    line = {"texts": len(labels), "length": arguments.length, "batch": BATCH, "rows": rows}
    report[keras.backend.backend()] = line
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")


def encoded(tokenizer, part, count, length):
    """Token ids (count, length) of some texts of the two groups, and which group it is."""
    texts = read_texts(f"{CORPORA}/20newsgroups-{part}.tab")
    chosen = [
        (text, GROUPS.index(label))
        for text, label in zip(texts.texts, texts.labels, strict=True)
        if label in GROUPS
    ]
    np.random.default_rng(0).shuffle(chosen)  # the file has group after group
    chosen = chosen[:count]
    ids = np.zeros((len(chosen), length), "int32")
    for line, (text, _) in zip(ids, chosen, strict=True):
        tokens = tokenizer.encode(text, max_length=length)[0]
        line[: len(tokens)] = tokens
    inputs = {"token_ids": ids, "segment_ids": np.zeros_like(ids)}
    return inputs, np.array([label for _, label in chosen])


def row(name, model, inputs, labels, folder):
    logits, seconds = [], []
    for i in range(0, len(labels) - len(labels) % BATCH, BATCH):
        batch = {key: value[i : i + BATCH] for key, value in inputs.items()}
        began = time.perf_counter()
        logits.append(np.asarray(model.predict_on_batch(batch), "float32"))
        seconds.append(time.perf_counter() - began)
    logits = np.concatenate(logits)
    path = folder / f"{name}.keras"
    keras.Model(model.inputs, model.outputs).save(path)  # without what the optimizer holds
    return {
        "precision": name,
        "accuracy": float((logits.argmax(-1) == labels[: len(logits)]).mean()),
        "seconds a batch": round(statistics.median(seconds[1:]), 4),
        "megabytes": round(path.stat().st_size / 1e6, 1),
        "logits": logits,
    }


def table(report):
    """Markdown: what each precision costs and changes, by backend."""
    heads = ["", "same answers", "logits moved by", "seconds a batch", "megabytes"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for backend, line in report.items():
        for found in line["rows"]:
            same, moved = "", ""
            if found["precision"] != "float32":
                same = f"{100 * found['same answers']:.0f}%"
                moved = str(found["largest difference"])
            cells = same, moved, f"{found['seconds a batch']:.2f}", f"{found['megabytes']:.0f}"
            lines.append(f"| {backend}, {found['precision']} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
