"""Sparse vectors (SPLADE): a weight for each token of the vocabulary, most of them 0."""

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import quote
from keras_posenc.folders.sentence_transformers import PROMPT_NAMES, SPARSE, read_modules, read_size
from keras_posenc.folders.written import sentence_transformers_files
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.retrieval.embedder import Embedder, predicted, remembered
from keras_posenc.retrieval.former import former_arguments
from keras_posenc.retrieval.opening import choose_prompt, read_encoder, save_as_read
from keras_posenc.retrieval.sparse.pooling import ACTIVATIONS, SPARSE_POOLINGS, sparse_embedder
from keras_posenc.retrieval.sparse.vectors import SparseVectors
from keras_posenc.text.documents import kind_of_all


class SparseEmbedder(Embedder):
    """A SPLADE model: texts become weights of the tokens of its vocabulary.

    w_v = max over the tokens t of log(1 + relu(x_tv)), where x are the logits of the masked
    language model. With an inverted index, a document is also found by related tokens that it does
    not contain.

    Args:
        directory: str or path. A directory of `SparseEncoder` of sentence-transformers, or of
            transformers' `ForMaskedLM`.
        max_active: int. Number of the largest weights of a text to keep. Default: the number that
            the directory names as `max_active_dims`, or all.
        max_length, extension: as in `open_embedder`.
        token_budget: int. Maximum number of tokens in a batch, padding included. Each takes memory
            for the logits of the whole vocabulary.

    Attributes:
        model: `keras.Model` from ids (B, T) to weights (B, V). `similarity` trains it.
        tokenizer: `Tokenizer`.
        prompts: dict, "query" and "document" -> the text in front of every text of that kind.
        max_length, max_active, token_budget: as given, or as read.

    Raises:
        FileNotFoundError: if the directory or a part of it is missing.

    Example:

    >>> splade = SparseEmbedder("splade")
    >>> documents = splade.encode_documents(["w1 w2 w3", "w4 w5"], verbose=0)
    >>> splade.encode_queries(["w4"], verbose=0).products(documents).shape
    (1, 2)

    Reference: [SPLADE v2](https://arxiv.org/abs/2109.10086).
    """

    title = "a sparse encoder"
    similarities = {"dot": False, "dot_product": False}

    @former_arguments
    @remembered
    def __init__(
        self, directory, *, max_length=None, max_active=None, extension=None, token_budget=2048
    ):
        if max_active is not None:
            checks.whole("max_active", max_active)
        else:
            max_active = read_size(directory.settings, "max_active_dims")
        self.max_active = max_active
        transformer, pooling = read_modules(directory, SPARSE)
        tokenizer, length, arguments = read_encoder(
            transformer, max_length=max_length, extension=extension
        )
        model = build_transformer_model(transformer.folder, with_mlm="linear", **arguments)
        self.prompts = {side: choose_prompt(directory, side=side) for side in PROMPT_NAMES}
        self.model = sparse_embedder(model, *_pooling(pooling))
        self.tokenizer, self.max_length, self.token_budget = tokenizer, length, token_budget

    def terms(self, vectors, top_k=10):
        """Lists the (token, weight) pairs of each text with the largest weights, the largest first.

        Args:
            vectors: `SparseVectors`.
            top_k: int. Tokens per text.

        Example:

        >>> splade = SparseEmbedder("splade")
        >>> (terms,) = splade.terms(splade.encode_documents(["w1 w2"], verbose=0), top_k=2)
        >>> len(terms)
        2
        """
        found = []
        for start, end in zip(vectors.offsets[:-1], vectors.offsets[1:], strict=True):
            order = start + np.argsort(-vectors.values[start:end], kind="stable")[:top_k]
            tokens = self.tokenizer.ids_to_tokens(vectors.indices[order])
            found.append(list(zip(tokens, vectors.values[order].tolist(), strict=True)))
        return found

    def save(self, directory):
        """Writes the model as it was read, for `SparseEncoder` or transformers; see `Embedder`."""
        files = sentence_transformers_files(self.folder, self.max_length, SPARSE)
        return save_as_read(self.model, self.tokenizer, self.max_length, files, directory)

    def encode(self, texts, side, verbose="auto"):
        """Computes the vectors of texts of a side, as `SparseVectors`; see `Embedder`."""
        if kind_of_all(texts) != "str":
            raise TypeError(f"Texts must be a list of str. Received: {quote(texts[0])}")
        # The dense vectors of all texts may not fit in memory: they become sparse one by one.
        rows = [None] * len(texts)
        for weights, number in predicted(
            self.model,
            [self.prompts[side] + text for text in texts],
            verbose,
            tokenizer=self.tokenizer,
            max_length=self.max_length,
            token_budget=self.token_budget,
        ):
            rows[number] = SparseVectors.of(weights[None], self.max_active)
        return _together(rows)

    def similarity(self, queries, documents):
        """Scores every document for every query by dot products; see `Embedder`."""
        return queries.products(documents)


def _together(rows):
    """One `SparseVectors` of those of single rows."""
    counts = [len(row.indices) for row in rows]
    return SparseVectors(
        np.concatenate([row.indices for row in rows]),
        np.concatenate([row.values for row in rows]),
        np.concatenate([[0], np.cumsum(counts)]),
        rows[0].size,
    )


def _pooling(module):
    """The pooling and the activation that a module names."""
    found = []
    for key, known in (("pooling_strategy", SPARSE_POOLINGS), ("activation_function", ACTIVATIONS)):
        value = module.config.get(key, known[0])
        if value not in known:
            raise ValueError(
                f"{module.folder}: {key} must be one of {known}. Found {quote(value)}."
            )
        found.append(value)
    return found
