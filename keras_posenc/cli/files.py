"""The commands on checkpoints, and the arguments of each."""

from keras_posenc.cli.options import MODEL, STRETCHES

FILES = [
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
]
