"""Whatever builds can be called, trained, saved and opened, or it is refused when it is built."""

import keras
import numpy as np
import pytest
from programs import predicted
from selection import on_all

from keras_posenc import build_transformer_model, read_config, save_checkpoint
from keras_posenc.models.families import FAMILIES
from keras_posenc.models.families.task_heads import TASKS

SIZES = dict(
    vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, pad_token_id=0,
    num_key_value_heads=2, intermediate_size=24, hidden_act="gelu", max_position_embeddings=32,
    num_labels=3,
)  # fmt: skip
MORE = {
    "albert": {"embedding_size": 8},
    "electra": {"embedding_size": 8},
    "mpnet": {"pad_token_id": 1},
    "esm": {"position_embedding_type": "rotary", "mask_token_id": 4, "pad_token_id": 1},
}
OPTIONS = [
    {},
    {"with_pool": True},
    {"with_nsp": True},
    {"with_mlm": True},
    {"with_discriminator": True},
    *({"head": task} for task in TASKS),
    {"application": "lm"},
    {"application": "unilm"},
]
ON_ALL = ["bert", "gau_alpha", "esm"]
IDS = np.arange(3, 15, dtype="int32").reshape(2, 6)


def built(family, **options):
    family = FAMILIES[family]
    config = SIZES | {"model_type": family.model_types[0]} | MORE.get(family.name, {})
    if family.table(read_config(config)).names("Embedding-Segment/embeddings"):
        config["type_vocab_size"] = 2
    name = family.name if family.without_type else None
    return build_transformer_model(config, model=name, **options)


def feeds(model):
    """Segments distinguish a prompt of three tokens."""
    segments = np.repeat(np.arange(6)[None] > 2, 2, 0).astype("int32")
    return [IDS if "token_ids" in x.name else segments for x in model.inputs]


def same(model, other):
    """What is opened again is called, because TensorFlow would trace `predict` for each."""
    one, two = model.predict(feeds(model), verbose=0), predicted(other, feeds(other))
    assert isinstance(one, list) == isinstance(two, list)
    pairs = zip(one, two, strict=True) if isinstance(one, list) else [(one, two)]
    for each, again in pairs:
        np.testing.assert_allclose(each, again, atol=1e-5)


def trained(model):
    count = len(model.outputs)

    def loss(_, output):
        return keras.ops.mean(keras.ops.square(keras.ops.cast(output, "float32")), axis=-1)

    model.compile("sgd", [loss] * count)
    model.train_on_batch(feeds(model), [np.zeros(2, "float32")] * count)


def options_of(family):
    """All on torch, which compiles nothing; on the others each with one family."""
    if keras.backend.backend() == "torch":
        return OPTIONS
    place = ON_ALL.index(family)
    return [OPTIONS[0], *OPTIONS[1 + place :: len(ON_ALL)]]


@pytest.mark.parametrize("family", on_all(ON_ALL, list(FAMILIES)))
def test_whatever_builds_is_called_trained_saved_and_opened(family, tmp_path):
    builds = 0
    for options in options_of(family):
        try:
            model = built(family, **options)
        except ValueError:
            continue
        builds += 1
        trained(model)
        model.save(tmp_path / "model.keras")
        same(model, keras.saving.load_model(tmp_path / "model.keras", compile=False))
        try:
            save_checkpoint(model, tmp_path / "out")
        except ValueError as error:
            # A layer that may be put on any model, and that checkpoints of this family never have.
            assert options and "head" not in options, error
            assert "save the model as .keras instead" in str(error)
            continue
        same(model, build_transformer_model(tmp_path / "out", **options))
    assert builds > 1


@pytest.mark.once
def test_token_logits_that_the_table_does_not_fit_are_refused():
    words = "`embedding_size` must be the `hidden_size`, 16: set mlm_dense=True"
    for options in ({"with_mlm": True}, {"application": "lm"}):
        with pytest.raises(ValueError, match=words):
            built("albert", mlm_dense=False, **options)
    assert built("albert", mlm_dense=False).output_shape == (None, None, 16)


def test_a_gated_unit_sees_a_prompt_and_its_own_past():
    """The order of UniLM is that of the mask which says the same."""
    from keras_posenc import GatedAttentionUnit

    x = np.random.default_rng(0).normal(size=(1, 6, 8)).astype("float32")
    order = np.array([[0, 0, 0, 1, 2, 3]], "int32")
    unit = GatedAttentionUnit(16, key_size=8, encodings=["rotary"])
    found, expected = (
        keras.ops.convert_to_numpy(unit(x, **arguments))
        for arguments in (
            {"query_order": order, "key_order": order},
            {"attention_mask": order[:, None] <= order[:, :, None]},
        )
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)
