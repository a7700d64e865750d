"""Cross-encoders: a query and a document read together, and a score of how well they match."""

import json

import keras
import numpy as np

from keras_posenc.files.untrusted import quote
from keras_posenc.folders.sentence_transformers import (
    CROSS_ENCODER,
    MODEL_CONFIG,
    check_activation,
    read_modules,
)
from keras_posenc.folders.written import sentence_transformers_files
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.retrieval.embedder import Embedder, ranked, remembered
from keras_posenc.retrieval.former import former_arguments
from keras_posenc.retrieval.opening import choose_prompt, open_finetuned, read_encoder, save_as_read
from keras_posenc.retrieval.readings import ENDS, PER_CHUNK, reading_of
from keras_posenc.text.documents import check_list, check_queries, kind_of_all
from keras_posenc.text.shapes import longest_length
from keras_posenc.training.finetuning.task import check_encoded
from keras_posenc.training.text_model import TextModel, check_chunks

IDENTITY = "torch.nn.modules.linear.Identity"
# Those of `ACTIVATIONS` that keep the order of logits.
INCREASING = ("linear", "relu", "sigmoid", "tanh")


class Reranker(Embedder):
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
        reading: how a long document is read. "whole", the default: up to `max_length` tokens. Or
            "ends", its beginning and its end. Or in chunks, such as "chunks:256,overlap=32" or
            `Chunks`. A chunk is a window of this many tokens with the query before it. The score is
            the maximum over the windows, which finds the best passage.
        prompt: str. What precedes every query: the name of one of the directory's prompts, or a
            text. Default: the prompt that the directory puts before all queries, if it has one.
        label_names: list of str. Names of the outputs of a new head, which is to be trained, if the
            directory has none; such as ["score"].
        label: str. Which output of a classifier with several is the score: its name, such as
            "entailment". The score is the probability of this label.
        extension: `Extension`, str or dict. How to serve more positions than the model has, such as
            "hierarchical:0.4", the default where the length needs them, or "yarn:4".
        token_budget: int. Maximum number of tokens in a batch, padding included.

    Attributes:
        model: `keras.Model` from the ids of pairs (B, T) to logits (B, C). Train it with `fit`, or
            as a part of `ranking`.
        tokenizer: `Tokenizer`.
        activation: str. Name of f among Keras' activations.
        max_length: int. Tokens of a pair, or of a window of it.
        reading, token_budget: as given.
        prompt: str.

    Raises:
        FileNotFoundError: if the directory or a part of it is missing.

    Example:

    >>> reranker = Reranker("bert", label_names=["score"])  # a new head
    >>> found = reranker.rank("w1 w4", ["w2 w5 w8", "w1 w4 w7"], verbose=0)
    >>> [sorted(each) for each in found]
    [['corpus_id', 'score'], ['corpus_id', 'score']]

    Reference: [Passage Re-ranking with BERT](https://arxiv.org/abs/1901.04085); the maximum over
    passages: [Deeper Text Understanding for IR with Contextual Neural Language
    Modeling](https://arxiv.org/abs/1905.09217).
    """

    title = "a cross-encoder"

    @former_arguments
    @remembered
    def __init__(
        self,
        directory,
        *,
        reading=None,
        max_length=None,
        prompt=None,
        label_names=None,
        label=None,
        extension=None,
        token_budget=8192,
    ):
        reading = reading_of(reading)
        if isinstance(reading, PER_CHUNK):
            raise ValueError(
                "A cross-encoder reads a query with each chunk, and has no vectors of chunks: give "
                f'reading="chunks:256". Received: reading={str(reading)!r}'
            )
        ends, reading = (True, None) if reading == ENDS else (False, reading)
        check_chunks(reading and str(reading), max_length)
        length = max_length if reading is None else reading.size
        trained = open_finetuned(
            directory, length, token_budget, extension=extension, label_names=label_names
        )
        if trained is None:
            (transformer,) = read_modules(directory, CROSS_ENCODER)
            tokenizer, length, arguments = read_encoder(
                transformer, max_length=length, extension=extension, pair=True
            )
            model = build_transformer_model(
                transformer.folder,
                head="sequence_classification",
                label_names=label_names,
                **arguments,
            )
            self.activation = _activation(directory, model)
        else:
            if trained.kind.problem_type is None:
                raise ValueError(
                    f"{directory} holds a model of the task {trained.task!r}, not a cross-encoder: "
                    'train one on pairs, with task="regress" or "classify".'
                )
            model, tokenizer, length = trained.model, trained.tokenizer, trained.max_length
            self.activation = "linear"
        if ends:
            tokenizer.truncate_from = "middle"
        self.label, self._odds_of = label, None
        if label is not None:
            names = trained.label_names if trained else model.transformer.config.label_names
            self._odds_of = _odds_of(label, names, model, self.activation, trained)
            self.activation = "sigmoid"
        self.prompt, self.reading = choose_prompt(directory, prompt), reading
        self.model, self.tokenizer = model, tokenizer
        self.max_length, self.token_budget = length, token_budget

    def encode(self, texts, side, verbose="auto"):
        """Refuses: a cross-encoder reads a query and a document together; see `Embedder`."""
        raise ValueError(
            f"{self.directory} is a cross-encoder, which reads a query and a document together and "
            "has no vectors of either: use `rank` or `predict`, or open an embedder."
        )

    def similarity(self, queries, documents):
        """Refuses, as `encode`; see `Embedder`."""
        return self.encode(queries, "query")

    def predict(self, pairs, verbose="auto"):
        """Scores pairs of texts.

        Args:
            pairs: list of (query, document) pairs of str.
            verbose: as in `TextModel.predict`.

        Returns:
            (N,) float32 array, in the order of the pairs; (N, C) if the head has C > 1 outputs.

        Example:

        >>> Reranker("bert", label_names=["score"]).predict([("w1", "w2 w3")], verbose=0).shape
        (1,)
        """
        return self.scores(self.logits(pairs, verbose))

    def logits(self, pairs, verbose="auto"):
        """Computes the numbers that `predict` applies the activation to, in the same shape.

        A sigmoid is 1.0 in float32 from a logit of about 17 on, so that pairs of equal scores may
        still have different logits. They are a teacher's scores for `MarginMSE`.

        Args:
            pairs, verbose: as in `predict`.

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
        if self.reading is not None:
            self._check_room({query for query, _ in pairs})
        texts = TextModel(self.model, self.tokenizer, self.max_length, self.token_budget)
        batches = texts.batches(
            pairs,
            stride=None if self.reading is None else self.reading.overlap,
            fixed_shapes=longest_length(self.model, self.max_length),
        )
        logits = check_encoded(texts.of_batches(batches, verbose)).astype("float32")
        if self._odds_of is not None:
            logits = self._odds_of(logits)
        # The windows of a document follow each other.
        first = np.searchsorted(batches.text_of, np.arange(len(pairs)))
        logits = np.maximum.reduceat(logits, first, axis=0)
        return logits[:, 0] if logits.shape[1] == 1 else logits

    def rank(self, query, documents, top_k=None, verbose="auto"):
        """Orders documents, a list of str, by how well they match a query; see `Embedder`.

        Equal scores are in the order of their logits.

        Example:

        >>> reranker = Reranker("bert", label_names=["score"])
        >>> len(reranker.rank("w1", ["w2", "w3 w4", "w5"], top_k=2, verbose=0))
        2
        """
        check_one_output(self, "rank")
        check_queries([query], "query")
        check_list(documents, "documents")
        logits = self.logits([(query, document) for document in documents], verbose)
        scores = self.scores(logits)
        # Scores of a sigmoid may be equal where logits are not.
        found = ranked(logits if self.activation in INCREASING else scores, top_k)
        return [{**each, "score": float(scores[each["corpus_id"]])} for each in found]

    def save(self, directory):
        """Writes the model as it was read, for `CrossEncoder` or transformers; see `Embedder`."""
        length, cuts = self.max_length, self.reading is None  # the size of chunks cuts no text
        trained = self.folder.finetuned
        if trained and not cuts:
            length, cuts = trained["max_length"], True
        files = sentence_transformers_files(self.folder, length if cuts else None, CROSS_ENCODER)
        if trained:  # without a name, the activation of one output is a sigmoid
            files[MODEL_CONFIG] = json.dumps({"activation_fn": IDENTITY}).encode()
        return save_as_read(self.model, self.tokenizer, length, files, directory, cuts=cuts)

    def scores(self, logits):
        """Applies the activation to an array of logits.

        Args:
            logits: array of numbers.

        Example:

        >>> Reranker("bert", label_names=["score"]).scores(np.array([0.0])).tolist()
        [0.5]
        """
        activation = keras.activations.get(self.activation)
        return keras.ops.convert_to_numpy(activation(keras.ops.convert_to_tensor(logits)))

    def _check_room(self, queries):
        """Refuses queries that leave the documents no room in a window."""
        longest = max(map(len, self.tokenizer.contents(sorted(queries))))
        overlap = self.reading.overlap
        needed = self.tokenizer.special_tokens(pair=True) + longest + overlap + 1
        if self.reading.size < needed:
            raise ValueError(
                f"Chunks must have at least {needed} tokens: the special tokens, a query of "
                f"{longest} tokens, an overlap of {overlap} and one token of a document. Received: "
                f"reading={str(self.reading)!r}"
            )


def check_one_output(reranker, function):
    """Refuses a cross-encoder whose outputs are not one score, for a function that orders."""
    outputs = reranker.model.output_shape[-1]
    if outputs == 1 or reranker.label is not None:
        return
    raise ValueError(
        f"{function} needs a cross-encoder with one output, the score of a pair, and "
        f"{reranker.directory} is a classifier with {outputs} outputs. Give `label`, the name of "
        "the output that is the score; or a cross-encoder, such as one that finetune trained on "
        "pairs for the task regress; to classify, use `predict`."
    )


def _odds_of(label, names, model, activation, trained):
    """The function from logits (N, C) to the logits (N, 1) of the probability of one label."""
    outputs, source = model.output_shape[-1], model.transformer.config.source or {}
    problem = trained.kind.problem_type if trained else source.get("problem_type")
    if outputs == 1 or problem == "regression":
        given = "one output, the score" if outputs == 1 else "numbers for outputs"
        raise ValueError(
            f"`label` is for a classifier, and this is a model which has {given}: leave it out. "
            f"Received: label={quote(label)}"
        )
    if label not in (names or ()):
        raise ValueError(
            f"`label` must name an output of the model: give one of {quote(names)}. Received: "
            f"label={quote(label)}"
        )
    apart = activation == "sigmoid" or problem == "multi_label_classification"
    column = list(names).index(label)

    def odds(logits):
        others = np.delete(logits, column, axis=1)
        base = 0 if apart else np.logaddexp.reduce(others, axis=1, keepdims=True)
        return logits[:, [column]] - base

    return odds


def _activation(folder, model):
    """The name of the activation: the directory's, else the default for the number of outputs."""
    named = folder.activation
    if named is None:
        return "sigmoid" if model.output_shape[-1] == 1 else "linear"
    return check_activation(named, folder)
