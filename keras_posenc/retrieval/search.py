"""Search: the texts or chunks whose vectors are nearest to those of queries."""

import dataclasses
import os
import pathlib

import numpy as np

from keras_posenc import checks
from keras_posenc.checkpoints.model_settings import read_prompts, read_similarity
from keras_posenc.metrics.scores import unit_rows
from keras_posenc.retrieval.embed import open_embedder
from keras_posenc.retrieval.embed_checks import check_kind
from keras_posenc.retrieval.embedding_record import (
    check_model,
    read_record,
    recorded_texts,
)
from keras_posenc.retrieval.found_texts import found_texts
from keras_posenc.retrieval.late_interaction.embedder import MAXSIM, LateInteraction
from keras_posenc.retrieval.late_interaction.vectors import MultiVectors, maxsim
from keras_posenc.retrieval.nearest import check_scores, largest, nearest
from keras_posenc.retrieval.sparse.embedder import SparseEmbedder
from keras_posenc.retrieval.sparse.vectors import SparseVectors
from keras_posenc.retrieval.stored_vectors import stored_vectors
from keras_posenc.text.documents import kind_of_all
from keras_posenc.text.ids import id_text
from keras_posenc.text.json_lines import check_jsonl, write_jsonl
from keras_posenc.training.saved_models import is_finetuned, prompts_of
from keras_posenc.untrusted import quote, shorten

# The similarities of sentence-transformers that are computed, of each kind of vectors: whether
# vectors are compared at length 1.
SIMILARITIES = {"cosine": True, "dot": False, "dot_product": False}
SPARSE_SIMILARITIES = {"dot": False, "dot_product": False}
EXCERPT = 100  # characters of a text in a table


def search(
    directory,
    vectors,
    queries,
    output=None,
    *,
    texts=None,
    text=None,
    top_k=10,
    prompt=None,
    max_length=None,
    dimension=None,
    stretch=None,
    alpha=None,
    rope_scaling=None,
    ignore=None,
    token_budget=8192,
    verbose="auto",
):
    """Finds the texts, or chunks of texts, that are nearest to queries.

    The search is exact: each query is compared with all vectors that `embed` has made, in blocks.
    Scores are cosines, or dot products if the directory names these as its similarity. For late
    interaction they are sums of maxima, and for sparse vectors dot products.

    Args:
        directory: str or path. The model that made the vectors.
        vectors: str or path of a file that `embed` wrote, or what `embed` returned. Beside the file
            is a .json file with the settings of `embed`, which are used for the queries.
        queries: str or list of str. What to search for.
        output: str or path. Path of the .jsonl file for the result; its folder is created. By
            default nothing is written.
        texts: list of str, or a path for `read_texts`. The embedded texts, to show what was found.
            Default: the file that was embedded, if it is unchanged and in the folder of `vectors`.
        text: str. Name of the column of texts; by default as for `embed`, or one with a usual name.
        top_k: int. Number of texts, or chunks, to return per query.
        prompt: str. Text in front of queries, as in `open_embedder`. Default: the directory's
            prompt named query, if it has one, else the one that it puts before all texts.
        max_length: int. Tokens after which queries are truncated. Default: as for the texts.
        dimension: int. Cuts the vectors of queries to their first numbers. Default: as those of the
            texts.
        stretch, alpha, rope_scaling, ignore: as in `open_embedder`; by default as for the texts.
        token_budget: int. Maximum number of tokens in a batch, padding included.
        verbose: as in `TextModel.predict`.

    Returns:
        list of dicts, one per result: query by query, from the best to the worst. The keys are
            `query`, `rank` from 1, `score`, `id`, which is the id of the text or its number from 1,
            for chunks `start` and `end` in characters, and `text` if the texts are given or found.

    Raises:
        FileNotFoundError: if the directory or a file is missing.
        ImportError: if `vectors` is a .parquet file and pyarrow is not installed.
        NotADirectoryError: if a folder that `output` lies in is a file.
        TypeError: if a query is no str.
        ValueError: if the vectors come from another model or from other texts, or on a bad
            argument.

    Example:

    >>> texts = ["One. Two.", "Three."]
    >>> found = embed("all-MiniLM-L6-v2", texts, chunks=2, late=True, verbose=0)
    >>> best, *others = search("all-MiniLM-L6-v2", found, "three", texts=texts, verbose=0)
    >>> best["id"], best["text"], len(others)
    (2, 'Three.', 2)
    """
    queries = [queries] if isinstance(queries, str) else queries
    if kind_of_all(queries) != "str":
        raise TypeError(f"`queries` must be a list of str. Received: {quote(queries[0])}")
    checks.whole("top_k", top_k)
    check_jsonl(output)
    is_file = isinstance(vectors, (str, os.PathLike))
    record = read_record(vectors) if is_file and pathlib.Path(vectors).is_file() else None
    stored = stored_vectors(vectors, record["first"] if record else 0)
    check_model(record, vectors, directory)
    opening = {
        "max_length": max_length,
        "dimension": dimension,
        "stretch": stretch,
        "alpha": alpha,
        "rope_scaling": rope_scaling,
        "ignore": ignore,
    }
    made = record["settings"] if record else {}
    opening = {name: made.get(name) if value is None else value for name, value in opening.items()}
    opening["token_budget"] = token_budget
    cosine = read_similarity(directory, _similarities(stored.vectors))
    encode = _encoder(directory, stored.vectors, opening, prompt, made.get("prompt"))
    where = str(vectors) if is_file else "`vectors`"
    # Vectors that are known to have length 1 need not be rescaled.
    rescale = cosine and not (record and record.get("unit"))
    asked = encode(queries, verbose)
    nearest_of = _best(directory, asked, stored.vectors, top_k, cosine, rescale, where)
    found = []
    for query, (numbers, scores) in zip(queries, nearest_of, strict=True):
        for rank, (number, score) in enumerate(zip(numbers, scores, strict=True), 1):
            each = stored.ids[number]
            each = each.item() if isinstance(each, np.integer) else each
            row = {"query": query, "rank": rank, "score": float(score), "id": each}
            if stored.places is not None:
                starts, ends = stored.places
                row |= {"start": int(starts[number]), "end": int(ends[number])}
            found.append(row)
    if texts is None:
        texts, column = recorded_texts(record, vectors)
        text = column if text is None else text
    if texts is not None:
        _add_texts(found, texts, text, stored.name == "row")
    if output is not None:
        write_jsonl(output, found)
    return found


def search_table(found):
    """Formats the results of `search` for a terminal.

    Args:
        found: list of dicts, as `search` returns them.

    Returns:
        str: a line with the names of the columns, then a line with each query, followed by a line
            per result: rank, score, id, for chunks their start and end, and the beginning of the
            text.

    Example:

    >>> row = {"query": "two", "rank": 1, "score": 0.5, "id": 7, "start": 5, "end": 9}
    >>> print(search_table([row | {"text": "Two."}]))
    rank  score   id  chars  text
    two
    1     0.5000  7   5-9    Two.
    """
    rows = [_cells(row) for row in found]
    keys = found[0] if found else ()
    names = ["rank", "score", "id", *["chars"] * ("start" in keys), *["text"] * ("text" in keys)]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    lines = [_line(names, widths)]
    for row, cells in zip(found, rows, strict=True):
        lines += [shorten(row["query"], EXCERPT)] if row["rank"] == 1 else []
        lines.append(_line(cells, widths))
    return "\n".join(lines)


def _cells(row):
    """The columns of a result, as str."""
    cells = [str(row["rank"]), f"{row['score']:.4f}", shorten(row["id"])]
    cells += [f"{row['start']}-{row['end']}"] if "start" in row else []
    return cells + ([shorten(row["text"], EXCERPT)] if "text" in row else [])


def _line(cells, widths):
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()


def _encoder(directory, vectors, opening, prompt, made_with):
    """The function of the queries, and of `verbose`, that returns their vectors."""
    multi, sparse = isinstance(vectors, MultiVectors), isinstance(vectors, SparseVectors)
    if multi or sparse:
        check_kind(multi, sparse, False, prompt, opening["ignore"], opening["dimension"])
        names = ("max_length", "stretch", "alpha", "rope_scaling", "token_budget")
        options = {name: opening[name] for name in names}
        if multi:
            options["document_length"] = options.pop("max_length")
        return (LateInteraction if multi else SparseEmbedder)(directory, **options).encode_queries
    model = open_embedder(directory, prompt=_prompt(directory, prompt, made_with), **opening)
    return model.predict


def _prompt(directory, prompt, made_with):
    """The prompt of queries: the one that is given, or the directory's."""
    if prompt is not None:
        return prompt
    named = prompts_of(directory) if is_finetuned(directory) else read_prompts(directory)[0]
    if "query" in named:
        return "query"
    if made_with is not None:
        raise ValueError(
            f"`prompt` must be given, because the vectors were made with prompt={quote(made_with)} "
            'and the directory names no prompt of queries; "" is none. Received: None'
        )
    return None


def _similarities(vectors):
    if isinstance(vectors, MultiVectors):
        return MAXSIM
    return SPARSE_SIMILARITIES if isinstance(vectors, SparseVectors) else SIMILARITIES


def _best(directory, queries, vectors, top_k, cosine, rescale, where):
    """(numbers, scores) per query; `rescale` is whether the vectors may have another length than 1,
    which matters to cosines."""
    if isinstance(vectors, MultiVectors):
        scores = maxsim(queries, vectors)
    elif isinstance(vectors, SparseVectors):
        if vectors.size is None and vectors.indices.max(initial=0) < queries.size:
            vectors = dataclasses.replace(vectors, size=queries.size)
        scores = queries.products(vectors)
    else:
        size, width = queries.shape[1], vectors.shape[1]
        if size != width:
            raise ValueError(
                f"`vectors` must have {size} numbers, as those of {directory} have: give the "
                f"`dimension` of `embed`, or the model that made them. Received: {width} numbers"
            )
        queries = unit_rows(queries) if cosine else queries
        return nearest(queries, vectors, top_k, unit=rescale, where=where)
    check_scores(scores, where)
    best = [largest(row, top_k) for row in scores]
    return [(numbers, row[numbers]) for numbers, row in zip(best, scores, strict=True)]


def _add_texts(found, texts, column, by_row):
    """Adds to each result its text, or its chunk, and the id that the texts' file has."""
    known = found_texts(texts, column, by_row, {id_text(row["id"]) for row in found})
    for row in found:
        row["id"], whole = known[id_text(row["id"])]
        row["text"] = whole[row["start"] : row["end"]] if "start" in row else whole
        if row.get("end", 0) > len(whole):
            raise ValueError(
                f"`texts` must be the texts whose vectors are searched: a chunk ends at character "
                f"{row['end']} of the text {quote(row['id'])}, which has {len(whole)}."
            )
