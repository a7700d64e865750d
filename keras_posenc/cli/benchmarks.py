"""The commands of the benchmarks, and the arguments of each."""

import argparse

from keras_posenc.cli.options import numbers

EMBEDDINGS = ("mean", "cls")


def _lengths(text):
    """1-40 -> [1, ..., 40]; 50,100 -> [50, 100]; 4-64:2 -> [4, 6, ..., 64]."""
    try:
        lengths = []
        for part in text.split(","):
            ends, _, step = part.partition(":")
            first, dash, last = ends.partition("-")
            lengths += range(int(first), int(last if dash else first) + 1, int(step or 1))
        return lengths
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"give lengths such as 64, 50,100,200, 1-40 or, every second, 4-64:2, not {text!r}"
        ) from None


BENCHMARKS = [
    (
        "bench",
        "train short, test long: compare encodings on lengths that they were not trained on; the "
        "same command resumes an interrupted one",
        [
            (
                "tasks",
                "tasks: even_pairs, counting:variables=3, language_model:unit=words",
                {"nargs": "+"},
            )
        ],
        [
            (
                "--encodings",
                "encodings: none, sinusoidal, alibi, rotary+log_n, cope:npos_max=16 "
                "(default: none)",
                {"nargs": "+", "metavar": "NAME"},
            ),
            (
                "--positions",
                "consecutive, or random ids in training: sorted, exponential, beta, pose, offset "
                "(default: consecutive)",
                {"nargs": "+", "metavar": "NAME"},
            ),
            (
                "--models",
                "transformer, gau, rnn, lstm, stack_rnn, tape_rnn (default: transformer)",
                {"nargs": "+", "metavar": "NAME"},
            ),
            (
                "--seeds",
                "seeds, one run for each; from 1000 on trials, by which settings are chosen, with "
                "test samples of their own (default: 0,1,2)",
                {"type": numbers, "metavar": "N,N,..."},
            ),
            ("--budget", "minutes for all runs together, instead of --steps", {"type": float}),
            ("--steps", "training steps of each run", {"type": int}),
            ("--output", "directory of results, tables and pictures (default: bench)", {}),
            (
                "--corpus",
                "text file of the language tasks, or a directory with train.txt and test.txt",
                {"metavar": "PATH"},
            ),
            (
                "--train-lengths",
                "training lengths (default: 1-40 for the Chomsky tasks, else 64)",
                {"type": _lengths, "metavar": "N,N-N,..."},
            ),
            (
                "--test-lengths",
                "test lengths (default: 41,50,100,200,300,500 for the Chomsky tasks, else "
                "64,128,256,512)",
                {"type": _lengths, "metavar": "N,N-N,..."},
            ),
            ("--test-samples", "least samples of each test length (default: 64)", {"type": int}),
            (
                "--test-scored",
                "least scored places of each test length (default: 2000)",
                {"type": int},
            ),
            (
                "--patience",
                "steps without a lower loss on fresh samples of the trained lengths, after which a "
                "run ends early (default: never)",
                {"type": int},
            ),
            ("--layers", "layers of a transformer (default: 3)", {"type": int}),
            ("--size", "features of a token (default: 64)", {"type": int}),
            ("--heads", "heads of a transformer (default: 8)", {"type": int}),
            ("--dropout", "dropout of a transformer (default: 0.1)", {"type": float}),
            ("--batch-size", "rows of a training batch (default: 64)", {"type": int}),
            ("--learning-rate", "peak learning rate (default: 0.001)", {"type": float}),
            ("--max-position", "bound of random ids (default: 2048)", {"type": int}),
            ("--no-pictures", "write no pictures (they need Matplotlib)", {"action": "store_true"}),
        ],
    ),
    (
        "bench passkey",
        "find one sentence of a long document by embeddings, by length and by way of reading; the "
        "same command resumes an interrupted one",
        [("checkpoint", "directory with the weights, config and tokenizer of an encoder", {})],
        [
            (
                "--ways",
                "truncate, chunks_max, chunks_mean, words, tile, interpolate, "
                "hierarchical:alpha=0.2,kept_rows=1 (default: all of these, as published)",
                {"nargs": "+", "metavar": "NAME"},
            ),
            (
                "--stretched",
                "further checkpoints, the OUTPUT of stretch, read in one pass",
                {"nargs": "+", "metavar": "DIRECTORY"},
            ),
            (
                "--lengths",
                "tokens of the documents (default: 256,512,1024,2048,4096,8192)",
                {"type": numbers, "metavar": "N,N,..."},
            ),
            ("--documents", "documents of each length, and queries (default: 50)", {"type": int}),
            ("--seeds", "seeds of the documents (default: 0)", {"type": numbers, "metavar": "N"}),
            (
                "--corpus",
                "real texts, in which sentences are hidden that say where a thing is kept "
                "(default: pass keys in sentences that repeat)",
                {"metavar": "FILE"},
            ),
            (
                "--pooling",
                "what of the last features is the embedding (default: mean)",
                {"choices": EMBEDDINGS},
            ),
            (
                "--output",
                "directory of results, table and picture (default: bench-passkey)",
                {},
            ),
            ("--no-pictures", "write no picture (it needs Matplotlib)", {"action": "store_true"}),
        ],
    ),
]
