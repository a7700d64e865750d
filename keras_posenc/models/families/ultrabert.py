"""UltraBERT: EuroBERT's block, with two of three layers local and a rotary base for each kind."""

import dataclasses

from keras_posenc.files.untrusted import quote
from keras_posenc.models.families.family import Family
from keras_posenc.models.families.llama import LLAMA_ALIASES, LLAMA_DEFAULTS
from keras_posenc.models.families.rope import GLOBAL, KEYS_OF_KINDS, LOCAL, layer_kinds, rotary
from keras_posenc.models.families.task_heads import OF_TOKENS, TASK_ROWS, TaskHead
from keras_posenc.models.families.weight_rows import llama_block, table


def configure(config):
    """Every third layer is global; the others see a radius to both sides."""
    source, layers = config.source, config.num_hidden_layers
    windows, bases = (_by_layer(source, key, layers) for key in ("attention_windows", "rope_theta"))
    default = [LOCAL if (i + 1) % 3 else GLOBAL for i in range(layers)]
    radius = source.get("sliding_window", 128)
    if windows is not None:
        default = [LOCAL if window else GLOBAL for window in windows]
        radius = next(filter(None, windows), radius)
    kinds = layer_kinds(source, layers, default)
    base = {LOCAL: 10000.0, GLOBAL: 2560000.0} | dict(zip(kinds, bases or [], strict=False))
    encodings = {kind: [rotary(config, base[kind], kind=kind)] for kind in base}
    encodings[LOCAL].append({"name": "window", "window": radius + 1})
    return dataclasses.replace(
        config,
        hidden_act=[config.hidden_act, "linear"],
        encodings=tuple(encodings[kind] for kind in kinds),
    )


def _by_layer(source, key, layers):
    """A key that the files of the first checkpoints have: a number, or null, per layer."""
    values = source.get(key)
    numbers = values if isinstance(values, list) else []
    sound = all(
        value is None or isinstance(value, (int, float)) and 0 <= value <= 2**40
        for value in numbers
    )
    if values is not None and (len(numbers) != layers or not sound):
        raise ValueError(
            f"`{key}` must list {layers} numbers, one per layer. Received: {quote(values)}"
        )
    return values


def heads(config=None):
    """The logits of a text are those of its first token, or of the mean of all."""
    pooling = "cls" if config is None else (config.source or {}).get("classifier_pooling", "cls")
    return {"sequence_classification": TaskHead("Sequence-Output", pooling=pooling), **OF_TOKENS}


FAMILY = Family(
    name="ultrabert",
    title="UltraBERT",
    model_types=("ultrabert",),
    weights=table(
        {
            "Embedding-Token": ("@embed_tokens", "table"),
            **llama_block(),
            "Final-Norm": ("@norm", "norm"),
            **TASK_ROWS,
        },
        prefixes=("ultrabert.", "model.", ""),
        unused=dict.fromkeys(("head.*", "cls.*"), "the head of masked tokens, which is not built"),
        classes={"ultrabert": "Ultrabert"},
    ),
    configure=configure,
    aliases=LLAMA_ALIASES,
    defaults={**LLAMA_DEFAULTS, "max_position": 32768},
    keys=("layer_types", "sliding_window", "classifier_pooling", *KEYS_OF_KINDS),
    # A number per layer in the first files, which `configure` checks.
    required={"attention_windows": None, "rope_theta": None, "prediction_head_size": None},
    heads=heads,
    positions="rotary, local and global base; windows",
    paper="https://huggingface.co/dmis-lab/UltraBERT-150M",
)
