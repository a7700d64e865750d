"""Keys of config files: those that change nothing, and the kinds of the others.

A key that changes what a model computes is read by the family (`Family.keys_read`), or refused by
name where it has another than its one supported value (`REQUIRED_VALUES`, `Family.required`).
"""

import math

from keras_posenc.files.untrusted import quote

MOST_ROWS = 2**16  # of a table of distances; experts
MOST_NUMBER = 2**40

# The kinds of the keys that families read themselves; those that are not here are true or false.
NUMBERS = {
    "global_attn_every_n_layers", "global_rope_theta", "local_attention", "local_rope_theta",
    "block_ffn_dim_multiplier", "max_trained_positions", "n_inner",
    "original_max_position_embeddings", "partial_rotary_factor", "query_pre_attn_scalar",
    "relative_attention_max_distance", "rope_local_base_freq", "rope_theta", "rotary_emb_base",
    "rotary_scaling_factor", "sliding_window", "sliding_window_pattern", "swiglu_alpha",
    "swiglu_limit",
}  # fmt: skip
ROWS = {
    "block_multiple_of", "conv_L_cache", "num_experts", "num_experts_per_tok", "num_local_experts",
    "max_relative_position", "max_relative_positions", "position_buckets",
    "relative_attention_num_buckets",
}  # fmt: skip
KINDS = {
    "rope_scaling": (dict, "a dict"),
    "rope_parameters": (dict, "a dict"),
    "layer_types": (list, "a list"),
    "full_attn_idxs": (list, "a list"),
    "pos_att_type": ((str, list), "names"),
    "norm_rel_ebd": (str, "a name"),
    "feed_forward_type": (str, "a name"),
    "classifier_pooling": (str, "a name"),
    "pooler_hidden_act": (str, "a name"),
}


def check_kinds(values, family):
    """Raises ValueError if a key that a family reads has a value that cannot be meant.

    `values`: dict, the keys of the config file.
    """
    for key in family.keys:
        value = values.get(key)
        if value is None:
            continue
        if key in NUMBERS:
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            sound, wanted = number and 0 < value <= MOST_NUMBER, "a number above 0"
        elif key in ROWS:
            number = isinstance(value, int) and not isinstance(value, bool)
            sound, wanted = number and -1 <= value <= MOST_ROWS, f"an integer up to {MOST_ROWS}"
        else:
            kind, wanted = KINDS.get(key, (bool, "true or false"))
            sound = isinstance(value, kind)
        if not sound:
            raise ValueError(f"`{key}` must be {wanted}. Received: {quote(value)}")


def check_finite(values):
    """Raises ValueError if a number anywhere in a config is infinite or no number."""
    for key, value in values.items():
        left = [value]
        while left:
            part = left.pop()
            if isinstance(part, dict):
                left += part.values()
            elif isinstance(part, (list, tuple)):
                left += part
            elif isinstance(part, float) and not math.isfinite(part):
                raise ValueError(f"{quote(key)} must be finite. Received: {part}")


# Keys that change the model -> the values that are supported.
REQUIRED_VALUES = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "is_encoder_decoder": (False, None),
    "cross_attention_hidden_size": (None,),
    "pruned_heads": ({}, None),
}

REFUSALS = {
    "position_embedding_type": "Only absolute positions are read; relative ones would be lost.",
    "is_decoder": 'A decoder is asked for with application="lm".',
    "add_cross_attention": "Cross-attention is not supported.",
    "is_encoder_decoder": "Encoder-decoder models are not supported.",
    "pruned_heads": "Pruned heads are not supported.",
}

# Read when a model has labels, or a family is chosen.
READ_BY_ALL = {
    "model_type", "architectures", "id2label", "num_labels", "encodings", "mask_token_id",
}  # fmt: skip

# Which tokens they are; where the ids of tokens change, these do.
SPECIAL_TOKENS = {
    "bos_token_id", "cls_token_id", "decoder_start_token_id", "eos_token_id", "mask_token_id",
    "sep_token_id",
}  # fmt: skip

IRRELEVANT = {
    # Who wrote the file, and for what.
    "_commit_hash", "_name_or_path", "auto_map", "dtype", "finetuning_task", "label2id",
    "task_specific_params", "tokenizer_class", "torch_dtype", "transformers_version",
    # Which class of transformers computes it, and what it returns.
    "_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal",
    "_experts_implementation", "_experts_implementation_internal", "_output_attentions",
    "_post_init_done", "_sliding_window_pattern", "attn_implementation", "chunk_size_feed_forward",
    "deterministic_flash_attn", "gradient_checkpointing", "output_attentions",
    "output_hidden_states", "pretraining_tp", "reference_compile", "reorder_and_upcast_attn",
    "repad_logits_with_grad", "return_dict", "tf_legacy_loss", "torchscript", "unpad_inputs",
    "use_bfloat16", "use_cache", "use_memory_efficient_attention",
    # Special tokens, which the tokenizer knows.
    "bos_token_id", "cls_token_id", "decoder_start_token_id", "eos_token_id", "sep_token_id",
    # Training alone: losses, initial values, dropout of heads.
    "classifier_dropout", "classifier_dropout_prob", "embd_pdrop", "embedding_dropout",
    "initializer_cutoff_factor", "initializer_factor", "pooler_dropout", "problem_type",
    "qa_dropout", "seq_classif_dropout", "sparse_pred_ignore_index", "sparse_prediction",
    # Heads and halves of models that are not built: multiple choice, T5's decoder.
    "dense_act_fn", "is_gated_act", "num_decoder_layers", "scale_decoder_outputs",
    "summary_activation", "summary_first_dropout", "summary_last_dropout", "summary_proj_to_labels",
    "summary_type", "summary_use_proj",
    # Written by files of old, and read by no code.
    "directionality", "down_scale_factor", "gap_size", "n_ctx", "net_structure_type",
    "num_memory_blocks", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
    "pooler_size_per_head", "pooler_type",
    # Of windows and heads that are refused or not built where they would matter.
    "max_window_layers",
}  # fmt: skip
