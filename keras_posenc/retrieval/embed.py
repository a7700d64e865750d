"""Vectors of texts of any length, or of their chunks, by a directory of sentence-transformers."""

import contextlib
import functools
import io
import os

import numpy as np

from keras_posenc.checkpoints.model_settings import read_model_config, read_size
from keras_posenc.checkpoints.sentence_transformers import (
    read_modules,
    read_pooling,
)
from keras_posenc.models.heads import features_before_head
from keras_posenc.models.model import model_on
from keras_posenc.models.sentence_embedding import embedder, normalizes, with_dimension
from keras_posenc.processes.devices import check_pool, on_devices
from keras_posenc.processes.pool import computing
from keras_posenc.processes.shards import read_shard
from keras_posenc.processes.together import is_first
from keras_posenc.retrieval.dense.chunks import chunk_spans
from keras_posenc.retrieval.dense.late_chunking import embed_spans
from keras_posenc.retrieval.embed_checks import check_chunking, check_kind, check_parts
from keras_posenc.retrieval.embedding_record import EmbeddingRecord
from keras_posenc.retrieval.late_interaction.embedder import LateInteraction
from keras_posenc.retrieval.opening import (
    choose_prompt,
    open_finetuned,
    read_encoder,
    side_prompt,
)
from keras_posenc.retrieval.sparse.embedder import SparseEmbedder
from keras_posenc.retrieval.vector_files import check_output, ids_of, json_lines, write_vectors
from keras_posenc.text import TextBatches, read_texts
from keras_posenc.text.documents import check_list, kind_of_all
from keras_posenc.text.shapes import shape_options
from keras_posenc.text.text_stream import TextStream
from keras_posenc.training.finetuning.task import check_encoded
from keras_posenc.training.part_file import write_parts
from keras_posenc.training.text_model import TextModel


def open_embedder(
    directory,
    *,
    max_length=None,
    prompt=None,
    dimension=None,
    stretch=None,
    alpha=None,
    rope_scaling=None,
    ignore=None,
    token_budget=8192,
):
    """Opens a directory of sentence-transformers: its model, tokenizer, length and prompt.

    Args:
        directory: str or path; one of an encoder alone is pooled by its mean. The `output` of
            `finetune` is read as it was trained, at its length and with its positions: with
            task="embed" its vectors, else the mean of the features before the head.
        max_length: int. Tokens after which texts are truncated; by default the length that the
            directory names. More than the model has positions extends its table.
        prompt: what precedes every text: the name of one of the directory's prompts, or a text. By
            default the prompt that the directory puts before all texts, if it has one. A directory
            of `finetune` has "query" and "document", the default, if it was trained with prompts.
        dimension: int. Cuts vectors to their first numbers, as of Matryoshka embeddings; they keep
            length 1 if they have it. Default: the number that the directory names as
            `truncate_dim`, or all.
        stretch: how to serve more positions than the table has, if `max_length` needs them. One of
            "hierarchical", the default, "tile" or "interpolate".
        alpha: float. Weight of the block index in hierarchical positions. Default 0.4, as in Su
            (2020).
        rope_scaling: scaling of rotary positions, such as "yarn:4", or a dict such as {"rope_type":
            "yarn", "factor": 4.0}.
        ignore: list of str. Patterns of tensors to leave out, such as cls.chain.*
        token_budget: int. Maximum number of tokens in a batch, padding included; on a CPU at most
            1,024.

    Returns:
        `TextModel`.

    Raises:
        FileNotFoundError: if the directory or a part of it is missing.
        TypeError: if `directory` is no path, or `ignore` no list.
        ValueError: if the directory cannot be read, or on a bad argument.

    Example:

    >>> open_embedder("all-MiniLM-L6-v2").max_length
    256
    >>> texts = open_embedder("all-MiniLM-L6-v2", max_length=2048)  # stretched
    >>> texts.model.get_layer("Embedding-Position").max_position >= 2048
    True
    """
    arguments = {"stretch": stretch, "alpha": alpha, "rope_scaling": rope_scaling}
    trained = open_finetuned(directory, max_length, token_budget, **arguments, ignore=ignore)
    if trained is not None:
        prompt = trained.prompt if prompt is None else (trained.prompts or {}).get(prompt, prompt)
        model = trained.model
        if not trained.kind.embeds:
            features = model_on(model, features_before_head(model), "features")
            model = embedder(features, normalize=False)
        return TextModel(
            _cut(model, dimension),
            trained.tokenizer,
            trained.max_length,
            token_budget,
            prompt=prompt,
        )
    transformer, pooling, *_ = read_modules(directory)
    tokenizer, max_length, arguments = read_encoder(transformer, max_length=max_length, **arguments)
    model = embedder(directory, ignore=ignore, **arguments)
    if dimension is None:
        dimension = read_size(read_model_config(directory), "truncate_dim")
        dimension = dimension and min(dimension, model.output_shape[-1])
    return TextModel(
        _cut(model, dimension),
        tokenizer,
        max_length,
        token_budget,
        prompt=_prompt(directory, prompt, pooling),
    )


@on_devices(by_processes=True)
def embed(
    directory,
    texts,
    output=None,
    *,
    text=None,
    max_length=None,
    chunks=None,
    late=False,
    overlap=0,
    spans=None,
    multi=False,
    sparse=False,
    queries=False,
    prompt=None,
    dimension=None,
    stretch=None,
    alpha=None,
    rope_scaling=None,
    ignore=None,
    token_budget=8192,
    shard=None,
    part_size=None,
    devices=None,
    verbose="auto",
):
    """Computes the vectors of texts of any length, or of the chunks of each text.

    Args:
        directory: str or path. Directory of sentence-transformers, of an encoder, or one that
            `finetune` wrote.
        texts: list of str, or a path for `read_texts`.
        output: str or path. Path of the .npy file for the vectors, or of the .npz file for those of
            chunks, with their texts, starts and ends. A .jsonl or .parquet file (the latter needs
            pyarrow) has a row per vector with its id, from the column id of `texts` or, without
            one, the number of the row. Its folder is created. Beside it, a .json file has the
            settings, which `search` reads. By default nothing is written.
        text: str. Name of the column of texts; by default one with a usual name, such as text or
            content (see `read_texts`).
        max_length: int. Tokens after which texts are truncated, which is logged. Default: the
            length that `directory` names. A length above the number of positions extends the table.
        chunks: int. Read each text whole, in chunks of this many tokens, the first of which has the
            prompt. The vector is the mean of those of the chunks, weighted by tokens. With `late`,
            the maximum number of tokens of a chunk.
        late: bool. Late chunking: one vector per chunk, with the whole text as its context. Texts
            longer than `max_length` are read in overlapping windows.
        overlap: int. Tokens that neighbouring chunks share, with `late`.
        spans: list with one list of (start, end) per text, in characters: the chunks, in place of
            `chunks`.
        multi: bool. One vector per token, of a directory of late interaction (ColBERT), as
            `LateInteraction` reads it. The .npz file has `vectors` and `offsets`.
        sparse: bool. A weight per token of the vocabulary, of a directory of SPLADE, as
            `SparseEmbedder` reads it. The .npz file has `indices`, `values`, `offsets` and `size`.
        queries: bool. Whether the texts are queries, not documents.
        prompt: str. What precedes every text: the name of one of the directory's prompts, or a
            text. Default: the directory's prompt of documents (document, passage or corpus) or,
            with `queries`, of queries (query), else the one that it puts before all texts.
        dimension, stretch, alpha, rope_scaling, ignore, token_budget: as in
            `open_embedder`.
        shard: str. "i/n", from "1/n" to "n/n": embed only the i-th of n equal parts of the texts,
            in their order, so that n processes or machines share the work; `np.concatenate` of
            their results has all vectors.
        part_size: int. Number of texts to read, embed and write at a time, such as 100,000, for
            more texts than memory holds. `output` is then a .npy or .jsonl file, and with `late` a
            .jsonl file. An interrupted call continues after its last complete part. Files are read
            in parts as well, except .tab. Each part prints a line with the time left.
        devices: int or "all". Number of devices of this machine that share the texts; on PyTorch,
            a process for each. Default: one, or those of a distribution that is set.
        verbose: as in `TextModel.predict`.

    Returns:
        float32 array (N, D), in the order of the texts. With `late` or `spans`, `ChunkVectors`;
            with `multi`, `MultiVectors`; with `sparse`, `SparseVectors`. With `part_size`, the
            array is a memory map of the file; for a .jsonl file, the number of texts is returned.

    Raises:
        BlockingIOError: if another call writes the parts of `output`.
        FileNotFoundError: if the directory or the file is missing.
        ImportError: if `output` is a .parquet file and pyarrow is not installed.
        NotADirectoryError: if a folder that `output` lies in is a file.
        TypeError: if a text is no str, or `ignore` no list.
        ValueError: if a text is empty, the directory cannot be read, or on a bad argument.

    Example:

    >>> embed("all-MiniLM-L6-v2", ["Train short, test long."], verbose=0).shape
    (1, 384)
    >>> found = embed("all-MiniLM-L6-v2", ["One. Two."], chunks=2, late=True, verbose=0)
    >>> found.vectors.shape, found.of(["One. Two."])
    ((2, 384), ['One.', 'Two.'])

    Reference: [Sentence-BERT](https://arxiv.org/abs/1908.10084),
    [late chunking](https://arxiv.org/abs/2409.04701).
    """
    by_chunk = late or spans is not None
    check_chunking(chunks, late, overlap, spans, max_length)
    check_kind(multi, sparse, chunks is not None or by_chunk, prompt, ignore, dimension)
    if by_chunk or multi or sparse:
        check_pool("embed", devices)
    part = read_shard(shard)
    if output is not None:
        check_output(output, ".npz" if by_chunk or multi or sparse else ".npy")
    ids = ids_of(texts, output)
    ids = ids and (ids[0], part(ids[1]))
    if (multi or sparse) and part_size is not None:
        raise ValueError(
            f"`part_size` is for one vector per text: leave {'multi' if multi else 'sparse'} out, "
            "or give each call a `shard`."
        )
    changes = {"stretch": stretch, "alpha": alpha, "rope_scaling": rope_scaling}
    # What a query is to be opened with; windows of a text are shorter than it may be.
    asked = {"max_length": None if chunks and not late else max_length, "prompt": prompt}
    asked |= {**changes, "dimension": dimension, "ignore": ignore}
    record = None if output is None else EmbeddingRecord(output, directory, asked, texts, text)
    if multi or sparse:
        texts = _read(texts, text)
        model = (LateInteraction if multi else SparseEmbedder)(
            directory,
            **{"document_length" if multi else "max_length": max_length},
            **changes,
            token_budget=token_budget,
        )
        encode = model.encode_queries if queries else model.encode_documents
        return _written(encode(part(texts), verbose), ids, record, _first(part, texts))
    opening = {
        "directory": directory,
        "max_length": max_length if by_chunk or chunks is None else chunks,
        "prompt": side_prompt(directory, prompt, "query" if queries else "document"),
        "dimension": dimension,
        **changes,
        "ignore": ignore,
        "token_budget": token_budget,
    }
    if part_size is not None:
        check_parts(part_size, output, late, spans)
        stream = TextStream(texts, text)  # checks every line before the model is opened
        settings = {name: value for name, value in opening.items() if name != "directory"}
        settings |= {"text": text, "max_length": max_length, "chunks": chunks}
        settings |= {"late": late, "overlap": overlap}
        rows = part(range(len(stream)))
        with _computing(opening, chunks, late, overlap, devices) as vectors_of:

            def compute(texts, before):
                found = vectors_of(texts, 2 if verbose else 0)
                record.saw(found.vectors if late else found, before)
                if ids is not None:
                    return json_lines(
                        found, (ids[0], ids[1][before : before + len(texts)])
                    ).encode()
                header = b"" if before else _header(len(rows), found.shape[1])
                return header + found.astype("<f4").tobytes()

            record.first = rows.start
            run = (output, settings, directory, stream, part_size, rows, compute, verbose)
            write_parts(*run, ids and ids[1], record)
        return np.load(output, mmap_mode="r") if ids is None else len(rows)
    texts = _read(texts, text)
    if spans is not None:
        check_list(spans, "spans")
        if len(spans) == len(texts):  # other numbers are refused below
            spans = part(spans)
    first, texts = _first(part, texts), part(texts)
    if spans is not None:
        model = open_embedder(**opening)
        return _written(embed_spans(model, texts, spans, verbose), ids, record, first)
    with _computing(opening, chunks, late, overlap, devices) as vectors_of:
        return _written(vectors_of(texts, verbose), ids, record, first)


def _computing(opening, chunks, late, overlap, devices):
    """A context with a function of texts and `verbose` that returns their vectors."""
    if not late:
        return computing(_embedding, opening | {"chunks": chunks}, devices, kind_of_all)
    model = open_embedder(**opening)

    def of_chunks(texts, verbose):
        kind_of_all(texts)
        spans = [chunk_spans(each, model.tokenizer, chunks, overlap) for each in texts]
        return embed_spans(model, texts, spans, verbose)

    return contextlib.nullcontext(of_chunks)


def _embedding(chunks, **opening):
    """A function from texts to their vectors."""
    model = open_embedder(**opening)
    return model.predict if chunks is None else functools.partial(_by_chunks, model)


def _cut(model, dimension):
    return model if dimension is None else with_dimension(model, dimension)


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


def _first(part, texts):
    """The number of texts before a part of them."""
    return part(range(len(texts))).start


def _written(vectors, ids, record, first):
    """The vectors, which are also written if there is a record of an output."""
    if record is not None and is_first():
        record.first = first
        dense = getattr(vectors, "vectors", vectors)
        if isinstance(dense, np.ndarray):
            record.saw(dense)
        write_vectors(record.output, vectors, ids, record)
    return vectors


def _by_chunks(model, texts, verbose):
    """The means of the vectors of each text's windows, which count by the tokens in them."""
    kind_of_all(texts)
    tokenizer, length = model.tokenizer, model.max_length
    by_text = [tokenizer.windows(model.prompt + text, length) for text in texts]
    pieces = [piece for windows in by_text for piece in windows]
    batches = TextBatches(
        pieces,
        tokenizer=tokenizer,
        max_length=length,
        token_budget=model.token_budget,
        shuffle=False,
        fixed_shapes=length,
        **shape_options(model.model),
    )
    rows = check_encoded(model.of_batches(batches, verbose))
    counts = np.array([len(ids) for ids, _ in pieces])
    ends = np.cumsum([len(windows) for windows in by_text])[:-1]
    means = [
        np.average(part, axis=0, weights=weights)
        for part, weights in zip(np.split(rows, ends), np.split(counts, ends), strict=True)
    ]
    vectors = np.array(means, "float32")
    if normalizes(model.model):
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return vectors


def _prompt(directory, prompt, pooling):
    chosen = choose_prompt(directory, prompt)
    if chosen and not read_pooling(pooling)[1]:
        raise ValueError(
            f"{directory} leaves its prompt out of the pooling, which is not supported: give "
            f'prompt="". Received: {chosen!r}'
        )
    return chosen
