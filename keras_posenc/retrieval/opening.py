"""What opens an encoder's directory for texts of a given length: its tokenizer and arguments."""

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import quote
from keras_posenc.folders.sentence_transformers import prompt_of_side, read_longest
from keras_posenc.models.config_file import read_config
from keras_posenc.models.extension import Extension
from keras_posenc.text import Tokenizer
from keras_posenc.text.truncation import LOGGER
from keras_posenc.training.saved_models import load_finetuned
from keras_posenc.training.source import check_table, padding_id


def read_encoder(transformer, *, max_length, extension, pair=False):
    """Reads a transformer's tokenizer and length, and what its positions need for that length:
    arguments of `build_transformer_model`.

    The default length is that of the directory, or else as many tokens as the model has positions.
    """
    tokenizer = _tokenizer(transformer)
    config = read_config(transformer.folder)
    check_table(tokenizer, config.vocab_size)
    positions = config.max_position if config.position_table else None
    extension = Extension.of(extension)
    extended = extension is not None and extension.table is not None
    explicit = max_length is not None
    if explicit:
        checks.whole("max_length", max_length, least=tokenizer.special_tokens(pair) + 1)
    else:
        max_length = read_longest(transformer)
    if positions is not None and not extended and (max_length is None or max_length > positions):
        if explicit:
            scaling = None if extension is None else extension.rope_scaling
            extension, extended = Extension("hierarchical", rope_scaling=scaling), True
            LOGGER.warning(
                f"{transformer.folder} has {positions:,} trained positions, and those up to "
                f"max_length={max_length} are not trained, so the result may be poor. Train them "
                'first with keras_posenc.stretch, or give reading="chunks:256".'
            )
        else:
            max_length = positions
    tokenizer.pad_id = padding_id(tokenizer, config.pad_token_id)
    arguments = {"extension": extension, "pad_token_id": tokenizer.pad_id}
    if extended:
        arguments["max_position"] = max_length
    arguments = {name: value for name, value in arguments.items() if value is not None}
    return tokenizer, max_length, arguments


def open_finetuned(folder, max_length, token_budget, **unused):
    """Opens a model as `finetune` trained it: with its length, and positions for that length; None
    if the directory is no output of `finetune`. Arguments that change an encoder are refused."""
    if not folder.finetuned:
        return None
    if given := [name for name, value in unused.items() if value is not None]:
        raise ValueError(
            f"{folder} holds a model that was fine-tuned at its length: leave "
            f"{' and '.join(given)} out."
        )
    return load_finetuned(folder, max_length, token_budget)


def choose_prompt(folder, prompt=None, side=None):
    """What precedes every text: the prompt of that name, or the text that is given; else the one of
    the side, "query" or "document"; else the one that the directory puts before all texts."""
    prompts, default = folder.prompts
    if prompt is None:
        return prompts.get(default, "") if side is None else prompt_of_side(prompts, default, side)
    if not isinstance(prompt, str):
        raise TypeError(f"`prompt` must be a str. Received: {quote(prompt)}")
    return prompts.get(prompt, prompt)


def side_prompt(folder, prompt, side):
    """The `prompt` of `open_embedder` for queries or for documents; one that is given counts."""
    if prompt is not None:
        return prompt
    if folder.finetuned:
        return (folder.finetuned["prompts"] or {}).get(side)
    return choose_prompt(folder, side=side)


def _tokenizer(transformer):
    tokenizer = Tokenizer(transformer.folder)
    if transformer.config.get("do_lower_case") and tokenizer.tokenize("A") != tokenizer.tokenize(
        "a"
    ):
        return Tokenizer(transformer.folder, lowercase=True, strip_accents=False)
    return tokenizer
