"""`rerank`: documents in the order of a cross-encoder's scores, in one call."""

import os

from keras_posenc.retrieval.embedders import Opening
from keras_posenc.retrieval.former import former_arguments
from keras_posenc.text import read_texts
from keras_posenc.text.json_lines import check_jsonl, write_jsonl


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
    verbose="auto",
):
    """Orders documents by how well they match a query, with a cross-encoder.

    Args:
        directory: str or path. Directory of a cross-encoder; or a `Reranker`, which takes further
            arguments, such as `token_budget`.
        query: str.
        documents: list of str, or a path for `read_texts`.
        output: path of the .jsonl file for the result; its folder is created. By default nothing is
            written.
        text: name of the column of texts; by default one with a usual name, such as text or content
            (see `read_texts`).
        top_k: int. Number of the best documents to return. Default: all.
        reading, max_length, prompt, extension: as in `Reranker`.
        verbose: as in `TextModel.predict`.

    Returns:
        list of dicts with the keys `corpus_id`, the index of a document, `score`, a float, and
            `text`, from the best to the worst.

    Raises:
        FileNotFoundError: if the directory or the file is missing.
        NotADirectoryError: if a folder that `output` lies in is a file.
        TypeError: if a text is no str.
        ValueError: if a text is empty, the directory cannot be read, or on a bad argument.

    Example:

    >>> _ = Reranker("bert", label_names=["score"]).save("cross-encoder")
    >>> found = rerank("cross-encoder", "w1 w4", ["w2 w5 w8", "w1 w4 w7"], verbose=0)
    >>> sorted(found[0])
    ['corpus_id', 'score', 'text']
    """
    check_jsonl(output, [documents])
    arguments = {"reading": reading, "max_length": max_length}
    arguments |= {"prompt": prompt, "extension": extension}
    reranker = Opening.of(directory, arguments, kind="Reranker").open()
    if isinstance(documents, (str, os.PathLike)):
        documents = read_texts(documents, text=text, label=False).texts
    found = reranker.rank(query, documents, top_k, verbose)
    found = [{**each, "text": documents[each["corpus_id"]]} for each in found]
    if output is not None:
        write_jsonl(output, found)
    return found
