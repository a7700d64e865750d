"""Search against full passes, against all targets there are, and against transformers; sampling
against its distribution; and what `Generator` is around them."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops
from programs import predicted
from published import publish
from selection import on_all

from keras_posenc import (
    Generator,
    PositionalAttention,
    RandomPositionIds,
    build_encoder_decoder,
    build_transformer_model,
)
from keras_posenc.models.generation.prompts import bucket
from keras_posenc.models.generation.sampling import draw

SOURCE = np.array([[3, 4, 5, 6, 0, 0], [7, 8, 9, 10, 11, 12]])


def build(vocab_size=13, **changes):
    return build_encoder_decoder(vocab_size, 8, 1, 2, 12, **changes)


def likelihoods(model, source, targets):
    """(B, N): log p of each of N targets, lists of ids from after the start token, by full passes;
    padding, once it is there, costs nothing, and no target holds it before."""
    count, length = targets.shape
    sources = np.repeat(source, count, axis=0)
    inputs = np.tile(np.pad(targets[:, :-1], [(0, 0), (1, 0)], constant_values=1), (len(source), 1))
    logits = ops.convert_to_numpy(model([sources, inputs])).astype("float64")
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    picked = np.take_along_axis(log_p, np.tile(targets, (len(source), 1))[..., None], 2)[..., 0]
    real = np.tile(targets, (len(source), 1)) != 0
    return (picked * real).sum(1).reshape(len(source), count)


@pytest.mark.once
def test_greedy_takes_the_likeliest_token_of_a_full_pass():
    model = build(encodings=["rotary"])
    tokens = np.ones((2, 1), int)
    done = np.zeros(2, bool)
    for _ in range(5):
        logits = np.array(ops.convert_to_numpy(model([SOURCE, tokens]))[:, -1])
        logits[:, 0] = -np.inf
        new = np.where(done, 0, logits.argmax(-1))
        done |= new == 2
        tokens = np.concatenate([tokens, new[:, None]], axis=1)
    written = Generator(model, start_id=1, end_id=2, max_length=5).predict(SOURCE, verbose=0)
    assert written.dtype == "int32"
    np.testing.assert_array_equal(written, tokens[:, 1:])


@pytest.mark.once
@pytest.mark.parametrize("options", [{"beams": 3, "n": 2}, {"temperature": 1e-3, "n": 3}])
def test_one_prompt_has_the_texts_that_it_has_among_others(options):
    """They begin as one text in memory, on which each writes its own."""
    generator = Generator(language_model("lm"), end_id=2, max_length=6, **options)
    several = generator.predict(PROMPTS[:2], verbose=0)
    np.testing.assert_array_equal(generator.predict(PROMPTS[:1], verbose=0), several[:1])


@pytest.mark.once
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_of_all_targets(alpha):
    """Of vocabulary 5, with padding 0, start 1 and end 2; 16 beams lose no beginning of two."""
    model = build(vocab_size=5)
    table = model.get_layer("Embedding-Token").embeddings
    table.assign(np.array(table) * 2)
    source = np.array([[3, 4, 0], [4, 4, 3], [3, 3, 3]])
    every = [t for t in itertools.product(range(5), repeat=3) if complete(t)]
    targets = np.array(every)
    rank = likelihoods(model, source, targets) / ((5 + (targets != 0).sum(1)) / 6) ** alpha
    generator = Generator(model, 1, 2, max_length=3, beams=16, alpha=alpha)
    written = generator.predict(source, verbose=0)
    np.testing.assert_array_equal(written, targets[rank.argmax(1)])


def complete(target):
    """Whether padding follows the end and nothing else, and nothing else follows it."""
    end = target.index(2) + 1 if 2 in target else len(target)
    return 0 not in target[:end] and not any(target[end:])


@pytest.mark.once
def test_ended_targets_stay_as_they_are():
    """A model that only knows the end token writes it once, whatever the beams."""
    model = build()
    norm = model.get_layer("Decoder-0-FeedForward-Norm")
    table = np.array(model.get_layer("Embedding-Token").embeddings)
    norm.gamma.assign(np.zeros(8))
    norm.beta.assign(table[2] * 50)
    for beams in (1, 3):
        written = Generator(model, 1, 2, max_length=4, beams=beams).predict(SOURCE, verbose=0)
        np.testing.assert_array_equal(written, [[2, 0, 0, 0]] * 2)


@pytest.mark.once
def test_it_is_saved_with_its_model(tmp_path):
    generator = Generator(build(encodings=["rotary"]), 1, 2, max_length=4, beams=2, alpha=0.5)
    generator.save(tmp_path / "generator.keras")
    again = keras.saving.load_model(tmp_path / "generator.keras")
    assert (again.beams, again.alpha, again.max_length) == (2, 0.5, 4)
    written = [one.predict(SOURCE, verbose=0) for one in (generator, again)]
    np.testing.assert_array_equal(*written)


@pytest.mark.once
def test_a_file_of_an_earlier_version_has_fewer_arguments():
    config = Generator(build(), 1, 2, max_length=4, beams=2).get_config()
    early = ("model", "start_id", "end_id", "max_length", "beams", "alpha")
    again = Generator.from_config({name: config[name] for name in early})
    for name, value in again.get_config().items():
        assert name in ("name", "model") or value == config[name]


# --- Language models ---

PROMPTS = [[7, 8, 9, 4, 3], [5], [11, 3, 12, 6, 5, 9, 7, 8, 3, 4, 6, 10], [4, 4]]


def language_model(application="lm", **changes):
    sizes = {
        "vocab_size": 13,
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 12,
        "hidden_act": "relu",
        "max_position": 40,
        "with_mlm": "linear",
    }
    model = build_transformer_model(application=application, **{**sizes, **changes})
    rng = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(weight + 0.5 * rng.normal(size=weight.shape))
    return model


@pytest.mark.parametrize(
    "application, encodings",
    [
        ("lm", ["rotary", "log_n", {"name": "window", "window": 6}]),
        pytest.param("unilm", ["t5"], marks=pytest.mark.once),
    ],
)
def test_a_text_is_the_likeliest_by_a_full_pass(application, encodings):
    """Prompts of unlike lengths in one batch, two stop tokens."""
    model = language_model(application, encodings=encodings)
    texts = Generator(model, end_id=[2, 5], max_length=8).predict(PROMPTS, verbose=0)
    tokens, segments = np.zeros((2, len(PROMPTS), 20), "int32")
    for row, (prompt, text) in enumerate(zip(PROMPTS, texts, strict=True)):
        tokens[row, : len(prompt) + len(text)] = [*prompt, *text]
        segments[row, len(prompt) :] = application == "unilm"
    logits = predicted(model, [tokens, segments])
    logits = np.where(np.arange(13) == 0, -np.inf, logits)  # padding is not written
    for prompt, text, row in zip(PROMPTS, texts, logits, strict=True):
        ends = np.flatnonzero(np.isin(text, [2, 5]))
        length = ends[0] + 1 if len(ends) else 8
        assert not text[length:].any()
        greedy = row[len(prompt) - 1 :][:length].argmax(-1)
        np.testing.assert_array_equal(text[:length], greedy)


@pytest.mark.once
def test_prompts_may_be_lists_or_padded_on_either_side():
    generator = Generator(language_model(), end_id=2, max_length=4)
    width = max(map(len, PROMPTS))
    right = np.array([prompt + [0] * (width - len(prompt)) for prompt in PROMPTS])
    left = np.array([[0] * (width - len(prompt)) + prompt for prompt in PROMPTS])
    expected = generator.predict(PROMPTS, verbose=0)
    for given in (
        right,
        left,
        {"token_ids": right},
        {"token_ids": right, "segment_ids": 0 * right},
    ):
        np.testing.assert_array_equal(generator.predict(given, verbose=0), expected)
    np.testing.assert_array_equal(ops.convert_to_numpy(generator(right)), expected)


@pytest.mark.once
def test_a_model_from_a_file_generates(tmp_path):
    model = language_model("unilm", encodings=["rotary"])
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    texts = [Generator(m, max_length=4).predict(PROMPTS, verbose=0) for m in (model, again)]
    np.testing.assert_array_equal(*texts)


# --- transformers ---

PUBLISHED = {
    "gpt2": ("GPT2LMHeadModel", {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40}),
    "qwen3": ("Qwen3ForCausalLM", {"num_key_value_heads": 1, "head_dim": 6}),
}


@pytest.fixture(scope="module", params=PUBLISHED)
def published(request, tmp_path_factory):
    """A model of transformers, ours of its checkpoint, and prompts."""
    folder = tmp_path_factory.mktemp(request.param)
    class_name, config = PUBLISHED[request.param]
    config = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, **config}
    config = {"num_attention_heads": 2, "intermediate_size": 24, **config}
    reference = publish(folder, class_name, **config)
    prompts = [np.random.default_rng(n).integers(3, 40, n).tolist() for n in (3, 1, 7)]
    return reference, build_transformer_model(folder, with_mlm="linear"), prompts


def generated(reference, prompt, **options):
    """What transformers writes after one prompt, as rows padded with 1."""
    import torch

    ids = torch.tensor([prompt])
    options = {"do_sample": False, "pad_token_id": 1, "max_new_tokens": 6, **options}
    rows = reference.generate(ids, attention_mask=torch.ones_like(ids), **options)
    rows = rows[:, len(prompt) :].numpy()
    return np.pad(rows, [(0, 0), (0, 6 - rows.shape[1])], constant_values=1)


@pytest.mark.once
@pytest.mark.parametrize(
    "ours, reference",
    [
        ({}, {}),
        ({"repetition_penalty": 1.6}, {"repetition_penalty": 1.6}),
        ({"beams": 3, "n": 2, "alpha": 0.0},
         {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.0}),
        ({"beams": 5, "alpha": 0.0}, {"num_beams": 5, "length_penalty": 0.0}),
    ],
    ids=["greedy", "greedy with a penalty", "two of three beams", "five beams"],
)  # fmt: skip
def test_the_texts_are_those_of_transformers(published, ours, reference):
    model, mine, prompts = published
    # Tokens that do come up, so that texts end.
    ends = sorted({int(generated(model, prompt)[0, 2]) for prompt in prompts[:2]})
    generator = Generator(mine, end_id=ends, max_length=6, pad_id=1, **ours)
    texts = generator.predict(prompts, verbose=0)
    texts = texts.reshape(len(prompts), -1, 6)
    for prompt, text in zip(prompts, texts, strict=True):
        options = {**reference, "eos_token_id": ends, "suppress_tokens": [1]}
        np.testing.assert_array_equal(text, generated(model, prompt, **options))
    assert np.isin(texts, ends).any()


# --- Sampling ---


def filtered(logits, temperature, top_k, top_p):
    """The distribution that is drawn from, token by token, in float64."""
    p = np.exp(np.float64(logits) / temperature)
    p /= p.sum()
    ranked = np.argsort(-p, kind="stable")
    kept = list(ranked[: top_k or len(p)])
    if top_p is not None:
        whole, shares = p[kept].sum(), []
        while sum(shares) < top_p and len(shares) < len(kept):
            shares.append(p[kept[len(shares)]] / whole)
        kept = kept[: len(shares)]
    q = np.zeros_like(p)
    q[kept] = p[kept]
    return q / q.sum()


DRAWS = [
    *[(1.0, 5, 0.6), (0.7, 3, None)],
    *[(1, None, None), (2, None, 0.8), (1, 99, 1.0), (2, 1, None)],
]


@pytest.mark.parametrize("temperature, top_k, top_p", on_all(DRAWS[:2], DRAWS))
def test_draws_have_the_distribution_of_what_is_left(temperature, top_k, top_p):
    """Uniform numbers that are evenly spread give each token its share, to one draw."""
    logits = np.random.default_rng(4).normal(size=9).astype("float32") * 2
    count = 2000
    uniform = ((np.arange(count) + 0.5) / count).astype("float32")
    rows = ops.convert_to_tensor(np.tile(logits, (count, 1)))
    tokens = draw(rows, ops.convert_to_tensor(uniform), temperature, top_k, top_p)
    shares = np.bincount(ops.convert_to_numpy(tokens), minlength=9)
    np.testing.assert_allclose(
        shares, filtered(logits, temperature, top_k, top_p) * count, atol=1.1
    )


@pytest.mark.once
def test_a_token_without_a_chance_is_never_drawn():
    """At the ends of the interval, behind a forbidden first token and before cut last ones."""
    logits = ops.convert_to_tensor(np.array([[-1e9, 1.0, 2.0, 0.5, -1e9]] * 3, "float32"))
    ends = ops.convert_to_tensor(np.array([0.0, 1 - 2.0**-24, 1.0], "float32"))
    assert ops.convert_to_numpy(draw(logits, ends)).tolist() == [1, 3, 3]
    assert ops.convert_to_numpy(draw(logits, ends, top_p=0.8)).tolist() == [2, 1, 1]


def test_draws_are_those_of_the_seed(tmp_path):
    def generator(seed=3):
        return Generator(model, end_id=2, max_length=5, temperature=3.0, n=4, seed=seed)

    model = language_model(encodings=["alibi"])
    first = generator()
    texts = first.predict(PROMPTS, verbose=0)
    assert texts.shape == (4, 4, 5) and len({tuple(text) for text in texts[2]}) > 1
    assert (generator(4).predict(PROMPTS, verbose=0) != texts).any()
    first.save(tmp_path / "generator.keras")
    again = keras.saving.load_model(tmp_path / "generator.keras")
    assert (first.predict(PROMPTS, verbose=0) != texts).any()
    np.testing.assert_array_equal(again.predict(PROMPTS, verbose=0), texts)


@pytest.mark.once
def test_what_is_there_already_is_written_less():
    model = language_model()
    texts = [
        Generator(model, max_length=10, repetition_penalty=penalty).predict(PROMPTS, verbose=0)
        for penalty in (1.0, 50.0)
    ]
    kinds = [np.mean([len(set(text)) for text in each]) for each in texts]
    assert kinds[1] > kinds[0] + 1


# --- The program ---


def test_the_tokens_are_shown_as_they_come():
    shown = []
    generator = Generator(
        language_model(), end_id=2, max_length=5, temperature=1.0, repetition_penalty=1.5, n=2,
        seed=0,
        callback=lambda step, tokens: shown.append((int(step), np.array(tokens))),
    )  # fmt: skip
    texts = generator.predict(PROMPTS, verbose=0)
    assert [step for step, _ in shown] == list(range(len(shown)))
    together = np.stack([tokens for _, tokens in shown], axis=-1)
    np.testing.assert_array_equal(together, texts[..., : len(shown)])
    assert not (texts[..., len(shown) :]).any()


def test_a_program_serves_all_lengths_of_a_bucket():
    class Counted(Generator):
        runs = 0

        def call(self, inputs):
            type(self).runs += 1
            return super().call(inputs)

    generator = Counted(language_model(), end_id=2, max_length=2)
    generator.predict([[3, 4, 5]], verbose=0)
    once = Counted.runs
    for length in (1, 9, 16):
        generator.predict([[3] * length], verbose=0)
    compiled = keras.backend.backend() != "torch"
    assert Counted.runs == once if compiled else Counted.runs == 4 * once
    assert [bucket(n) for n in (1, 16, 17, 32, 100)] == [16, 16, 32, 32, 128]


# --- What is refused ---


@pytest.mark.once
@pytest.mark.parametrize(
    "message, arguments",
    [
        ("`beams` must be a positive integer. Received: 0", {"beams": 0}),
        ("`max_length` must be a positive integer. Received: 1.5", {"max_length": 1.5}),
        ("`n` must be a positive integer. Received: True", {"n": True}),
        ("`top_k` must be a positive integer. Received: -1", {"top_k": -1}),
        (
            "`temperature` must be a positive number. .* for the likeliest",
            {"temperature": 0.0},
        ),
        (
            "`repetition_penalty` must be a positive number. Rec",
            {"repetition_penalty": "a"},
        ),
        ("`top_p` must be a number above 0 and at most 1: .* Received: 0", {"top_p": 0}),
        ("`top_p` must be .* at most 1: it is a probability. Received: 90", {"top_p": 90}),
        ("`alpha` must be a number. Received: None", {"alpha": None}),
        ("Beam search looks for the likeliest text.*beams=2", {"beams": 2, "top_k": 5}),
        ("`n` texts are drawn.*Received: n=3, beams=2", {"beams": 2, "n": 3}),
        ("`end_id` must be an integer from 0 to 12: a token.* Received: 13", {"end_id": [2, 13]}),
        ("`pad_id` must be an integer from 0 to 12: a token.* Received: -1", {"pad_id": -1}),
        ("`start_id` starts the target of an encoder-decoder.*start_id=1", {"start_id": 1}),
        ("`callback` is for beams=1. Received: beams=2", {"callback": print, "beams": 2}),
        ("`seed` must be an integer from 0 to 2147483647. Received: -1", {"seed": -1}),
        ("`seed` must be an integer from 0 to 2147483647. Received: 'a'", {"seed": "a"}),
    ],
)
def test_arguments_that_are_refused(message, arguments):
    with pytest.raises(ValueError, match=message):
        Generator(causal(), **arguments)


_CAUSAL = []  # one for all the tests that do not run it


def causal():
    if not _CAUSAL:
        _CAUSAL.append(language_model(max_position=10))
    return _CAUSAL[0]


@pytest.mark.once
def test_a_callback_is_a_function():
    with pytest.raises(TypeError, match="`callback` must be a function. Received: 'print'"):
        Generator(causal(), callback="print")


@pytest.mark.once
@pytest.mark.parametrize(
    "error, message, prompts",
    [
        (ValueError, "Prompt 1 is empty: a text begins with", [[3], []]),
        (ValueError, "Prompt 0 is empty", np.zeros((1, 4), int)),
        (ValueError, "Prompt 1 has the token 13, and.* the tokens 0 to 12", [[3], [13]]),
        (ValueError, "Prompt 0 has the token -1", [[-1]]),
        (ValueError, "need 11 positions, and the model has 10: give shorter", [[3] * 8]),
        (ValueError, "the padding token 0 between its tokens", [[3, 0, 4]]),
        (ValueError, "or an array .B, T.. Received: shape .3,", np.ones(3, int)),
        (ValueError, "one for each text. Received: 2 rows of .0, 0. dimensions", [3, 4]),
        (TypeError, "`token_ids` must hold integers. Received: float64", [[3.0]]),
        (ValueError, "takes .'segment_ids', 'token_ids'.*Received: .'ids'", {"ids": [[3]]}),
        (ValueError, "`segment_ids` must have the shape",
         {"token_ids": [[3]], "segment_ids": [[0, 0]]}),
    ],
)  # fmt: skip
def test_prompts_that_are_refused(error, message, prompts):
    with pytest.raises(error, match=message):
        Generator(causal(), max_length=4).predict(prompts, verbose=0)


@pytest.mark.once
def test_the_prompt_of_a_unilm_is_its_first_segment():
    generator = Generator(language_model("unilm"), max_length=4)
    with pytest.raises(ValueError, match="The prompt of a UniLM is segment 0"):
        generator.predict({"token_ids": [[3, 4]], "segment_ids": [[0, 1]]}, verbose=0)


@pytest.mark.once
def test_every_prompt_has_its_condition():
    condition = keras.Input((5,), name="condition")
    model = language_model(
        layer_norm_cond=condition, layer_norm_cond_hidden_size=4, additional_input_layers=condition
    )
    generator = Generator(model, max_length=2, beams=2)
    inputs = {"token_ids": PROMPTS, "condition": np.ones((4, 5))}
    assert generator.predict(inputs, verbose=0).shape == (4, 2)
    with pytest.raises(ValueError, match="`condition` must have one row for each of the 4 prompts"):
        generator.predict({**inputs, "condition": np.ones((3, 5))}, verbose=0)


@pytest.mark.once
def test_models_that_cannot_generate():
    def refused(message, model, **arguments):
        with pytest.raises(ValueError, match=message):
            Generator(model, **arguments)

    refused("no logits of the next token", keras.Sequential([keras.layers.Dense(1)]))
    refused("no logits of the next token", language_model("encoder", with_mlm=False))
    refused("this one looks ahead", language_model("encoder"))
    refused("SelectiveAttention sums over all earlier", language_model(encodings=["selective"]))
    spread = RandomPositionIds("sorted", 40, inference="spread")
    refused("needs inference='consecutive'. Received: inference='spread'",
            language_model(position_ids=spread, encodings=["rotary"]))  # fmt: skip
    for wrong in (None, True, -1, 13, 1.0):
        match = f"An encoder-decoder needs `start_id`.*Received: {wrong}"
        refused(match, build(), start_id=wrong)
    tokens = keras.Input((None,), dtype="int32", name="token_ids")
    x = keras.layers.Embedding(13, 8)(tokens)
    causal = {"use_causal_mask": True}

    def model(x, *inputs):
        return keras.Model([tokens, *inputs], keras.layers.Dense(13)(x))

    y = PositionalAttention(2, 4)(x, x, **causal)
    refused("may look at other tokens", model(keras.layers.Conv1D(8, 3, padding="same")(y)))
    other = keras.layers.Dense(8)(x)
    refused("attends to something else", model(PositionalAttention(2, 4)(x, other, **causal)))
    ids = keras.ops.cumsum(tokens, axis=1)
    y = PositionalAttention(2, 4, encodings=["rotary"])(x, x, query_positions=ids, **causal)
    refused("makes position ids that Generator cannot continue", model(y))
    more = keras.Input((8,), name="more")
    unnamed = keras.Input((None,), dtype="int32", name="words")
    y = keras.layers.Embedding(13, 8)(unnamed) + more[:, None]
    y = PositionalAttention(2, 4)(y, y, **causal)
    refused("by the name of their input, `token_ids`",
            keras.Model([unnamed, more], keras.layers.Dense(13)(y)))  # fmt: skip


@pytest.mark.once
def test_sources_without_a_padding_token_have_one_length():
    generator = Generator(build(pad_token_id=None), 1, 2, max_length=3)
    assert generator.predict([[3, 4], [5, 6]], verbose=0).shape == (2, 3)
    with pytest.raises(ValueError, match="sources of one call need one length.*from 1 to 2"):
        generator.predict([[3, 4], [5]], verbose=0)
