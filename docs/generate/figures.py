"""What sources report of language models, to stand beside the results of the same model here.

Results for tasks are in `benchmarks.extrapolation.published_results`. Those of a language model
depend on its texts, so these figures belong to files of results. Transcribed by hand.
"""

_COPE = "Golovneva et al., [2405.18719](https://arxiv.org/abs/2405.18719)"
_STEPS = "The number of steps was not transcribed."
EQUAL_MEAN = (
    "Su Jianlin, [spaces.ac.cn/archives/9444](https://spaces.ac.cn/archives/9444): which is best "
    "at 512 tokens after a training on 64, without figures or steps."
)
ROTARY_BIAS = (
    "Su Jianlin, [spaces.ac.cn/archives/9577](https://spaces.ac.cn/archives/9577). Accuracy in % "
    "of a GAU-α with one head, trained on 512 tokens in batches of 512. The number of steps is not "
    "given. The figure is the mean at 1,024, 2,048 and 4,096 tokens, the same multiples of the "
    "training length as here. In parentheses it is the accuracy at 512 tokens."
)
BIASES = {"rotary": "24.6 (52.4)", "rotary:use_bias=True": "45.3 (52.8)"}
# File of results -> the source, and the figure of each contender.
FIGURES = {
    "equal_mean": (EQUAL_MEAN, {"rotary+log_n exponential ids": "best"}),
    "masked_ids": (EQUAL_MEAN, {"rotary+log_n exponential ids": "best"}),
    "rotary_bias": (ROTARY_BIAS, BIASES),
    "rotary_bias_heads": (ROTARY_BIAS, {f"gau {name}": text for name, text in BIASES.items()}),
    "words": (
        f"{_COPE}. Perplexity on Wikitext-103 (validation, read off its plot). The models are "
        "trained on 1,024 tokens and read with 1,024 and 2,560. Their capped relative positions "
        f"are listed in the row of Shaw's. {_STEPS}",
        {"shaw:max_distance=64": "22.9, 22.0", "cope": "22.6, 21.6"},
    ),
    "code": (
        f"{_COPE}. Perplexity on code (from memory). The models have 20 million parameters, and "
        "are trained and read with 4,096 tokens. Their absolute positions are listed in the row of "
        f"sinusoidal ones. {_STEPS}",
        {"sinusoidal": "4.7", "rotary": "4.1", "cope": "3.9", "rotary+cope": "4.0"},
    ),
}
