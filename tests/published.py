"""Tiny models of transformers' own, and what they answer."""

import numpy as np

SIZES = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "pad_token_id": 0,
}
# Those of Qwen3 and Gemma 3.
QWEN3 = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "intermediate_size": 24,
}


def publish(folder, class_name, **config):
    """Writes a random model of transformers into a folder, no weight of it zero or one.

    Returns:
        The model, as transformers reads it from there.
    """
    import torch
    import transformers

    architecture = getattr(transformers, class_name)
    model = architecture(architecture.config_class(**config)).eval()
    random = np.random.default_rng(0)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if not parameter.requires_grad:
                continue
            norm = parameter.ndim == 1 and name.endswith("weight")
            parameter.copy_(torch.tensor(random.normal(norm, 0.3, parameter.shape)))
    model.tie_weights()
    model.save_pretrained(folder)
    return architecture.from_pretrained(folder).eval()


def token_ids(length, pad_token_id=0, vocabulary=40, side="right"):
    """Three texts of `length`, two thirds of it and 2 tokens, padded; and where the tokens are."""
    random = np.random.default_rng(1)
    ids = random.integers(2, vocabulary, (3, length)).astype("int32")
    steps = np.arange(length) if side == "right" else np.arange(length)[::-1]
    real = steps < np.array([length, 2 * length // 3, 2])[:, None]
    return np.where(real, ids, pad_token_id).astype("int32"), real


def answer(model, ids, real, segments=None):
    """The features or logits of transformers' model, (B, T, ...)."""
    import torch

    feeds = {"input_ids": ids, "attention_mask": real}
    if segments is not None:
        feeds["token_type_ids"] = segments
    model = model.eval().to("cpu")
    with torch.no_grad():
        output = model(**{name: torch.tensor(x, dtype=torch.int64) for name, x in feeds.items()})
    return output[0].numpy()
