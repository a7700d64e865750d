"""Search: the texts or chunks whose vectors are nearest to those of queries, and their table."""

import functools

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import shorten
from keras_posenc.folders.sentence_transformers import read_similarity
from keras_posenc.retrieval.embedders import Opening, opening_for
from keras_posenc.retrieval.embedding_record import recorded_texts
from keras_posenc.retrieval.former import former_arguments
from keras_posenc.retrieval.passages import PassageTexts
from keras_posenc.retrieval.vectors import Vectors
from keras_posenc.retrieval.words.scoring import Scoring, best_of_each, ranked_passages
from keras_posenc.text.documents import check_queries
from keras_posenc.text.json_lines import check_jsonl, write_jsonl


@former_arguments(opening=("max_length", "dimension", "ignore", "token_budget"))
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
    scoring="vectors",
    only=None,
    per_document=False,
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
        scoring: str. What ranks. "vectors": their scores. "words": BM25 by the words of the query,
            without the model. "both": both scores, each scaled to [0, 1] per query; "both:0.3"
            weighs words by 0.3 and vectors by 0.7. "rrf": reciprocal rank fusion; "rrf:60" adds 60
            to ranks. Words need the texts and bm25s. Their index is kept in a file beside
            `vectors`.
        only: list of ids of the texts to search; or a dict of columns of `texts`, each with the
            value, or the list of values, that a text must have there. Default: all.
        per_document: bool. Whether to return only the best chunk of each text.
        verbose: as in `TextModel.predict`.

    Returns:
        list of dicts, one per result: query by query, from the best to the worst. The keys are
            `query`, `rank` from 1, `score`, `id`, which is the id of the text or its number from 1,
            for chunks `start` and `end` in characters, and `text` if the texts are given or found.
            With words, also `vector_score` and `word_score`, before they are scaled, and `matches`,
            where words of the query stand in `text`, a list of (start, end).

    Raises:
        FileNotFoundError: if the directory or a file is missing.
        ImportError: if `vectors` is a .parquet file and pyarrow is not installed, or `scoring` has
            words and bm25s is not.
        NotADirectoryError: if a folder that `output` lies in is a file.

    Example:

    >>> texts = ["One. Two.", "Three."]
    >>> found = embed("all-MiniLM-L6-v2", texts, reading="late:2", verbose=0)
    >>> best, *others = search("all-MiniLM-L6-v2", found, "three", texts=texts, verbose=0)
    >>> best["id"], best["text"], len(others)
    (2, 'Three.', 2)

    Reference: [fusion of scores](https://arxiv.org/abs/2210.11934).
    """
    queries = [queries] if isinstance(queries, str) else queries
    check_queries(queries)
    checks.whole("top_k", top_k)
    check_jsonl(output, [vectors, texts])
    way = Scoring.of(scoring)
    stored = Vectors.of(vectors)
    opening = opening_for(stored, Opening.of(directory, {"prompt": prompt}))
    recorded = texts is None
    if recorded:
        texts, column = recorded_texts(stored.record, stored.path)
        text = column if text is None else text
    known = PassageTexts(stored, texts, text, unchanged=recorded and texts is not None)
    allowed = None if only is None else known.allowed(only)
    ranking = {
        "normalize": bool(read_similarity(opening.directory, opening.kind.similarities)),
        "allowed": allowed,
        "index": known.words() if way.uses_words else None,
    }
    asked = opening.open().encode_queries(queries, verbose) if way.uses_vectors else None
    find = functools.partial(ranked_passages, stored, queries, asked, way, **ranking)
    best = best_of_each(find, known.keys, top_k) if per_document else find(top_k)
    found = []
    for query, (numbers, scores) in zip(queries, best, strict=True):
        for place, number in enumerate(numbers):
            row = {"query": query, "rank": place + 1}
            row |= {name: float(each[place]) for name, each in scores.items()}
            found.append(row | known.place(number))
    if texts is not None:
        known.add_texts(found, way.uses_words)
    if output is not None:
        write_jsonl(output, found)
    return found


CHARACTERS = 100  # of a text in a table
TITLE = 40  # of a title
COLUMNS = ("rank", "score", "id", "vector", "word", "chars", "title", "text")
BEFORE = 20  # of them, at most, before the first word of the query


def search_table(found, characters=CHARACTERS):
    """Formats the results of `search` or `rerank` for a terminal.

    Args:
        found: list of dicts, as `search` or `rerank` returns them.
        characters: int or None. How much of a text is shown. None shows all of it.

    Returns:
        str: a line with the names of the columns, then for each query a line with it and a line
            per result. A result has its rank, score, id and text, and the start and end of a chunk.
            If words were searched, the text begins near the first word of the query. If vectors
            and words were, a result has the score by each.

    Example:

    >>> row = {"query": "two", "rank": 1, "score": 0.5, "id": 7, "start": 5, "end": 9}
    >>> print(search_table([row | {"text": "Two."}]))
    rank  score   id  chars  text
    two
    1     0.5000  7   5-9    Two.
    """
    if characters is not None:
        checks.whole("characters", characters)
    cells = [_cells(row, characters) for row in found]
    names = [name for name in COLUMNS if name in COLUMNS[:3] or any(name in each for each in cells)]
    cells = [[each.get(name, "") for name in names] for each in cells]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    lines = [_line(names, widths)]
    for row, values in zip(found, cells, strict=True):
        lines += [shorten(row["query"], CHARACTERS)] if row["rank"] == 1 else []
        lines.append(_line(values, widths))
    return "\n".join(lines)


def _cells(row, characters):
    """{column: str} of a result."""
    cells = {"rank": str(row["rank"]), "score": f"{row['score']:.4f}", "id": shorten(row["id"])}
    for name in ("vector_score", "word_score"):
        if name in row and len(row.keys() & {"vector_score", "word_score"}) > 1:
            cells[name.removesuffix("_score")] = f"{row[name]:.4f}"
    if "start" in row:
        cells["chars"] = f"{row['start']}-{row['end']}"
    if "title" in row:
        cells["title"] = shorten(row["title"], TITLE)
    if "text" in row:
        cells["text"] = _excerpt(row["text"], row.get("matches"), characters)
    return cells


def _excerpt(text, matches, characters):
    """A part of a text, from a little before the first word of the query on."""
    if characters is None:
        return shorten(text, len(text))
    first = matches[0][0] if matches else 0
    before = min(BEFORE, characters // 4)
    if first + before <= characters or len(text) <= characters:
        return shorten(text, characters)
    start = min(first - before, len(text) - characters)
    return f"...{shorten(text[start:], characters)}"


def _line(cells, widths):
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()
