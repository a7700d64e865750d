"""Which tokens of a vocabulary are the special ones, and how they are kept out of a text."""

import re

from keras_posenc.text.importing import import_tokenizers
from keras_posenc.text.tokenizer_settings import ROLES

# Where no file names them.
USUAL = {
    "pad": ("[PAD]", "<pad>", "<|pad|>", "<|padding|>", "<|endoftext|>"),
    "cls": ("[CLS]", "<s>", "<bos>"),
    "sep": ("[SEP]", "</s>", "<eos>"),
    "mask": ("[MASK]", "<mask>", "<|mask|>"),
    "unk": ("[UNK]", "<unk>"),
    "bos": ("<s>", "<bos>", "<|begin_of_text|>"),
    "eos": ("</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>"),
}


def find_roles(vocabulary, names):
    """The ids of the special tokens.

    `vocabulary`: dict token -> id. `names`: dict role -> token, as the files name them. Returns a
    dict, each of `ROLES` -> id, or None where there is no such token. What pads is, where nothing
    is named for it, what ends a text, as users of GPT-2 do it.
    """
    ids = {}
    for role in ROLES:
        candidates = [names[role]] if role in names else []
        present = [token for token in (*candidates, *USUAL[role]) if token in vocabulary]
        ids[role] = vocabulary[present[0]] if present else None
    if ids["pad"] is None:
        ids["pad"] = ids["eos"]
    return ids


def for_texts(tokenizer, reserved):
    """A tokenizer of the same parts to which only some of the special tokens are special.

    `encode_special_tokens` leaves all special tokens out of texts, and markers such as [E1] are
    there to be read. `tokenizer`: `tokenizers.Tokenizer`. `reserved`: set of the ids of the special
    tokens that inputs are assembled with. Returns `tokenizers.Tokenizer`.
    """
    tokenizers = import_tokenizers()
    made = tokenizers.Tokenizer(tokenizer.model)
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        if (value := getattr(tokenizer, part)) is not None:
            setattr(made, part, value)
    added = tokenizer.get_added_tokens_decoder()
    for number, token in added.items():
        token.special = token.special and number in reserved
    made.add_tokens([token for _, token in sorted(added.items(), key=lambda each: each[0])])
    return made


def keep_apart(tokenizer, vocabulary, unknown):
    """Has the names of special tokens in a text taken for the characters that they are.

    `encode_special_tokens` alone does not: a Unigram model, or a vocabulary of whole words, finds
    the piece "</s>" again. So such names are split after their first character. `tokenizer`:
    `tokenizers.Tokenizer`. `vocabulary`: dict token -> id. `unknown`: id of what has no token,
    which any text may become, or None.
    """
    tokenizer.encode_special_tokens = True
    added = tokenizer.get_added_tokens_decoder()
    names = [token.content for token in added.values() if token.special]
    # Tokens that stand for a byte. Only their names identify them.
    names += [token for token in vocabulary if re.fullmatch("<0x[0-9A-F]{2}>", token)]
    names = sorted(name for name in names if len(name) > 1)
    encodings = tokenizer.encode_batch_fast(names, add_special_tokens=False)
    tokens = [
        name
        for name, encoding in zip(names, encodings, strict=True)
        if vocabulary[name] in encoding.ids and vocabulary[name] != unknown
    ]
    if not tokens:
        return
    tokenizers = import_tokenizers()
    names = "|".join(f"{_escaped(name[0])}(?={_escaped(name[1:])})" for name in tokens)
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(names), "merged_with_previous")
    before = tokenizer.pre_tokenizer
    steps = [split] if before is None else [before, split]
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(steps)


def _escaped(text):
    return re.sub(r"([^\w\s])", r"\\\1", text)
