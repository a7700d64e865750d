"""The tokenizer of a preset: its vocabulary, and its switches in Hugging Face's words."""

from keras_posenc.checkpoints.keras_hub.reading import PACKAGE, is_preset
from keras_posenc.files.untrusted import check_inside, read_object

ASSETS = ("assets", "tokenizer")
FILES = ("vocabulary.txt", "vocabulary.json", "vocabulary.spm")
CONFIG = "tokenizer.json"
# The class of KerasHub -> (the family's class in transformers, its special tokens).
CLASSES = {
    "Bert": ("BertTokenizer", {}),
    "DistilBert": ("DistilBertTokenizer", {}),
    "Electra": ("ElectraTokenizer", {}),
    "Roberta": ("RobertaTokenizer", {}),
    "XLMRoberta": ("XLMRobertaTokenizer", {}),
    "Albert": ("AlbertTokenizer", {}),
    "DebertaV3": ("DebertaV2Tokenizer", {}),
    "GPT2": ("GPT2Tokenizer", {}),
    "Llama": ("LlamaTokenizer", {}),
    "Mistral": ("LlamaTokenizer", {}),
    "Qwen": ("Qwen2Tokenizer", {}),
    "Qwen3": ("Qwen2Tokenizer", {}),
    "Gemma3": ("GemmaTokenizer", {}),
}


def find_vocabulary(folder):
    """The file of a preset's vocabulary, or None."""
    place = folder.joinpath(*ASSETS)
    found = next((place / name for name in FILES if (place / name).is_file()), None)
    if found is not None:
        check_inside(found, folder)
    return found


def preset_settings(assets):
    """What tokenizer_config.json would say of the vocabulary of a preset.

    KerasHub lower-cases without removing accents, which its vocabularies of uncased models do not
    have: here accents follow lower-casing, as in the models' training.

    Args:
        assets: `pathlib.Path` of the folder of a vocabulary.

    Returns:
        dict, or None if the folder is not in a preset.
    """
    if assets.parts[-2:] != ASSETS:
        return None
    folder = assets.parents[1]
    values = read_object(folder / CONFIG, folder)
    if not is_preset(values):
        return None
    found = PACKAGE.fullmatch(values["registered_name"])
    name = found[1].removesuffix("Tokenizer") if found else None
    if name not in CLASSES:
        raise ValueError(
            f"{folder / CONFIG} describes a tokenizer of KerasHub that is not read; those that "
            f"are: {', '.join(f'{each}Tokenizer' for each in CLASSES)}."
        )
    kind, named = CLASSES[name]
    config = values.get("config") or {}
    settings = {"tokenizer_class": kind, **named}
    if isinstance(config.get("lowercase"), bool):
        settings["do_lower_case"] = config["lowercase"]
    return settings
