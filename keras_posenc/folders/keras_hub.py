"""Presets of KerasHub: directories that `keras_hub.models.Backbone.from_preset` reads."""

import re

PACKAGE = re.compile(r"keras_(?:hub|nlp)>(\w+)")
WEIGHTS, SHARDS = "model.weights.h5", "model.weights.json"
ASSETS = ("assets", "tokenizer")
VOCABULARIES = ("vocabulary.txt", "vocabulary.json", "vocabulary.spm")
TOKENIZER = "tokenizer.json"
# The class of KerasHub -> the family's class in transformers.
TOKENIZERS = {
    "Bert": "BertTokenizer",
    "DistilBert": "DistilBertTokenizer",
    "Electra": "ElectraTokenizer",
    "Roberta": "RobertaTokenizer",
    "XLMRoberta": "XLMRobertaTokenizer",
    "Albert": "AlbertTokenizer",
    "DebertaV3": "DebertaV2Tokenizer",
    "GPT2": "GPT2Tokenizer",
    "Llama": "LlamaTokenizer",
    "Mistral": "LlamaTokenizer",
    "Qwen": "Qwen2Tokenizer",
    "Qwen3": "Qwen2Tokenizer",
    "Gemma3": "GemmaTokenizer",
}


def is_preset(values):
    """Whether the object of a config.json is a model as Keras writes it, and not a config."""
    return isinstance(values, dict) and isinstance(values.get("registered_name"), str)


def vocabulary_name(folder):
    """The name of the file of a preset's vocabulary, or None."""
    names = ("/".join((*ASSETS, name)) for name in VOCABULARIES)
    return next((name for name in names if folder.has(name)), None)


def tokenizer_settings(assets):
    """The vocabulary of a preset as tokenizer_config.json states it; None for other folders.

    KerasHub lower-cases without removing accents, which its vocabularies of uncased models do not
    have: here accents follow lower-casing, as in the models' training.
    """
    if assets.path.parts[-2:] != ASSETS:
        return None
    folder = assets.of(assets.path.parents[1])
    values = folder.json(TOKENIZER)
    if not is_preset(values):
        return None
    found = PACKAGE.fullmatch(values["registered_name"])
    name = found[1].removesuffix("Tokenizer") if found else None
    if name not in TOKENIZERS:
        raise ValueError(
            f"{folder.path / TOKENIZER} describes a tokenizer of KerasHub that is not read; those "
            f"that are: {', '.join(f'{each}Tokenizer' for each in TOKENIZERS)}."
        )
    lowercase = (values.get("config") or {}).get("lowercase")
    switch = {"do_lower_case": lowercase} if isinstance(lowercase, bool) else {}
    return {"tokenizer_class": TOKENIZERS[name], **switch}
