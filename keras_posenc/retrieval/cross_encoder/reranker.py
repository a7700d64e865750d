"""Cross-encoders: a query and a document read together, and a score of how well they match."""

import os
import pathlib

import keras
import numpy as np

from keras_posenc import checks
from keras_posenc.checkpoints.model_settings import read_model_config
from keras_posenc.checkpoints.sentence_transformers import (
    ACTIVATIONS,
    CROSS_ENCODER,
    read_modules,
    sentence_transformers_files,
)
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.retrieval.opening import choose_prompt, open_finetuned, read_encoder
from keras_posenc.retrieval.prediction import ranked
from keras_posenc.retrieval.saving import save_as_read
from keras_posenc.text import TextBatches, read_texts
from keras_posenc.text.documents import check_list, kind_of_all
from keras_posenc.text.json_lines import check_jsonl, write_jsonl
from keras_posenc.text.shapes import longest_length, shape_options
from keras_posenc.training.finetuning.task import check_encoded
from keras_posenc.training.text_model import TextModel, check_chunks
from keras_posenc.untrusted import quote

# Those of `ACTIVATIONS` that keep the order of logits.
INCREASING = ("linear", "relu", "sigmoid", "tanh")


class Reranker:
    """A cross-encoder: it reads a query and a document together and gives their score.

        score = f(head(encoder([CLS] query [SEP] document [SEP])))

    `head` is that of the family's `ForSequenceClassification`, and f is the activation that the
    directory names. Without a name, f is a sigmoid for one output, and the identity for several. A
    cross-encoder is more accurate than vectors and far slower: use it on the 10 to 1,000 documents
    that a search by vectors found.

    Args:
        directory: str or path. A directory of transformers' `ForSequenceClassification`, of the
            `CrossEncoder` of sentence-transformers, or the `output` of `finetune` on pairs, whose
            numbers or logits are the scores, at the length of its training.
        max_length: int. Tokens of a pair after which its longer text is truncated, which is logged.
            Default: the length that the directory names. A length above the number of positions
            extends the table, so that a long document is read with full context.
        chunks: int. Read each document whole, in windows of this many tokens with the query before
            each. The score is the maximum over the windows, which finds the best passage.
        overlap: int. Tokens of the document that neighbouring windows share, with `chunks`.
        prompt: str. What precedes every query: the name of one of the directory's prompts, or a
            text. Default: the prompt that the directory puts before all queries, if it has one.
        label_names: list of str. Names of the outputs of a new head, which is to be trained, if the
            directory has none; such as ["score"].
        stretch: str. How to serve more positions than the table has, if the length needs them. One
            of "hierarchical", the default, "tile" or "interpolate".
        alpha: float. Weight of the block index in hierarchical positions. Default 0.4, as in Su
            (2020).
        rope_scaling: scaling of rotary positions, such as "yarn:4", or a dict such as {"rope_type":
            "yarn", "factor": 4.0}.
        token_budget: int. Maximum number of tokens in a batch, padding included.

    Attributes:
        model: `keras.Model` from the ids of pairs (B, T) to logits (B, C). Train it with `fit`, or
            as a part of `ranking`.
        tokenizer: `Tokenizer`.
        activation: str. Name of f among Keras' activations.
        max_length: int. Tokens of a pair, or of a window of it.
        chunks, overlap, token_budget: as given.
        prompt: str.

    Raises:
        FileNotFoundError: if the directory or a part of it is missing.
        TypeError: if `directory` is no path.
        ValueError: if the directory cannot be read or is no cross-encoder, or on a bad argument.

    Example:

    >>> reranker = Reranker("bert", label_names=["score"])  # a new head
    >>> found = reranker.rank("w1 w4", ["w2 w5 w8", "w1 w4 w7"], verbose=0)
    >>> [sorted(each) for each in found]
    [['corpus_id', 'score'], ['corpus_id', 'score']]

    Reference: [Passage Re-ranking with BERT](https://arxiv.org/abs/1901.04085); the maximum over
    passages: [Deeper Text Understanding for IR with Contextual Neural Language
    Modeling](https://arxiv.org/abs/1905.09217).
    """

    def __init__(
        self,
        directory,
        *,
        max_length=None,
        chunks=None,
        overlap=0,
        prompt=None,
        label_names=None,
        stretch=None,
        alpha=None,
        rope_scaling=None,
        token_budget=8192,
    ):
        _check_windows(max_length, chunks, overlap)
        self.directory = pathlib.Path(directory)
        length = max_length if chunks is None else chunks
        arguments = {"stretch": stretch, "alpha": alpha, "rope_scaling": rope_scaling}
        trained = open_finetuned(
            directory, length, token_budget, **arguments, label_names=label_names
        )
        if trained is None:
            (transformer,) = read_modules(directory, CROSS_ENCODER)
            tokenizer, length, arguments = read_encoder(
                transformer, max_length=length, **arguments, pair=True
            )
            model = build_transformer_model(
                transformer.folder,
                head="sequence_classification",
                label_names=label_names,
                **arguments,
            )
            self.activation = _activation(transformer, model)
        else:
            if trained.kind.problem_type is None:
                raise ValueError(
                    f"{directory} holds a model of the task {trained.task!r}, not a cross-encoder: "
                    'train one on pairs, with task="regress" or "classify".'
                )
            model, tokenizer, length = trained.model, trained.tokenizer, trained.max_length
            self.activation = "linear"
        self.prompt = choose_prompt(directory, prompt)
        self.chunks, self.overlap = chunks, overlap
        self.model, self.tokenizer = model, tokenizer
        self.max_length, self.token_budget = length, token_budget

    def predict(self, pairs, verbose="auto"):
        """Scores pairs of texts.

        Args:
            pairs: list of (query, document) pairs of str.
            verbose: as in `TextModel.predict`.

        Returns:
            (N,) float32 array, in the order of the pairs; (N, C) if the head has C > 1 outputs.

        Raises:
            TypeError: if an entry is no pair of str.
            ValueError: if there is none, a text is empty, or a query leaves a window no room.

        Example:

        >>> Reranker("bert", label_names=["score"]).predict([("w1", "w2 w3")], verbose=0).shape
        (1,)
        """
        return self.scores(self.logits(pairs, verbose))

    def logits(self, pairs, verbose="auto"):
        """Computes the numbers that `predict` applies the activation to.

        A sigmoid is 1.0 in float32 from a logit of about 17 on, so that pairs of equal scores may
        still have different logits. They are a teacher's scores for `MarginMSE`.

        Args:
            pairs, verbose: as in `predict`.

        Returns:
            float32 array of the shape that `predict` returns.

        Raises:
            TypeError, ValueError: as `predict`.

        Example:

        >>> Reranker("bert", label_names=["score"]).logits([("w1", "w2 w3")], verbose=0).shape
        (1,)
        """
        check_list(pairs, "pairs")
        pairs = [tuple(pair) if isinstance(pair, list) else pair for pair in pairs]
        if kind_of_all(pairs) != "pair of str":
            raise TypeError(
                f"`pairs` must be a list of (query, document) pairs of str. Received: "
                f"{quote(pairs[0])}"
            )
        pairs = [(self.prompt + query, document) for query, document in pairs]
        if self.chunks is not None:
            self._check_room({query for query, _ in pairs})
        batches = TextBatches(
            pairs,
            tokenizer=self.tokenizer,
            max_length=self.max_length,
            stride=None if self.chunks is None else self.overlap,
            token_budget=self.token_budget,
            shuffle=False,
            fixed_shapes=longest_length(self.model, self.max_length),
            **shape_options(self.model),
        )
        texts = TextModel(self.model, self.tokenizer)
        logits = check_encoded(texts.of_batches(batches, verbose)).astype("float32")
        # The windows of a document follow each other.
        first = np.searchsorted(batches.text_of, np.arange(len(pairs)))
        logits = np.maximum.reduceat(logits, first, axis=0)
        return logits[:, 0] if logits.shape[1] == 1 else logits

    def rank(self, query, documents, top_k=None, verbose="auto"):
        """Orders documents by how well they match a query.

        Args:
            query: str.
            documents: list of str.
            top_k: int. Number of the best documents to return. Default: all.
            verbose: as in `TextModel.predict`.

        Returns:
            list of dicts with the keys `corpus_id`, the index of a document, and `score`, a float,
                from the best to the worst. Equal scores are in the order of their logits.

        Raises:
            TypeError: if a text is no str.
            ValueError: if the head has several outputs, there are no documents, a text is empty,
                or `top_k` is less than 1.

        Example:

        >>> reranker = Reranker("bert", label_names=["score"])
        >>> len(reranker.rank("w1", ["w2", "w3 w4", "w5"], top_k=2, verbose=0))
        2
        """
        check_one_output(self, "rank")
        check_list(documents, "documents")
        logits = self.logits([(query, document) for document in documents], verbose)
        scores = self.scores(logits)
        # Scores of a sigmoid may be equal where logits are not.
        order = logits if self.activation in INCREASING else scores
        found = ranked(order, top_k)
        return [{**each, "score": float(scores[each["corpus_id"]])} for each in found]

    def save(self, directory):
        """Writes the model as it was read, for `CrossEncoder` or transformers, and for `Reranker`.

        An extended table of positions is written as `max_length` plain rows.

        Args:
            directory: str or path; created if missing.

        Returns:
            list of the paths written.

        Raises:
            ValueError: if `directory` is a file, or a weight has no place in the format.
        """
        files = sentence_transformers_files(self.directory, self.max_length, CROSS_ENCODER)
        return save_as_read(self.model, self.tokenizer, self.max_length, files, directory)

    def scores(self, logits):
        """Applies the activation to logits.

        Args:
            logits: array of numbers.

        Returns:
            array of the same shape.

        Example:

        >>> Reranker("bert", label_names=["score"]).scores(np.array([0.0])).tolist()
        [0.5]
        """
        activation = keras.activations.get(self.activation)
        return keras.ops.convert_to_numpy(activation(keras.ops.convert_to_tensor(logits)))

    def _check_room(self, queries):
        """Refuses queries that leave the documents no room in a window."""
        longest = max(map(len, self.tokenizer.contents(sorted(queries))))
        needed = self.tokenizer.special_tokens(pair=True) + longest + self.overlap + 1
        if self.chunks < needed:
            raise ValueError(
                f"`chunks` must be at least {needed}: the special tokens, a query of {longest} "
                f"tokens, an overlap of {self.overlap} and one token of a document. Received: "
                f"chunks={self.chunks}"
            )


def rerank(
    directory,
    query,
    documents,
    output=None,
    *,
    text=None,
    top_k=None,
    max_length=None,
    chunks=None,
    overlap=0,
    prompt=None,
    stretch=None,
    alpha=None,
    rope_scaling=None,
    token_budget=8192,
    verbose="auto",
):
    """Orders documents by how well they match a query, with a cross-encoder.

    Args:
        directory: directory of a cross-encoder, as `Reranker` reads it.
        query: str.
        documents: list of str, or a path for `read_texts`.
        output: path of the .jsonl file for the result; its folder is created. By default nothing is
            written.
        text: name of the column of texts; by default one with a usual name, such as text or content
            (see `read_texts`).
        top_k: int. Number of the best documents to return. Default: all.
        max_length, chunks, overlap, prompt, stretch, alpha, rope_scaling, token_budget: as in
            `Reranker`.
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
    check_jsonl(output)
    reranker = Reranker(
        directory,
        max_length=max_length,
        chunks=chunks,
        overlap=overlap,
        prompt=prompt,
        stretch=stretch,
        alpha=alpha,
        rope_scaling=rope_scaling,
        token_budget=token_budget,
    )
    if isinstance(documents, (str, os.PathLike)):
        documents = read_texts(documents, text=text, label=False).texts
    found = reranker.rank(query, documents, top_k, verbose)
    found = [{**each, "text": documents[each["corpus_id"]]} for each in found]
    if output is not None:
        write_jsonl(output, found)
    return found


def check_one_output(reranker, function):
    """Refuses a cross-encoder whose outputs are not one score, for a function that orders."""
    outputs = reranker.model.output_shape[-1]
    if outputs == 1:
        return
    raise ValueError(
        f"{function} needs a cross-encoder with one output, the score of a pair, and "
        f"{reranker.directory} is a classifier with {outputs} outputs. Give a cross-encoder, such "
        "as one that finetune trained on pairs with task='regress'; to classify, use "
        "`Reranker.predict`, or keras_posenc.predict (keras-posenc predict)."
    )


def _check_windows(max_length, chunks, overlap):
    check_chunks(chunks, max_length)
    checks.whole("overlap", overlap, least=0)
    if overlap and chunks is None:
        raise ValueError(
            f"`overlap` is for neighbouring windows of a document: give `chunks` with it. "
            f"Received: overlap={overlap!r}"
        )


def _activation(transformer, model):
    """The name of the activation: the directory's, else the default for the number of outputs."""
    config = model.transformer.config.source or {}
    nested = config.get("sentence_transformers")
    candidates = [
        read_model_config(transformer.index.parent).get("activation_fn"),
        nested.get("activation_fn") if isinstance(nested, dict) else None,
        config.get("sbert_ce_default_activation_function"),
    ]
    named = next((name for name in candidates if name is not None), None)
    if named is None:
        return "sigmoid" if model.output_shape[-1] == 1 else "linear"
    if not isinstance(named, str) or named not in ACTIVATIONS:
        raise ValueError(
            f"{transformer.index.parent}: the activation {quote(named)} is not supported; those "
            f"are: {', '.join(ACTIVATIONS)}."
        )
    return ACTIVATIONS[named]
