"""Options that several commands have."""

import argparse

STRETCHES = ("hierarchical", "tile", "interpolate", "fresh")
MODEL = [
    ("--config", "config file, if not in the directory of CHECKPOINT", {}),
    ("--model", "family of the checkpoint (default: what its config says)", {"metavar": "FAMILY"}),
]


def number_or_none(text):
    """1.5 -> 1.5, none -> None."""
    try:
        return None if text.lower() == "none" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"give a number, or none, not {text!r}") from None


CLIP = {"type": number_or_none, "metavar": "X"}


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
