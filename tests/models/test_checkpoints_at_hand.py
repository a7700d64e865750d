"""Real checkpoints, if KERAS_POSENC_CHECKPOINTS names a folder of their directories."""

import os
import pathlib

import numpy as np
import pytest
from keras import ops
from published import answer, token_ids

from keras_posenc import build_transformer_model

FOLDER = os.environ.get("KERAS_POSENC_CHECKPOINTS")
DIRECTORIES = sorted(p for p in pathlib.Path(FOLDER or os.devnull).glob("*") if p.is_dir())


@pytest.mark.once
@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda path: path.name)
def test_the_numbers_are_those_of_transformers(directory):
    import transformers

    theirs = transformers.AutoModel.from_pretrained(directory, dtype="float32").eval()
    theirs = theirs.encoder if hasattr(theirs, "decoder") else theirs
    ours = build_transformer_model(directory)
    config = ours.transformer.config
    pad = config.pad_token_id or 0
    for length in (48, 2048 if not config.position_table else config.max_position):
        ids, real = token_ids(length, pad, config.vocab_size)
        feeds = [ids, 0 * ids][: len(ours.inputs)]
        expected = answer(theirs, ids, real)[real]
        found = ops.convert_to_numpy(ours(feeds, training=False))[real]
        # Many layers in float32 are as far from float64.
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * abs(expected).max())
