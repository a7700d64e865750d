"""The arguments of each command: an option is a keyword of the function that the command calls."""

import argparse
import sys

import keras_posenc
from keras_posenc.cli.options import MODEL, STRETCHES, numbers
from keras_posenc.cli.plots import PLOTS

TASKS = ("classify", "multilabel", "regress", "tag", "qa", "embed")
STARTS = ("hierarchical", "tile", "interpolate")
OBJECTIVES = ("mlm", "causal", "unilm")
POOLINGS = ("mean", "cls", "max", "last", "weighted_mean", "sqrt_mean")
EMBEDDINGS = ("mean", "cls")


class _Parser(argparse.ArgumentParser):
    """A parser with one-line errors and without attributes for options that are not given."""

    def __init__(self, **options):
        super().__init__(argument_default=argparse.SUPPRESS, allow_abbrev=False, **options)

    def parse_known_args(self, args=None, namespace=None):
        """Reads a command of two words, `bench passkey`, as one."""
        args = list(sys.argv[1:] if args is None else args)
        if " ".join(args[:2]) in {name for name, *_ in COMMANDS}:
            args[:2] = [" ".join(args[:2])]
        return super().parse_known_args(args, namespace)

    def error(self, message):
        self.exit(2, f"keras-posenc: error: {message} (see {self.prog} --help)\n")


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


def _columns(text):
    """a,b -> ("a", "b")."""
    names = tuple(text.split(","))
    return names if len(names) > 1 else text


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


# (command, what it does, positional arguments, options): a name, its help, and what argparse takes.
COLUMNS = [
    (
        "--text-column",
        "column of the texts, or columns such as question,passage (default: usual names)",
        {"dest": "text", "type": _columns, "metavar": "NAME"},
    ),
    (
        "--label-column",
        "column of the labels (default: one with a usual name)",
        {"dest": "label", "metavar": "NAME"},
    ),
]
CUTTING = [
    ("--max-length", "tokens after which to truncate (default: as in training)", {"type": int}),
    ("--token-budget", "maximum tokens in a batch (default: as in training)", {"type": int}),
    ("--chunks", "read all of a document, in chunks of so many tokens", {"type": int}),
    (
        "--pool",
        "of the chunks' probabilities (default: mean)",
        {"choices": ("mean", "max")},
    ),
]
COMMANDS = [
    (
        "finetune",
        "fine-tune a checkpoint for a task; the same command resumes an interrupted run",
        [
            ("checkpoint", "weights, or a directory with weights, config and tokenizer", {}),
            (
                "train",
                "documents: .tsv, .csv, .jsonl or .tab with texts and labels; for tag .conll, for "
                "qa SQuAD's .json",
                {},
            ),
            ("output", "directory for the model, metrics.json and report.html", {}),
        ],
        [
            ("--task", "what for (default: classify)", {"choices": TASKS}),
            (
                "--validation",
                "documents to evaluate after each epoch: a file, or the share of TRAIN to hold out",
                {"type": _share_or_path, "metavar": "FILE|SHARE"},
            ),
            ("--test", "documents to evaluate at the end", {"metavar": "FILE"}),
            ("--max-length", "tokens after which to truncate (default: 512)", {"type": int}),
            ("--epochs", "passes over the documents (default: 3)", {"type": int}),
            (
                "--lengths",
                "stages of growing length instead of these two, such as 512x3,1536x1",
                {"type": _stages, "metavar": "LENGTHxEPOCHS,..."},
            ),
            (
                "--longer",
                "documents longer than a stage are cut, or left to later stages (default: cut)",
                {"choices": ("cut", "skip")},
            ),
            (
                "--stretch",
                "how to serve more positions than the checkpoint's (default: hierarchical)",
                {"choices": STRETCHES},
            ),
            ("--alpha", "weight of the coarse digit (default: 0.4)", {"type": float}),
            (
                "--stretch-first",
                "long texts without labels, to teach the checkpoint longer texts before",
                {"metavar": "FILE"},
            ),
            (
                "--stride",
                "for qa: tokens that windows of a passage share (default: MAX_LENGTH / 4)",
                {"type": int},
            ),
            (
                "--pooling",
                "pooling over the tokens (default: mean)",
                {"choices": POOLINGS},
            ),
            ("--learning-rate", "peak learning rate (default: 1e-4)", {"type": float}),
            (
                "--schedule",
                "decay of the learning rate (default: cosine)",
                {"choices": ("cosine", "linear")},
            ),
            (
                "--warmup",
                "share of the steps that warm up the learning rate (default: 0.1)",
                {"type": float},
            ),
            ("--weight-decay", "weight decay of the matrices (default: 0.01)", {"type": float}),
            ("--clip", "maximum norm of the gradients (default: 1)", {"type": float}),
            ("--token-budget", "maximum tokens in a batch (default: 8192)", {"type": int}),
            ("--dropout-rate", "dropout of the features (default: the config's)", {"type": float}),
            (
                "--attention-dropout-rate",
                "dropout of the attention weights (default: the config's)",
                {"type": float},
            ),
            ("--head-dropout", "dropout before the last layer (default: 0.1)", {"type": float}),
            ("--seed", "random seed (default: 0)", {"type": int}),
            ("--tokenizer", "tokenizer file, if not in the directory of CHECKPOINT", {}),
            *MODEL,
            *COLUMNS,
            (
                "--overwrite",
                "replace a run with other settings in OUTPUT",
                {"action": "store_true"},
            ),
            ("--no-report", "write no report.html (it needs Matplotlib)", {"action": "store_true"}),
        ],
    ),
    (
        "pretrain",
        "go on pretraining a checkpoint on texts without labels; the same command resumes an "
        "interrupted run",
        [
            ("checkpoint", "weights, or a directory with weights, config and tokenizer", {}),
            ("corpus", "texts: .txt (one a line), .tsv, .csv, .jsonl or .tab", {}),
            ("output", "directory for the checkpoint and metrics.json", {}),
        ],
        [
            (
                "--objective",
                "hidden words, next tokens, or those of an answer (default: mlm)",
                {"choices": OBJECTIVES},
            ),
            ("--length", "tokens of a row; longer texts are several (default: 512)", {"type": int}),
            (
                "--validation",
                "texts to measure on: a file, or the share of CORPUS to hold out (default: 0.05)",
                {"type": _share_or_path, "metavar": "FILE|SHARE"},
            ),
            ("--epochs", "passes over the texts (default: 1)", {"type": int}),
            ("--steps", "batches to learn from, instead of --epochs", {"type": int}),
            (
                "--stretch",
                "how to serve more positions than the checkpoint's (default: hierarchical)",
                {"choices": STRETCHES},
            ),
            ("--alpha", "weight of the coarse digit (default: 0.4)", {"type": float}),
            ("--masked", "share of the tokens to guess (default: 0.15)", {"type": float}),
            (
                "--no-whole-words",
                "hide pieces of words one by one",
                {"action": "store_false", "dest": "whole_words"},
            ),
            ("--max-ngram", "most words hidden at once (default: 1)", {"type": int}),
            ("--learning-rate", "peak learning rate (default: 5e-05)", {"type": float}),
            (
                "--warmup",
                "share of the steps that warm up the learning rate (default: 0.1)",
                {"type": float},
            ),
            ("--weight-decay", "weight decay of the matrices (default: 0.01)", {"type": float}),
            ("--clip", "maximum norm of the gradients (default: 1)", {"type": float}),
            ("--token-budget", "maximum tokens in a batch (default: 4096)", {"type": int}),
            ("--dropout-rate", "dropout of the features (default: the config's)", {"type": float}),
            (
                "--attention-dropout-rate",
                "dropout of the attention weights (default: the config's)",
                {"type": float},
            ),
            ("--seed", "random seed (default: 0)", {"type": int}),
            ("--tokenizer", "tokenizer file, if not in the directory of CHECKPOINT", {}),
            *MODEL,
            *COLUMNS,
            (
                "--overwrite",
                "replace a run with other settings in OUTPUT",
                {"action": "store_true"},
            ),
        ],
    ),
    (
        "stretch",
        "train a checkpoint to read longer texts, without labels; the same command resumes an "
        "interrupted run",
        [
            ("checkpoint", "weights, or a directory with weights, config and tokenizer", {}),
            ("texts", "long texts: .txt (one a line), .tsv, .csv, .jsonl or .tab", {}),
            ("output", "directory for the stretched checkpoint, metrics.json and report.html", {}),
        ],
        [
            ("--length", "positions to serve (default: 2048)", {"type": int}),
            (
                "--local",
                "tokens to each side that a local layer sees (default: all layers are global)",
                {"type": int},
            ),
            ("--global-every", "with --local: of N layers the first is global", {"type": int}),
            ("--steps", "texts to learn from (default: 64)", {"type": int}),
            ("--learning-rate", "peak learning rate (default: 4e-05)", {"type": float}),
            ("--start", "start of new positions (default: hierarchical)", {"choices": STARTS}),
            ("--alpha", "weight of the coarse digit (default: 0.2)", {"type": float}),
            (
                "--kept-rows",
                "first rows of the table that serve no new position (default: 1, of [CLS])",
                {"type": int},
            ),
            (
                "--train-length",
                "tokens of a text (default: LENGTH, at most four times the old one)",
                {"type": int},
            ),
            ("--test", "texts to measure on (default: a tenth of TEXTS)", {"metavar": "FILE"}),
            ("--seed", "seed of the choice of text pieces (default: 0)", {"type": int}),
            ("--tokenizer", "tokenizer file, if not in the directory of CHECKPOINT", {}),
            *MODEL,
            COLUMNS[0],
            (
                "--overwrite",
                "replace a run with other settings in OUTPUT",
                {"action": "store_true"},
            ),
            ("--no-report", "write no report.html (it needs Matplotlib)", {"action": "store_true"}),
        ],
    ),
    (
        "evaluate",
        "evaluate a fine-tuned model by its task's metrics, also by document length",
        [("directory", "the OUTPUT of finetune", {}), ("data", "documents with labels", {})],
        [("--output", "also write the metrics here, as JSON", {}), *CUTTING, *COLUMNS],
    ),
    (
        "predict",
        "print what a fine-tuned model says of each text",
        [("directory", "the OUTPUT of finetune", {})],
        [
            (
                "--format",
                "tsv: the label and its probability, or what the task says; jsonl: all (default: "
                "tsv)",
                {"choices": ("tsv", "jsonl")},
            ),
            *CUTTING,
        ],
    ),
    (
        "embed",
        "write the vectors of texts, by a directory of sentence-transformers or an encoder",
        [
            ("directory", "directory with weights, config, tokenizer and modules.json", {}),
            ("texts", "texts: .txt (one a line), .tsv, .csv, .jsonl or .tab", {}),
        ],
        [
            ("--output", "file of the vectors, .npy", {"required": True}),
            (
                "--max-length",
                "tokens after which to cut (default: what DIRECTORY says); more than the model "
                "has positions for stretches it",
                {"type": int},
            ),
            ("--chunks", "read all of a text, in chunks of so many tokens", {"type": int}),
            ("--prompt", "a name of DIRECTORY's prompts, or a text, before every text", {}),
            (
                "--stretch",
                "how to serve more positions (default: hierarchical)",
                {"choices": STARTS},
            ),
            ("--alpha", "weight of the coarse digit (default: 0.4)", {"type": float}),
            (
                "--rope-scaling",
                "of rotary positions, such as yarn:4",
                {"metavar": "TYPE:FACTOR"},
            ),
            ("--token-budget", "maximum tokens in a batch (default: 8192)", {"type": int}),
            COLUMNS[0],
        ],
    ),
    (
        "inspect",
        "show what a checkpoint contains and what of it would load",
        [("checkpoint", "weights, or a directory with weights and config", {})],
        MODEL,
    ),
    (
        "convert",
        "write a checkpoint in another format, optionally stretched to more positions",
        [
            ("checkpoint", "weights, or a directory with weights and config", {}),
            ("output", "directory to write; a .keras file for --format keras", {}),
        ],
        [
            (
                "--format",
                "format to write (default: huggingface)",
                {"choices": ("huggingface", "google", "keras")},
            ),
            ("--positions", "number of positions to write, as plain rows", {"type": int}),
            ("--stretch", "how to stretch (default: hierarchical)", {"choices": STRETCHES}),
            ("--alpha", "weight of the coarse digit (default: 0.4)", {"type": float}),
            ("--dtype", "dtype of the weights written (default: float32)", {}),
            *MODEL,
        ],
    ),
    (
        "bench",
        "train short, test long: compare encodings on lengths that they were not trained on; the "
        "same command resumes an interrupted one",
        [("tasks", "tasks: even_pairs, counting:variables=1, language_model", {"nargs": "+"})],
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
                "seeds, one run for each (default: 0,1,2)",
                {"type": numbers, "metavar": "N,N,..."},
            ),
            ("--budget", "minutes for all runs together, instead of --steps", {"type": float}),
            ("--steps", "training steps of each run", {"type": int}),
            ("--output", "directory of results, tables and pictures (default: bench)", {}),
            ("--corpus", "text file of the language tasks", {"metavar": "FILE"}),
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
            ("--test-samples", "samples of each test length (default: 64)", {"type": int}),
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
    (
        "list",
        "print a table of all position encodings",
        [],
        [],
    ),
    (
        "describe",
        "show what a position encoding does, its arguments, and what it learns",
        [("name", "as `keras-posenc list` prints it", {})],
        [],
    ),
]


def parser():
    """Makes the parser of the command line; options that are not given leave no attribute."""
    whole = _Parser(
        prog="keras-posenc",
        description="Pretrained BERTs, stretched past 512 tokens and fine-tuned on long text.",
        epilog="Each command prints the Python that it runs. See COMMAND --help for its options.",
    )
    version = f"keras-posenc {keras_posenc.__version__}"
    whole.add_argument("--version", action="version", version=version)
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in _add(commands, COMMANDS):
        if name == "predict":
            source = command.add_mutually_exclusive_group(required=True)
            source.add_argument(
                "--text", dest="texts", action="append", help="a text; may be repeated"
            )
            source.add_argument(
                "--file", help="a file of texts: .txt (one a line), .tsv, .jsonl, ..."
            )
            command.add_argument("--question", help="for qa: about each --text")
            column = {"dest": "text", "type": _columns, "metavar": "NAME"}
            command.add_argument("--text-column", **column, help="of --file; or columns, as a,b")
    what = "draw what position encodings do (needs Matplotlib)"
    plot = commands.add_parser("plot", help=what, description=f"{what[0].upper()}{what[1:]}.")
    plots = plot.add_subparsers(dest="what", metavar="WHAT", required=True)
    dict(_add(plots, PLOTS))
    return whole


def _add(commands, table):
    """Adds the commands of a table; yields name and parser of each."""
    for name, what, positional, options in table:
        command = commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
        for flag, words, more in [*positional, *options]:
            command.add_argument(flag, help=words, **_metavar(flag, more))
        command.add_argument("--debug", action="store_true", help="show the traceback of an error")
        yield name, command


def _metavar(flag, more):
    """Options of argparse in which a value is shown by its type, and a place by its name."""
    if {"choices", "action", "metavar"} & set(more):
        return more
    names = {int: "N", float: "X"}
    if flag.startswith("--"):
        return {**more, "metavar": names.get(more.get("type"), flag[2:].upper())}
    return {**more, "metavar": flag.upper()}
