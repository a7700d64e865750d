"""`rerank`: documents in the order of a cross-encoder's scores, in one call."""

import os

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import quote
from keras_posenc.retrieval.embedders import Opening
from keras_posenc.retrieval.former import former_arguments
from keras_posenc.retrieval.passages import rows_of
from keras_posenc.text.documents import check_list
from keras_posenc.text.json_lines import check_jsonl, write_jsonl

HIT = {"query", "rank", "score", "id", "text"}  # the keys of what `search` found
KEPT = ("id", "start", "end", "title")  # of a row, where it has them


@former_arguments(opening=("token_budget",), call="Reranker")
def rerank(
    directory,
    query,
    documents,
    output=None,
    *,
    text=None,
    top_k=None,
    reading=None,
    max_length=None,
    prompt=None,
    extension=None,
    label=None,
    verbose="auto",
):
    """Orders documents by how well they match a query, with a cross-encoder.

    Args:
        directory: str or path. Directory of a cross-encoder; or a `Reranker`, which takes further
            arguments, such as `token_budget`.
        query: str.
        documents: list of str, or a path for `read_texts`. Or what `search` found, as its list of
            dicts or as its .jsonl file: the texts that it found for `query` are taken.
        output: path of the .jsonl file for the result; its folder is created. By default nothing is
            written.
        text: name of the column of texts; by default one with a usual name, such as text or content
            (see `read_texts`).
        top_k: int. Number of the best documents to return. Default: all.
        reading, max_length, prompt, extension, label: as in `Reranker`.
        verbose: as in `TextModel.predict`.

    Returns:
        list of dicts, from the best to the worst, with the keys of `search`: `query`, `rank` from
            1, `score`, `id` and `text`. The id is that in the file, or the number of the document
            from 1. What `search` found keeps its `start`, `end` and `title`. `corpus_id` is the
            index of the document, from 0, as in sentence-transformers.

    Raises:
        FileNotFoundError: if the directory or the file is missing.
        NotADirectoryError: if a folder that `output` lies in is a file.
        ImportError: for a .parquet file, if pyarrow is not installed.

    Example:

    >>> _ = Reranker("bert", label_names=["score"]).save("cross-encoder")
    >>> found = rerank("cross-encoder", "w1 w4", ["w2 w5 w8", "w1 w4 w7"], verbose=0)
    >>> [(each["rank"], each["id"] in (1, 2)) for each in found]
    [(1, True), (2, True)]
    """
    check_jsonl(output, [documents])
    arguments = {"reading": reading, "max_length": max_length}
    arguments |= {"prompt": prompt, "extension": extension, "label": label}
    if top_k is not None:
        checks.whole("top_k", top_k)
    known = _documents(documents, text, query)
    reranker = Opening.of(directory, arguments, kind="Reranker").open()
    texts = [each["text"] for each in known]
    ranked = reranker.rank(query, texts, top_k, verbose) if texts else []
    found = []
    for rank, each in enumerate(ranked, 1):
        row = {"query": query, "rank": rank, "score": each["score"]}
        found.append(row | known[each["corpus_id"]])
    if output is not None:
        write_jsonl(output, found)
    return found


def _documents(documents, column, query):
    """A dict per document: its id, its place if it is a chunk, its index, and its text."""
    if not (path := isinstance(documents, (str, os.PathLike))):
        check_list(documents, "documents")
    if path or not all(isinstance(each, dict) for each in documents):
        rows = [
            {**(row if HIT <= row.keys() else {}), "id": each, "text": text}
            for _, each, text, row in rows_of(documents, column, by_row=True)
        ]
    else:
        rows = documents
        if missing := [sorted(HIT - row.keys()) for row in rows if not HIT <= row.keys()]:
            raise ValueError(
                "`documents` must be texts, or what `search` found, with its texts: give it "
                f"texts= (--texts). Received: a dict without {', '.join(missing[0])}"
            )
    found = [
        {**{k: row[k] for k in KEPT if row.get(k) is not None}, "corpus_id": n, "text": row["text"]}
        for n, row in enumerate(rows)
        if row.get("query") in (None, query)
    ]
    if rows and not found:
        raise ValueError(
            "`documents` must have results for `query`: `search` found them for "
            f"{quote(rows[0]['query'])}. Received: query={quote(query)}"
        )
    return found
