"""Real checkpoints, if KERAS_POSENC_CHECKPOINTS names a folder of their directories.

Without one the same comparisons run over a tiny directory, so that they are known to work.
"""

import os
import pathlib

import numpy as np
import pytest
from keras import ops
from published import SIZES, answer, publish, token_ids

from keras_posenc import build_transformer_model
from keras_posenc.models.families.task_heads import TASKS
from keras_posenc.models.heads_in import heads_in
from keras_posenc.retrieval import open_embedder

pytestmark = pytest.mark.once

FOLDER = os.environ.get("KERAS_POSENC_CHECKPOINTS")
DIRECTORIES = sorted(p for p in pathlib.Path(FOLDER or os.devnull).glob("*") if p.is_dir())
TEXTS = [
    "Train short, test long.",
    "Ein naïver Café-Besucher bezahlt 3,50 € — 東京 🙂.",
    "It was the whale, said the captain, and shut the hatch. " * 40,
]


@pytest.fixture(params=DIRECTORIES or ["tiny"], ids=lambda path: pathlib.Path(path).name)
def directory(request, tmp_path):
    if request.param != "tiny":
        return request.param
    publish(tmp_path, "BertForSequenceClassification", **SIZES, max_position_embeddings=64)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz.,"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    return tmp_path


def reference(directory, kind):
    import transformers

    model = getattr(transformers, kind).from_pretrained(directory, dtype="float32").eval()
    return model.encoder if hasattr(model, "decoder") and hasattr(model, "encoder") else model


def compare(ours, other, lengths):
    """Outputs in float32; many layers are as far from float64."""
    config = ours.transformer.config
    pad = config.pad_token_id or 0
    for length in lengths:
        ids, real = token_ids(length, pad, config.vocab_size)
        feeds = [ids, 0 * ids][: len(ours.inputs)]
        expected = answer(other, ids, real)
        found = ops.convert_to_numpy(ours(feeds, training=False))
        if expected.ndim == 3:
            found, expected = found[real], expected[real]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * abs(expected).max())


def test_the_features_are_those_of_transformers(directory):
    ours = build_transformer_model(directory)
    config = ours.transformer.config
    lengths = (48, 2048 if not config.position_table else config.max_position)
    compare(ours, reference(directory, "AutoModel"), lengths)


def test_the_logits_of_a_head_are_those_of_transformers(directory):
    task = heads_in(directory, config=directory).get("head")
    if task in (None, "question_answering"):  # without a head there is nothing to compare
        return
    ours = build_transformer_model(directory, head=task)
    compare(ours, reference(directory, f"AutoModel{TASKS[task]}"), [48])


def test_the_vectors_are_those_of_sentence_transformers(directory):
    from sentence_transformers import SentenceTransformer

    other = SentenceTransformer(str(directory), device="cpu", model_kwargs={"dtype": "float32"})
    expected = other.encode(TEXTS, show_progress_bar=False)
    ours = open_embedder(directory)
    ours.max_length = min(ours.max_length or other.max_seq_length, other.max_seq_length)
    cut = ours.tokenizer.encode_batch([ours.prompt + t for t in TEXTS], max_length=ours.max_length)
    found = np.concatenate([_vector(ours, ids, segments) for ids, segments in cut])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * abs(expected).max())


def _vector(ours, ids, segments):
    feeds = [np.array([ids]), np.array([segments])][: len(ours.model.inputs)]
    return ops.convert_to_numpy(ours.model(feeds, training=False))
