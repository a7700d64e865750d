"""Finding, reading and writing of tokenizer files."""

import json

from keras_posenc.files.untrusted import read_bytes, shorten
from keras_posenc.files.writing import make_folder, write_text
from keras_posenc.folders.folder import Folder
from keras_posenc.folders.huggingface import PICKLED
from keras_posenc.text.added import add_tokens, place
from keras_posenc.text.bounds import check_tokenizer
from keras_posenc.text.byte_level import from_vocab_and_merges
from keras_posenc.text.importing import import_tokenizers, refusals
from keras_posenc.text.pieces import from_sentence_piece
from keras_posenc.text.templates import BERT, ROBERTA, set_ends, template
from keras_posenc.text.vocabulary import SPECIAL, check_vocabulary, read_vocabulary, special_of

MOST_BYTES = 2**26  # of a tokenizer.json; those of 256,000 tokens have half of it


def load(file, settings, lowercase=None, strip_accents=None, vocabulary=None):
    """Loads a `tokenizers.Tokenizer`, without truncation or padding.

    Args:
        file: `pathlib.Path` that `find_tokenizer` found, or None with `vocabulary`. One that is
            neither a .json nor a .model is a vocab.txt.
        settings: `TokenizerSettings` of its folder, or None.
        lowercase: bool or None. Whether to lower-case; None follows the files.
        strip_accents: bool or None. Whether to remove accents; None follows the files, then
            `lowercase`.
        vocabulary: dict or None. Token -> id; replaces the vocabulary of the files.

    Returns:
        `(tokenizer, names)`: the tokenizer, and a dict role -> token, of the special tokens that
            the files name.
    """
    if vocabulary is not None:
        check_vocabulary(vocabulary, "vocabulary=")
    if file is None:
        if vocabulary is None:
            raise ValueError("Tokenizer needs a path, or vocabulary=.")
        return _from_vocabulary(vocabulary, None, lowercase, strip_accents, {})
    if file.suffix not in (".json", ".model", ".spm"):
        new = {}
        if vocabulary is None:
            vocabulary = read_vocabulary(file)
            new = place(settings.added, vocabulary, file)
        return _from_vocabulary(vocabulary, settings, lowercase, strip_accents, new)
    if file.name in ("vocab.json", "vocabulary.json"):
        tokenizer, names = from_vocab_and_merges(file, settings)
    elif file.suffix == ".json":
        tokenizer, names = _from_json(file, settings)
    else:
        tokenizer, names = from_sentence_piece(file, settings)
    return _changed(file, tokenizer, lowercase, strip_accents, vocabulary), names


def find_tokenizer(path):
    """The file of a tokenizer, and the `Folder` that has its settings.

    `path`: str or path of the file, or of a directory; or a `Folder`.
    """
    folder = Folder.of(path)
    named = folder.file if folder is not path else None
    if named is not None and folder.has(named.name) and named.name != PICKLED:
        return named, folder
    file = folder.tokenizer_file
    home = folder if file.is_relative_to(folder.path) else folder.base
    return file, home.sub(file.parent.relative_to(home.path).as_posix())


def _from_vocabulary(vocabulary, settings, lowercase, strip_accents, new):
    """BERT's or MPNet's tokenizer of a vocab.txt."""
    switch = settings.switch if settings else lambda name: None
    from_files = switch("do_lower_case")
    found = settings.found if settings else {}
    if lowercase is None:
        learned = vocabulary.keys() - found.keys()
        lowercase = _looks_uncased(learned) if from_files is None else from_files
    accents, chinese = switch("strip_accents"), switch("tokenize_chinese_chars")
    tokenizers = import_tokenizers()
    normalizer = tokenizers.normalizers.BertNormalizer(
        handle_chinese_chars=chinese is not False,
        strip_accents=accents if strip_accents is None else strip_accents,
        lowercase=lowercase,
    )
    named = settings.names.items() if settings else ()
    names = special_of(vocabulary) | {role: t for role, t in named if t in vocabulary or t in new}
    words = tokenizers.pre_tokenizers.BertPreTokenizer()
    return _word_piece(vocabulary, names, normalizer, words, 100, found, new), names


def _word_piece(vocabulary, names, normalizer, pre_tokenizer, longest_word, found, new):
    """[CLS] a [SEP] b [SEP] with segments 0 and 1; MPNet has the tokens and layout of RoBERTa."""
    tokenizers = import_tokenizers()
    unknown = names["unk"] if names["unk"] in vocabulary else "[UNK]"
    model = tokenizers.models.WordPiece(
        vocabulary, unk_token=unknown, max_input_chars_per_word=longest_word
    )
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    add_tokens(tokenizer, vocabulary, names, found, new)
    layout = ROBERTA if names["cls"] == "<s>" else BERT
    special = {role: names[role] for role in ("cls", "sep")}
    tokenizer.post_processor = template(layout, vocabulary | new, **special)
    tokenizer.decoder = tokenizers.decoders.WordPiece(prefix="##")
    return tokenizer


def _looks_uncased(vocabulary):
    """Whether fewer than 1% of the tokens have capitals, which lower-casing never produces."""
    capitals = sum(token != token.lower() for token in vocabulary if token not in SPECIAL)
    return capitals < len(vocabulary) / 100


def _from_json(file, settings):
    tokenizers = import_tokenizers()
    data = read_bytes(file, MOST_BYTES)
    try:
        check_tokenizer(data)
        with refusals(file):
            tokenizer = tokenizers.Tokenizer.from_str(data.decode("utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{file} is not a tokenizer.json: {shorten(error)}.") from None
    if getattr(tokenizer.model, "dropout", None):
        tokenizer.model.dropout = None  # merges left out at random, to train a model
    names = dict(settings.names)
    if tokenizer.padding:
        names.setdefault("pad", tokenizer.padding["pad_token"])
    # Sentence encoders ship with a truncation to 128 tokens.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    add_bos, add_eos = settings.switch("add_bos_token"), settings.switch("add_eos_token")
    if add_bos is not None or add_eos is not None:
        vocabulary = tokenizer.get_vocab(with_added_tokens=True)
        with refusals(file):
            set_ends(tokenizer, vocabulary, names, add_bos, add_eos)
    return tokenizer, names


def _changed(file, tokenizer, lowercase, strip_accents, vocabulary):
    """A tokenizer of a file under the options of the user."""
    tokenizers = import_tokenizers()
    changes = {"lowercase": lowercase, "strip_accents": strip_accents}
    changes = {name: value for name, value in changes.items() if value is not None}
    if changes and not isinstance(tokenizer.normalizer, tokenizers.normalizers.BertNormalizer):
        raise ValueError(
            f"{file}: the normalizer is {shorten(tokenizer.normalizer)}, not BERT's: "
            f"{' and '.join(changes)} cannot be changed; leave None."
        )
    for name, value in changes.items():
        setattr(tokenizer.normalizer, name, value)
    if vocabulary is None:
        return tokenizer
    if not isinstance(tokenizer.model, tokenizers.models.WordPiece):
        raise ValueError(
            f"{file} is a {type(tokenizer.model).__name__} tokenizer: "
            "vocabulary= needs a WordPiece one, as BERT's."
        )
    longest = tokenizer.model.max_input_chars_per_word
    names = special_of(vocabulary)
    splitter = tokenizer.pre_tokenizer
    return _word_piece(vocabulary, names, tokenizer.normalizer, splitter, longest, {}, {})


def save(tokenizer, vocabulary, names, directory, entries):
    """Writes tokenizer.json and tokenizer_config.json, and BERT tokenizers' vocab.txt.

    `tokenizer`: a tokenizer from `load`. `vocabulary`: its dict token -> id. `names`: dict role ->
    token. `directory`: where to write; created if missing. `entries`: dict of further entries of
    tokenizer_config.json.
    """
    directory = make_folder(directory)
    write_text(directory / "tokenizer.json", tokenizer.to_str(pretty=True))
    config = {"tokenizer_class": "PreTrainedTokenizerFast"}
    normalizer = tokenizer.normalizer
    bert = isinstance(normalizer, import_tokenizers().normalizers.BertNormalizer)
    if bert and names.get("cls") == "[CLS]":
        # transformers reads these from here; without it, its defaults override tokenizer.json.
        config = {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": normalizer.lowercase,
            "strip_accents": normalizer.strip_accents,
            "tokenize_chinese_chars": normalizer.handle_chinese_chars,
        }
        if len(vocabulary) == max(vocabulary.values()) + 1:  # else line numbers are not ids
            tokens = sorted(vocabulary, key=vocabulary.get)
            write_text(directory / "vocab.txt", "\n".join(tokens) + "\n")
    config |= {f"{role}_token": token for role, token in names.items()} | entries
    write_text(directory / "tokenizer_config.json", json.dumps(config, indent=2) + "\n")
