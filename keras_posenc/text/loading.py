"""From files to the Rust tokenizer: vocab.txt or tokenizer.json, and what their config says."""

import json
import os
import pathlib

from keras_posenc.text.vocabulary import SPECIAL, check_vocabulary, read_vocabulary


def import_tokenizers():
    """Imports `tokenizers`, once made safe to fork after its threads have run."""
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError(
            "Text needs the `tokenizers` package: pip install keras_posenc[text]"
        ) from error
    return tokenizers


def load(path, lowercase=None, strip_accents=None, vocabulary=None):
    """Makes a `tokenizers.Tokenizer` without truncation or padding.

    Args:
        path: vocab.txt, tokenizer.json, a directory with one of them, or None with `vocabulary`.
        lowercase: whether to lower-case; None follows the files.
        strip_accents: whether to drop accents; None follows the files, then `lowercase`.
        vocabulary: a dict token -> id that replaces the files' own.

    Returns:
        The tokenizer of the `tokenizers` package.

    Raises:
        FileNotFoundError: there is no such file, or none in the directory.
        ValueError: a file is damaged, or says something the arguments cannot change.
    """
    if vocabulary is not None:
        check_vocabulary(vocabulary, "vocabulary=")
    if path is None:
        if vocabulary is None:
            raise ValueError("Tokenizer needs a path, or vocabulary=.")
        return _from_vocabulary(vocabulary, {}, lowercase, strip_accents)
    file = _find(pathlib.Path(path))
    if file.suffix == ".json":
        return _from_json(file, lowercase, strip_accents, vocabulary)
    config = _read_json(file.parent / "tokenizer_config.json")
    vocabulary = vocabulary or read_vocabulary(file)
    return _from_vocabulary(vocabulary, config, lowercase, strip_accents)


def _find(path):
    if path.is_file():
        return path
    if not path.is_dir():
        raise FileNotFoundError(
            f"No tokenizer at {path}: give a vocab.txt, a tokenizer.json or a directory of one."
        )
    for name in ("tokenizer.json", "vocab.txt"):
        if (path / name).is_file():
            return path / name
    there = ", ".join(sorted(os.listdir(path))) or "nothing"
    raise FileNotFoundError(f"No tokenizer.json and no vocab.txt in {path}, which holds: {there}.")


def _read_json(path):
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}.") from None
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
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)
    )
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    _finish(tokenizer, tokenizers, vocabulary)
    return tokenizer


def _finish(tokenizer, tokenizers, vocabulary):
    """What surrounds BERT's WordPiece: special tokens, [CLS] a [SEP] b [SEP], the decoder."""
    tokenizer.add_special_tokens([token for token in SPECIAL if token in vocabulary])
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    tokenizer.decoder = tokenizers.decoders.WordPiece(prefix="##")


def _looks_uncased(vocabulary):
    """Lower-casing never makes a capital: a vocabulary full of them is a cased model's."""
    capitals = sum(token != token.lower() for token in vocabulary if token not in SPECIAL)
    return capitals < len(vocabulary) / 100


def _from_json(file, lowercase, strip_accents, vocabulary):
    tokenizers = import_tokenizers()
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the bindings raise a bare Exception
        raise ValueError(f"{file} is not a tokenizer.json: {error}.") from None
    # Sentence encoders ship a truncation to 128 tokens, which nobody who has long text wants.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    changes = {"lowercase": lowercase, "strip_accents": strip_accents}
    changes = {name: value for name, value in changes.items() if value is not None}
    if changes and not isinstance(tokenizer.normalizer, tokenizers.normalizers.BertNormalizer):
        raise ValueError(
            f"{file} has a {type(tokenizer.normalizer).__name__}, not BERT's normalizer: "
            f"{' and '.join(changes)} cannot be changed; leave them None."
        )
    for name, value in changes.items():
        setattr(tokenizer.normalizer, name, value)
    if vocabulary is not None:
        if not isinstance(tokenizer.model, tokenizers.models.WordPiece):
            raise ValueError(
                f"{file} is a {type(tokenizer.model).__name__} tokenizer: "
                "vocabulary= needs a WordPiece one, as BERT's."
            )
        smaller = tokenizers.Tokenizer(
            tokenizers.models.WordPiece(
                vocabulary,
                unk_token="[UNK]",
                max_input_chars_per_word=tokenizer.model.max_input_chars_per_word,
            )
        )
        smaller.normalizer = tokenizer.normalizer
        smaller.pre_tokenizer = tokenizer.pre_tokenizer
        _finish(smaller, tokenizers, vocabulary)
        tokenizer = smaller
    return tokenizer
