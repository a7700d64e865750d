"""A model's directory as it is written: locked by one run, its files replaced together."""

import contextlib
import json
import os
import re
import socket

from keras_posenc.files.untrusted import check_name, shorten
from keras_posenc.files.writing import (
    alone,
    check_folder,
    clear_partials,
    is_folder,
    make_folder,
    open_regular,
    released,
    remove,
    temporary_folder,
    write_text,
)
from keras_posenc.folders.sentence_transformers import (
    EMBEDDER,
    FLAGS,
    MODEL_CONFIG,
    MODULES,
    POOLING_OF_MODE,
    TRANSFORMER_CONFIGS,
    is_embedder,
    read_modules,
)

LOCK = ".lock"
RESULTS = ".results"  # complete, and newer than what lies beside it
COMPLETE = ".complete"  # in them, until they are in their places
HOLDER = re.compile(r"\d+ on .*")
MOST_MODULE = 2**30  # bytes of a file of a module
FAR = 2**30  # on Windows a lock keeps others from reading the bytes it is on


@contextlib.contextmanager
def owned(folder):
    """Creates a directory and locks it; the system releases the lock when the process ends.

    A fork of the process does not keep the lock. BlockingIOError if another run holds it.
    """
    check_name(folder)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"output={os.fspath(folder)!r} is a file; give a directory.")
    make_folder(folder)
    with open_regular(folder / LOCK) as file:
        locked = _lock(file)
        file.seek(0)
        holder = file.read(200).decode("utf-8", "replace")
        if holder and not HOLDER.fullmatch(holder):
            raise ValueError(
                f"{folder / LOCK} is refused: a run keeps its lock under this name, and this is "
                "another file. Move it, or give another output."
            )
        if not locked:
            holder = shorten(holder) or "unknown"
            raise BlockingIOError(
                f"{folder} is in use by another run, process {holder}: wait for its end, stop it, "
                "or give another output."
            )
        with released(file.fileno(), file.close):
            file.truncate(0)
            file.seek(0)
            file.write(f"{os.getpid()} on {socket.gethostname()}".encode())
            clear_partials(folder)
            with alone(folder):
                _settle(folder)
            yield


def _lock(file):
    """Tries to lock an open file, without waiting; returns whether it succeeded."""
    try:
        if os.name == "nt":
            import msvcrt

            file.seek(FAR)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def replacing_together(folder):
    """Yields a new directory, whose files replace those of `folder` once all are written.

    A single rename decides: a process killed before it leaves the old files, and one killed after
    it the new ones, which `Folder.newest` finds.
    """
    make_folder(folder)
    clear_partials(folder)
    with temporary_folder(folder) as place:
        partial = place / "results"
        partial.mkdir()
        yield partial
        with alone(folder):  # each of several writers replaces all files
            _settle(folder)
            (partial / COMPLETE).touch()
            os.rename(partial, folder / RESULTS)
            _settle(folder)


def write_files(directory, files):
    """Writes files, a dict path -> bytes or str, into a directory, and their directories."""
    for name, content in files.items():
        make_folder((directory / name).parent)
        if isinstance(content, str):
            write_text(directory / name, content)
        else:
            (directory / name).write_bytes(content)


def sentence_transformers_files(folder, longest, layout=EMBEDDER):
    """What makes a model of the transformer in a directory: pooling, other modules, prompts, as a
    dict path -> bytes. Texts are to be cut after `longest` tokens; None as in `folder`."""
    if not is_embedder(folder):
        return {}
    transformer, *others = read_modules(folder, layout)
    first, *rest = folder.listed_modules
    rows = [{**first, "path": ""}, *rest]
    cut = {} if longest is None else {"max_seq_length": longest}
    settings = {**transformer.config, **cut}
    files = {MODULES: json.dumps(rows, indent=2).encode()}
    files[TRANSFORMER_CONFIGS[0]] = json.dumps(settings, indent=1).encode()
    names = [MODEL_CONFIG] if folder.has_any(MODEL_CONFIG) else []
    for module in others:
        if module.folder is not folder:
            sub = module.folder.path.name
            names += [name for n in folder.names(sub) if folder.has(name := f"{sub}/{n}")]
    return files | {name: folder.read(name, MOST_MODULE) for name in names}


def embedder_files(pooling, width, longest, prompts):
    """What makes a model of sentence-transformers of an encoder: a dict path -> str; vectors have
    length 1.

    Texts are cut after `longest` tokens. The prompt of the "document" is put before all texts.
    """
    parts = (("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"))
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (kind, path) in enumerate(parts)
    ]
    flags = {flag: POOLING_OF_MODE[mode] == pooling for flag, mode in FLAGS.items()}
    prompts = prompts or {"query": "", "document": ""}
    files = {
        MODULES: modules,
        TRANSFORMER_CONFIGS[0]: {"max_seq_length": longest, "do_lower_case": False},
        "1_Pooling/config.json": {"word_embedding_dimension": width, **flags},
        MODEL_CONFIG: {
            "model_type": "SentenceTransformer",
            "prompts": prompts,
            "default_prompt_name": "document" if prompts["document"] else None,
            "similarity_fn_name": "cosine",
        },
    }
    return {
        path: json.dumps(content, indent=2, ensure_ascii=False) for path, content in files.items()
    }


def with_pooling(files, pooling):
    """The files of a directory of sentence-transformers, which then pools in another way."""
    if MODULES not in files:
        return files
    path = f"{json.loads(files[MODULES])[1]['path']}/config.json"
    config = json.loads(files.get(path, b"{}"))
    mode = next(mode for mode, name in POOLING_OF_MODE.items() if name == pooling)
    if "pooling_mode" in config:
        config["pooling_mode"] = mode
    else:
        config |= {flag: each == mode for flag, each in FLAGS.items()}
    return {**files, path: json.dumps(config, indent=2).encode()}


def _settle(folder):
    """Moves new results to their places; `Folder.newest` finds those that are not moved yet."""
    results = folder / RESULTS
    check_folder(results)
    if results.is_dir():
        mark = results / COMPLETE
        # Runs of versions before 0.5 have no mark.
        if not mark.exists() and not (folder / "recipe.json").exists() and any(results.iterdir()):
            raise ValueError(
                f"{results} is refused: it holds files that no run wrote. Move it, or give another "
                "output."
            )
        for path in sorted(set(results.iterdir()) - {mark}):
            target = folder / path.name
            if is_folder(path) or is_folder(target):  # which no rename replaces
                remove(target)
            os.replace(path, target)
        mark.unlink(missing_ok=True)
        results.rmdir()
