"""Training texts larger than memory: files become lists on disk, and their tokens memory maps."""

import contextlib
import os

from keras_posenc.files.untrusted import quote
from keras_posenc.text import Texts
from keras_posenc.text.disk_list import DiskList, DiskListWriter, built_once, fingerprint_of
from keras_posenc.text.encoded_texts import encode_parts, open_encoded, write_encoded
from keras_posenc.text.file_parts import file_parts, paths_of

PART = 1024  # texts that are read, or encoded, together
COLUMNS = ("texts", "labels", "lines")


def cached_texts(cache, source, settings, read_part, paragraphs=False):
    """The documents of files as `Texts` of `DiskList`s, written again if a file's size or time
    changed.

    `settings` is what decides the documents besides the files, as JSON can store it. With
    `paragraphs`, blank lines of a .txt are left out.
    """
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(
            "`cache` is for texts in files: give the path of one, or a pattern of several. "
            f"Received: {quote(source)}"
        )
    paths = [path.resolve() for path in paths_of(source)]
    status = [path.stat() for path in paths]
    known = {"files": [str(path) for path in paths], **settings}
    record = {**known, "sizes": [each.st_size for each in status]}
    record["times"] = [each.st_mtime_ns for each in status]

    def build(folder):
        with contextlib.ExitStack() as stack:
            writers = [stack.enter_context(DiskListWriter(folder, name)) for name in COLUMNS]
            for part in file_parts(source, PART, paragraphs):
                documents = read_part(part)
                labels = documents.labels or [None] * len(documents)
                columns = documents.texts, labels, documents.lines
                for writer, column in zip(writers, columns, strict=True):
                    writer.extend(column)

    name = f"texts-{fingerprint_of(known)}"
    folder = built_once(cache, name, record, build)
    return Texts(*(DiskList(folder, name) for name in COLUMNS))


def cached_documents(cache, task, source, role, text, label):
    """Labelled documents, as `FinetuneTask.read` reads them, on disk."""
    for path in paths_of(source) if isinstance(source, (str, os.PathLike)) else ():
        if path.suffix.lower() not in task.streamed:
            raise ValueError(
                f"{path}: with `cache`, task={task.name!r} reads files of "
                f"{', '.join(task.streamed)}: convert it, or leave `cache` out."
            )
    text, label = task.columns(text, label)
    settings = {"task": task.name, "text": text, "label": label}
    documents = cached_texts(
        cache, source, settings, lambda part: task.read_part(part, role, text, label)
    )
    task.check_labels(documents, role)
    return documents


def cached_tokens(texts, settings, tokenizer, encode, one_kind=True):
    """`EncodedTexts` of a `DiskList`, encoded once as memory maps beside it; see `encode_parts`."""
    order = None if texts.order is None else fingerprint_of(texts.order.tolist())
    record = {**settings, "order": order, "tokenizer": tokenizer.fingerprint}

    def build(folder):
        write_encoded(folder, encode_parts(texts, PART, encode, one_kind))

    return open_encoded(built_once(texts.folder, f"tokens-{fingerprint_of(record)}", record, build))
