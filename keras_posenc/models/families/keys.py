"""Keys of config files that do not change what a model computes, listed once for all families.

A key that does is read by the family (`Family.keys_read`), or refused by name where it differs from
the one value that is supported (`REQUIRED_VALUES` and `Family.required`).
"""

# Read wherever a model has labels, or a family is chosen.
READ_BY_ALL = {"model_type", "architectures", "id2label", "num_labels", "encodings"}

IRRELEVANT = {
    # Who wrote the file, and for what.
    "_commit_hash",
    "_name_or_path",
    "auto_map",
    "dtype",
    "finetuning_task",
    "label2id",
    "task_specific_params",
    "tokenizer_class",
    "torch_dtype",
    "transformers_version",
    # Which class of transformers computes it, and what it returns.
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_attn_implementation_internal",
    "_experts_implementation",
    "_experts_implementation_internal",
    "_output_attentions",
    "_post_init_done",
    "_sliding_window_pattern",
    "attn_implementation",
    "chunk_size_feed_forward",
    "deterministic_flash_attn",
    "gradient_checkpointing",
    "output_attentions",
    "output_hidden_states",
    "pretraining_tp",
    "reference_compile",
    "reorder_and_upcast_attn",
    "repad_logits_with_grad",
    "return_dict",
    "tf_legacy_loss",
    "torchscript",
    "unpad_inputs",
    "use_bfloat16",
    "use_cache",
    "use_memory_efficient_attention",
    # Special tokens, which the tokenizer knows.
    "bos_token_id",
    "cls_token_id",
    "decoder_start_token_id",
    "eos_token_id",
    "mask_token_id",
    "sep_token_id",
    # Training alone: losses, initial values, dropout of heads.
    "classifier_dropout",
    "classifier_dropout_prob",
    "embd_pdrop",
    "embedding_dropout",
    "initializer_cutoff_factor",
    "initializer_factor",
    "pooler_dropout",
    "problem_type",
    "qa_dropout",
    "seq_classif_dropout",
    "sparse_pred_ignore_index",
    "sparse_prediction",
    # Heads and halves of models that are not built: multiple choice, T5's decoder.
    "dense_act_fn",
    "is_gated_act",
    "num_decoder_layers",
    "scale_decoder_outputs",
    "summary_activation",
    "summary_first_dropout",
    "summary_last_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    # Written by files of old, and read by no code.
    "directionality",
    "down_scale_factor",
    "gap_size",
    "n_ctx",
    "net_structure_type",
    "num_memory_blocks",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    # Of windows and heads that are refused or not built where they would matter.
    "max_window_layers",
}
