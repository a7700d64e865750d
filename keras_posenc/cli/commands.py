"""The commands: the functions whose keywords are their options, and what those do not specify."""

import argparse
import typing


def number_or_none(text):
    """1.5 -> 1.5, none -> None."""
    try:
        return None if text.lower() == "none" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"give a number, or none, not {text!r}") from None


def numbers(text):
    """64,128 -> [64, 128]."""
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"give numbers with commas between, such as 64,128, not {text!r}"
        ) from None


def _columns(text):
    """a,b -> ("a", "b")."""
    names = tuple(text.split(","))
    return names if len(names) > 1 else text


def _stages(text):
    """512x3,1536x1 -> [(512, 3), (1536, 1)]."""
    try:
        pairs = [stage.split("x") for stage in text.split(",")]
        return [(int(length), int(epochs)) for length, epochs in pairs]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"give stages as LENGTHxEPOCHS, such as 512x3,1536x1, not {text!r}"
        ) from None


def _share_or_path(text):
    try:
        return float(text)
    except ValueError:
        return text


def _ranges(text):
    """The integers in a list of numbers and ranges, such as 50,100 or 4-64:2."""
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


def _class_weight(text):
    """spam=2,ham=0.5 -> {"spam": 2.0, "ham": 0.5}; balanced stays."""
    if text == "balanced":
        return text
    try:
        pairs = [part.rpartition("=") for part in text.split(",")]
        return {name: float(weight) for name, _, weight in pairs}
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"give balanced, or weights as LABEL=X,LABEL=X, not {text!r}"
        ) from None


def _devices(text):
    """4 -> 4; all stays."""
    if text == "all" or text.isdecimal():
        return text if text == "all" else int(text)
    raise argparse.ArgumentTypeError(f"give a number of devices, or all, not {text!r}")


def _freeze(text):
    """6 -> 6; other names stay."""
    return int(text) if text.isdecimal() else text


class Command(typing.NamedTuple):
    """A command of the command line.

    Attributes:
        name: str. The name as it is typed; two words for one of several kinds.
        positional: str. The names of its positional arguments.
        functions: tuple of str. Public names of the functions and dataclasses whose keywords are
            its options.
        without: tuple of str. Keywords that are not options.
        more: dict. Maps a keyword to `argparse` arguments that replace those from the source, and
            to its `flag`.
        summary: str. What it does. Default: the first line of the first function's docstring.
    """

    name: str
    positional: str
    functions: tuple
    without: tuple = ()
    more: dict = {}
    summary: str | None = None


INT = {"metavar": "N", "type": int}
FLOAT = {"metavar": "X", "type": float}
# What holds for every command that has the keyword.
SPECIAL = {
    "devices": {"metavar": "N|all", "type": _devices},
    "text": {"flag": "--text-column", "metavar": "NAME,...", "type": _columns},
    "label": {"flag": "--label-column", "metavar": "NAME"},
    "validation": {"metavar": "FILE|SHARE", "type": _share_or_path},
    "test": {"metavar": "FILE"},
    "cache": {"metavar": "FOLDER"},
    "stretch_first": {"metavar": "FILE"},
    "model": {"metavar": "FAMILY"},
    "rope_scaling": {"metavar": "TYPE:FACTOR", "help": "Scaling of rotary positions, as yarn:4"},
    "train_lengths": {"metavar": "N,N-N,...", "type": _ranges},
    "test_lengths": {"metavar": "N,N-N,...", "type": _ranges},
}
TEXTS = "Texts: .txt (one per line), .tsv, .csv, .jsonl, .parquet or .tab"
DOCUMENTS = (
    "Documents: .tsv, .csv, .jsonl, .parquet or .tab, with labels; for tag .conll, for qa SQuAD's "
    ".json"
)
CHECKPOINT = "Weights, or a directory with weights, config and tokenizer"
REPORT = {"action": "store_true", "help": "Write no report.html"}
NO_PICTURES = {"action": "store_true", "help": "Draw no figures"}
BIDIRECTIONAL = {"action": "store_true", "help": "Attention to both sides (default: causal)"}
OUTPUT = {"metavar": "FILE", "help": "File of the figure, .svg, .png or .pdf (default: WHAT.svg)"}
ENCODINGS = {
    "metavar": "NAME",
    "nargs": "+",
    "help": "Encodings, such as alibi; several together as rotary+log_n; none for no encoding",
}
EXTENSION = {"metavar": "NAME:NUMBER", "help": "How to serve more positions, as hierarchical:0.2"}
# `extension`, and its parts as options of their own.
PARTS = {
    "extension": EXTENSION,
    "stretch": {
        "choices": ("hierarchical", "tile", "interpolate", "fresh"),
        "help": "How to serve more positions",
    },
    "alpha": {**FLOAT, "help": "For --stretch hierarchical: weight of the block index"},
    "kept_rows": {**INT, "help": "For --stretch hierarchical, tile: number of reserved first rows"},
}
COMMANDS = (
    Command(
        "finetune",
        "checkpoint train output",
        ("training.finetune",),
        without=("callbacks",),
        more={
            "metrics": {"metavar": "NAME", "nargs": "+"},
            "freeze": {"metavar": "embeddings|N|PATTERN", "nargs": "+", "type": _freeze},
            "class_weight": {"metavar": "balanced|LABEL=X,...", "type": _class_weight},
            "train": {"help": DOCUMENTS},
            "lengths": {"metavar": "LENGTHxEPOCHS,...", "type": _stages},
            "output": {"help": "Directory for the model, metrics.json and report.html"},
            "no_report": REPORT,
            **PARTS,
        },
    ),
    Command(
        "pretrain",
        "checkpoint corpus output",
        ("training.pretrain",),
        more={"corpus": {"help": TEXTS}, **PARTS},
    ),
    Command(
        "stretch",
        "checkpoint texts output",
        ("training.stretch",),
        more={
            "checkpoint": {"help": CHECKPOINT},
            "texts": {"help": f"Long {TEXTS[0].lower()}{TEXTS[1:]}"},
            **PARTS,
            "stretch": {
                **PARTS["stretch"],
                "choices": ("hierarchical", "tile", "interpolate"),
                "former": "--start",
            },
            "output": {"help": "Directory for the new checkpoint, metrics.json and report.html"},
            "no_report": REPORT,
        },
    ),
    Command(
        "contextualize",
        "checkpoint texts output",
        ("training.contextualize",),
        more={
            "checkpoint": {"help": "Directory of an embedder that pools by the mean"},
            "texts": {"help": f"Documents, best those to search. {TEXTS}"},
            "log_n": {"metavar": "N|none", "type": number_or_none},
            "extension": EXTENSION,
            "output": {"help": "Directory for the new embedder, metrics.json and report.html"},
            "no_report": REPORT,
        },
    ),
    Command(
        "evaluate",
        "directory data",
        ("training.evaluate",),
        more={
            "data": {"help": DOCUMENTS},
            "output": {"metavar": "FILE", "help": "Also write the metrics to this file, as JSON"},
        },
    ),
    Command(
        "predict",
        "directory file",
        ("training.predict",),
        more={
            "file": {"nargs": "?", "former": "--file", "help": TEXTS},
            "texts": {
                "flag": "--text",
                "metavar": "TEXT",
                "action": "append",
                "help": "A text, in place of FILE; repeatable",
            },
            "question": {"help": "For qa: the question about each --text"},
            "text": {"help": "Column of FILE, or columns, as a,b"},
            "format": {
                "choices": ("tsv", "jsonl"),
                "help": "What to print: tsv, a row per text with the prediction and its "
                "probability; jsonl, an object per text with all probabilities (default: tsv)",
            },
            "output": {
                "metavar": "FILE",
                "help": "Write a .csv, .tsv or .jsonl file instead of printing: the columns of "
                "FILE and, beside them, the predictions",
            },
        },
    ),
    Command(
        "embed",
        "directory texts",
        ("retrieval.embed", "retrieval.open_embedder"),
        without=("spans",),
        more={"texts": {"help": TEXTS}, "output": {"required": True}},
    ),
    Command(
        "search",
        "directory vectors queries",
        ("retrieval.search", "retrieval.open_embedder"),
        more={
            "vectors": {"help": "File that embed wrote: .npy, .npz, .jsonl or .parquet"},
            "queries": {"nargs": "*", "help": "What to search for; put each query in quotes"},
            "file": {"metavar": "FILE", "help": f"More queries. {TEXTS}"},
            "texts": {
                "metavar": "FILE",
                "help": "The embedded texts, to show what was found (default: the file that embed "
                "read, if it is still there and unchanged)",
            },
            "output": {"metavar": "FILE", "help": "Also write the result to this .jsonl file"},
        },
    ),
    Command(
        "mine",
        "directory pairs output",
        ("retrieval.mine_hard_negatives",),
        more={
            "pairs": {"help": "Pairs: .tsv, .csv or .jsonl with columns anchor and positive"},
            "corpus": {"metavar": "FILE", "help": f"{TEXTS}; further texts to search"},
        },
    ),
    Command(
        "rerank",
        "directory query documents",
        ("retrieval.rerank", "retrieval.Reranker"),
        without=("label_names",),
        more={
            "query": {"help": "What the documents are to match, a text"},
            "documents": {"help": f"{TEXTS}; the documents"},
            "output": {"metavar": "FILE", "help": "Also write the result to this .jsonl file"},
        },
    ),
    Command(
        "inspect",
        "checkpoint",
        ("analysis.inspect_checkpoint",),
        more={"full": {"flag": "--all"}},
    ),
    Command(
        "convert",
        "checkpoint output",
        ("analysis.open_model", "checkpoints.save_checkpoint"),
        without=("max_position", "directory", "label_names"),
        more={
            "output": {"help": "Directory to write; a .keras file for --format keras"},
            "format": {
                "choices": ("huggingface", "google", "keras"),
                "help": "Format to write (default: huggingface)",
            },
            **PARTS,
        },
        summary="Writes a checkpoint in another format, optionally with more positions",
    ),
    Command("bench", "tasks", ("bench.bench", "bench.Settings"), more={"no_pictures": NO_PICTURES}),
    Command(
        "bench passkey",
        "checkpoint",
        ("bench.bench_passkey",),
        more={"no_pictures": NO_PICTURES},
    ),
    Command("list", "", (), summary="Prints a table of all position encodings"),
    Command(
        "describe",
        "name",
        ("analysis.describe_encoding",),
        more={"name": {"help": "Encoding, one of those that keras-posenc list prints"}},
        summary="Shows what a position encoding does, its arguments, and what it learns",
    ),
)
PLOTS = (
    Command(
        "decay",
        "encodings",
        ("analysis.decay_curve",),
        without=("causal",),
        more={
            "encodings": ENCODINGS,
            "length": {"help": "Tokens (default: 512)"},
            "bidirectional": BIDIRECTIONAL,
            "output": OUTPUT,
        },
        summary="Logit and weight of identical tokens by their distance",
    ),
    Command(
        "entropy",
        "encodings",
        ("analysis.entropy_by_length",),
        without=("causal", "seed"),
        more={
            "encodings": ENCODINGS,
            "lengths": {"help": "Tokens (default: 64,128,256,512,1024)"},
            "bidirectional": BIDIRECTIONAL,
            "output": OUTPUT,
        },
        summary="Entropy of attention to random content as the text grows",
    ),
    Command(
        "similarity",
        "checkpoint",
        ("analysis.open_model",),
        without=("extension", "max_position"),
        more={
            "stretch": {
                "action": "append",
                "help": "How to extend the positions; may be repeated (default: hierarchical)",
            },
            "positions": {**INT, "help": "Number of positions (default: 2048)"},
            "output": OUTPUT,
        },
        summary="Cosine similarity of the positions of a checkpoint, extended",
    ),
    Command(
        "terms",
        "",
        (),
        more={
            "length": {**INT, "help": "Tokens (default: 512)"},
            "strength": {**FLOAT, "help": "Strength of Sandwich's biases (default: 1)"},
            "head_size": {**INT, "help": "Features per head (default: 64)"},
            "output": OUTPUT,
        },
        summary="The four terms of rotary attention with biases, on random content",
    ),
    Command(
        "gates",
        "checkpoint",
        (),
        more={
            "checkpoint": {"help": CHECKPOINT},
            "text": {
                "flag": "--text",
                "metavar": "TEXT",
                "type": str,
                "required": True,
                "help": "A text",
            },
            "layer": {**INT, "help": "Number of the layer, from 0 (default: 0)"},
            "head": {**INT, "help": "Number of the head, from 0 (default: 0)"},
            "output": OUTPUT,
        },
        summary="What CoPE, added to a checkpoint, counts in a text",
    ),
)
