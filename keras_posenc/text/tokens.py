"""Tokens and their ids, both ways: what a tokenizer knows before it meets a text."""

import hashlib
import json
import re

from keras_posenc.files.untrusted import quote
from keras_posenc.text.importing import import_tokenizers, refusals
from keras_posenc.text.loading import find_tokenizer, load, save
from keras_posenc.text.templates import layout
from keras_posenc.text.tokenizer_settings import ROLES, TokenizerSettings
from keras_posenc.text.truncation import PLACES
from keras_posenc.text.wordpiece_spacing import join_pieces, join_words
from keras_posenc.text.words import choose_words, words_first

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


MOST_TOKENS = 2**24  # rows of a table; the largest vocabularies have 2^18


class Tokens:
    """The vocabulary of a tokenizer: see `Tokenizer`, whose arguments these are."""

    def __init__(self, path, lowercase, strip_accents, vocabulary, special_in_text, pre_tokenize):
        file, folder = (None, None) if path is None else find_tokenizer(path)
        settings = None if file is None else TokenizerSettings(folder)
        # As the file has it, to be saved again. How texts are read is the reader's choice.
        self._loaded, self._names = load(file, settings, lowercase, strip_accents, vocabulary)
        self._source = file or "vocabulary="
        self._special_in_text = bool(special_in_text)
        self.truncate_from = PLACES[0] if settings is None else settings.truncate_from
        self.vocabulary = self._loaded.get_vocab(with_added_tokens=True)
        self.pre_tokenize, self._entries = choose_words(
            pre_tokenize, settings, self.vocabulary, self._source
        )
        self.vocab_size = max(self.vocabulary.values(), default=-1) + 1
        if self.vocab_size > MOST_TOKENS:
            raise ValueError(
                f"{self._source}: a token has the id {self.vocab_size - 1}, and a table of at most "
                f"{MOST_TOKENS} rows is taken."
            )
        for role, number in find_roles(self.vocabulary, self._names).items():
            setattr(self, f"{role}_id", number)
        if self.pad_id is None:
            raise ValueError(
                f"{self._source}: the tokenizer has no padding token, [PAD] or <pad>, and none at "
                "the end of texts; name one as pad_token in tokenizer_config.json."
            )
        added = self._loaded.get_added_tokens_decoder()
        self._special = {number for number, token in added.items() if token.special}
        with refusals(self._source):
            self._layouts = layout(self._loaded), layout(self._loaded, pair=True)
            written = [ids for runs in self._layouts for which, ids, _ in runs if which is None]
            self._reserved = {getattr(self, f"{role}_id") for role in ROLES}.union(*written)
            self._rust = for_texts(self._loaded, self._reserved)
            if self.pre_tokenize is not None:
                words_first(self._rust, self.vocabulary, self.pre_tokenize, self._source)
            if not special_in_text:
                keep_apart(self._rust, self.vocabulary, self.unk_id)
        for runs in self._layouts:
            for _, ids, segment in runs:
                if max(ids) >= self.vocab_size or segment > MOST_TOKENS:
                    raise ValueError(
                        f"{self._source}: it adds the id {max(ids)} of segment {segment} to a "
                        f"text, beyond its {self.vocab_size} tokens."
                    )

    @property
    def special_ids(self):
        """Ids of the special tokens but the unknown one."""
        return sorted(self._special - {self.unk_id})

    @property
    def reserved_ids(self):
        """Those of them that inputs are assembled with, and that no text has by itself."""
        return sorted(self._special & self._reserved - {self.unk_id})

    @property
    def added_tokens(self):
        """Set of the tokens that were added to a vocabulary, without those of its roles."""
        found = self._rust.get_added_tokens_decoder().values()
        return {token.content for token in found} - set(self._names.values())

    def ids_to_tokens(self, ids):
        """Returns the tokens of ids, as strings.

        Args:
            ids: list of ints.
        """
        ids = self._checked(ids)
        tokens = [self._rust.id_to_token(i) for i in ids]
        if None in tokens:
            raise ValueError(f"{self._source}: no token has the id {ids[tokens.index(None)]}.")
        return tokens

    def tokens_to_ids(self, tokens):
        """Returns the ids of tokens.

        Args:
            tokens: list of str, as `tokenize` returns them.
        """
        if isinstance(tokens, str):
            raise TypeError("Expected a list of tokens, not one str: vocabulary[token] is its id.")
        unknown = [token for token in tokens if token not in self.vocabulary]
        if unknown:
            raise ValueError(
                f"{quote(unknown[0])} is no token of the vocabulary. tokenize() makes tokens of a "
                "text; unk_id is the id of what has none."
            )
        return [self.vocabulary[token] for token in tokens]

    def decode(self, ids):
        """Returns the text of token ids, without special tokens.

        Byte-level and SentencePiece tokens hold the spaces of the text. Those of WordPiece do not,
        nor the case that the tokenizer dropped: words and marks are set as in print ("don't stop,
        it's 3.5 dollars!").

        Args:
            ids: list of ints.

        Returns:
            str.
        """
        ids = self._checked(ids)
        with refusals(self._source):
            ids = [i for i in ids if i not in self._special]
            if not isinstance(self._rust.decoder, import_tokenizers().decoders.WordPiece):
                return self._rust.decode(ids)
            tokens = [self._rust.id_to_token(i) for i in ids]
        return join_words(join_pieces([token for token in tokens if token]))

    @property
    def fingerprint(self):
        """A fingerprint of all that decides which ids a text has."""
        words = self.pre_tokenize
        name = [getattr(words, "__module__", None), repr(words).partition(" at 0x")[0]]
        known = [self._loaded.to_str(), self._named(), name, self._special_in_text]
        if self.special_ids != self.reserved_ids and not self._special_in_text:
            known.append("the others are read")  # which version 0.4 did not
        if self.truncate_from != "right":
            known.append(self.truncate_from)
        return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]

    def save(self, directory):
        """Writes files that `Tokenizer(directory)` and `transformers` read.

        Args:
            directory: str or path. Directory for tokenizer.json and tokenizer_config.json, and for
                the vocab.txt of a BERT tokenizer. Created if missing.
        """
        # transformers takes no other side than "right" and "left".
        name = "truncation_side" if self.truncate_from == "left" else "truncate_from"
        cut = {} if self.truncate_from == "right" else {name: self.truncate_from}
        save(self._loaded, self.vocabulary, self._named(), directory, self._entries | cut)

    def _named(self):
        """Dict role -> token, of what the files named, and of what pads."""
        names = {role: t for role, t in self._names.items() if t in self.vocabulary}
        return names | {"pad": self._rust.id_to_token(self.pad_id) or names.get("pad")}

    def _checked(self, ids):
        ids = [int(i) for i in ids]
        outside = [i for i in ids if not 0 <= i < self.vocab_size]
        if outside:
            raise ValueError(
                f"{outside[0]} is no token id: they go from 0 to {self.vocab_size - 1}."
            )
        return ids
