"""Ids without a row are one error on every backend, however they reach a model, and never NaN."""

import keras
import numpy as np
import pytest
from keras import ops
from selection import on_all
from tiny_models import SIZES

from keras_posenc import (
    TextBatches,
    Tokenizer,
    build_encoder_decoder,
    build_transformer_model,
    embedder,
)
from keras_posenc.heads import classifier, span_head, token_classifier
from keras_posenc.layers.token_embedding import IdEmbedding, TokenEmbedding
from keras_posenc.models.similarity import similarity
from keras_posenc.training.text_model import TextModel

IDS = np.random.default_rng(0).integers(3, 30, (2, 6))
LABELS = np.array([0, 1])
NO_ROW = "ids run from 0 to 29: the model has 30 rows"


@pytest.fixture(scope="module")
def model():
    model = classifier(build_transformer_model(model="bert", **SIZES), 2)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss)
    return model


def inputs_with(name, wrong):
    inputs = {"token_ids": IDS, "segment_ids": 0 * IDS}
    array = inputs[name].copy()
    if isinstance(wrong, str):
        return {**inputs, name: array.astype(wrong)}
    array[1, 2] = wrong
    return {**inputs, name: array}


class Batches(keras.utils.PyDataset):
    def __init__(self, inputs):
        super().__init__()
        self.inputs = inputs

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return self.inputs, LABELS


WRONG = [
    ("token_ids", 30, f"`token_ids` has the id 30, and {NO_ROW}"),
    ("token_ids", -1, f"`token_ids` has the id -1, and {NO_ROW}"),
    ("token_ids", 2**32 + 5, f"`token_ids` has the id 4294967301, and {NO_ROW}"),
    ("token_ids", "float64", "`token_ids` must be integers, from 0 to 29. Received: float64"),
    ("token_ids", "bool", "`token_ids` must be integers, from 0 to 29. Received: bool"),
    ("segment_ids", 2, "`segment_ids` has the id 2, and ids run from 0 to 1"),
    ("segment_ids", -1, "`segment_ids` has the id -1, and ids run from 0 to 1"),
]


@pytest.mark.parametrize("name, wrong, message", on_all([WRONG[0], WRONG[2], WRONG[6]], WRONG))
def test_a_model_refuses_ids_without_a_row(model, name, wrong, message):
    inputs = inputs_with(name, wrong)
    calls = [
        lambda: model.predict(inputs, verbose=0),
        lambda: model.predict(list(inputs.values()), verbose=0),
        lambda: model.predict_on_batch(inputs),
        lambda: model.train_on_batch(inputs, LABELS),
        lambda: model.test_on_batch(inputs, LABELS),
        lambda: model.fit(inputs, LABELS, verbose=0),
        lambda: model.evaluate(inputs, LABELS, verbose=0),
        lambda: model(inputs),
    ]
    before = model.get_weights()
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_batches_and_validation_data_are_looked_into(model):
    right = inputs_with("token_ids", 3)
    wrong = inputs_with("token_ids", 30)
    calls = [
        lambda: model.predict(Batches(wrong), verbose=0),
        lambda: model.evaluate(Batches(wrong), verbose=0),
        lambda: model.fit(Batches(wrong), verbose=0),
        lambda: model.fit(right, LABELS, validation_data=(wrong, LABELS), verbose=0),
        lambda: model.fit(right, LABELS, validation_data=Batches(wrong), verbose=0),
        lambda: model.predict(((each,) for each in (right, wrong)), verbose=0),
        lambda: model.predict(TextBatches([[4, 30], [3, 4]], shuffle=False), verbose=0),
        lambda: model(
            {name: ops.convert_to_tensor(ids.astype("int32")) for name, ids in wrong.items()}
        ),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=NO_ROW):
            call()
    assert np.isfinite(model.predict(Batches(right), verbose=0)).all()


def test_position_ids_are_looked_into():
    model = build_transformer_model(model="bert", custom_position_ids=True, **SIZES)
    positions = np.tile(np.arange(6), (2, 1))
    inputs = [IDS, 0 * IDS, positions]
    assert np.isfinite(model.predict(inputs, verbose=0)).all()
    for wrong in (positions + 16, positions - 1, positions + 2**32):
        with pytest.raises(ValueError, match="`position_ids` has the id .* ids run from 0 to 15"):
            model.predict([*inputs[:2], wrong], verbose=0)
    rotary = build_transformer_model(
        model="bert",
        custom_position_ids=True,
        encodings=["rotary"],
        absolute_positions=False,
        **SIZES,
    )
    with pytest.raises(ValueError, match="`position_ids` must be integers. Received: float32"):
        rotary.predict([*inputs[:2], positions.astype("float32")], verbose=0)
    with pytest.raises(ValueError, match="`position_ids` has the id 4294967296, and ids run from"):
        rotary.predict([*inputs[:2], positions * 0 + 2**32], verbose=0)


def test_models_of_several_texts_refuse_ids_too():
    seq2seq = build_encoder_decoder(30, 8, 1, 2, 12)
    with pytest.raises(ValueError, match="`target_ids` has the id 30"):
        seq2seq.predict([IDS, IDS * 0 + 30], verbose=0)
    pairs = similarity(embedder(build_transformer_model(model="bert", **SIZES)))
    ids = np.stack([IDS, IDS + 30])
    with pytest.raises(ValueError, match="`token_ids` has the id"):
        pairs.predict({"token_ids": ids, "segment_ids": 0 * ids}, verbose=0)


@pytest.mark.parametrize("layer", [TokenEmbedding(30, 4), IdEmbedding(30, 4)])
def test_a_layer_alone_refuses_ids_and_a_program_gives_no_nan(layer):
    expected = ops.convert_to_numpy(layer(np.array([[0, 29]])))
    for kind in ("int8", "uint8", "int16", "uint16", "uint32", "int64", "float32"):
        found = layer(ops.convert_to_tensor(np.array([[0, 29]], kind)))
        np.testing.assert_array_equal(ops.convert_to_numpy(found), expected)
    for wrong in (30, -1):
        with pytest.raises(ValueError, match=f"has the id {wrong}, and ids run from 0 to 29"):
            layer(np.array([[0, wrong]]))
    ids = keras.Input((None,), dtype="int32")
    plain = keras.Model(ids, layer(ids))  # looks into nothing
    plain.compile(jit_compile="auto")
    try:
        rows = plain.predict(np.array([[0, 30]]), verbose=0)
    except Exception as error:
        assert "30" in str(error)
    else:
        assert np.isfinite(rows).all()


# --- Tokenizers ---

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(27))]


@pytest.mark.once
def test_a_tokenizer_beyond_the_table_is_refused():
    tokenizer = Tokenizer(vocabulary={word: n for n, word in enumerate(WORDS)})
    model = classifier(build_transformer_model(model="bert", **SIZES), 2)
    message = "The tokenizer has 32 tokens, and the model's table 30 rows: the ids from 30 on"
    with pytest.raises(ValueError, match=message):
        TextModel(model, tokenizer)
    with pytest.raises(ValueError, match=message):
        TextModel(model, tokenizer, 16, 512, ["a", "b"], task="classify")
    fits = Tokenizer(vocabulary={word: n for n, word in enumerate(WORDS[:30])})
    assert TextModel(model, fits).predict(["w0 w1"], verbose=0).shape == (1, 2)
    fits.pad_id = 31
    with pytest.raises(ValueError, match=message):
        TextModel(model, fits)


@pytest.mark.once
@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"task": "dance"}, "`task` must be one of .*Received: 'dance'"),
        ({"max_length": 17}, "max_length=17: the model has 16 positions"),
        ({"chunks": 17}, "chunks=17: the model has 16 positions"),
        ({"prompt": 3}, "`prompt` must be a str. Received: 3"),
        ({"prompt": None}, "`prompt` must be a str. Received: None"),
        *(
            (
                {"task": "classify", "label_names": labels},
                "`label_names` must list 2 names, each once",
            )
            for labels in (None, "ab", ["a"], ["a", "b", "c"], ["a", "a"], [1, 2])
        ),
    ],
)
def test_what_does_not_fit_a_model_is_refused_before_a_text_is_read(model, arguments, message):
    tokenizer = Tokenizer(vocabulary={word: n for n, word in enumerate(WORDS[:30])})
    with pytest.raises((ValueError, TypeError), match=message):
        TextModel(model, tokenizer, **arguments)


@pytest.mark.once
def test_a_model_with_other_inputs_is_no_text_model():
    tokenizer = Tokenizer(vocabulary={word: n for n, word in enumerate(WORDS[:30])})
    ids = keras.Input((None,), dtype="int32", name="words")
    outputs = keras.layers.GlobalAveragePooling1D()(TokenEmbedding(30, 4)(ids))
    with pytest.raises(ValueError, match=r"no other inputs. Received: inputs \['words'\]"):
        TextModel(keras.Model(ids, outputs), tokenizer)


# --- Padding that no model masks ---


class Pads:
    """What `TextBatches` asks of a tokenizer whose end of text pads."""

    pad_id, vocab_size = 2, 30


HEADS = [lambda e: classifier(e, 2), span_head, embedder]


@pytest.mark.once
@pytest.mark.parametrize("family", ["gpt2", "qwen3"])
@pytest.mark.parametrize("head", HEADS)
def test_padding_that_is_not_masked_is_refused_where_it_counts(family, head):
    sizes = {name: size for name, size in SIZES.items() if name != "hidden_act"}
    short, long = [7, 8, 9, 10], [11, 12, 13, 14, 15, 16, 17, 18, 2]
    batches = TextBatches([short, long], None, Pads(), shuffle=False, max_shapes=1)
    model = head(build_transformer_model(model=family, **sizes))
    message = "padded with the token 2, and the model masks no token.*Build it with pad_token_id=2"
    with pytest.raises(ValueError, match=message):
        model.predict(batches, verbose=0)
    of_tokens = token_classifier(build_transformer_model(model=family, **sizes), 3)
    for model in (head(build_transformer_model(model=family, pad_token_id=2, **sizes)), of_tokens):
        together = batches.restore_order(model.predict(batches, verbose=0))
        for number, text in enumerate((short, long)):
            alone = model.predict(np.array([text]), verbose=0)[0]
            ours = together[number]
            ours = ours[: len(text)] if ours.ndim == 2 else ours
            np.testing.assert_allclose(ours, alone, atol=1e-5)


@pytest.mark.once
def test_batches_padded_as_another_model_does_are_refused():
    model = classifier(build_transformer_model(model="bert", pad_token_id=1, **SIZES), 2)
    batches = TextBatches([[3, 4], [5, 6, 7]], shuffle=False)
    with pytest.raises(
        ValueError, match="padded with the token 0, and the model masks the token 1"
    ):
        model.predict(batches, verbose=0)
    full = TextBatches([[3, 4], [5, 6]], shuffle=False, pad_to=2)
    assert model.predict(full, verbose=0).shape == (2, 2)
