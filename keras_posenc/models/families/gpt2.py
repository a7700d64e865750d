"""GPT-2: causal, with a table of positions; its matrices are not stored transposed."""

import dataclasses

from keras_posenc.models.families.family import Family
from keras_posenc.models.families.task_heads import OF_TOKENS, TASK_ROWS, last_token
from keras_posenc.models.families.weight_rows import feed_forward, packed_attention, table

GPT2_ALIASES = {
    "n_positions": "max_position",
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "activation_function": "hidden_act",
    "resid_pdrop": "dropout_rate",
    "attn_pdrop": "attention_dropout_rate",
    "layer_norm_epsilon": "layer_norm_eps",
}


def configure(config):
    """The inner size defaults to four times the hidden size."""
    inner = config.source.get("n_inner") or 4 * config.hidden_size
    return dataclasses.replace(config, intermediate_size=inner)


FAMILY = Family(
    name="gpt2",
    title="GPT-2",
    model_types=("gpt2",),
    weights=table(
        {
            "Embedding-Token": ("@wte", "table"),
            "Embedding-Position": ("@wpe", "table"),
            **packed_attention("@h.{i}", "attn.c_attn", "attn.c_proj", "ln_1", kind="conv1d"),
            **feed_forward("@h.{i}", "mlp.c_fc", "mlp.c_proj", "ln_2", kind="conv1d"),
            "Final-Norm": ("@ln_f", "norm"),
            **TASK_ROWS,
            "Sequence-Output": ("score", "dense"),
        },
        prefixes=("transformer.", ""),
        copies={"Embedding-Token/embeddings": ["lm_head.weight"]},
        unused=dict.fromkeys(("*h.*.attn.bias", "*h.*.attn.masked_bias"), "mask")
        | {"multiple_choice_head.*": "a task's head"},
        classes={"gpt2": "GPT2"},
        endings={"ForMaskedLM": "LMHeadModel"},
    ),
    configure=configure,
    aliases=GPT2_ALIASES,
    defaults={
        "hidden_act": "gelu_new",
        "intermediate_size": 1,  # `configure` sets it
        "max_position": 1024,
        "segment_vocab_size": 0,
        "layer_norm_eps": 1e-5,
        "pad_token_id": None,
        "norm": "pre",
        "embedding_norm": False,
        "mlm_dense": False,
        "mlm_bias": False,
        "causal": True,
    },
    keys=("n_inner",),
    rates={"embd_pdrop": "dropout_rate"},
    required={"scale_attn_weights": (True, None), "scale_attn_by_inverse_layer_idx": (False, None)},
    heads={**last_token(), **OF_TOKENS},
    positions="table, causal",
    paper="https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf",
)
