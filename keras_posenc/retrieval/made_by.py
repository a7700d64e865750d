"""The model that made vectors, to be opened for queries to them."""

from keras_posenc.files.untrusted import quote
from keras_posenc.retrieval.dense.embedder import DenseEmbedder
from keras_posenc.retrieval.embedders import Opening
from keras_posenc.retrieval.embedding_record import check_model
from keras_posenc.retrieval.late_interaction.embedder import LateInteraction
from keras_posenc.retrieval.late_interaction.vectors import MultiVectors
from keras_posenc.retrieval.sparse.embedder import SparseEmbedder
from keras_posenc.retrieval.sparse.vectors import SparseVectors

# What makes each kind of vectors; dense ones are arrays.
EMBEDDERS = {MultiVectors: LateInteraction, SparseVectors: SparseEmbedder}


def opening_for(vectors, given):
    """The `Opening` of the model that made vectors, as `embed` opened it and with what is given."""
    check_model(vectors.record, vectors.path, given.directory)
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
