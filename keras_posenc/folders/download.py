"""`hf://owner/name@revision` in the place of a path: downloads what is read, and nothing else."""

import contextlib
import functools
import importlib.util
import os
import pathlib
import re
import sys

from keras_posenc.files.untrusted import quote, shorten

PREFIX = "hf:/"
IN_CACHE = re.compile(r"models--([\w.-]+?)--([\w.-]+)")
LONGEST_NAME = 96  # characters of owner/name
REVISION = re.compile(r"(?!.*(?:\.\.|//))[\w.][\w./+-]{0,249}(?<![./])")
# Of a repository, the files that are read. A file of PyTorch (.bin, .pt) is a pickle: never.
SETTINGS = (
    "config.json", "bert_config.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "modules.json", "*sentence_*_config.json",
    "config_sentence_transformers.json", "adapter_config.json", "[0-9]*_*/config.json",
    "labels.json", "text_model.json",
    "artifact.metadata",  # of Stanford's ColBERT
    # KerasHub's
    "metadata.json", "tokenizer.json", "preprocessor.json", "task.json", "assets/tokenizer/*",
)  # fmt: skip
SENTENCE_PIECE = ("spm.model", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
VOCABULARIES = ("vocab.txt", "vocab.json", "merges.txt", *SENTENCE_PIECE)
# The weights: the first of these kinds that the repository has.
WEIGHTS = (
    ("model.safetensors",),
    ("model.safetensors.index.json", "model-*-of-*.safetensors"),
    ("model.weights.json", "model_*.weights.h5"),
    ("model.weights.h5",),
    ("model.keras",),
    ("bert_model.ckpt.*",),
    (),
)
# Beside them: those of a sentence encoder's other modules, and of adapters.
PARTS = ("[0-9]*_*/model.safetensors", "adapter_model.safetensors")


def local_path(path):
    """A path as it is, or that of a copy in the cache of the Hub: of `hf://owner/name`, or of the
    cache's folder of a model, `models--owner--name`.

    What is not in the cache yet is downloaded by `huggingface_hub`, and listed on standard error
    with its size. Without that package, or a network, the path stays as it is. FileNotFoundError if
    the Hub has no such model, or none with weights that are read, or a folder of the cache has no
    copy.
    """
    if not isinstance(path, (str, os.PathLike)):
        return path
    name = os.fspath(path)
    if not isinstance(name, str):
        return path
    if IN_CACHE.fullmatch(os.path.basename(os.path.normpath(name))) and os.path.isdir(name):
        return type(path)(_snapshot(pathlib.Path(name)))
    if not name.startswith(PREFIX) or not _has_hub():
        return path
    name, _, revision = name.removeprefix(PREFIX).lstrip("/").partition("@")
    if not NAME.fullmatch(name) or os.path.exists(path):
        return path
    check_hub_name(name, revision)
    return type(path)(_download(name, revision or None))


def _snapshot(folder):
    """The copy of a model in its folder of the cache: that of the branch main, or the only one."""
    found = {each.name: each for each in folder.glob("snapshots/*") if each.is_dir()}
    main = folder / "refs" / "main"
    named = main.read_text().strip() if main.is_file() else None
    if named in found or len(found) == 1:
        return found.get(named) or next(iter(found.values()))
    if found:
        raise ValueError(
            f"{folder} holds {len(found)} copies of a model: give one of "
            f"{shorten(', '.join(map(str, sorted(found.values()))))}."
        )
    raise FileNotFoundError(f"{folder} has no snapshot of the model.{unfinished(folder)}")


def unfinished(folder):
    """The end of an error about a folder that lacks files: whether its download, into the cache of
    the Hub or by `hf download --local-dir`, was interrupted."""
    cached = next((p for p in (folder, *folder.parents) if IN_CACHE.fullmatch(p.name)), None)
    parts = (cached / "blobs") if cached else (folder / ".cache" / "huggingface" / "download")
    if not any(parts.glob("**/*.incomplete")):
        return ""
    name = "owner/name" if cached is None else "/".join(IN_CACHE.fullmatch(cached.name).groups())
    where = f" --local-dir {folder}" if cached is None else ""
    return f" Its download was interrupted: finish it with hf download {name}{where}"


def check_hub_name(name, revision=""):
    """Refuses a name that is too long, or a revision that is none, before the Hub is asked."""
    if len(name) > LONGEST_NAME:
        raise ValueError(
            f"A name on the Hugging Face Hub has at most {LONGEST_NAME} characters. Received: "
            f"{quote(name)}, of {len(name):,} characters"
        )
    if revision and not REVISION.fullmatch(revision):
        raise ValueError(
            "The revision behind @ must be the name of a branch or tag, or the digits of a commit. "
            f"Received: {quote(revision)}"
        )


def _has_hub():
    if "huggingface_hub" in sys.modules:
        return sys.modules["huggingface_hub"] is not None
    return importlib.util.find_spec("huggingface_hub") is not None


@functools.lru_cache
def _download(name, revision):
    """The folder of a repository's snapshot, with all files that are read."""
    from fnmatch import fnmatchcase

    import huggingface_hub

    where = f"hf://{name}" + (f"@{revision}" if revision else "")
    try:
        from huggingface_hub.errors import DryRunError, HfHubHTTPError
    except ImportError:
        raise ImportError(
            f"{where} needs huggingface_hub 1.1 or newer: pip install -U huggingface_hub, or give "
            f"the path of a copy: hf download {name} --local-dir model. Received: huggingface_hub "
            f"{huggingface_hub.__version__}"
        ) from None
    allowed = [*SETTINGS, *VOCABULARIES, *PARTS, *(each for kind in WEIGHTS for each in kind)]
    take = functools.partial(huggingface_hub.snapshot_download, name, revision=revision)
    try:
        offered = take(allow_patterns=allowed, dry_run=True)
    except (DryRunError, HfHubHTTPError) as error:
        cause = error.__cause__ or error
        if not isinstance(cause, HfHubHTTPError):  # no network: what was downloaded before
            return _from_cache(take, where)
        raise FileNotFoundError(
            f"{where} cannot be read from the Hugging Face Hub ({type(cause).__name__}): check the "
            "name and the revision; for a gated model, log in with `hf auth login`."
        ) from None
    files = {each.filename: each for each in offered}
    weights = next(
        found
        for kind in WEIGHTS
        if (found := [f for f in files if any(fnmatchcase(f, pattern) for pattern in kind)])
        or not kind
    )
    rest = [f for f in files if any(fnmatchcase(f, p) for p in (*SETTINGS, *VOCABULARIES, *PARTS))]
    if not weights and "adapter_model.safetensors" not in files:
        raise FileNotFoundError(
            f"{where} has no weights that are read from there (safetensors, .keras, .weights.h5 or "
            "TensorFlow's); a .bin or .pt file is a pickle and is not downloaded. Found: "
            f"{shorten(', '.join(sorted(files))) or 'nothing'}.{from_hub(where)}"
        )
    chosen = [*weights, *rest]
    missing = [files[each] for each in chosen if files[each].will_download]
    if missing:
        size = sum(each.file_size for each in missing) / 1e6
        names = ", ".join(each.filename for each in missing)
        print(
            f"Downloading {where} from the Hugging Face Hub: {len(missing)} files, {size:,.1f} MB "
            f"({shorten(names)})",
            file=sys.stderr,
        )
    return take(allow_patterns=chosen)


def _from_cache(take, where):
    from huggingface_hub.errors import LocalEntryNotFoundError

    for kind in WEIGHTS:  # a snapshot with other weights as well is incomplete with them
        with contextlib.suppress(LocalEntryNotFoundError):
            wanted = [*SETTINGS, *VOCABULARIES, *PARTS, *kind]
            return take(allow_patterns=wanted, local_files_only=True)
    raise FileNotFoundError(
        f"{where} is not in the cache, and the Hugging Face Hub cannot be reached: check the "
        f"connection, or HF_HUB_OFFLINE.{from_hub(where)}"
    )


# owner/name, as the Hub shows it; hf:// or the address of its page before it, a revision behind.
NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
ADDRESS = re.compile(r"(?:hf:/+|https?:/+(?:www\.)?huggingface\.co/)")
IN_NAME = re.compile(r"(?:@|/(?:tree|resolve|blob)/)(?P<revision>[\w.-]+)/?\Z")
# The models that are known without their owner: those of the Hub's first years, and those that
# sentence-transformers completes itself.
OWNERS = {
    r"albert-(base|large|x+large)-v[12]": "albert",
    r"bert-(base|large)-[\w-]+": "google-bert",
    r"camembert-base": "almanach",
    r"distil(bert|roberta)-base[\w-]*|distilgpt2": "distilbert",
    r"gpt2(-medium|-large|-xl)?|openai-gpt": "openai-community",
    r"roberta-(base|large)(-mnli)?|xlm-(roberta|mlm|clm)-[\w-]+": "FacebookAI",
    r"t5-(small|base|large|3b|11b)": "google-t5",
    r"xlnet-(base|large)-cased": "xlnet",
    r"(all|paraphrase|multi-qa|msmarco|stsb|nli|distiluse|average_word_embeddings|gtr-t5"
    r"|sentence-t5)-[\w.-]+|LaBSE": "sentence-transformers",
}


def from_hub(path):
    """The end of an error about a path that is missing: the download, if it names a model.

    `org/name` is a name on the Hugging Face Hub unless there is a folder `org`.

    Example:

    >>> from_hub("bert-base-uncased")
    ' To download ... hf download google-bert/bert-base-uncased --local-dir bert-base-uncased...'
    """
    name, address = ADDRESS.subn("", os.fspath(path), count=1)
    revision = IN_NAME.search(name) if address or "@" in name else None
    name = name[: revision.start()] if revision else name.rstrip("/") if address else name
    owners = [owner for pattern, owner in OWNERS.items() if re.fullmatch(pattern, name)]
    name = f"{owners[0]}/{name}" if owners else name
    owner, _, model = name.partition("/")
    if not NAME.fullmatch(name) or (os.path.exists(owner) and not (address or owners)):
        return ""
    option = f" --revision {revision['revision']}" if revision else ""
    return (
        " To download this model from the Hugging Face Hub: pip install huggingface_hub; "
        f"hf download {name}{option} --local-dir {model}; then give the path {model}."
    )
