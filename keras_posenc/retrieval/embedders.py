"""Opens the directory of any kind of retrieval, or the model that made given vectors."""

import dataclasses
import inspect

import numpy as np

from keras_posenc.files.untrusted import quote
from keras_posenc.folders.folder import Folder, hash_of, is_touched
from keras_posenc.folders.sentence_transformers import (
    CROSS_ENCODER,
    EMBEDDER,
    LATE_INTERACTION,
    SPARSE,
    layout_of,
)
from keras_posenc.retrieval.cross_encoder.reranker import Reranker
from keras_posenc.retrieval.dense.embedder import DenseEmbedder
from keras_posenc.retrieval.embedder import Embedder
from keras_posenc.retrieval.embedding_record import check_model
from keras_posenc.retrieval.former import Unopened, former_arguments
from keras_posenc.retrieval.late_interaction.embedder import LateInteraction
from keras_posenc.retrieval.late_interaction.files import is_stanford
from keras_posenc.retrieval.late_interaction.vectors import MultiVectors
from keras_posenc.retrieval.readings import PER_CHUNK, LateSpans, reading_of
from keras_posenc.retrieval.sparse.embedder import SparseEmbedder
from keras_posenc.retrieval.sparse.vectors import SparseVectors

CLASSES = {
    EMBEDDER: DenseEmbedder,
    CROSS_ENCODER: Reranker,
    LATE_INTERACTION: LateInteraction,
    SPARSE: SparseEmbedder,
}
# What a config.json has that `CrossEncoder` of sentence-transformers wrote.
CROSS_ENCODER_KEYS = ("sbert_ce_default_activation_function", "sentence_transformers")


@former_arguments
def open_embedder(
    directory,
    *,
    reading=None,
    max_length=None,
    prompt=None,
    dimension=None,
    extension=None,
    ignore=None,
    token_budget=None,
):
    """Opens a model of retrieval, of the kind that its directory holds.

    | directory | opened as | vectors of a text |
    |---|---|---|
    | of sentence-transformers, of an encoder alone, of `finetune` | `DenseEmbedder` | one |
    | of `MultiVectorEncoder`, PyLate, Stanford's ColBERT | `LateInteraction` | one per token |
    | of `SparseEncoder` | `SparseEmbedder` | a weight per token of the vocabulary |
    | of `CrossEncoder` | `Reranker` | none: it scores pairs |

    Args:
        directory: str or path; or a `Folder`.
        reading: how a long text is read. "whole", the default: up to `max_length` tokens.
            "ends": of a longer one, half of them from its beginning and half from its end.
            "chunks:256": all of it as the mean of its chunks. "late:256" or "late:256,overlap=64":
            a vector per chunk, with the whole text as context. Or `Chunks`, `LateChunks`,
            `LateSpans`. Only `DenseEmbedder` reads chunks late; `Reranker` reads "ends" and chunks.
        max_length: int. Tokens after which texts are truncated, which is logged. Default: the
            length that `directory` names. A length above the number of positions extends the table.
        prompt: str. What precedes every text: the name of one of the directory's prompts, or a
            text. Default: the directory's prompt of documents (document, passage or corpus) or of
            queries (query), else the one that it puts before all texts.
        dimension: int. Cuts vectors to their first numbers, as of Matryoshka embeddings; they keep
            length 1 if they have it. Default: the number that the directory names as
            `truncate_dim`, or all.
        extension: `Extension`, str or dict. How to serve more positions than the model has, such as
            "hierarchical:0.4", the default where `max_length` needs them, or "yarn:4".
        ignore: list of str. Patterns of tensors to leave out, such as cls.chain.*
        token_budget: int. Maximum number of tokens in a batch, padding included; on a CPU at most
            1,024 for dense vectors. Default: 8192, for sparse vectors 2048.

    Returns:
        `Embedder`, with the verbs `encode_queries`, `encode_documents`, `rank` and `save`.

    Raises:
        FileNotFoundError: if the directory or a part of it is missing.

    Example:

    >>> embedder = open_embedder("all-MiniLM-L6-v2", reading="late:2")
    >>> embedder.encode_documents(["One. Two."], verbose=0).of(["One. Two."])
    ['One.', 'Two.']
    >>> texts = open_embedder("all-MiniLM-L6-v2", max_length=2048)  # stretched
    >>> texts.model.get_layer("Embedding-Position").max_position >= 2048
    True
    """
    arguments = locals()
    return Opening.of(arguments.pop("directory"), arguments).open()


@dataclasses.dataclass(frozen=True)
class Opening:
    """An embedder of a `Folder`, a class and arguments that is opened when all else has been
    checked, or was opened before."""

    directory: object
    kind: type
    arguments: dict
    embedder: Embedder | None = None

    @classmethod
    def of(cls, source, arguments, kind=None, vectors=False):
        """The opening of a directory, or of what is open, such as an `Embedder`.

        Of `arguments` of `open_embedder`, those that are None were not given. `kind` is the name of
        a class, if it is not to be read from the directory. With `vectors`, a cross-encoder is
        refused.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        if isinstance(source, Unopened):
            given = {**given, **source.arguments}
            kind, source = given.pop("kind", kind), source.directory
        if isinstance(source, Embedder):
            if given:
                raise ValueError(
                    f"{' and '.join(given)} belong to opening {source.directory}, which is open: "
                    f"give them to open_embedder. Received: {type(source).__name__}"
                )
            _check_vectors(source.directory, type(source), vectors)
            return cls(source.folder, type(source), source.opened_with, source)
        source = Folder.of(source)
        named = {each.__name__: each for each in CLASSES.values()}
        found = kind_of(source)
        kind = found if kind is None else named[kind]
        if found not in (DenseEmbedder, kind):
            raise ValueError(
                f"{source} is {found.title}, not {kind.title}: open it with {found.__name__}."
            )
        _check_vectors(source, kind, vectors)
        if reading_of(given.get("reading")) is None:
            given.pop("reading", None)
        taken = inspect.signature(kind.__init__).parameters
        if refused := [name for name in given if name not in taken]:
            raise ValueError(
                f"{source} is {kind.title}, which takes no {' and no '.join(refused)}: leave "
                f"{'it' if len(refused) == 1 else 'them'} out. Received: "
                f"{', '.join(f'{name}={given[name]}' for name in refused)}"
            )
        return cls(source, kind, given)

    @property
    def reading(self):
        return reading_of(self.arguments.get("reading"))

    def one_vector(self, queries=False):
        """Whether each text has one dense vector. Queries are read late in given spans only."""
        late = isinstance(self.reading, LateSpans if queries else PER_CHUNK)
        return self.kind is DenseEmbedder and not late

    @property
    def fingerprint(self):
        """A hash of the weights. Those of an open model are compared if the files were touched."""
        folder, model = self.directory, self.embedder
        if model is not None and is_touched(folder):
            again = self.kind(model.directory, **self.arguments)
            known, found = model.model.get_weights(), again.model.get_weights()
            if len(known) == len(found) and all(map(np.array_equal, known, found)):
                vars(folder)["opened"] = again.folder.opened
        return folder.fingerprint or hash_of([])  # opening the directory tells why

    def open(self):
        """The `Embedder`."""
        if self.embedder is not None:
            return self.embedder
        return self.kind(self.directory, **self.arguments)


def _check_vectors(source, kind, vectors):
    """Refuses a cross-encoder where vectors are needed."""
    if vectors and kind is Reranker:
        raise ValueError(
            f"{source} is {kind.title}, which reads a query and a document together and has no "
            "vectors of either: order documents with `rerank`, or give the directory of an "
            "embedder."
        )


def kind_of(folder):
    """The class that opens a directory, by what is in it; a dense embedder if nothing is named."""
    if folder.finetuned or not folder.is_directory:
        return DenseEmbedder
    if is_stanford(folder):
        return LateInteraction
    layout = layout_of(folder)
    if layout is None:
        config = folder.config
        one_score = len(config.get("id2label") or {}) == 1 and any(
            str(name).endswith("ForSequenceClassification")
            for name in config.get("architectures") or ()
        )
        if one_score or any(config.get(key) is not None for key in CROSS_ENCODER_KEYS):
            layout = CROSS_ENCODER
    return CLASSES.get(layout, DenseEmbedder)


# What makes each kind of vectors; dense ones are arrays.
EMBEDDERS = {MultiVectors: LateInteraction, SparseVectors: SparseEmbedder}


def opening_for(vectors, given):
    """The `Opening` of the model that made vectors, as `embed` opened it and with what is given."""
    check_model(vectors.record, vectors.path, given)
    kind = EMBEDDERS.get(type(vectors.values), DenseEmbedder)
    prompt = _prompt(given, vectors.record)
    if given.embedder is None:
        arguments = {**vectors.settings, **given.arguments, "reading": None, "prompt": prompt}
        return Opening.of(given.directory, arguments, kind=kind.__name__)
    if not issubclass(given.kind, kind):
        raise ValueError(
            f"`vectors` were made by {kind.title}, and {given.directory} is open as "
            f"{given.kind.title}: give the model that made them."
        )
    return given


def _prompt(opening, record):
    """The prompt of queries that was given, or None for the directory's."""
    prompt = opening.arguments.get("prompt")
    made_with = record["settings"].get("prompt") if record else None
    if prompt is not None or made_with is None:
        return prompt
    folder = opening.directory
    named = (folder.finetuned["prompts"] or {}) if folder.finetuned else folder.prompts[0]
    if "query" not in named:
        raise ValueError(
            f"`prompt` must be given, because the vectors were made with prompt={quote(made_with)} "
            'and the directory names no prompt of queries; "" is none. Received: None'
        )
    return None
