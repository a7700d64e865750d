"""Rotary frequencies and their scalings, in NumPy: how fast each pair of features rotates.

Every scaling is a function `(dim, base, fields...) -> (frequencies, factor)`: frequencies are
float64 (dim / 2,), in radians per position; the factor multiplies cosine and sine, and so the
logits by its square. The fields have the names of Hugging Face's `rope_scaling`, and the signature
shows which are required.
"""

import math

import numpy as np


def default(dim, base):
    """theta_k = base^(-2k / dim), k = 0 .. dim/2 - 1; https://arxiv.org/abs/2104.09864."""
    return base ** (-np.arange(0, dim, 2) / dim), 1.0


def linear(dim, base, factor):
    """theta_k / s, position interpolation; https://arxiv.org/abs/2306.15595."""
    return default(dim, base)[0] / factor, 1.0


def proportional(dim, base, partial_rotary_factor, factor=1.0):
    """The fastest share p of the theta_k / s, and 0 for the rest, which encode no position.

    p-RoPE, https://arxiv.org/abs/2410.06205. Here `partial_rotary_factor` is a share of the
    frequencies; elsewhere it is a share of the features. With 0 no positions are left: DroPE,
    https://arxiv.org/abs/2512.12167.
    """
    frequencies = default(dim, base)[0] / factor
    frequencies[int(partial_rotary_factor * dim // 2) :] = 0.0
    return frequencies, 1.0


def ntk(dim, base, factor):
    """base' = base s^(dim / (dim - 2)): the fastest pair is kept, the slowest is divided by s."""
    frequencies, _ = default(dim, base)
    return frequencies * factor ** -ntk_exponents(dim), 1.0


def ntk_exponents(dim):
    """2k / (dim - 2): the larger base multiplies theta_k by s^-(this)."""
    return np.arange(0, dim, 2) / max(dim - 2, 1)


def dynamic(dim, base, factor, original_max_position_embeddings, length=None):
    """`ntk` with an s that grows with the length T: s = f T / N - (f - 1), and 1 up to T = N."""
    longest = max(length or 0, original_max_position_embeddings)
    return ntk(dim, base, factor * longest / original_max_position_embeddings - (factor - 1))


def ntk_by_parts(dim, base, factor, original_max_position_embeddings):
    """Fast pairs unchanged, slow pairs linear, `ntk` in between; YaRN's first public revision."""
    plain, stretched = default(dim, base)[0], ntk(dim, base, factor)[0]
    ramp = _ramp(dim, base, 1.25, 0.75, original_max_position_embeddings)
    mixed = stretched * (1 - ramp) + plain / factor * ramp
    ramp = _ramp(dim, base, 16, 2, original_max_position_embeddings)
    return plain * (1 - ramp) + mixed * ramp, 1.0


def yarn(
    dim,
    base,
    factor,
    original_max_position_embeddings,
    attention_factor=None,
    beta_fast=32,
    beta_slow=1,
    mscale=None,
    mscale_all_dim=None,
    truncate=True,
):
    """theta (1 - ramp) + theta / s ramp; cosine and sine times m = 0.1 ln s + 1.

    The ramp over the pairs is 0 for those that complete more than `beta_fast` turns in N positions,
    and 1 below `beta_slow` turns. `mscale` and `mscale_all_dim` are DeepSeek's, `truncate` is
    gpt-oss's. https://arxiv.org/abs/2309.00071
    """
    plain, _ = default(dim, base)
    original = original_max_position_embeddings
    ramp = _ramp(dim, base, beta_fast, beta_slow, original, truncate)

    def warmth(weight):
        return 0.1 * weight * math.log(factor) + 1.0

    if attention_factor is None:
        attention_factor = warmth(1.0)
        if mscale and mscale_all_dim:
            attention_factor = warmth(mscale) / warmth(mscale_all_dim)
    return plain * (1 - ramp) + plain / factor * ramp, float(attention_factor)


def longrope(
    dim,
    base,
    factor,
    original_max_position_embeddings,
    short_factor,
    long_factor,
    attention_factor=None,
    length=None,
):
    """theta_k / lambda_k: one list up to N positions, another beyond; times sqrt(1 + ln s / ln N).

    https://arxiv.org/abs/2402.13753
    """
    original = original_max_position_embeddings
    divisors = np.asarray(long_factor if (length or 0) > original else short_factor, "float64")
    if len(divisors) != dim // 2:
        raise ValueError(
            f"LongRoPE needs one divisor for each of the {dim // 2} pairs of features. "
            f"Received: {len(divisors)}"
        )
    if attention_factor is None:
        attention_factor = math.sqrt(1 + math.log(factor) / math.log(original))
    return default(dim, base)[0] / divisors, float(attention_factor)


def llama3(dim, base, factor, original_max_position_embeddings, low_freq_factor, high_freq_factor):
    """theta for fast pairs, theta / s for slow pairs, and a mixture in between.

        theta (g + (1 - g) / s),    g = (t - low) / (high - low).

    A pair makes t = N theta / (2 pi) turns in N positions. The fraction g is clipped to [0, 1].
    Reference: https://arxiv.org/abs/2407.21783
    """
    plain, _ = default(dim, base)
    turns = original_max_position_embeddings * plain / (2 * math.pi)
    share = np.clip((turns - low_freq_factor) / (high_freq_factor - low_freq_factor), 0, 1)
    return plain * (share + (1 - share) / factor), 1.0


def su_mixed(dim, base, factor, b=0.75):
    """theta_k exp(-a (k + 1)^b), a = ln s / (dim/2)^b; https://kexue.fm/archives/9706."""
    steps = np.arange(1, dim // 2 + 1) / (dim // 2)
    return default(dim, base)[0] * factor ** -(steps**b), 1.0


def su_fixed(dim, base, factor):
    """theta_k s^(-2 (k + 1) / dim), the mixed base at b = 1; https://kexue.fm/archives/9706."""
    return su_mixed(dim, base, factor, b=1.0)


def _ramp(dim, base, fast, slow, original, truncate=True):
    """0 for pairs with more than `fast` turns in the original length, 1 below `slow` turns."""

    def pair(turns):
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = pair(fast), pair(slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    # `dim - 1`, though there are dim / 2 pairs: all implementations do so.
    low, high = max(low, 0), min(high, dim - 1)
    high = high + 0.001 if low == high else high
    return np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)


SCALINGS = {
    "default": default,
    "linear": linear,
    "proportional": proportional,
    "ntk": ntk,
    "dynamic": dynamic,
    "ntk_by_parts": ntk_by_parts,
    "yarn": yarn,
    "longrope": longrope,
    "llama3": llama3,
    "su_fixed": su_fixed,
    "su_mixed": su_mixed,
}
