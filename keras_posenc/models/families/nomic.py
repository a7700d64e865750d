"""nomic-embed: BERT with rotary positions, a gated feed-forward layer and no biases."""

import dataclasses

from keras_posenc.checkpoints.names import decoder_copies
from keras_posenc.models.families.family import Family
from keras_posenc.models.families.gpt2 import GPT2_ALIASES
from keras_posenc.models.families.rope import ROPE_KEYS, rotary
from keras_posenc.models.families.task_heads import TASK_ROWS, heads
from keras_posenc.models.families.weight_rows import feed_forward, packed_attention, table

GATES = {"swiglu": "silu", "geglu": "gelu", "glu": "sigmoid"}


def configure(config):
    """Beyond the trained length the base grows with the text, if the file has a factor."""
    source, act = config.source, config.hidden_act
    encoding = rotary(config, base=float(source.get("rotary_emb_base") or 1000.0))
    if factor := source.get("rotary_scaling_factor"):
        trained = source.get("max_trained_positions") or 2048
        encoding["scaling"] = {
            "rope_type": "dynamic",
            "factor": float(factor),
            "original_max_position_embeddings": trained,
        }
    return dataclasses.replace(
        config, hidden_act=[GATES.get(act, act), "linear"], encodings=(encoding,)
    )


FAMILY = Family(
    name="nomic",
    title="nomic",
    model_types=("nomic_bert",),
    weights=table(
        {
            "Embedding-Token": ("@embeddings.word_embeddings", "table"),
            "Embedding-Segment": ("@embeddings.token_type_embeddings", "table"),
            "Embedding-Norm": ("@emb_ln", "norm"),
            **packed_attention("@encoder.layers.{i}", "attn.Wqkv", "attn.out_proj", "norm1"),
            **feed_forward("@encoder.layers.{i}", ("mlp.fc12", "mlp.fc11"), "mlp.fc2", "norm2"),
            "Pooler-Dense": ("@pooler.dense", "dense"),
            **TASK_ROWS,
            "MLM-Dense": ("cls.predictions.transform.dense", "dense"),
            "MLM-Norm": [
                ("cls.predictions.transform.layer_norm", "norm"),
                ("cls.predictions.transform.LayerNorm", "norm"),
            ],
            "MLM-Bias": ("cls.predictions", "bias"),
        },
        prefixes=("nomic_bert.", "bert.", ""),
        copies=decoder_copies("cls.predictions"),
        classes={"nomic_bert": "NomicBert"},
    ),
    configure=configure,
    aliases={"head_dim": "attention_head_size"},
    older={**GPT2_ALIASES, "n_inner": "intermediate_size"},
    defaults={
        "hidden_act": "silu",
        "max_position": 2048,
        "attention_bias": False,
        "feed_forward_bias": False,
        "position_table": False,
    },
    keys=("rotary_emb_base", "rotary_scaling_factor", "max_trained_positions", *ROPE_KEYS),
    required={
        "prenorm": (False, None),
        "parallel_block": (False, None),
        "use_rms_norm": (False, None),
        "rotary_emb_interleaved": (False, None),
        "rotary_emb_fraction": (1, None),
        "rotary_emb_scale_base": (None,),
        "causal": (False, None),
        "qkv_proj_bias": (False, None),
        "mlp_fc1_bias": (False, None),
        "mlp_fc2_bias": (False, None),
    },
    heads=heads("Pooler-Dense"),
    positions="rotary, dynamic NTK beyond the trained length",
    compared="transformers, and its published code",
    paper="https://arxiv.org/abs/2402.01613",
)
