"""Hard negatives: texts that a search finds for a query, and that do not belong to it."""

import dataclasses
import os

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.folders.folder import Folder
from keras_posenc.metrics.scores import unit_rows
from keras_posenc.processes.together import is_first
from keras_posenc.retrieval.cross_encoder.reranker import Reranker, check_one_output
from keras_posenc.retrieval.dense.embedder import DenseEmbedder
from keras_posenc.retrieval.embedders import Opening, kind_of, open_embedder
from keras_posenc.retrieval.nearest import nearest
from keras_posenc.retrieval.opening import side_prompt
from keras_posenc.text import Texts, read_texts
from keras_posenc.text.documents import check_strs
from keras_posenc.text.json_lines import check_jsonl, write_jsonl
from keras_posenc.text.same_texts import text_numbers
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
            All positives of a query are left out of its negatives. Texts with the same tokens, such
            as "Zoë" and "ZOE" to an uncased model, are one text.
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
        ImportError: if a .parquet file is given without pyarrow.

    Example:

    >>> pairs = [("a house", "one blue house"), ("the sea", "two of the seas"), ("long", "a text")]
    >>> found = mine_hard_negatives("all-MiniLM-L6-v2", pairs, num_negatives=1, verbose=0)
    >>> len(found), len(found.texts[0])
    (3, 3)

    Reference: [NV-Retriever](https://arxiv.org/abs/2407.15831), on the margins.
    """
    check_jsonl(output, [pairs, corpus])
    choice = Choice(
        num_negatives, range_min, range_max, relative_margin, absolute_margin, max_score, sampling
    )
    checks.seed(seed)
    directory = Folder.of(directory)
    _check_kind(directory)
    documents = TASKS["embed"].read(pairs, "pairs", text, label=False)
    pairs = [group[:2] for group in documents.texts]
    options = {"max_length": max_length, "token_budget": token_budget}
    prompts = [
        side_prompt(directory, prompt, side)
        for prompt, side in ((query_prompt, "query"), (document_prompt, "document"))
    ]
    if reranker is not None:
        given = {"token_budget": token_budget}
        teacher = Opening.of(reranker, given, kind="Reranker").open()
        check_one_output(teacher, "mine_hard_negatives")
    count, texts = len(pairs), [text for side in zip(*pairs, strict=True) for text in side]
    texts += _corpus(corpus)
    model = open_embedder(directory, prompt=prompts[0], **options)
    same = text_numbers(texts, model.tokenizer, model.max_length, model.prompt).tolist()
    # Copies have one vector: one of them is searched for, and one is a candidate.
    sides = [_distinct(same[:count], texts[:count]), _distinct(same[count:], texts[count:])]
    vectors = _vectors(model, directory, sides, prompts, options, verbose)
    numbered = list(zip(same[:count], same[count : 2 * count], strict=True))
    positives, found = _nearest(numbered, *map(list, sides), *vectors, range_max)
    candidates = list(sides[1].values())
    found = [(numbers[range_min:], cosines[range_min:]) for numbers, cosines in found]
    if reranker is not None:
        positives, found = _reranked(teacher, pairs, found, candidates, verbose)
    rng = np.random.default_rng(seed)
    groups, labels, lines = [], [], []
    rows = zip(pairs, documents.lines, positives, found, strict=True)
    for pair, line, positive, (numbers, others) in rows:
        values = np.array([positive, *others])
        chosen = choice(values if reranker is None else teacher.scores(values), rng)
        if chosen is None:
            continue
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


@dataclasses.dataclass(frozen=True)
class Choice:
    """Which of the candidates of a pair are its negatives; fields as in `mine_hard_negatives`."""

    num_negatives: int
    range_min: int
    range_max: int
    relative_margin: float | None
    absolute_margin: float | None
    max_score: float | None
    sampling: str

    def __post_init__(self):
        checks.whole("num_negatives", self.num_negatives)
        checks.whole("range_min", self.range_min, least=0)
        least, why = self.range_min + self.num_negatives, "range_min + num_negatives"
        checks.whole("range_max", self.range_max, least=least, why=why)
        checks.choice("sampling", self.sampling, SAMPLINGS)
        for name in ("relative_margin", "absolute_margin"):
            if getattr(self, name) is not None:
                checks.number(name, getattr(self, name), least=0)
        if self.max_score is not None:
            checks.number("max_score", self.max_score)

    def __call__(self, scores, rng):
        """Chooses by the scores of the positive and of the candidates, the best first: indices of
        candidates, or None if too few are allowed."""
        score, *scores = scores
        bound = min(
            np.inf if self.max_score is None else self.max_score,
            np.inf if self.absolute_margin is None else score - self.absolute_margin,
            # Of the size of the score, which may be negative.
            np.inf if self.relative_margin is None else score - abs(score) * self.relative_margin,
        )
        allowed = np.flatnonzero(np.array(scores) <= bound)
        if len(allowed) < self.num_negatives:
            return None
        if self.sampling == "random":
            allowed = np.sort(rng.choice(allowed, self.num_negatives, replace=False))
        return allowed[: self.num_negatives]


def _check_kind(directory):
    """Refuses a directory of another kind than of one vector per text."""
    kind = kind_of(directory)
    if kind is DenseEmbedder:
        return
    remedy = "; give this one as `reranker` beside it" if kind is Reranker else ""
    raise ValueError(
        "mine_hard_negatives needs an embedder with one vector per text. Received: "
        f"{directory}, {kind.title}; give the directory of an embedder, such as one that finetune "
        f'trained with task="embed"{remedy}.'
    )


def _distinct(numbers, texts):
    """{number: the first text that has it}."""
    found = {}
    for number, text in zip(numbers, texts, strict=True):
        found.setdefault(number, text)
    return found


def _vectors(model, directory, sides, prompts, options, verbose):
    """Vectors of length 1 of queries and candidates, with their prompts; `model` has that of
    queries."""
    found = []
    for prompt, texts in zip(prompts, sides, strict=True):
        if prompt != prompts[0]:
            model = open_embedder(directory, prompt=prompt, **options)
        found.append(unit_rows(model.predict(list(texts.values()), verbose)))
    return found


def _nearest(pairs, queries, candidates, query_vectors, vectors, most):
    """The cosine of each pair, and the numbers and cosines of the candidates nearest to its query.

    Neither the positives of a query nor the query itself are candidates. Texts are their numbers.
    """
    order = {text: number for number, text in enumerate(candidates)}
    rows = {query: number for number, query in enumerate(queries)}
    excluded = [[order[query]] if query in order else [] for query in queries]
    for query, positive in pairs:
        excluded[rows[query]].append(order[positive])
    found = nearest(query_vectors, vectors, most, excluded)
    positives = [query_vectors[rows[query]] @ vectors[order[text]] for query, text in pairs]
    return positives, [found[rows[query]] for query, _ in pairs]


def _corpus(corpus):
    if corpus is None:
        return []
    if isinstance(corpus, (str, os.PathLike)):
        return read_texts(corpus, label=False).texts
    check_strs(corpus, "corpus")
    return list(corpus)


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
