"""Search: the texts or chunks whose vectors are nearest to those of queries."""

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.checkpoints.model_settings import read_similarity
from keras_posenc.files.untrusted import quote
from keras_posenc.retrieval.embedders import Opening
from keras_posenc.retrieval.embedding_record import recorded_texts
from keras_posenc.retrieval.former import former_arguments
from keras_posenc.retrieval.found_texts import found_texts
from keras_posenc.retrieval.made_by import opening_for
from keras_posenc.retrieval.vectors import Vectors
from keras_posenc.text.documents import kind_of_all
from keras_posenc.text.ids import id_text
from keras_posenc.text.json_lines import check_jsonl, write_jsonl


@former_arguments(
    opening=("max_length", "dimension", "ignore", "token_budget"),
)
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
    verbose="auto",
):
    """Finds the texts, or chunks of texts, that are nearest to queries.

    The search is exact: each query is compared with all vectors that `embed` has made, in blocks.
    Scores are cosines, or dot products if the directory names these as its similarity. For late
    interaction they are sums of maxima, and for sparse vectors dot products.

    Args:
        directory: str or path. The model that made the vectors, which is opened with the settings
            of `embed`; or what `open_embedder` returned, which takes other ones.
        vectors: str or path of a file that `embed` wrote, what `embed` returned, or `Vectors`,
            which are loaded once for several searches. Beside the file is a .json file with the
            settings of `embed`.
        queries: str or list of str. What to search for.
        output: str or path. Path of the .jsonl file for the result; its folder is created. By
            default nothing is written.
        texts: list of str, or a path for `read_texts`. The embedded texts, to show what was found.
            Default: the file that was embedded, if it is unchanged and in the folder of `vectors`.
        text: str. Name of the column of texts; by default as for `embed`, or one with a usual name.
        top_k: int. Number of texts, or chunks, to return per query.
        prompt: str. Text in front of queries, as in `open_embedder`. Default: the directory's
            prompt named query, if it has one, else the one that it puts before all texts.
        verbose: as in `TextModel.predict`.

    Returns:
        list of dicts, one per result: query by query, from the best to the worst. The keys are
            `query`, `rank` from 1, `score`, `id`, which is the id of the text or its number from 1,
            for chunks `start` and `end` in characters, and `text` if the texts are given or found.

    Raises:
        FileNotFoundError: if the directory or a file is missing.
        ImportError: if `vectors` is a .parquet file and pyarrow is not installed.
        NotADirectoryError: if a folder that `output` lies in is a file.

    Example:

    >>> texts = ["One. Two.", "Three."]
    >>> found = embed("all-MiniLM-L6-v2", texts, reading="late:2", verbose=0)
    >>> best, *others = search("all-MiniLM-L6-v2", found, "three", texts=texts, verbose=0)
    >>> best["id"], best["text"], len(others)
    (2, 'Three.', 2)
    """
    queries = [queries] if isinstance(queries, str) else queries
    if kind_of_all(queries) != "str":
        raise TypeError(f"`queries` must be a list of str. Received: {quote(queries[0])}")
    checks.whole("top_k", top_k)
    check_jsonl(output, [vectors, texts])
    stored = Vectors.of(vectors)
    opening = opening_for(stored, Opening.of(directory, {"prompt": prompt}))
    normalize = read_similarity(opening.directory, opening.kind.similarities)
    asked = opening.open().encode_queries(queries, verbose)
    nearest_of = stored.search(asked, top_k, bool(normalize))
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
        texts, column = recorded_texts(stored.record, stored.path)
        text = column if text is None else text
    if texts is not None:
        _add_texts(found, texts, text, stored.name == "row")
    if output is not None:
        write_jsonl(output, found)
    return found


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
