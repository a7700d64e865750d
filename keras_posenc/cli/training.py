"""The commands that train a model or read texts with one, and the arguments of each."""

import argparse

from keras_posenc.cli.options import CLIP, MODEL, STRETCHES, columns

TASKS = ("classify", "multilabel", "regress", "tag", "qa", "embed")
STARTS = ("hierarchical", "tile", "interpolate")
OBJECTIVES = ("mlm", "causal", "unilm")
POOLINGS = ("mean", "cls", "max", "last", "weighted_mean", "sqrt_mean")


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


COLUMNS = [
    (
        "--text-column",
        "column of the texts, or columns such as question,passage (default: usual names)",
        {"dest": "text", "type": columns, "metavar": "NAME"},
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
TRAINING = [
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
                "pooling over the tokens, or the family's own head (default: mean)",
                {"choices": (*POOLINGS, "head")},
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
            ("--clip", "maximum norm of the gradients, or none (default: 1)", CLIP),
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
                "start anew, whatever run is in OUTPUT",
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
            ("--clip", "maximum norm of the gradients, or none (default: 1)", CLIP),
            ("--token-budget", "maximum tokens in a batch (default: 4096)", {"type": int}),
            ("--pack", "let short texts share rows", {"action": "store_true"}),
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
                "start anew, whatever run is in OUTPUT",
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
                "start anew, whatever run is in OUTPUT",
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
]
