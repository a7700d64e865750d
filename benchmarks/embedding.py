"""Processor time of a corpus into vectors, beside sentence-transformers.

    python benchmarks/embedding.py --texts 40 200 1000 --turns 3

MiniLM embeds nine tenths posts of 20 Newsgroups and a tenth excerpts of books, mixed. The sides run
in turns, each in a process of its own with one thread. The first call, which compiles, counts
apart; the second is compared. Ratios are medians of the turns: above 1 is slower than
sentence-transformers. Results go to benchmarks/results/embedding.json.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

RESULTS = pathlib.Path(__file__).parent / "results" / "embedding.json"
BASE, SIDES = "sentence-transformers", ("torch", "tensorflow", "jax")
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=int, nargs="+", default=[40, 200, 1000])
    parser.add_argument("--max-length", type=int, default=256)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--sides", nargs="+", default=[BASE, *SIDES], choices=[BASE, *SIDES])
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(measured(arguments.side, arguments.texts[0], arguments.max_length)))
        return
    results = arguments.results
    report = json.loads(results.read_text()) if results.exists() else {}
    for count in arguments.texts:
        found = {side: [] for side in arguments.sides}
        for _ in range(arguments.turns):
            for side in arguments.sides:
                found[side].append(in_process(side, count, arguments.max_length))
        report[f"{count} texts, {arguments.max_length} tokens"] = compared(found)
        results.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


def in_process(side, count, length):
    command = [sys.executable, __file__, "--side", side, "--texts", str(count)]
    backend = "torch" if side == BASE else side
    environment = {**os.environ, **ONE_THREAD, "KERAS_BACKEND": backend}
    command += ["--max-length", str(length)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def measured(side, count, length):
    from data import MINILM

    texts = corpus(count)
    padded = None
    if side == BASE:
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(MINILM, device="cpu")
        model.max_seq_length = length

        def embed():
            model.encode(texts, show_progress_bar=False)
    else:
        from keras_posenc import backend
        from keras_posenc.retrieval import open_embedder

        backend.cache_programs()  # as the commands do
        model = open_embedder(MINILM, max_length=length)
        batches = model.batches(texts, fixed_shapes=length)
        padded = 1 / (1 - batches.padding_share)

        def embed():
            model.predict(texts, verbose=0)

    seconds = []
    for _ in range(2):
        began = time.process_time()
        embed()
        seconds.append(time.process_time() - began)
    return {"first": seconds[0], "again": seconds[1], "padded": padded}


def corpus(count):
    import numpy as np
    from data import CORPORA

    from keras_posenc.text import read_texts

    rng = np.random.default_rng(0)
    chosen = []
    shares = {"20newsgroups-train": count - count // 10, "book-excerpts": count // 10}
    for name, share in shares.items():
        texts = read_texts(f"{CORPORA}/{name}.tab").texts
        chosen += [texts[i] for i in rng.permutation(len(texts))[:share]]
    return [chosen[i] for i in rng.permutation(len(chosen))]


def compared(found):
    """Of each side the median seconds, the ratio to sentence-transformers, and the padding."""
    rows = {}
    for side, turns in found.items():
        rows[side] = {"turns": len(turns)}
        for name in ("first", "again"):
            rows[side][name] = round(statistics.median(turn[name] for turn in turns), 2)
        if turns[0]["padded"]:
            rows[side]["padded_tokens"] = round(turns[0]["padded"], 3)
        if BASE in found:
            pairs = zip(turns, found[BASE], strict=True)
            ratio = statistics.median(turn["again"] / base["again"] for turn, base in pairs)
            rows[side]["ratio"] = round(ratio, 2)
    return rows


if __name__ == "__main__":
    main()
