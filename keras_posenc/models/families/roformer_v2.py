"""RoFormerV2: RoFormer without biases, and with norms that have no weights."""

import dataclasses

from keras_posenc.models.families import roformer

# What is left of BERT's rows: no norm and no bias has a place in the files.
WEIGHTS = dataclasses.replace(
    roformer.WEIGHTS,
    family="roformer_v2",
    rows={name: row for name, row in roformer.WEIGHTS.rows.items() if "Norm" not in name},
    classes={"roformer_v2": "RoFormerV2"},
)

FAMILY = dataclasses.replace(
    roformer.FAMILY,
    name="roformer_v2",
    title="RoFormerV2",
    model_types=("roformer_v2",),
    weights=WEIGHTS,
    defaults={
        **roformer.FAMILY.defaults,
        "hidden_act": "relu",
        "layer_norm_eps": 1e-7,
        "norm_type": "rms_norm_without_scale",
        "attention_bias": False,
        "feed_forward_bias": False,
        "mlm_dense": False,
        "mlm_bias": False,
    },
    compared="its published code",
    paper="https://kexue.fm/archives/8998",
)
