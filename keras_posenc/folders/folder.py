"""A model's directory as one value, of which each file is read once."""

import contextlib
import copy
import dataclasses
import functools
import hashlib
import os
import pathlib

from keras_posenc.files.untrusted import (
    MOST_JSON,
    check_inside,
    check_name,
    quote,
    read_bytes,
    read_json,
)
from keras_posenc.folders import huggingface, lora, sentence_transformers
from keras_posenc.folders.download import from_hub, local_path
from keras_posenc.folders.finetuned import MODEL, is_finetuned, read_finetuned
from keras_posenc.folders.keras_hub import is_preset
from keras_posenc.folders.sentence_transformers import module_folders
from keras_posenc.folders.written import RESULTS

WEIGHTS = (".safetensors", ".bin", ".keras", ".h5")
FILE, DIRECTORY, OTHER, LINK = "file", "directory", "other", "link to "


def open_folder(path):
    """Opens a model's directory, to give it to several functions that then read it once.

    Args:
        path: str or path of a directory, or of a file or prefix of weights in it. Or a name on the
            Hugging Face Hub, such as "hf://owner/name", whose files are downloaded.

    Returns:
        `Folder`, with what the directory states: `path`, `kind` ("finetuned", "keras_hub", "lora",
        "sentence_transformers" or "huggingface"), `config`, `weights`, `tokenizer_file`,
        `prompts`, `label_names`, `recipe`, `fingerprint`, and the `base` of a LoRA adapter.

    Raises:
        FileNotFoundError: if there is nothing at the path.

    Example:

    >>> folder = open_folder("all-MiniLM-L6-v2")
    >>> folder.kind, folder.tokenizer_file.name, folder.prompts
    ('sentence_transformers', 'tokenizer.json', ({}, None))
    >>> model, tokenizer = build_transformer_model(folder), Tokenizer(folder)
    """
    folder = Folder.of(path)
    beginning = folder.file and folder.file.name
    if folder.is_directory or beginning and any(n.startswith(beginning) for n in folder.names()):
        return folder
    raise FileNotFoundError(f"There is no model at {folder}.{from_hub(folder)}")


def _fingerprint(folder):
    """A hash of the weights of a model and its modules, the same for copies; None without files."""
    again = "opened" in vars(folder)
    opened, now = folder.opened, _seen_now(folder) if again else folder.opened
    if changed := [path for path in opened | now if opened.get(path) != now.get(path)]:
        raise ValueError(
            f"{folder}: the weights have changed since the model was opened: open it again. "
            f"Received: another {quote(changed[0].name)}"
        )
    if now:
        return hash_of(now)
    return hash_of_all(folder.path) if folder.is_directory else None


def _seen_now(folder):
    """{path: (size, time)} of the files with the weights of a model."""
    if is_finetuned(folder):
        files = [folder.place(folder.newest(MODEL))]
    else:
        folders = [folder] if folder.file else module_folders(folder)
        files = {file for each in folders for file in each.weights}
    found = {path: path.stat() for path in files}
    return {path: (each.st_size, each.st_mtime_ns) for path, each in found.items()}


def is_touched(folder):
    """Whether the files with the weights have other times than when they were opened, and the same
    sizes."""
    now, sizes = _seen_now(folder), {path: size for path, (size, _) in folder.opened.items()}
    return now != folder.opened and sizes == {path: size for path, (size, _) in now.items()}


def hash_of_all(directory):
    """The same of all files with weights below a directory, also of those that nothing reads."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return hash_of(path for path in files if path.suffix in WEIGHTS or ".data-" in path.name)


def hash_of(files):
    """A hash of the contents of files, in any order."""
    digests = []
    for path in files:
        with open(path, "rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()[:16]


@dataclasses.dataclass(frozen=True)
class Folder:
    """A model's directory: which files it has, and what is in them.

    `open_folder` makes one. Functions take it in the place of the path, and read no file that was
    read before; what is written into the directory later is not seen. No file is read before it is
    asked for, and one that is a link out of the directory is refused.

    Attributes:
        path: `pathlib.Path` of the directory.
        file: `pathlib.Path` or None. The weights, if their path was given, or a prefix of them.
        root: `pathlib.Path` or None. The directory that no file may lead out of, if this one is a
            part of it.
        kind: str. "finetuned", "keras_hub", "lora", "sentence_transformers" or "huggingface".
        config: dict. The content of config.json; empty if there is none.
        weights: list of `pathlib.Path`. The files with the numbers, which are not opened.
        tokenizer_file: `pathlib.Path` of the file that a tokenizer is made of.
        listed_modules: list of dict. The content of modules.json.
        modules: list of `Module`, of a directory of sentence-transformers.
        settings: dict. The content of config_sentence_transformers.json.
        prompts: tuple of the prompts by their names, and the name of the one that precedes all
            texts or None.
        activation: str or None. The activation of a cross-encoder, as its directory names it.
        adapter: dict. The content of adapter_config.json; empty without an adapter.
        base: `Folder` or None. The model that a LoRA adapter was trained on.
        finetuned: dict. What `finetune` saved with a model, such as its "task"; else empty.
        label_names: list of str or None. The names of a fine-tuned model's outputs.
        recipe: dict. The settings of the run that wrote the directory; empty if none did.
        fingerprint: str or None. A hash of the weights, which is the same for copies.
        opened: dict. The sizes and times of the weights, when they were first asked for.

    Example:

    >>> open_folder("all-MiniLM-L6-v2").config["hidden_size"]
    384
    """

    path: pathlib.Path
    file: pathlib.Path | None = None
    root: pathlib.Path | None = None
    _listings: dict = dataclasses.field(default_factory=dict, init=False, repr=False, compare=False)
    _objects: dict = dataclasses.field(default_factory=dict, init=False, repr=False, compare=False)
    _folders: dict = dataclasses.field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, path):
        """The folder that a path leads to, or a `Folder` as it is; there may be nothing there."""
        if isinstance(path, cls):
            return path
        path = pathlib.Path(local_path(path))
        check_name(path)
        if path.is_dir():
            return cls(path)
        # A path that does not exist at all is kept as given, so that errors can name it.
        unknown = not path.parent.is_dir() or (not path.exists() and from_hub(path))
        return cls(path) if unknown else cls(path.parent, path)

    def __fspath__(self):
        return str(self)

    def __str__(self):
        return str(self.file or self.path)

    @functools.cached_property
    def is_directory(self):
        """Whether a directory was given, and is there."""
        return self.file is None and self.path.is_dir()

    @functools.cached_property
    def kind(self):
        if is_finetuned(self):
            return "finetuned"
        if self.has(sentence_transformers.MODULES):
            return "sentence_transformers"
        if lora.is_adapter_alone(self):
            return "lora"
        return "keras_hub" if is_preset(self.config) else "huggingface"

    # What the formats read of a folder, each when it is first asked for.
    config = property(huggingface.read_config)
    weights = property(huggingface.weight_files)
    tokenizer_file = property(huggingface.tokenizer_file)
    listed_modules = functools.cached_property(sentence_transformers.listed_modules)
    modules = functools.cached_property(sentence_transformers.read_modules)
    settings = functools.cached_property(sentence_transformers.read_settings)
    prompts = functools.cached_property(sentence_transformers.read_prompts)
    activation = functools.cached_property(sentence_transformers.read_activation)
    base = functools.cached_property(lora.base_of)
    finetuned = functools.cached_property(read_finetuned)
    fingerprint = functools.cached_property(_fingerprint)
    opened = functools.cached_property(_seen_now)

    @property
    def adapter(self):
        """The content of adapter_config.json; empty without an adapter."""
        return self.json(lora.CONFIG)

    @property
    def label_names(self):
        """The names of a fine-tuned model's outputs, or None."""
        return self.finetuned.get("labels")

    @property
    def recipe(self):
        """The settings of the run that wrote the directory; empty if none did."""
        return self.json("recipe.json")

    def sub(self, name):
        """The `Folder` of a directory in this one."""
        if name in ("", "."):
            return self
        if name not in self._folders:
            self._folders[name] = type(self)(self.place(name), root=self.root or self.path)
        return self._folders[name]

    def names(self, sub=""):
        """The names in the directory, or in one below it, in order."""
        return sorted(self._listing(sub))

    def has(self, name):
        """Whether there is a file with this name."""
        return self._entry(name)[0] == FILE

    def has_any(self, name):
        """Whether there is something with this name: a file, a directory, a pipe or a device."""
        return self._entry(name)[0] is not None

    def has_directory(self, name):
        """Whether there is a directory with this name."""
        return self._entry(name)[0] == DIRECTORY

    def place(self, name):
        """The path of a file, which need not be there."""
        path = self.path / name
        kind, linked = self._entry(name)
        root = self.root or self.path
        below = [path, *path.parents][: len(path.parts) - len(root.parts)]
        # What is not in the listing may be no file of it; what is may have become a link.
        if kind is None or linked or any(map(os.path.islink, below)):
            check_inside(path, root)
        return path

    def newest(self, name):
        """The same of a result of a run, even if not all results are in their places yet."""
        moved = f"{RESULTS}/{name}"
        return moved if self.has_any(moved) else name

    def read(self, name, most=MOST_JSON):
        """The bytes of a file."""
        return read_bytes(self.place(name), most)

    def json(self, name):
        """The object in a JSON file; {} where there is no such file."""
        if not self.has_any(name):
            return {}
        if name not in self._objects:
            remedy = "Download it again."
            self._objects[name] = read_json(self.place(name), nan=False, remedy=remedy)
        return copy.deepcopy(self._objects[name])

    def _entry(self, name):
        """The kind of what has a name, None if nothing has it, and whether a link leads there."""
        kind, linked, sub = DIRECTORY, False, ""
        for part in name.split("/"):
            if kind != DIRECTORY:
                return None, linked
            found = self._listing(sub)
            if found.get(part) == LINK:  # which is followed when it is asked for
                found[part] = LINK + _leads_to(self.path / sub / part)
            kind = found.get(part)
            if kind is not None and kind.startswith(LINK):
                kind, linked = kind.removeprefix(LINK) or None, True
            sub = f"{sub}{part}/"
        return kind, linked

    def _listing(self, sub):
        """{name: kind} of a directory, which is looked through once."""
        if sub not in self._listings:
            found = {}
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                with os.scandir(self.path / sub) as entries:
                    found = {each.name: _kind(each) for each in entries}
            self._listings[sub] = found
        return self._listings[sub]


def _kind(entry):
    if entry.is_symlink() or os.name == "nt":  # where a junction is a link, and not called one
        return LINK
    return FILE if entry.is_file() else DIRECTORY if entry.is_dir() else OTHER


def _leads_to(path):
    """What a link leads to; "" if to nothing."""
    if os.path.isfile(path):
        return FILE
    return DIRECTORY if os.path.isdir(path) else OTHER if os.path.exists(path) else ""
