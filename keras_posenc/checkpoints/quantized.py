"""Checkpoints of quantized weights, which are not read: how they are recognised, and a remedy."""

import re

from keras_posenc.files.untrusted import quote, shorten

# What quantization libraries put beside a weight, or in its place.
NAMES = re.compile(
    r"[._](weight_scale(_inv)?|weight_packed|weight_format|input_scale|SCB|qweight|qzeros|g_idx"
    r"|absmax|quant_map|nested_absmax|quant_state\..*)$"
)
DTYPES = re.compile(r"float8|float4|u?int[248]$")
KEYS = ("quantization_config", "compression_config")
REMEDY = (
    "Quantized weights are not read: take the checkpoint that they were made of, or write one with "
    "transformers: model.dequantize(), then model.save_pretrained(folder), without "
    "quantization_config in its config.json."
)


def check_config(values):
    """Raises ValueError if the keys of a config file mean that its weights are quantized."""
    for key in KEYS:
        if (entry := values.get(key)) is not None:
            method = entry.get("quant_method") if isinstance(entry, dict) else entry
            raise ValueError(f"`{key}` has quant_method {quote(method)}. {REMEDY}")


def hint(checkpoint, wrong):
    """A sentence for the tensors of a checkpoint that are quantized, or None.

    `wrong`: list of the names of its tensors that do not fit.
    """
    kinds = sorted({checkpoint.dtype(name).name for name in wrong if name in checkpoint})
    kinds = [kind for kind in kinds if DTYPES.match(kind)]
    scales = sorted(name for name in checkpoint if NAMES.search(name))[:1]
    found = [*(f"numbers of {kind}" for kind in kinds), *map(shorten, scales)]
    return f"The file has {' and '.join(found)}. {REMEDY}" if found else None
