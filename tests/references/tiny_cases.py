"""The literal list of what bert4keras is asked for on tiny random models.

`kwargs` are given to `build_transformer_model` as they stand, by bert4keras here and by our tests.
`theirs` overrides them for bert4keras where the two differ by design. `inputs` names one of INPUTS,
`weights` one of WEIGHTS; `condition` is the width of a conditioning vector.
"""

SIZES = {
    "vocab_size": 24,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_act": "gelu",
    "max_position": 8,
    "segment_vocab_size": 2,
}

# Changes to SIZES; "condition" and "gates" add weights that no BERT checkpoint holds.
WEIGHTS = {
    "base": {},
    "three_layers": {"num_hidden_layers": 3},
    "narrow_embedding": {"embedding_size": 12},
    "odd_heads": {"attention_head_size": 6, "attention_key_size": 5},
    "three_segments": {"segment_vocab_size": 3},
    "condition": {"condition": 4},
    "hidden_condition": {"condition": 4, "condition_hidden": 6},
    "gated": {"gates": 2},
}

# length, largest token id + 1, segments, largest position id + 1
INPUTS = {
    "short": (8, 24, 2, 8),
    "long": (20, 24, 2, 64),
    "kept": (8, 10, 2, 8),
    "kept_and_compound": (8, 12, 2, 8),
    "three_segments": (8, 24, 3, 8),
}

KEEP = [0, 2, 3, 5, 7, 11, 13, 17, 19, 23]
COMPOUND = [[3, 4], [[5, 6, 1], [0.25, 0.5, 1.25]]]


def case(inputs="short", weights="base", **kwargs):
    extra = {
        k: kwargs.pop(k) for k in ("reference", "condition", "caches", "cumulative") if k in kwargs
    }
    return {"inputs": inputs, "weights": weights, "kwargs": kwargs, **extra}


CASES = {
    "plain": case(),
    "roberta_is_bert": case(model="roberta"),
    # Heads and the order of their outputs.
    "pool": case(with_pool=True),
    "pool_linear": case(with_pool="linear"),
    "nsp": case(with_nsp=True),
    "nsp_over_linear_pool": case(with_nsp=True, with_pool="linear"),
    "mlm": case(with_mlm=True),
    "mlm_linear": case(with_mlm="linear"),
    "pool_mlm": case(with_pool=True, with_mlm="linear"),
    "nsp_mlm": case(with_nsp=True, with_mlm=True),
    # Applications.
    "lm": case(application="lm"),
    "lm_linear": case(application="lm", with_mlm="linear"),
    "lm_pool": case(application="lm", with_pool=True),
    "lm_long": case("long", application="lm", with_mlm="linear", hierarchical_position=True),
    "unilm": case(application="unilm"),
    "unilm_linear": case(application="unilm", with_mlm="linear"),
    "unilm_three_segments": case(
        "three_segments",
        "three_segments",
        application="unilm",
        with_mlm="linear",
        segment_vocab_size=3,
    ),
    "unilm_long": case("long", application="unilm", with_mlm="linear", hierarchical_position=0.3),
    # Positions.
    "hierarchical": case("long", hierarchical_position=True),
    "hierarchical_0.2": case("long", hierarchical_position=0.2),
    "hierarchical_0.7": case("long", hierarchical_position=0.7),
    "hierarchical_short": case(hierarchical_position=True),
    "hierarchical_nsp_mlm": case(
        "long", hierarchical_position=True, with_nsp=True, with_mlm="linear"
    ),
    "position_ids": case(custom_position_ids=True),
    "position_ids_hierarchical": case("long", custom_position_ids=True, hierarchical_position=True),
    "position_ids_mlm": case(custom_position_ids=True, with_mlm="linear"),
    # Segments.
    "no_segments": case(segment_vocab_size=0),
    "no_segments_lm": case(segment_vocab_size=0, application="lm", with_mlm="linear"),
    "no_segments_position_ids": case(
        "long", segment_vocab_size=0, custom_position_ids=True, hierarchical_position=True
    ),
    "three_segments": case("three_segments", "three_segments", segment_vocab_size=3),
    # Segment id 0 is never used here: bert4keras takes it for padding when the tables are shared.
    "shared_segments": case(shared_segment_embeddings=True),
    # The vocabulary.
    "keep_tokens": case("kept", keep_tokens=KEEP, with_mlm="linear"),
    "compound_tokens": case(compound_tokens=COMPOUND, with_mlm="linear"),
    "keep_and_compound": case(
        "kept_and_compound", keep_tokens=KEEP, compound_tokens=COMPOUND, with_mlm="linear"
    ),
    "keep_and_compound_encoder": case(
        "kept_and_compound", keep_tokens=KEEP, compound_tokens=COMPOUND
    ),
    # Sizes and activations.
    "narrow_embedding": case(weights="narrow_embedding", embedding_size=12),
    "narrow_embedding_mlm": case(
        "long", "narrow_embedding", embedding_size=12, with_mlm="linear", hierarchical_position=True
    ),
    "odd_heads": case(weights="odd_heads", attention_head_size=6, attention_key_size=5),
    "gelu_tanh": case(hidden_act="gelu_new", reference={"hidden_act": "gelu", "gelu": "tanh"}),
    "relu": case(hidden_act="relu", with_mlm="linear"),
    "swish": case(hidden_act="swish"),
    "gated": case(weights="gated", hidden_act=["gelu", "linear"]),
    "gated_swish": case(weights="gated", hidden_act=["linear", "swish"]),
    # Conditional layer normalisation: what one vector per example does to every norm.
    "condition": case(weights="condition", condition=4),
    "condition_mlm": case(weights="condition", condition=4, with_mlm="linear"),
    "condition_position_ids": case(
        "long", "condition", condition=4, custom_position_ids=True, hierarchical_position=True
    ),
    "condition_hidden": case(
        weights="hidden_condition",
        condition=4,
        layer_norm_cond_hidden_size=6,
        layer_norm_cond_hidden_act="tanh",
    ),
    # A fresh condition starts at zero: the outputs of the plain model.
    "condition_fresh": case(weights="base", condition=4),
    # RealFormer. bert4keras >= 0.11.4 hands on the scores of one layer only: with three layers that
    # is no longer the paper's running sum, so `cumulative` repairs it and the plain one is kept to
    # show the difference.
    "residual_two_layers": case(residual_attention_scores=True),
    "residual_not_cumulative": case(
        weights="three_layers", num_hidden_layers=3, residual_attention_scores=True
    ),
    "residual_cumulative": case(
        weights="three_layers", num_hidden_layers=3, residual_attention_scores=True, cumulative=True
    ),
    # Keys and values put in front of a layer's own, before the projections.
    "attention_caches": case(caches=3),
}

# Position layers alone: mode x ids x table.
MODES = ("add", "mul", "zero", "concat")
LEARNED = {
    f"{mode}{'_ids' * ids}{name}": {"merge_mode": mode, "ids": ids, "hierarchical": hierarchical}
    for mode in MODES
    for ids in (False, True)
    for name, hierarchical in (("", None), ("_hierarchical", True), ("_hierarchical_0.3", 0.3))
}
SINUSOIDAL = {
    f"{mode}{'_ids' * ids}": {"merge_mode": mode, "ids": ids} for mode in MODES for ids in (0, 1)
}
