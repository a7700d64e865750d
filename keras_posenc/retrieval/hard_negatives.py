"""Hard negatives: texts that a search finds for a query, and that do not belong to it."""

import os

import numpy as np

from keras_posenc import checks
from keras_posenc.metrics.scores import unit_rows
from keras_posenc.processes.together import is_first
from keras_posenc.retrieval.cross_encoder.reranker import Reranker, check_one_output
from keras_posenc.retrieval.embedders import open_embedder
from keras_posenc.retrieval.nearest import nearest
from keras_posenc.retrieval.opening import side_prompt
from keras_posenc.text import Texts, read_texts
from keras_posenc.text.documents import check_list
from keras_posenc.text.json_lines import check_jsonl, write_jsonl
from keras_posenc.training.finetuning.tasks import TASKS

SAMPLINGS = ("top", "random")


def mine_hard_negatives(
    directory,
    pairs,
    output=None,
    *,
    text=None,
    corpus=None,
    num_negatives=3,
    range_min=0,
    range_max=100,
    relative_margin=None,
    absolute_margin=None,
    max_score=None,
    sampling="top",
    reranker=None,
    scores=False,
    query_prompt=None,
    document_prompt=None,
    max_length=None,
    token_budget=8192,
    seed=0,
    verbose="auto",
):
    """Finds hard negatives for pairs of a query and a text that belongs to it.

    The texts that are nearest to a query and do not belong to it teach an embedder more than texts
    drawn at random. Some of them are unlabelled positives: the margins, `max_score` and `range_min`
    leave out what is too near.

    Args:
        directory: str or path. Directory of an embedder, as in `open_embedder`.
        pairs: list of (query, positive) tuples, or a path of such, as in `finetune(task="embed")`.
            All positives of a query are left out of its negatives.
        output: str or path. Path of a .jsonl file with the columns anchor, positive, negative_1,
            ..., which `finetune(task="embed")` reads. By default nothing is written.
        text: str. Names of the two columns of `pairs`; by default usual ones.
        corpus: list of str, or a path for `read_texts`. Texts that may be negatives, in addition to
            the positives of other queries.
        num_negatives: int. Negatives of each pair. A pair with fewer is left out.
        range_min: int. How many of the nearest texts are not candidates.
        range_max: int. How many of the nearest texts are looked at.
        relative_margin: float. A negative's score is smaller than the positive's by at least this
            fraction of it, such as 0.05.
        absolute_margin: float. A negative's score is smaller than the positive's by at least this.
        max_score: float. The largest score of a negative.
        sampling: str. Which of the candidates are taken. One of "top" or "random".
        reranker: str or path. Directory of a cross-encoder that orders the candidates, as in
            `Reranker`, by its logits. Margins and `max_score` apply to its scores, which are behind
            its activation. By default scores are cosines.
        scores: bool. Whether to return and write the scores of the positive and the negatives, as a
            teacher's scores for the losses `MarginMSE` and `ListwiseKL`. Those of a reranker are
            its logits.
        query_prompt: str. Text in front of queries, as `prompt` of `embed`.
        document_prompt: str. Text in front of the other texts, in the same form.
        max_length: int. Tokens after which texts are truncated; by default the length that the
            directory names.
        token_budget: int. Maximum number of tokens in a batch, padding included.
        seed: int. Seed of the random sampling.
        verbose: as in `TextModel.predict`.

    Returns:
        `Texts` of tuples (query, positive, negative, ...) for `finetune(task="embed")`. Its labels
            are lists of scores, or None. Its lines are those of the pairs.

    Raises:
        FileNotFoundError: if a directory or a file is missing.
        NotADirectoryError: if a folder that `output` lies in is a file.
        TypeError: if `corpus` is no list of str or path.
        ValueError: if no pair has enough negatives, or on a bad argument.

    Example:

    >>> pairs = [("a house", "one blue house"), ("the sea", "two of the seas"), ("long", "a text")]
    >>> found = mine_hard_negatives("all-MiniLM-L6-v2", pairs, num_negatives=1, verbose=0)
    >>> len(found), len(found.texts[0])
    (3, 3)

    Reference: [NV-Retriever](https://arxiv.org/abs/2407.15831), on the margins.
    """
    _check(output, num_negatives, range_min, range_max, sampling)
    for name, value in (("relative_margin", relative_margin), ("absolute_margin", absolute_margin)):
        if value is not None:
            checks.number(name, value, least=0)
    if max_score is not None:
        checks.number("max_score", max_score)
    documents = TASKS["embed"].read(pairs, "pairs", text, label=False)
    pairs = [group[:2] for group in documents.texts]
    candidates = list(dict.fromkeys([*(positive for _, positive in pairs), *_corpus(corpus)]))
    queries = list(dict.fromkeys(query for query, _ in pairs))
    options = {"max_length": max_length, "token_budget": token_budget}
    query_prompt = side_prompt(directory, query_prompt, "query")
    document_prompt = side_prompt(directory, document_prompt, "document")
    if reranker is not None:
        teacher = Reranker(reranker, token_budget=token_budget)
        check_one_output(teacher, "mine_hard_negatives")
    model = open_embedder(directory, prompt=query_prompt, **options)
    query_vectors = unit_rows(model.predict(queries, verbose))
    if document_prompt != query_prompt:
        model = open_embedder(directory, prompt=document_prompt, **options)
    vectors = unit_rows(model.predict(candidates, verbose))
    order = {text: number for number, text in enumerate(candidates)}
    rows = {query: number for number, query in enumerate(queries)}
    # A query is no negative of itself.
    excluded = [[order[query]] if query in order else [] for query in queries]
    for query, positive in pairs:
        excluded[rows[query]].append(order[positive])
    found = nearest(query_vectors, vectors, range_max, excluded)
    found = [(numbers[range_min:], cosines[range_min:]) for numbers, cosines in found]
    found = [found[rows[query]] for query, _ in pairs]
    positives = [query_vectors[rows[query]] @ vectors[order[text]] for query, text in pairs]
    if reranker is not None:
        positives, found = _reranked(teacher, pairs, found, candidates, verbose)
    rng = np.random.default_rng(seed)
    groups, labels, lines = [], [], []
    for pair, line, positive, (numbers, others) in zip(
        pairs, documents.lines, positives, found, strict=True
    ):
        values = np.array([positive, *others])
        score, *negative_scores = values if reranker is None else teacher.scores(values)
        bound = min(
            np.inf if max_score is None else max_score,
            np.inf if absolute_margin is None else score - absolute_margin,
            np.inf if relative_margin is None else score - abs(score) * relative_margin,
        )
        allowed = np.flatnonzero(np.array(negative_scores) <= bound)
        if len(allowed) < num_negatives:
            continue
        if sampling == "random":
            allowed = np.sort(rng.choice(allowed, num_negatives, replace=False))
        chosen = allowed[:num_negatives]
        groups.append((*pair, *(candidates[number] for number in numbers[chosen])))
        labels.append([float(positive), *map(float, others[chosen])])
        lines.append(line)
    if not groups:
        raise ValueError(
            f"None of {len(pairs):,} pairs has num_negatives={num_negatives} negatives among "
            f"{len(candidates):,} texts: give a larger corpus or range_max, smaller margins, or a "
            "larger max_score."
        )
    mined = Texts(groups, labels if scores else None, lines)
    if output is not None and is_first():
        write_jsonl(output, _rows(mined))
    return mined


def _check(output, num_negatives, range_min, range_max, sampling):
    check_jsonl(output)
    checks.whole("num_negatives", num_negatives)
    checks.whole("range_min", range_min, least=0)
    why = "range_min + num_negatives"
    checks.whole("range_max", range_max, least=range_min + num_negatives, why=why)
    checks.choice("sampling", sampling, SAMPLINGS)


def _corpus(corpus):
    if corpus is None:
        return []
    if isinstance(corpus, (str, os.PathLike)):
        return read_texts(corpus, label=False).texts
    check_list(corpus, "corpus")
    for number, text in enumerate(corpus):
        if not isinstance(text, str):
            raise TypeError(
                f"Text {number} of `corpus` must be a str. Received: {type(text).__name__}"
            )
    return corpus


def _reranked(reranker, pairs, found, candidates, verbose):
    """The logits of positives, and the candidates in the order of theirs, by a cross-encoder."""
    asked = list(pairs)
    for (query, _), (numbers, _) in zip(pairs, found, strict=True):
        asked += [(query, candidates[number]) for number in numbers]
    distinct = list(dict.fromkeys(asked))
    logits = dict(zip(distinct, reranker.logits(distinct, verbose), strict=True))
    ordered = []
    for (query, _), (numbers, _) in zip(pairs, found, strict=True):
        others = np.array([logits[query, candidates[number]] for number in numbers])
        best = np.argsort(-others, kind="stable")
        ordered.append((numbers[best], others[best]))
    return [logits[pair] for pair in pairs], ordered


def _rows(mined):
    """A dict per pair, as `read_groups` reads it."""
    for number, group in enumerate(mined.texts):
        names = ["anchor", "positive", *(f"negative_{n}" for n in range(1, len(group) - 1))]
        scores = {} if mined.labels is None else {"scores": mined.labels[number]}
        yield dict(zip(names, group, strict=True)) | scores
