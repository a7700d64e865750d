"""Prompts: padding by a token that the model does not mask, as GPT-2's end of text, and room."""

import keras
import numpy as np
import pytest

from keras_posenc import Generator, PositionalAttention, build_transformer_model
from keras_posenc.models.generation.prompts import prepare
from keras_posenc.models.generation.sampling import draw
from keras_posenc.positions.learned import LearnedPositionEmbedding

pytestmark = pytest.mark.once


def gpt2():
    keras.utils.set_random_seed(0)
    return build_transformer_model(
        model="gpt2",
        vocab_size=13,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position=32,
        with_mlm="linear",
        initializer_range=0.4,
    )


def test_padding_that_the_model_does_not_mask_may_begin_a_prompt():
    """As GPT-2's <|endoftext|>, which begins texts, ends them and pads them."""
    model = gpt2()
    generator = Generator(model, end_id=2, max_length=4, pad_id=2)
    padded = generator.predict(np.array([[2, 7, 8, 2, 2], [2, 3, 4, 5, 6]]), verbose=0)
    listed = generator.predict([[2, 7, 8], [2, 3, 4, 5, 6]], verbose=0)
    np.testing.assert_array_equal(padded, listed)
    without = generator.predict([[7, 8], [3, 4, 5, 6]], verbose=0)
    assert not np.array_equal(without, listed)  # the first token is read


@pytest.mark.parametrize("search", [{}, {"beams": 3}])
def test_padding_that_the_model_does_not_mask_is_never_seen(search):
    """Left or right; a list is a text as it is, also one that ends or begins with that token."""
    generator = Generator(gpt2(), end_id=2, max_length=4, pad_id=2, **search)
    listed = [[3, 4, 5, 6], [7, 8]]
    wanted = generator.predict(listed, verbose=0)
    for padded in ([[3, 4, 5, 6], [2, 2, 7, 8]], [[3, 4, 5, 6, 2], [7, 8, 2, 2, 2]]):
        np.testing.assert_array_equal(generator.predict(np.array(padded), verbose=0), wanted)
    # Seen, that token changes what follows.
    seen = generator.predict([[3, 4, 5, 6, 2], [7, 8, 2, 2, 2]], verbose=0)
    assert not np.array_equal(seen, wanted)
    for ended in ([[7, 8, 2]], [[2, 2, 7, 8]]):
        prepared = prepare(ended, generator.decoding, 2)
        assert prepared["lengths"].tolist() == [[len(ended[0])]]


def test_padding_that_may_be_a_start_token_is_refused():
    generator = Generator(gpt2(), end_id=2, max_length=4, pad_id=2)
    for padded in ([[2, 2, 7, 8]], [[2, 3, 4, 5], [2, 2, 7, 8]]):
        with pytest.raises(ValueError, match="may be padding or a start token. Give lists of ids"):
            generator.predict(np.array(padded), verbose=0)


def test_a_text_may_fill_all_positions():
    """The last token needs none: it is written, and not read."""
    model, prompt = gpt2(), [7, 8, 9, 3, 4]
    text = Generator(model, max_length=28).predict([prompt], verbose=0)[0].tolist()
    whole = np.array([prompt + text[:-1]], "int32")
    assert whole.shape == (1, 32)
    logits = keras.ops.convert_to_numpy(model({"token_ids": whole}))[0, len(prompt) - 1 :]
    assert logits.argmax(-1).tolist() == text
    with pytest.raises(ValueError, match="5 tokens and max_length=29 need 33 positions, and the m"):
        Generator(model, max_length=29).predict([prompt], verbose=0)


def test_positions_that_begin_later_leave_less_room():
    """A table of 10 rows, the first 3 of which no text reads."""
    keras.utils.set_random_seed(0)
    tokens = keras.Input((None,), dtype="int32", name="token_ids")
    x = LearnedPositionEmbedding(10, 8)(keras.layers.Embedding(13, 8)(tokens), offset=3)
    x = PositionalAttention(2, 4)(x, x, use_causal_mask=True)
    model = keras.Model(tokens, keras.layers.Dense(13)(x))
    prompt = [7, 8, 9]
    text = Generator(model, max_length=5).predict([prompt], verbose=0)[0].tolist()
    whole = np.array([prompt + text[:-1]], "int32")
    logits = keras.ops.convert_to_numpy(model(whole))[0, len(prompt) - 1 :]
    assert logits.argmax(-1).tolist() == text
    with pytest.raises(ValueError, match="max_length=6 need 8 positions, and the model has 7"):
        Generator(model, max_length=6).predict([prompt], verbose=0)


def test_no_more_tokens_are_left_than_have_the_probability():
    """The likelier one of two has half of it, which is enough."""
    logits = keras.ops.zeros((8, 2))
    uniform = keras.ops.convert_to_tensor((np.arange(8) / 8).astype("float32"))
    for top_p, expected in ((0.5, [0] * 8), (0.6, [0] * 4 + [1] * 4)):
        tokens = keras.ops.convert_to_numpy(draw(logits, uniform, top_p=top_p))
        assert tokens.tolist() == expected
