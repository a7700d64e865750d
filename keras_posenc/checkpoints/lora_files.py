"""LoRA adapters, as PEFT writes them, merged into the weights of a checkpoint as they are read."""

import math
import re

import numpy as np

from keras_posenc.checkpoints.checkpoint import Checkpoint
from keras_posenc.files.untrusted import quote, shorten
from keras_posenc.folders.download import from_hub
from keras_posenc.folders.lora import CONFIG

PREFIX = "base_model.model."
FACTOR = re.compile(r"(.+)\.lora_(embedding_)?([AB])(?:\.weight)?")
# What the merged weights depend on: keys that are read, and those with the values that are known.
READ = {"alpha_pattern", "fan_in_fan_out", "lora_alpha", "use_rslora"}
SWITCHES = ("fan_in_fan_out", "use_rslora")
KNOWN_VALUES = {
    "peft_type": ("LORA",),
    # The others begin with a part of the weights, which is then missing in those of the model.
    "init_lora_weights": (True, False, "gaussian", "orthogonal", "eva", None),
}
# The tensors say the ranks and which layers have them; the others are for training.
IRRELEVANT = {
    "auto_mapping", "base_model_name_or_path", "bias", "eva_config", "exclude_modules",
    "inference_mode", "layers_pattern", "layers_to_transform", "lora_dropout", "megatron_core",
    "modules_to_save", "peft_version", "qalora_group_size", "r", "rank_pattern", "revision",
    "runtime_config", "target_modules", "task_type",
}  # fmt: skip


class LoraCheckpoint(Checkpoint):
    """A checkpoint whose weights have a LoRA adapter's products added.

    `base`: `Checkpoint`. `products`: dict. Name of a weight -> (A, B, scale, transposed). W + scale
    B A is read. `replaced`: dict. Name -> array. These arrays replace the weights of their names,
    or are new. `path`: str. The path of the adapter.
    """

    def __init__(self, base, products, replaced, path):
        super().__init__({**base._arrays, **replaced}, base.format, base.path, base._sums)
        self.products, self.replaced, self.adapter = products, replaced, path

    def __str__(self):
        return f"{super().__str__()} with the adapter {self.adapter}"

    def __getitem__(self, name):
        array = super().__getitem__(name)
        if name not in self.products:
            return array
        first, second, scale, transposed = self.products[name]
        added = scale * np.matmul(second.astype("float32"), first.astype("float32"))
        return array.astype("float32") + (added.T if transposed else added)


def merge_lora(base, tensors, settings, path):
    """Merges the tensors of an adapter into a checkpoint as that is read.

    `base`: `Checkpoint` of the model that the adapter was trained on. `tensors`: `Checkpoint` of
    the adapter. `settings`: dict that `read_settings` returned. `path`: str. The directory of the
    adapter. Returns `LoraCheckpoint`.
    """
    factors, replaced = {}, {}
    for name in tensors:
        match = FACTOR.fullmatch(name)
        module = (match[1] if match else name).removeprefix(PREFIX)
        if match:
            factors.setdefault((module, match[2]), {})[match[3]] = tensors[name]
        else:
            # Beside the factors of an embedding PEFT writes the table itself.
            module = module.replace(".base_layer.", ".")
            replaced[_place(base, module, path, missing=True)] = tensors[name]
    if not factors and not replaced:
        raise ValueError(
            f"{tensors.path} has no tensor, so that the adapter changes nothing: write it again "
            "with PEFT's `save_pretrained`."
        )
    products = {}
    for (module, embedding), pair in factors.items():
        target = _place(base, f"{module}.weight", path)
        products[target] = _product(base, target, module, embedding, pair, settings, path)
    return LoraCheckpoint(base, products, replaced, path)


def check_tied(checkpoint, table):
    """Raises ValueError if an adapter changes a token table that a head of tokens shares.

    PEFT leaves the head as it was, so that the two are no longer the same. `checkpoint`:
    `Checkpoint`. `table`: `Table` of the family.
    """
    if not isinstance(checkpoint, LoraCheckpoint):
        return
    tokens, *head = (
        {place.name for place in table.names(name)} & checkpoint.keys()
        for name in ("Embedding-Token/embeddings", "MLM-Output/kernel")
    )
    changed = {*checkpoint.products, *checkpoint.replaced}
    if tokens & changed and len(tokens.union(*head)) == 1:
        raise ValueError(
            f"The adapter {checkpoint.adapter} changes {quote(min(tokens))}, which the head of "
            "tokens shares, and PEFT leaves the head as it was: merge the adapter with PEFT's "
            "`merge_and_unload`, set `tie_word_embeddings` to false in the config, and load what "
            "that saves."
        )


def read_settings(folder):
    """The settings of an adapter, with those that decide about its weights checked."""
    if not (folder.is_directory and folder.has(CONFIG)):
        raise FileNotFoundError(
            f"No {CONFIG} in {folder}: `adapter` is a directory of PEFT's.{from_hub(folder)}"
        )
    file, settings = folder.path / CONFIG, folder.adapter
    for key, value in settings.items():
        if key in READ or key in IRRELEVANT:
            continue
        # Of another key only the neutral value is known to change nothing.
        known = KNOWN_VALUES.get(key, (None, False, {}, []))
        if not any(type(value) is type(each) and value == each for each in known):
            raise ValueError(
                f"{file} has {quote(key)} {quote(value)}, which is not supported: merge the "
                "adapter with PEFT's `merge_and_unload`, and load what that saves."
            )
    if "peft_type" not in settings:
        raise ValueError(f"{file} has no `peft_type`: is it the config of a LoRA adapter?")
    for key in SWITCHES:
        if not isinstance(settings.get(key), (bool, type(None))):
            raise ValueError(
                f"{file}: {key} must be true or false. Received: {quote(settings[key])}"
            )
    patterns = settings.get("alpha_pattern") or {}
    if not isinstance(patterns, dict):
        raise ValueError(
            f"{file}: alpha_pattern must be an object, names of layers -> alpha. Received: "
            f"{quote(patterns)}"
        )
    alpha = settings.get("lora_alpha", 8)
    for key, value in (("lora_alpha", alpha), *patterns.items()):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or not re.fullmatch(r"\^?[\w.]+", key):
            raise ValueError(
                f"{file}: alpha of {quote(key)} must be a number for the name of a layer. "
                f"Received: {quote(value)}"
            )
    return {**settings, "lora_alpha": alpha, "alpha_pattern": patterns}


def _place(base, name, path, missing=False):
    """The tensor of the checkpoint that a name of the adapter means, whatever is before it."""
    if name in base:
        return name
    places = [each for each in base if each.endswith(f".{name}") or name.endswith(f".{each}")]
    if len(places) == 1:
        return places[0]
    if missing and not places:
        return name
    what = f"{len(places)} of them" if places else "none"
    raise ValueError(
        f"The adapter {path} has the layer {quote(name)}, and of {shorten(base)} {what} has this "
        "name: it was trained on another model."
    )


def _product(base, target, module, embedding, pair, settings, path):
    shape = base.shape(target)
    transposed = bool(embedding or settings.get("fan_in_fan_out"))
    first, second = pair.get("A"), pair.get("B")
    fits = first is not None and second is not None and first.ndim == second.ndim == 2
    if fits:
        made = (second.shape[0], first.shape[1])
        fits = first.shape[0] == second.shape[1] > 0
        fits = fits and shape == (made[::-1] if transposed else made)
    if not fits:
        found = {side: each.shape for side, each in sorted(pair.items())}
        raise ValueError(
            f"The factors of {quote(module)} in the adapter {path} do not fit the weight {shape}. "
            f"Received: {found}"
        )
    alpha, rank = settings["lora_alpha"], first.shape[0]
    for key, value in settings["alpha_pattern"].items():
        if re.fullmatch(rf"(.*\.)?({key})", module):  # as PEFT does; the key is checked
            alpha = value
            break
    scale = alpha / (math.sqrt(rank) if settings.get("use_rslora") else rank)
    return first, second, scale, transposed
