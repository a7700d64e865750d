"""Dense embedders: one vector per text, or per chunk of it."""

import dataclasses
import json
import pathlib

import numpy as np

from keras_posenc.folders.finetuned import SIDES
from keras_posenc.folders.sentence_transformers import (
    MODEL_CONFIG,
    read_pooling,
    read_similarity,
    read_size,
)
from keras_posenc.folders.written import sentence_transformers_files
from keras_posenc.metrics.scores import unit_rows
from keras_posenc.models.heads import features_before_head
from keras_posenc.models.model import model_on
from keras_posenc.models.sentence_embedding import embedder, normalizes, with_dimension
from keras_posenc.retrieval.dense.late_chunking import ChunkVectors, vectors_of_spans
from keras_posenc.retrieval.dense.titles import chunk_vectors
from keras_posenc.retrieval.embedder import Embedder, remembered
from keras_posenc.retrieval.nearest import check_width
from keras_posenc.retrieval.opening import (
    choose_prompt,
    module_arrays,
    open_finetuned,
    read_encoder,
    save_as_read,
    side_prompt,
)
from keras_posenc.retrieval.readings import ENDS, PER_CHUNK, Chunks, Passages, reading_of
from keras_posenc.text.documents import kind_of_all
from keras_posenc.text.offsets import check_texts
from keras_posenc.training.finetuning.task import check_encoded, pooled
from keras_posenc.training.text_model import TextModel, check_chunks


class DenseEmbedder(Embedder, TextModel):
    """An embedder of one vector per text, or per chunk of it, with its tokenizer.

    It is a `TextModel`, whose `predict` gives the vectors of texts that are neither queries nor
    documents. The dict `sides` has the texts in front of every "query" and every "document".

    Args:
        directory: str or path. A directory of sentence-transformers; one of an encoder alone is
            pooled by its mean. The `output` of `finetune` is read as it was trained, at its length
            and with its positions. With task="embed" it gives its vectors, otherwise the mean of
            the features before the head.
        reading: how a long text is read. "whole", the default: up to `max_length` tokens. Or
            "ends"; "chunks:256" or `Chunks`; "late:256" or `LateChunks`; `LateSpans`. Late chunking
            is for documents; queries are read whole.
        max_length, prompt, dimension, extension, ignore, token_budget: as in `open_embedder`.

    Raises:
        FileNotFoundError: if the directory or a part of it is missing.

    Example:

    >>> dense = DenseEmbedder("all-MiniLM-L6-v2", reading="late:2")
    >>> dense.rank("One?", ["Two. One.", "Three."], verbose=0)[0]["corpus_id"]
    0

    Reference: [Sentence-BERT](https://arxiv.org/abs/1908.10084).
    """

    similarities = {"cosine": True, "dot": False, "dot_product": False}

    @remembered
    def __init__(
        self,
        directory,
        *,
        reading=None,
        max_length=None,
        prompt=None,
        dimension=None,
        extension=None,
        ignore=None,
        token_budget=8192,
    ):
        reading = reading_of(reading)
        in_chunks = isinstance(reading, Chunks)
        check_chunks(str(reading) if in_chunks else None, max_length)
        length = reading.size if in_chunks else max_length
        trained = open_finetuned(
            directory, length, token_budget, extension=extension, ignore=ignore
        )
        self._trained, self._leaves_prompts_out = trained, False
        if trained is not None:
            default = trained.prompt if prompt is None else (trained.prompts or {}).get(prompt)
            default = prompt if default is None else default
            model, tokenizer, length = trained.model, trained.tokenizer, trained.max_length
            if not trained.kind.embeds:
                features = model_on(model, features_before_head(model), "features")
                model = embedder(features, normalize=False)
        else:
            transformer, pooling, *_ = directory.modules
            tokenizer, length, arguments = read_encoder(
                transformer, max_length=length, extension=extension
            )
            model = embedder(directory, ignore=ignore, **arguments)
            self._leaves_prompts_out = not read_pooling(pooling)[1]
            default = choose_prompt(directory, prompt)
            if dimension is None:
                dimension = read_size(directory.settings, "truncate_dim")
                dimension = dimension and min(dimension, model.output_shape[-1])
        if reading == ENDS:  # read whole, by a tokenizer that cuts elsewhere
            tokenizer.truncate_from, reading = "middle", None
        self.reading, self.dimension = reading, dimension
        self._given_prompt = prompt
        self.sides = dict.fromkeys(SIDES, default)
        if prompt is None:
            found = {side: side_prompt(directory, None, side) for side in SIDES}
            self.sides |= {side: text for side, text in found.items() if text is not None}
        if dimension is not None:
            model = with_dimension(model, dimension)
        TextModel.__init__(self, model, tokenizer, length, token_budget, prompt=default)
        self._check_prompt(default)
        self._of_prompt = {}

    def predict(self, texts, verbose="auto"):
        """Computes the vectors of texts that are neither queries nor documents; see `encode`."""
        return self.encode(texts, None, verbose)

    def encode(self, texts, side, verbose="auto", reading=None):
        """Computes the vectors (N, D) of texts of a side, in float32, or their `ChunkVectors`.

        Args:
            texts: list of str.
            side: "query", "document", or None for texts that are neither, which get the prompt of
                all texts.
            verbose: as in `TextModel.predict`.
            reading: as in `DenseEmbedder`, of a kind with the same length. Default: as opened, and
                for queries without late chunking.
        """
        if reading is None and not (side == "query" and isinstance(self.reading, PER_CHUNK)):
            reading = self.reading
        prompt = self.prompt if side is None else self.sides[side]
        self._check_prompt(prompt)
        model = self._with_prompt(prompt)
        if reading is None:
            return model.predict(texts, verbose)
        if (kind := kind_of_all(texts)) != "str":
            raise TypeError(
                f"`texts` must be a list of str, because reading={str(reading)!r} cuts them: give "
                f"str, or read them whole. Received: texts of the kind {kind!r}"
            )
        check_texts(texts)  # which are encoded one by one, without their numbers
        if isinstance(reading, Chunks):
            return _means_of_chunks(model, texts, reading, verbose)
        if isinstance(reading, Passages):
            return chunk_vectors(model, texts, reading, verbose)
        return vectors_of_spans(model, texts, reading.spans, verbose)

    def similarity(self, queries, documents):
        """Scores every document for every query, by cosine or dot product; see `Embedder`."""
        chunked = isinstance(documents, ChunkVectors)
        vectors = documents.vectors if chunked else documents
        check_width(queries, vectors)
        if read_similarity(self.folder, self.similarities):
            queries, vectors = unit_rows(queries), unit_rows(vectors)
        scores = queries @ vectors.T
        if not chunked:
            return scores
        best = np.full((len(queries), documents.texts.max() + 1), np.finfo("float32").min)
        np.maximum.at(best.T, documents.texts, scores.T)
        return best

    def save(self, directory):
        """Writes the model as it was read, for sentence-transformers and `open_embedder`.

        A length, a prompt and a dimension that were given are written, too. What `finetune` wrote
        is saved in its format; see `Embedder`.
        """
        if self._trained is not None:
            self._trained_as_opened().save(directory)
            return sorted(str(path) for path in pathlib.Path(directory).iterdir())
        cuts = not isinstance(self.reading, Chunks)  # whose size cuts no text
        files = sentence_transformers_files(self.folder, self.max_length if cuts else None)
        files |= module_arrays(self.folder.modules, self.model, files)
        settings = dict(self.folder.settings)
        if self._given_prompt is not None:
            prompts = {**(settings.get("prompts") or {}), **dict.fromkeys(SIDES, self.prompt)}
            settings |= {"prompts": prompts, "default_prompt_name": "document"}
        if self.dimension is not None:
            settings["truncate_dim"] = self.dimension
        if settings:
            files[MODEL_CONFIG] = json.dumps(settings, indent=2, ensure_ascii=False).encode()
        model, length = self.model.transformer, self.max_length
        return save_as_read(model, self.tokenizer, length, files, directory, cuts=cuts)

    def _trained_as_opened(self):
        """The fine-tuned `TextModel` with the prompt and the dimension that were given."""
        trained = self._trained
        changes = {}
        if isinstance(self.reading, Chunks):  # whose size cuts no text
            changes["max_length"] = self.folder.finetuned["max_length"]
        if self._given_prompt is not None:
            changes["prompt"] = self.prompt
            changes["prompts"] = dict(self.sides) if trained.kind.embeds else None
        if self.dimension is not None:
            if not trained.kind.embeds:
                raise ValueError(
                    f"{self.directory} holds a model of the task {trained.task!r}, which is saved "
                    "with its head: open it without `dimension`, and give that to open_embedder "
                    f"again. Received: dimension={self.dimension}"
                )
            changes["model"] = self.model
        return dataclasses.replace(trained, **changes)

    def _with_prompt(self, prompt):
        """A `TextModel` with a prompt, which is kept with its compiled programs."""
        if prompt not in self._of_prompt:
            self._of_prompt[prompt] = TextModel(
                self.model, self.tokenizer, self.max_length, self.token_budget, prompt=prompt
            )
        return self._of_prompt[prompt]

    def _check_prompt(self, prompt):
        if prompt and self._leaves_prompts_out:
            raise ValueError(
                f"{self.directory} leaves its prompt out of the pooling, which is not supported: "
                f'give prompt="". Received: {prompt!r}'
            )


def _means_of_chunks(model, texts, reading, verbose):
    """The means of the vectors of each text's chunks, which count by the tokens in them."""
    batches = model.batches(texts, stride=reading.overlap, fixed_shapes=model.max_length)
    vectors = pooled(batches, check_encoded(model.of_batches(batches, verbose)), "mean")
    if normalizes(model.model):
        vectors = unit_rows(vectors)
    return vectors.astype("float32")
