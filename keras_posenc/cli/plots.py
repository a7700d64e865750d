"""What `keras-posenc plot` draws, and the arguments of each."""

from keras_posenc.cli.options import MODEL, STRETCHES, numbers

OUTPUT = ("--output", "file of the picture, .svg, .png or .pdf (default: WHAT.svg)", {})
SERIES = (
    "names",
    "encodings, such as alibi; several at once as rotary+log_n; none for no encoding",
    {"nargs": "+", "metavar": "NAME"},
)
SHAPE = [
    ("--num-heads", "heads (default: 8)", {"type": int}),
    ("--head-size", "features of a head (default: 64)", {"type": int}),
]
BIDIRECTIONAL = (
    "--bidirectional",
    "attention to both sides (default: causal)",
    {"action": "store_true"},
)
# What `plot` draws, in the form of COMMANDS.
PLOTS = [
    (
        "decay",
        "logit and weight of identical tokens by their distance",
        [SERIES],
        [("--length", "tokens (default: 512)", {"type": int}), BIDIRECTIONAL, *SHAPE, OUTPUT],
    ),
    (
        "entropy",
        "entropy of attention to random content as the text grows",
        [SERIES],
        [
            (
                "--lengths",
                "tokens (default: 64,128,256,512,1024)",
                {"type": numbers, "metavar": "N,N,..."},
            ),
            ("--sharpness", "standard deviation of the logits (default: 2)", {"type": float}),
            BIDIRECTIONAL,
            *SHAPE,
            OUTPUT,
        ],
    ),
    (
        "similarity",
        "cosine similarity of the positions of a checkpoint, stretched",
        [("checkpoint", "weights, or a directory with weights and config", {})],
        [
            (
                "--stretch",
                "how to stretch; may be repeated (default: hierarchical)",
                {"action": "append", "choices": STRETCHES},
            ),
            ("--positions", "number of positions (default: 2048)", {"type": int}),
            *MODEL,
            OUTPUT,
        ],
    ),
    (
        "terms",
        "the four terms of rotary attention with biases, on random content",
        [],
        [
            ("--length", "tokens (default: 512)", {"type": int}),
            ("--strength", "strength of Sandwich's biases (default: 1)", {"type": float}),
            ("--head-size", "features of a head (default: 64)", {"type": int}),
            OUTPUT,
        ],
    ),
    (
        "gates",
        "what CoPE, added to a checkpoint, counts in a text",
        [("checkpoint", "a directory with weights, config and tokenizer", {})],
        [
            ("--text", "the text", {"required": True}),
            ("--layer", "number of the layer, from 0 (default: 0)", {"type": int}),
            ("--head", "number of the head, from 0 (default: 0)", {"type": int}),
            OUTPUT,
        ],
    ),
]
