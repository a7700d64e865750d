"""`embed`: the vectors of texts of any length, or of their chunks, in one call."""

import dataclasses
import io
import os

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.processes.devices import check_pool, computing, on_devices, processes_of
from keras_posenc.processes.together import counted_from, is_first, read_shard
from keras_posenc.retrieval.embedders import Opening
from keras_posenc.retrieval.embedding_record import EmbeddingRecord, identity_of, plain
from keras_posenc.retrieval.former import former_arguments
from keras_posenc.retrieval.readings import Chunks, LateSpans, reading_of
from keras_posenc.retrieval.vector_files import check_output, ids_of, json_lines, write_vectors
from keras_posenc.text import read_texts
from keras_posenc.text.documents import check_list, kind_of_all
from keras_posenc.text.ids import read_titles
from keras_posenc.text.text_stream import TextStream
from keras_posenc.training.part_file import write_parts


@former_arguments(opening=("ignore", "token_budget"))
@on_devices(by_processes=True)
def embed(
    directory,
    texts,
    output=None,
    *,
    text=None,
    reading=None,
    queries=False,
    max_length=None,
    prompt=None,
    dimension=None,
    extension=None,
    shard=None,
    part_size=None,
    devices=None,
    verbose="auto",
):
    """Computes the vectors of texts of any length, or of the chunks of each text.

    Args:
        directory: str or path. Directory of any kind of embedder (see `open_embedder`), whose kind
            decides what the vectors are; or what `open_embedder` returned, which takes further
            arguments.
        texts: list of str, or a path for `read_texts`.
        output: str or path. Path of the .npy file for the vectors, or of the .npz file for those of
            chunks, with their texts, starts and ends, and for those of tokens. A .jsonl or .parquet
            file (the latter needs pyarrow) has a row per vector with its id, from the column id of
            `texts` or, without one, the number of the row. Its folder is created. Beside it, a
            .json file has the settings, which `search` reads. By default nothing is written.
        text: str. Name of the column of texts; by default one with a usual name, such as text or
            content (see `read_texts`).
        reading: str. How a long text is read. "whole", the default: up to `max_length` tokens.
            "ends": of a longer one, half of them from its beginning and half from its end.
            "chunks:256": all of it, as the mean of its chunks of 256 tokens. "late:256" or
            "late:256,overlap=64": a vector per chunk, with the whole text as context.
            "passages:256": a vector per chunk that is read alone. "late:256,titles=name" adds the
            chunk read alone with its title before it, from the column name of `texts`;
            "late:256,titles" takes the headings above it, in a folder of documents.
            "late:256,windows=512" adds the chunk in a window of 512 tokens. Or `Chunks`,
            `LateChunks`, `Passages`, `LateSpans`.
        queries: bool. Whether the texts are queries, not documents.
        max_length, prompt, dimension, extension: as in `open_embedder`.
        shard: str. From "1/n" to "n/n". "i/n" embeds only the i-th of n equal parts of the texts,
            in their order. So n processes or machines share the work. `np.concatenate` of their
            results has all vectors.
        part_size: int. Number of texts to read, embed and write at a time, such as 100,000, for
            more texts than memory holds. `output` is then a .npy or .jsonl file, and a .jsonl file
            for several vectors per text. An interrupted call continues after its last complete
            part. Files are read in parts as well, except .tab. Each part prints a line with the
            time left.
        devices: int or "all". Number of devices of this machine that share the texts; on PyTorch,
            a process for each. Default: one, or those of a distribution that is set.
        verbose: as in `TextModel.predict`.

    Returns:
        float32 array (N, D), in the order of the texts. With late chunking, `ChunkVectors`; of late
            interaction, `MultiVectors`; of a sparse encoder, `SparseVectors`. With `part_size`, the
            array is a memory map of the file; for a .jsonl file, the number of texts is returned.

    Raises:
        BlockingIOError: if another call writes the parts of `output`.
        FileNotFoundError: if the directory or the file is missing.
        ImportError: if `output` is a .parquet file and pyarrow is not installed.
        NotADirectoryError: if a folder that `output` lies in is a file.

    Example:

    >>> embed("all-MiniLM-L6-v2", ["Train short, test long."], verbose=0).shape
    (1, 384)
    >>> found = embed("all-MiniLM-L6-v2", ["One. Two."], reading="late:2", verbose=0)
    >>> found.vectors.shape, found.of(["One. Two."])
    ((2, 384), ['One.', 'Two.'])

    Reference: [Sentence-BERT](https://arxiv.org/abs/1908.10084),
    [late chunking](https://arxiv.org/abs/2409.04701).
    """
    reading = reading_of(reading)
    given = {"reading": reading, "max_length": max_length, "prompt": prompt}
    given |= {"dimension": dimension, "extension": extension}
    opening = Opening.of(directory, given, vectors=True)
    if opening.one_vector(queries):
        suffix = ".npy"
    else:
        suffix = ".npz"
        check_pool("embed", devices)
    part = read_shard(shard)
    if output is not None:
        check_output(output, suffix, [texts])
    ids = ids_of(texts, output)
    ids = ids and (ids[0], part(ids[1]))
    record = None if output is None else _record(output, opening, texts, text)
    side = "query" if queries else "document"
    if part_size is not None:
        suffixes = [".jsonl"] if suffix == ".npz" else [".npy", ".jsonl"]
        check_parts(part_size, output, suffixes)
        return _in_parts(opening, texts, text, part, part_size, side, ids, record, devices, verbose)
    source, texts = texts, _read(texts, text)
    rows = part(range(len(texts)))
    kind_of_all(texts)
    by_text = _by_text(opening.reading, source, len(texts), queries)
    more = {} if by_text is None else {"reading": by_text.part(slice(rows.start, rows.stop))}
    with _computing(opening, side, devices) as vectors_of:
        with counted_from(rows.start):
            found = vectors_of(part(texts), verbose=verbose, **more)
    if record is not None and is_first():
        record.first = rows.start
        record.saw(found)
        write_vectors(record.output, found, ids, record)
    return found


def check_parts(part_size, output, suffixes):
    """Refuses parts of a file that is not written in parts."""
    checks.whole("part_size", part_size)
    if output is None or os.path.splitext(output)[1] not in suffixes:
        raise ValueError(
            f"`part_size` needs a {' or '.join(suffixes)} file as `output`, to write into. "
            f"Received: {output!r}"
        )


def _by_text(reading, texts, count, queries=False):
    """A reading that has something for each text, its spans or its title; else None."""
    if isinstance(reading, LateSpans):
        reading.check()
        if len(reading.spans) != count:
            raise ValueError(
                f"`spans` must have one list per text. Received: {len(reading.spans)} lists for "
                f"{count} texts"
            )
        return reading
    titles = getattr(reading, "titles", None)
    if titles is None or queries:
        return None
    if isinstance(titles, str) and isinstance(texts, (str, os.PathLike)):
        titles = read_titles(texts, titles)
    if isinstance(titles, str):
        return None
    reading = dataclasses.replace(reading, titles=titles)
    reading.check(count)
    return reading


def _in_parts(opening, texts, text, part, size, side, ids, record, devices, verbose):
    """Computes and writes vectors a part of the texts at a time."""
    stream = TextStream(texts, text)  # checks every line before the model is opened
    stream.check()
    by_text = _by_text(opening.reading, texts, len(stream), side == "query")
    settings = {name: plain(value) for name, value in opening.arguments.items()}
    settings |= {"kind": opening.kind.__name__, "side": side, "text": text}
    if by_text is not None:  # with a digest of the titles, of which a column is only the name
        settings["reading"] = str(by_text)
    if opening.embedder is not None:  # it may have changed since its directory was read
        settings["open"] = identity_of(opening.embedder)
    rows = part(range(len(stream)))
    output = record.output
    with _computing(opening, side, devices) as vectors_of:

        def compute(texts, before):
            more = {}
            if by_text is not None:
                first = rows.start + before
                more = {"reading": by_text.part(slice(first, first + len(texts)))}
            with counted_from(rows.start + before):
                found = vectors_of(texts, verbose=2 if verbose else 0, **more)
            record.saw(found, before)
            if ids is not None:
                ids_of_part = ids[1][before : before + len(texts)]
                return json_lines(found, (ids[0], ids_of_part)).encode()
            header = b"" if before else _header(len(rows), found.shape[1])
            return header + found.astype("<f4").tobytes()

        record.first = rows.start
        run = (output, settings, opening.directory, stream, size, rows, compute, verbose)
        write_parts(*run, ids and ids[1], record)
    return np.load(output, mmap_mode="r") if ids is None else len(rows)


def _record(output, opening, texts, text):
    """The record of the vectors: how they are made, and what queries are to be opened with."""
    settings = {name: plain(value) for name, value in opening.arguments.items()}
    # What is read whole has the length of the model.
    if isinstance(opening.reading, Chunks):
        settings["max_length"] = None
    settings.pop("token_budget", None)
    return EmbeddingRecord(output, opening, settings, texts, text)


def _computing(opening, side, devices):
    """A context with a function of texts that returns their vectors."""
    if processes_of(devices) > 1:  # each opens the directory
        opening = dataclasses.replace(opening, embedder=None)
    return computing(_encoding, {"opening": opening, "side": side}, devices, kind_of_all)


def _encoding(opening, side):
    """A function from texts to their vectors."""
    embedder = opening.open()
    return lambda texts, verbose, **more: embedder.encode(texts, side, verbose, **more)


def _header(count, width):
    """How the .npy file of an array (count, width) of float32 begins."""
    buffer = io.BytesIO()
    shape = {"descr": "<f4", "fortran_order": False, "shape": (count, width)}
    np.lib.format.write_array_header_1_0(buffer, shape)
    return buffer.getvalue()


def _read(texts, column):
    if isinstance(texts, (str, os.PathLike)):
        return read_texts(texts, text=column, label=False).texts
    check_list(texts)
    return texts
