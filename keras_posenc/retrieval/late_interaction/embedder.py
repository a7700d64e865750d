"""Late interaction (ColBERT): a vector per token, and the best match of each query token."""

import copy
import dataclasses

import numpy as np

from keras_posenc.files.untrusted import quote
from keras_posenc.models.config_file import read_config
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.models.heads import features_of
from keras_posenc.models.sentence_embedding import NORMALIZE, with_modules
from keras_posenc.retrieval.embedder import Embedder, predicted, remembered
from keras_posenc.retrieval.former import former_arguments
from keras_posenc.retrieval.late_interaction.files import (
    PROJECTION,
    files_of,
    is_stanford,
    read_late_interaction,
    to_stanford,
)
from keras_posenc.retrieval.late_interaction.training_model import late_interaction
from keras_posenc.retrieval.late_interaction.vectors import MultiVectors, maxsim
from keras_posenc.retrieval.opening import layer_arrays, module_arrays, read_encoder, save_as_read
from keras_posenc.text import TextBatches
from keras_posenc.text.documents import kind_of_all
from keras_posenc.text.labels import TextNumbers
from keras_posenc.text.truncation import tell_truncation


class LateInteraction(Embedder):
    """A model of late interaction: one vector per token, scored by the best match of each.

        v_t = W h_t / |W h_t|

    The features of token t are h_t. For each token of the query, `maxsim` takes the largest product
    with a token of the document; the score of the document is the sum. A marker token distinguishes
    queries from documents. If the directory requires it, a query is padded with mask tokens, which
    are scored, too. Tokens of a document that are in the directory's list of words to skip, usually
    punctuation, have no vector.

    Args:
        directory: str or path. A directory of `MultiVectorEncoder` of sentence-transformers, of
            PyLate, or of Stanford's ColBERT.
        max_length: int. Tokens after which documents are truncated, as in `open_embedder`.
        extension, token_budget: as in `open_embedder`.

    Attributes:
        model: `keras.Model` from ids (B, T) to the vectors (B, T, D) of all tokens.
        tokenizer: `Tokenizer`.
        query, document: `Side`, how the texts of each side are read.
        token_budget: int.

    Raises:
        FileNotFoundError: if the directory or a part of it is missing.

    Example:

    >>> colbert = LateInteraction("colbert")
    >>> documents = colbert.encode_documents(["one two three", "four five"], verbose=0)
    >>> maxsim(colbert.encode_queries(["four"], verbose=0), documents).shape
    (1, 2)

    Reference: [ColBERT](https://arxiv.org/abs/2004.12832),
    [ColBERTv2](https://arxiv.org/abs/2112.01488).
    """

    title = "a model of late interaction"
    # All mean `maxsim`: PyLate's name, and those of former versions.
    similarities = dict.fromkeys(("maxsim", "MaxSim", "cosine", "dot", "dot_product"))

    @former_arguments
    @remembered
    def __init__(self, directory, *, max_length=None, extension=None, token_budget=8192):
        self.token_budget = token_budget
        modules, query, document = read_late_interaction(directory)
        transformer, *modules = modules
        if max_length is not None:
            document = dataclasses.replace(document, length=max_length)
        lengths = [side.length for side in (query, document) if side.length is not None]
        self.tokenizer, _, arguments = read_encoder(
            transformer, max_length=max(lengths, default=None), extension=extension
        )
        self.query, self.document = map(self._completed, (query, document))
        self._expansion = self._expansion_id()
        # What fills up rows is masked by its id, and so are mask tokens that none attends to.
        self._padded = copy.copy(self.tokenizer)
        if self.query.expand is not None and not self.query.attended:
            self._padded.pad_id = arguments["pad_token_id"] = self._expansion
        is_other = self._padded.pad_id != self.tokenizer.pad_id
        if is_other and read_config(transformer.folder).position_offset:
            raise ValueError(
                f"{directory} counts positions by its padding, and expands queries by mask tokens "
                "that none attends to: the two together are not supported."
            )
        encoder = build_transformer_model(
            transformer.folder, ignore=[PROJECTION] if is_stanford(directory) else None, **arguments
        )
        features = features_of(encoder, "Late interaction", of_tokens=True)
        modules = [module for module in modules if module.kind != "MultiVectorMask"]
        if not modules or modules[-1].kind != "Normalize":
            modules.append(NORMALIZE)
        self.model = with_modules(encoder, features, modules, "late_interaction")

    def encode(self, texts, side, verbose="auto"):
        """Computes the vectors of texts of a side, as `MultiVectors`; see `Embedder`."""
        side = self.query if side == "query" else self.document
        rows = self._rows(texts, side)
        skipped = self._skipped(side)
        token_indices = [np.flatnonzero(~np.isin(ids, skipped)) for ids, _ in rows]
        if not all(map(len, token_indices)):
            number = [len(each) for each in token_indices].index(0)
            raise ValueError(f"Text {number} has no token that is not skipped: leave it out.")
        offsets = np.concatenate([[0], np.cumsum([len(each) for each in token_indices])])
        vectors = np.empty((offsets[-1], self.model.output_shape[-1]), "float32")
        for found, number in predicted(
            self.model,
            rows,
            verbose,
            tokenizer=self._padded,
            max_length=side.length and max(side.length, side.expand or 0),
            token_budget=self.token_budget,
        ):
            vectors[offsets[number] : offsets[number + 1]] = found[token_indices[number]]
        return MultiVectors(vectors, offsets)

    def similarity(self, queries, documents):
        """Scores every document for every query by `maxsim`; see `Embedder`."""
        return maxsim(queries, documents)

    def training_model(self, num_texts=2):
        """Builds the model that `fit` trains: the weights are those of `model`.

        Use the loss `MaxSimRanking` with the documents of the batch and mined negatives, and
        `MarginMSE` or `ListwiseKL` with the scores of a teacher. The inputs come from `batches`.
        Queries are padded to the length of the documents, but computed at no more than the length
        that queries are truncated to.

        Args:
            num_texts: int. 2 for (query, document), more for further documents.

        Returns:
            `keras.Model` from ids (B, S, T) to (B, S, T, D + 1): the vectors, and 1 for those that
                are scored, 0 for others.

        Example:

        >>> LateInteraction("colbert").training_model(3).output_shape[:2]
        (None, 3)
        """
        skipped, expand = self._skipped(self.document), self.query.expand or 0
        longest = max(self.query.length, expand) if self.query.length else None
        return late_interaction(
            self.model, self._padded.pad_id, skipped, expand, longest, num_texts
        )

    def batches(self, groups, labels=None, **options):
        """Makes the `TextBatches` that `training_model` is fitted on.

        Args:
            groups: list of tuples (query, document, further documents) of str, all of one size.
            labels: list of int: rows of the same number belong together, and are no negatives of
                each other. Or `Labels`, such as `FloatLabels` of the scores of a teacher. Default:
                the numbers of all texts, by their tokens, as `MaxSimRanking` takes them.
            **options: of `TextBatches`, such as `token_budget`, `shuffle` and `seed`.

        Example:

        >>> batches = LateInteraction("colbert").batches([("one", "one two"), ("six", "six ten")])
        >>> batches[0][0]["token_ids"].shape[:2]
        (2, 2)
        """
        for number, group in enumerate(groups):
            sound = isinstance(group, tuple) and all(isinstance(text, str) for text in group)
            if not sound or len(group) < 2:
                raise TypeError(
                    f"Group {number} must be a tuple (query, document, ...) of str. Received: "
                    f"{quote(group)}"
                )
        queries = self._rows([group[0] for group in groups], self.query)
        flat = [text for group in groups for text in group[1:]]
        documents = iter(self._rows(flat, self.document))
        rows = [
            (query, *(next(documents) for _ in group[1:]))
            for query, group in zip(queries, groups, strict=True)
        ]
        return TextBatches(
            rows,
            TextNumbers(()) if labels is None else labels,
            tokenizer=self._padded,
            max_length=None,
            apart=True,
            **{"token_budget": self.token_budget, **options},
        )

    def save(self, directory):
        """Writes the model in the format that it was read from; see `Embedder`."""
        files = files_of(self.folder, self.query, self.document)
        finish = None
        if is_stanford(self.folder):
            (dense,) = (layer for layer in self.model.layers if layer.name.startswith("Dense-"))

            def finish(folder):
                to_stanford(folder, self.folder, layer_arrays(dense))

        else:
            modules = read_late_interaction(self.folder)[0]
            files |= module_arrays(modules, self.model, files)
        lengths = self.query.length, self.document.length
        length = None if None in lengths else max(lengths)
        transformer = self.model.transformer
        return save_as_read(transformer, self.tokenizer, length, files, directory, finish)

    def _completed(self, side):
        """A side with its marker, if the prompt begins with a token."""
        first = side.prompt.split(None, 1)[:1]
        for token in (side.prompt, *first):
            if side.marker is None and token in self.tokenizer.added_tokens:
                rest = side.prompt.removeprefix(token).lstrip()
                return dataclasses.replace(side, marker=token, prompt=rest)
        return side

    def _marker_id(self, marker):
        vocabulary = self.tokenizer.vocabulary
        found = vocabulary.get(marker, vocabulary.get(marker.strip()))
        if found is None:
            raise ValueError(f"The tokenizer of {self.directory} has no token {quote(marker)}.")
        return found

    def _expansion_id(self):
        """The token that queries are filled up with: a mask, or the end of texts."""
        tokenizer, token = self.tokenizer, self.query.token
        if token is not None:
            return self._marker_id(token)
        candidates = (tokenizer.mask_id, tokenizer.eos_id, tokenizer.pad_id)
        return next(token for token in candidates if token is not None)

    def _skipped(self, side):
        vocabulary = self.tokenizer.vocabulary
        return sorted({vocabulary[word] for word in side.skipped if word in vocabulary})

    def _rows(self, texts, side):
        """(token ids, segment ids) of each text, with the marker and the expansion."""
        if kind_of_all(texts) != "str":
            raise TypeError(f"Texts must be a list of str. Received: {quote(texts[0])}")
        tokenizer, marker = self.tokenizer, []
        if side.marker is not None:
            marker = [self._marker_id(side.marker)]
        contents = tokenizer.contents([side.prompt + text for text in texts])
        special = tokenizer.special_tokens() + len(marker)
        tell_truncation(np.array([len(ids) + special for ids in contents]), side.length)
        rows = []
        for ids in contents:
            length = None if side.length is None else side.length - len(marker)
            ids, segments = tokenizer.assemble(ids, max_length=length)
            ids, segments = [*ids[:1], *marker, *ids[1:]], [0] * len(marker) + segments
            more = max(0, (side.expand or 0) - len(ids))
            rows.append((ids + [self._expansion] * more, segments + [0] * more))
        return rows
