"""Reading and writing of tokenizer files: vocab.txt, tokenizer.json, tokenizer_config.json."""

import contextlib
import json
import os
import pathlib

from keras_posenc.text.growth import MOST, growth
from keras_posenc.text.vocabulary import SPECIAL, check_vocabulary, read_vocabulary
from keras_posenc.untrusted import parse_json, quote, read_bytes, shorten

MOST_BYTES = 2**26  # of a tokenizer.json; those of 256,000 tokens have half of it


def import_tokenizers():
    """Imports `tokenizers`; raises ImportError with the pip command if it is missing."""
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError(
            "Text needs the `tokenizers` package: pip install keras_posenc[text]"
        ) from error
    return tokenizers


@contextlib.contextmanager
def refusals(source):
    """Turns what the Rust side raises into a ValueError that names the file.

    It raises a bare Exception for what it checks, and where it panics a BaseException of its own.
    """
    try:
        yield
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"{source} is no tokenizer that works: {shorten(error)}.") from None


def load(path, lowercase=None, strip_accents=None, vocabulary=None):
    """Loads a `tokenizers.Tokenizer`, without truncation or padding.

    Args:
        path: vocab.txt, tokenizer.json, a directory with one of them, or None with `vocabulary`.
        lowercase: whether to lower-case; None follows the files.
        strip_accents: whether to remove accents; None follows the files, then `lowercase`.
        vocabulary: a dict token -> id that replaces that of the files.

    Returns:
        A `tokenizers.Tokenizer`.

    Raises:
        FileNotFoundError: no such file, or neither file in the directory.
        ValueError: a damaged file, or an option that the file does not allow to change.
    """
    if vocabulary is not None:
        check_vocabulary(vocabulary, "vocabulary=")
    if path is None:
        if vocabulary is None:
            raise ValueError("Tokenizer needs a path, or vocabulary=.")
        return _from_vocabulary(vocabulary, {}, lowercase, strip_accents)
    file = find_tokenizer(path)
    if file.suffix == ".json":
        return _from_json(file, lowercase, strip_accents, vocabulary)
    config = _read_json(file.parent / "tokenizer_config.json")
    for name in ("do_lower_case", "strip_accents", "tokenize_chinese_chars"):
        if not isinstance(config.get(name), (bool, type(None))):
            where = f"{file.parent / 'tokenizer_config.json'}: {name}"
            raise ValueError(f"{where} is {quote(config[name])}, not true, false or null.")
    vocabulary = vocabulary or read_vocabulary(file)
    return _from_vocabulary(vocabulary, config, lowercase, strip_accents)


def find_tokenizer(path):
    """The file that a path of a file or of a directory leads to."""
    path = pathlib.Path(path)
    if path.is_file():
        return path
    if not path.is_dir():
        raise FileNotFoundError(
            f"No tokenizer at {path}: give a vocab.txt, a tokenizer.json or a directory of one."
        )
    for name in ("tokenizer.json", "vocab.txt"):
        if (path / name).is_file():
            return path / name
    there = shorten(", ".join(sorted(os.listdir(path)))) or "nothing"
    raise FileNotFoundError(f"No tokenizer.json and no vocab.txt in {path}, which holds: {there}.")


def _read_json(path):
    if not path.is_file():
        return {}
    data = read_bytes(path)
    try:
        value = parse_json(data)
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {shorten(error)}.") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} should hold a JSON object, not a {type(value).__name__}.")
    return value


def _from_vocabulary(vocabulary, config, lowercase, strip_accents):
    from_files = config.get("do_lower_case")
    if lowercase is None:
        lowercase = _looks_uncased(vocabulary) if from_files is None else from_files
    if strip_accents is None:
        strip_accents = config.get("strip_accents")
    tokenizers = import_tokenizers()
    normalizer = tokenizers.normalizers.BertNormalizer(
        handle_chinese_chars=config.get("tokenize_chinese_chars") is not False,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    return _word_piece(vocabulary, normalizer, tokenizers.pre_tokenizers.BertPreTokenizer(), 100)


def _word_piece(vocabulary, normalizer, pre_tokenizer, longest_word):
    """BERT's tokenizer: [CLS] a [SEP] b [SEP], with segments 0 and 1."""
    tokenizers = import_tokenizers()
    model = tokenizers.models.WordPiece(
        vocabulary, unk_token="[UNK]", max_input_chars_per_word=longest_word
    )
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.add_special_tokens([token for token in SPECIAL if token in vocabulary])
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    tokenizer.decoder = tokenizers.decoders.WordPiece(prefix="##")
    return tokenizer


def _looks_uncased(vocabulary):
    """Whether fewer than 1% of the tokens have capitals, which lower-casing never produces."""
    capitals = sum(token != token.lower() for token in vocabulary if token not in SPECIAL)
    return capitals < len(vocabulary) / 100


def _from_json(file, lowercase, strip_accents, vocabulary):
    tokenizers = import_tokenizers()
    data = read_bytes(file, MOST_BYTES)
    try:
        with refusals(file):
            tokenizer = tokenizers.Tokenizer.from_str(data.decode("utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{file} is not a tokenizer.json: {shorten(error)}.") from None
    if growth(tokenizer.normalizer) > MOST:
        raise ValueError(f"{file} is refused: its normalizer can make a text {MOST} times as long.")
    # Sentence encoders ship with a truncation to 128 tokens.
    tokenizer.no_truncation()
    tokenizer.no_padding()
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
    return _word_piece(vocabulary, tokenizer.normalizer, tokenizer.pre_tokenizer, longest)


def save(tokenizer, vocabulary, directory):
    """Writes tokenizer.json and, for a BERT tokenizer, vocab.txt and tokenizer_config.json.

    Args:
        tokenizer: a tokenizer from `load`.
        vocabulary: its dict token -> id.
        directory: where to write; created if missing.
    """
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    _replace(directory / "tokenizer.json", tokenizer.to_str(pretty=True))
    normalizer = tokenizer.normalizer
    if not isinstance(normalizer, import_tokenizers().normalizers.BertNormalizer):
        return
    # transformers reads these from here; without it, its defaults override tokenizer.json.
    config = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": normalizer.lowercase,
        "strip_accents": normalizer.strip_accents,
        "tokenize_chinese_chars": normalizer.handle_chinese_chars,
    }
    _replace(directory / "tokenizer_config.json", json.dumps(config, indent=2) + "\n")
    if len(vocabulary) == max(vocabulary.values()) + 1:  # else line numbers are not ids
        tokens = sorted(vocabulary, key=vocabulary.get)
        _replace(directory / "vocab.txt", "\n".join(tokens) + "\n")


def _replace(path, content):
    part = path.with_name(path.name + ".part")
    part.write_bytes(content.encode("utf-8"))
    os.replace(part, path)
