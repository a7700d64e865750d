"""The commands: the functions whose keywords are their options, and what those do not specify."""

import argparse
import typing

from keras_posenc.cli.options import (
    class_weight,
    columns,
    device_count,
    frozen,
    name_or_none,
    share_or_path,
    stages,
    whole_or_all,
    whole_or_none,
)


class Command(typing.NamedTuple):
    """A command of the command line."""

    name: str  # the name as it is typed
    positional: str  # the names of its positional arguments
    functions: tuple  # public names of the functions and dataclasses whose keywords are its options
    without: tuple = ()  # keywords that are not options
    # Maps a keyword to `argparse` arguments that replace those from the source, and to its `flag`.
    more: dict = {}
    example: str | None = None  # a call, without the name of the program
    # What it does. Default: the first line of the first function's docstring.
    summary: str | None = None


INT = {"metavar": "N", "type": int}
FLOAT = {"metavar": "X", "type": float}
# What holds for every command that has the keyword.
SPECIAL = {
    "devices": {"metavar": "N|all", "type": device_count},
    "text": {"flag": "--text-column", "metavar": "NAME,...", "type": columns},
    "label": {"flag": "--label-column", "metavar": "NAME"},
    "validation": {"metavar": "FILE|SHARE", "type": share_or_path},
    "test": {"metavar": "FILE"},
    "cache": {"metavar": "FOLDER"},
    "stretch_first": {"metavar": "FILE"},
    **{name: {"metavar": "TEXT"} for name in ("prompt", "query_prompt", "document_prompt")},
    "ignore": {"metavar": "PATTERN", "nargs": "+"},
    "model": {"metavar": "FAMILY"},
}
TEXTS = "Texts: .txt (one per line), .tsv, .csv, .jsonl, .parquet or .tab"
DOCUMENTS = (
    "Documents: .tsv, .csv, .jsonl, .parquet or .tab, with labels; for tag .conll, for qa SQuAD's "
    ".json"
)
CHECKPOINT = "Weights, or a directory with weights, config and tokenizer"
REPORT = {"action": "store_true", "help": "Write no report.html"}
BIDIRECTIONAL = {"action": "store_true", "help": "Attention to both sides (default: causal)"}
OUTPUT = {"metavar": "FILE", "help": "File of the figure, .svg, .png or .pdf (default: WHAT.svg)"}
ENCODINGS = {
    "metavar": "NAME",
    "nargs": "+",
    "help": "Encodings, such as alibi; several together as rotary+log_n; none for no encoding",
}
EXTENSION = {"metavar": "NAME:NUMBER", "help": "How to serve more positions, as hierarchical:0.2"}
# Options until version 0.4, which --help leaves out: the function takes them, and warns of them.
HIDDEN = {"help": argparse.SUPPRESS}
FORMER_EXTENSION = {
    "stretch": HIDDEN,
    "alpha": {**FLOAT, **HIDDEN},
    "kept_rows": {**INT, **HIDDEN},
    "rope_scaling": HIDDEN,
}
FORMER_READING = {
    "chunks": {**INT, **HIDDEN},
    "overlap": {**INT, **HIDDEN},
    **{name: {"action": "store_true", **HIDDEN} for name in ("late", "multi", "sparse")},
}
FORMER_LENGTH = {"length": {**INT, **HIDDEN}}
TABLE = {"extension": EXTENSION, **FORMER_EXTENSION}
# Values that an option each makes a part of.
SOURCE, OPTIMIZER = "training.Source", "training.Optimizer"
TASK_CLASSES = {
    "classify": "Classify",
    "multilabel": "MultiLabel",
    "regress": "Regress",
    "tag": "Tag",
    "qa": "Answer",
    "embed": "Embed",
}
TASKS = tuple(f"training.{name}" for name in TASK_CLASSES.values())


def _optimizer(rate, decay):
    """The options of an optimizer, with the defaults that a command has."""
    name = "adamw, or one of Keras, such as lion or adafactor (default: adamw)"
    return {
        "optimizer": {"metavar": "NAME", "help": name},
        "learning_rate": {"help": f"Peak learning rate (default: {rate})"},
        "weight_decay": {"help": f"Decay of weights that are no bias or norm (default: {decay})"},
        "layer_decay": {"help": "For adamw: factor of the learning rate from layer to lower layer"},
    }


READING = {"metavar": "NAME:N", "help": "How to read long texts, as chunks:256 or late:256"}
SHOWN = {
    "characters": {
        "metavar": "N|all",
        "type": whole_or_all,
        "help": "How much of a text is shown (default: 100)",
    }
}
COMMANDS = (
    Command(
        "finetune",
        "checkpoint train output",
        ("training.finetune", *TASKS, SOURCE, OPTIMIZER),
        without=("callbacks", "name"),
        more={
            "task": {"help": "What to train for (default: classify)"},
            **_optimizer("1e-4", 0.01),
            "metrics": {
                "metavar": "NAME",
                "nargs": "+",
                "help": "Metrics of Keras, by name; also measured on --validation and --test",
            },
            "freeze": {
                "metavar": "WHAT",
                "nargs": "+",
                "type": frozen,
                "help": "Weights to leave as they are: encoder, to train a linear head on vectors "
                "of whole texts in seconds, for few texts; or embeddings, a number of first "
                "layers (with the embeddings), or patterns of names, such as '*-FeedForward/*'",
            },
            "class_weight": {
                "metavar": "WEIGHTS",
                "type": class_weight,
                "help": "For --task classify, tag: weight of each class in the loss, as "
                "LABEL=X,LABEL=X; balanced gives all classes the same total weight",
            },
            "stretch_first": {
                "help": "Long texts without labels: the checkpoint is first extended on them, as "
                "keras-posenc stretch does, in OUTPUT/stretched"
            },
            "loss": {
                "metavar": "NAME",
                "help": "For --task embed: multiple_negatives_ranking of tuples of texts; "
                "cosine_regression or cosent of pairs with a score; margin_mse or listwise_kl of "
                "documents with a teacher's scores. A number behind it is the scale of the "
                "cosines, as in cosent:10 (default: the first that fits the documents)",
            },
            "matryoshka": {"help": "For --task embed: sizes to shorten vectors to"},
            "sub_batches": {
                "help": "For --task embed: parts of a batch, of which one is in memory"
            },
            "query_prompt": {"help": "For --task embed: a text in front of each query"},
            "document_prompt": {"help": "For --task embed: a text in front of each document"},
            "stride": {
                "help": "For --task qa: tokens that neighbouring windows of a passage share "
                "(default: a quarter of --max-length)"
            },
            "longer": {
                "help": "What a stage does with longer documents: cut off their end, keep both "
                "ends, or skip them (default: cut)"
            },
            "train": {"help": DOCUMENTS},
            "lengths": {"metavar": "LENGTHxEPOCHS,...", "type": stages},
            "output": {"help": "Directory for the model, metrics.json and report.html"},
            "no_report": REPORT,
            **TABLE,
        },
        example="finetune path/to/bert train.tsv out --validation 0.1 --max-length 1536",
    ),
    Command(
        "pretrain",
        "checkpoint corpus output",
        ("training.pretrain", SOURCE, OPTIMIZER),
        without=("name",),
        more={"corpus": {"help": TEXTS}, **FORMER_LENGTH, **_optimizer("5e-5", 0.01), **TABLE},
        example="pretrain path/to/bert corpus.txt domain --max-length 1024 --epochs 3",
    ),
    Command(
        "stretch",
        "checkpoint texts output",
        ("training.stretch", SOURCE, OPTIMIZER),
        without=("name",),
        more={
            "checkpoint": {"help": CHECKPOINT},
            **FORMER_LENGTH,
            **_optimizer("4e-5; with --log-n, 1e-5", 0),
            "texts": {"help": f"Long {TEXTS[0].lower()}{TEXTS[1:]}"},
            **TABLE,
            "output": {"help": "Directory for the new checkpoint, metrics.json and report.html"},
            "no_report": REPORT,
        },
        example="stretch path/to/bert long-texts.txt longer-bert --max-length 4096",
    ),
    Command(
        "contextualize",
        "checkpoint texts output",
        ("training.contextualize", OPTIMIZER),
        without=("name",),
        more={
            **_optimizer("5e-5", 0),
            "checkpoint": {"help": "Directory of an embedder that pools by the mean"},
            "texts": {"help": f"Documents, best those to search. {TEXTS}"},
            "log_n": {"metavar": "N|none", "type": whole_or_none},
            "language": {
                "metavar": "NAME|none",
                "type": name_or_none,
                "help": "Language of names and pronouns, such as en; auto, that of the texts; none "
                "exchanges words, and no names (default: auto)",
            },
            "extension": EXTENSION,
            "output": {"help": "Directory for the new embedder, metrics.json and report.html"},
            "no_report": REPORT,
        },
        example="contextualize path/to/minilm documents.txt contextual --max-length 4096",
    ),
    Command(
        "evaluate",
        "directory data",
        ("training.evaluate",),
        more={
            "data": {"help": DOCUMENTS},
            "output": {"metavar": "FILE", "help": "Also write the metrics to this file, as JSON"},
        },
        example="evaluate out test.tsv",
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
        example="predict out texts.txt --output predictions.csv",
    ),
    Command(
        "embed",
        "directory texts",
        ("retrieval.embed", "retrieval.open_embedder"),
        more={
            "texts": {"help": TEXTS},
            "output": {"required": True},
            "reading": READING,
            **FORMER_READING,
            **TABLE,
        },
        example="embed path/to/minilm texts.txt --output vectors.npy",
    ),
    Command(
        "search",
        "directory vectors queries",
        ("retrieval.search", "retrieval.open_embedder"),
        without=("reading",),
        more={
            **SHOWN,
            **TABLE,
            "scoring": {"metavar": "HOW"},
            "only": {
                "metavar": "ID|COLUMN=VALUE",
                "nargs": "+",
                "help": "Ids of the texts to search, or columns of --texts with a value each",
            },
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
        example='search path/to/minilm vectors.npy "Who sold his boat?" --top-k 5',
    ),
    Command(
        "mine",
        "directory pairs output",
        ("retrieval.mine_hard_negatives",),
        more={
            "pairs": {"help": "Pairs: .tsv, .csv or .jsonl with columns anchor and positive"},
            "corpus": {"metavar": "FILE", "help": f"{TEXTS}; further texts to search"},
            "output": {"help": "The .jsonl file of triples, which finetune --task embed reads"},
        },
        example="mine path/to/minilm pairs.tsv mined.jsonl --corpus texts.txt",
    ),
    Command(
        "rerank",
        "directory query documents",
        ("retrieval.rerank", "retrieval.Reranker"),
        without=("label_names",),
        more={
            "reading": READING,
            **FORMER_READING,
            **TABLE,
            "query": {"help": "What the documents are to match, a text"},
            "label": {"flag": "--label"},  # of an output, no column
            "documents": {"help": f"Documents, or the .jsonl file that search wrote. {TEXTS}"},
            **SHOWN,
            "output": {"metavar": "FILE", "help": "Also write the result to this .jsonl file"},
        },
        example='rerank path/to/cross-encoder "Who sold his boat?" texts.txt',
    ),
    Command(
        "inspect",
        "checkpoint",
        ("analysis.inspect_checkpoint",),
        more={"full": {"flag": "--all"}},
        example="inspect path/to/bert",
    ),
    Command(
        "convert",
        "checkpoint output",
        ("analysis.open_model", "checkpoints.save_checkpoint"),
        without=("max_position", "directory", "label_names"),
        more={
            "output": {"help": "Directory to write; a .keras file for --format keras"},
            "format": {
                "choices": ("huggingface", "google", "keras", "keras_hub"),
                "help": "Format to write (default: huggingface)",
            },
            **TABLE,
        },
        summary="Writes a checkpoint in another format, optionally with more positions",
        example="convert path/to/bert longer-bert --positions 2048",
    ),
    Command("list", "", (), summary="Prints a table of all position encodings"),
    Command(
        "describe",
        "name",
        ("analysis.describe_encoding",),
        more={"name": {"help": "Encoding, one of those that keras-posenc list prints"}},
        summary="Shows what a position encoding does, its arguments, and what it learns",
        example="describe rotary",
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
