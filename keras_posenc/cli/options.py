"""What options are read as, from the text of the shell, and the groups of them in --help."""

import argparse

# Title -> the options of a group in --help, in this order; the others are in "options".
GROUPS = {
    "texts": (
        *("text", "label", "validation", "test", "texts"),
        *("file", "question", "corpus", "cache"),
    ),
    "checkpoint": ("config", "tokenizer", "model", "ignore"),
    "task": (
        *("task", "pooling", "head_dropout", "class_weight", "stride", "loss", "matryoshka"),
        *("query_prompt", "document_prompt", "objective", "masked", "whole_words", "max_ngram"),
        *("document_weight", "sub_batches", "names", "opening", "language"),
        "supervised_attention",
    ),
    "length": (
        *("max_length", "train_length", "lengths", "longer", "extension", "stretch_first"),
        *("log_n", "local", "global_every"),
    ),
    "training": (
        *("epochs", "steps", "token_budget", "pack", "dropout_rate", "attention_dropout_rate"),
        *("lora_rank", "freeze", "metrics", "seed"),
    ),
    "optimizer": (
        *("optimizer", "learning_rate", "schedule", "warmup", "weight_decay", "clip", "use_ema"),
        "layer_decay",
    ),
}
FEWEST = 12  # options from which on they are in groups


def number_or(word, kind, what):
    """The type of an option that is a number, or a word that stands for None."""

    def read(text):
        try:
            return None if text.lower() == word else kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"give {what}, or {word}, not {text!r}") from None

    return read


number_or_none = number_or("none", float, "a number")
whole_or_none = number_or("none", int, "a whole number")
whole_or_all = number_or("all", int, "a whole number")


def name_or_none(text):
    """en -> "en", none -> None."""
    return None if text.lower() == "none" else text


def numbers(text):
    """64,128 -> [64, 128]."""
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"give numbers with commas between, such as 64,128, not {text!r}"
        ) from None


def columns(text):
    """a,b -> ("a", "b")."""
    names = tuple(text.split(","))
    return names if len(names) > 1 else text


def stages(text):
    """512x3,1536x1 -> [(512, 3), (1536, 1)]."""
    try:
        pairs = [stage.split("x") for stage in text.split(",")]
        return [(int(length), int(epochs)) for length, epochs in pairs]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"give stages as LENGTHxEPOCHS, such as 512x3,1536x1, not {text!r}"
        ) from None


def share_or_path(text):
    try:
        return float(text)
    except ValueError:
        return text


def class_weight(text):
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


def device_count(text):
    """4 -> 4; all stays."""
    if text == "all" or text.isdecimal():
        return text if text == "all" else int(text)
    raise argparse.ArgumentTypeError(f"give a number of devices, or all, not {text!r}")


def frozen(text):
    """6 -> 6; other names stay."""
    return int(text) if text.isdecimal() else text
