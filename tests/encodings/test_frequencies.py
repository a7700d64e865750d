import math

import numpy as np
import pytest
from transformers import PreTrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from keras_posenc.encodings.frequencies import SCALINGS
from keras_posenc.encodings.rope_scaling import read_scaling, scaled_frequencies

pytestmark = pytest.mark.once

SHORT = [1.0 + 0.05 * k for k in range(32)]
LONG = [1.0 + 0.9 * k for k in range(32)]
N = "original_max_position_embeddings"

# Published configs, and corners of them.
YARN = {"rope_type": "yarn", "factor": 4.0, N: 32768}
DEEPSEEK = {"type": "yarn", "factor": 40, N: 4096, "mscale": 0.707, "mscale_all_dim": 1.0}
GPT_OSS = {
    "rope_type": "yarn",
    "factor": 32.0,
    N: 4096,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
}
PHI = {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG, N: 4096}
LLAMA = {
    "rope_type": "llama3",
    "factor": 8.0,
    N: 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
LENGTHS = (None, 100, 4096, 4097, 20000)
PUBLISHED = [
    {"rope_type": "linear", "factor": 8.0},
    {"rope_type": "proportional", "partial_rotary_factor": 0.25},
    {"rope_type": "proportional", "partial_rotary_factor": 0.3, "factor": 2.0},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "dynamic", "factor": 1.0},
    YARN,
    {**YARN, "factor": 1.0},
    {**YARN, "attention_factor": 1.5},
    {**YARN, "beta_fast": 20, "beta_slow": 2},
    {**YARN, N: 64},
    DEEPSEEK,
    {**DEEPSEEK, "mscale": 1.0},
    GPT_OSS,
    {**PHI, "factor": 32.0},
    PHI,
    {**PHI, "attention_factor": 1.2},
    LLAMA,
    {**LLAMA, "factor": 32.0},
]


def of_transformers(scaling, dim, base, length):
    config = PreTrainedConfig()
    config.head_dim, config.hidden_size, config.num_attention_heads = dim, 2 * dim, 2
    config.max_position_embeddings = 4096 if N not in scaling else 8 * scaling[N]
    if scaling.get("type", scaling.get("rope_type")) == "dynamic":
        config.max_position_embeddings = 4096
    config.rope_parameters = {**scaling, "rope_theta": base}
    config.rope_parameters["rope_type"] = scaling.get("rope_type", scaling.get("type"))
    initialise = ROPE_INIT_FUNCTIONS[config.rope_parameters["rope_type"]]
    frequencies, factor = initialise(config, device="cpu", seq_len=length)
    return frequencies.numpy(), factor, config.max_position_embeddings


@pytest.mark.parametrize("dim, base", [(64, 10000.0), (64, 500000.0)])
@pytest.mark.parametrize("scaling", PUBLISHED)
def test_frequencies_and_factors_are_those_of_transformers(scaling, dim, base):
    for length in LENGTHS:
        expected, factor, reached = of_transformers(scaling, dim, base, length)
        parameters = {**scaling, "max_position_embeddings": reached}
        result, found_factor = scaled_frequencies(dim, base, parameters, length)
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-9)
        assert found_factor == pytest.approx(factor, rel=1e-6)


def test_every_type_of_transformers_is_compared():
    ours = {s.get("rope_type", s.get("type")) for s in PUBLISHED}
    assert set(ROPE_INIT_FUNCTIONS) == ours


def test_types_without_a_peer_keep_and_divide_what_they_say():
    plain, _ = scaled_frequencies(64)
    np.testing.assert_allclose(plain, [10000 ** (-k / 32) for k in range(32)])

    ntk, factor = scaled_frequencies(64, scaling={"type": "ntk", "factor": 8.0})
    base = 10000 * 8 ** (64 / 62)
    np.testing.assert_allclose(ntk, [base ** (-k / 32) for k in range(32)])
    np.testing.assert_allclose((plain / ntk)[[0, -1]], [1, 8])
    assert factor == 1

    fixed, _ = scaled_frequencies(64, scaling={"type": "su_fixed", "factor": 8.0})
    np.testing.assert_allclose(plain / fixed, [8 ** (2 * (k + 1) / 64) for k in range(32)])

    mixed, _ = scaled_frequencies(64, scaling={"type": "su_mixed", "factor": 12.0})
    a = math.log(12) / 32**0.75
    np.testing.assert_allclose(plain / mixed, [math.exp(a * (k + 1) ** 0.75) for k in range(32)])

    scaling = {"type": "ntk_by_parts", "factor": 8.0, N: 2048}
    parts, _ = scaled_frequencies(64, scaling=scaling)
    turns = 2048 * plain / (2 * math.pi)
    assert (parts[turns > 2 * 16] == plain[turns > 2 * 16]).all()
    np.testing.assert_allclose(parts[turns < 0.3], plain[turns < 0.3] / 8)
    assert (np.diff(plain / parts) >= -1e-12).all()


def test_by_parts_is_the_authors_code_at_three_pairs():
    """Worked out by hand from scaled_rope/LlamaPartNTKScaledRotaryEmbedding.py of YaRN."""
    result, _ = scaled_frequencies(128, scaling={"type": "ntk_by_parts", "factor": 4.0, N: 2048})
    k = np.array([25, 40, 46])
    plain, base = 10000 ** (-k / 64), 10000 * 4 ** (128 / 126)
    # Ranges: 16 and 2 turns are pairs floor(20.9) and ceil(35.4), 1.25 and 0.75 floor(38.7) and
    # ceil(42.2).
    inner = np.clip((k - 38) / (43 - 38), 0, 1)
    outer = np.clip((k - 20) / (36 - 20), 0, 1)
    mixed = base ** (-k / 64) * (1 - inner) + plain / 4 * inner
    np.testing.assert_allclose(result[k], plain * (1 - outer) + mixed * outer)


def test_two_features_have_one_pair_that_never_changes():
    for kind in ("ntk", "dynamic"):
        scaling = {"type": kind, "factor": 4.0, N: 16}
        assert scaled_frequencies(2, scaling=scaling, length=64)[0] == [1.0]


def test_fields_may_stand_for_each_other():
    assert (
        read_scaling(
            {"type": "su", **{k: v for k, v in PHI.items() if k != "rope_type"}, "factor": 2.0}
        )[0]
        == "longrope"
    )
    kind, fields = read_scaling({"rope_type": "default", "type": "mrope", "mrope_section": [1, 1]})
    assert (kind, fields) == ("default", {})
    given = {"type": "yarn", N: 1024, "max_position_embeddings": 4096, "attention_factor": None}
    assert read_scaling(given)[1] == {"factor": 4.0, N: 1024}
    given = {"type": "dynamic", "factor": 2.0, "max_position_embeddings": 2048}
    assert read_scaling(given)[1] == {"factor": 2.0, N: 2048}


@pytest.mark.parametrize(
    "scaling, words",
    [
        ({"type": "yarm", "factor": 2.0}, "Unknown rope type 'yarm': did you mean 'yarn'?"),
        ({"type": 7}, r"Unknown rope type 7: there are \['default', 'dynamic', "),
        ({"factor": 2.0}, "needs its type under 'rope_type' or 'type'"),
        ("yarn", "must be None or a dict.*'yarn'"),
        ({"type": "linear"}, "type 'linear' lacks `factor`; it needs `factor`"),
        ({"type": "dynamic", "factor": 2.0}, f"lacks `{N}`; it needs `factor`, `{N}`"),
        ({"type": "llama3", "factor": 8.0, N: 8}, "lacks `low_freq_factor`, `high_freq_factor`"),
        ({"type": "linear", "factor": 2.0, "facter": 2}, "knows no `facter`; its fields are `fac"),
        ({"type": "default", "factor": 2.0}, "knows no `factor`; its fields are none"),
        ({"type": "linear", "factor": 0.5}, "`factor` .*a number of at least 1. Received: 0.5"),
        ({"type": "linear", "factor": "2"}, "`factor` .*at least 1. Received: '2'"),
        ({"type": "linear", "factor": True}, "`factor` .*at least 1. Received: True"),
        ({"type": "su_mixed", "factor": 2.0, "b": 0}, "`b` .*a positive number. Received: 0"),
        ({**YARN, "truncate": 1}, "`truncate` .*True or False. Received: 1"),
        ({**PHI, "factor": 2.0, "long_factor": 3.0}, "`long_factor` .*a list of positive numbers"),
        ({**PHI, "factor": 2.0, "long_factor": [0, 1]}, "a list of positive numbers"),
        ({**LLAMA, "low_freq_factor": 4}, "must be below `high_freq_factor`. Received: 4 and 4.0"),
        (
            {**YARN, "beta_fast": 0.5},
            "`beta_slow` .*must be below `beta_fast`. Received: 1 and 0.5",
        ),
        ({"type": "proportional", "partial_rotary_factor": 2}, "is a share, at most 1. Rec.*2"),
    ],
)
def test_what_a_scaling_cannot_say_is_refused(scaling, words):
    with pytest.raises(ValueError, match=words):
        read_scaling(scaling)


def test_longrope_needs_a_divisor_for_each_pair():
    with pytest.raises(ValueError, match="each of the 4 pairs of features. Received: 32"):
        scaled_frequencies(8, scaling={**PHI, "factor": 2.0})


@pytest.mark.parametrize("kind", SCALINGS)
def test_a_type_without_its_fields_never_passes_silently(kind):
    if kind == "default":
        assert read_scaling({"type": kind}) == ("default", {})
        return
    with pytest.raises(ValueError, match=f"type '{kind}' lacks"):
        read_scaling({"type": kind})
