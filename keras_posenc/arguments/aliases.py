"""Names that Keras, transformers and sentence-transformers have for what is called otherwise here.

The command line reads this table before Keras is imported.
"""

import difflib
import inspect
import re

LENGTHS = ("maxlen", "max_len", "max_seq_length", "max_seq_len", "max_sequence_length")
BATCHES = ("batch_size", "train_batch_size", "eval_batch_size", "per_device_train_batch_size")
EPOCHS = ("num_train_epochs", "num_epochs", "n_epochs", "nb_epoch")
MODELS = ("model_name_or_path", "pretrained_model_name_or_path", "model_name", "model_path")
OUTPUTS = ("output_dir", "output_path", "output_file", "save_dir", "out")
TEXTS = ("train_file", "train_data", "train_dataset", "dataset", "dataset_name", "sentences")
VALIDATION = ("validation_file", "validation_data", "eval_dataset", "eval_file", "dev_file")
# A name of others -> names of arguments here, of which a function has the first; behind a name,
# words about it.
HERE = {
    **dict.fromkeys(LENGTHS, ("max_length",)),
    **dict.fromkeys(
        (*BATCHES, "per_device_eval_batch_size"), ("token_budget, the number of tokens in a batch",)
    ),
    **dict.fromkeys(EPOCHS, ("epochs",)),
    **dict.fromkeys(MODELS, ("checkpoint", "directory")),
    **dict.fromkeys(OUTPUTS, ("output",)),
    **dict.fromkeys(TEXTS, ("train", "corpus", "texts", "data", "documents", "file")),
    **dict.fromkeys((*VALIDATION, "validation_split"), ("validation", "data")),
    **dict.fromkeys(("test_file", "test_data", "test_dataset"), ("test", "data")),
    **dict.fromkeys(("text_column", "text_column_name", "text_column_names"), ("text",)),
    **dict.fromkeys(("label_column", "label_column_name"), ("label",)),
    **dict.fromkeys(("lr", "learning_rate"), ("learning_rate", 'optimizer="adamw:2e-5"')),
    **dict.fromkeys(
        ("warmup_ratio", "warmup_steps", "num_warmup_steps"),
        ("warmup, a fraction of the steps", "optimizer=Optimizer(warmup=0.1)"),
    ),
    **dict.fromkeys(
        ("lr_scheduler", "lr_scheduler_type"),
        ("schedule", 'optimizer=Optimizer(schedule="cosine")'),
    ),
    **dict.fromkeys(
        ("max_grad_norm", "clipnorm", "gradient_clip"), ("clip", "optimizer=Optimizer(clip=1.0)")
    ),
    **dict.fromkeys(("seed_value", "random_seed", "random_state"), ("seed",)),
    **dict.fromkeys(("k", "top_n"), ("top_k",)),
    **dict.fromkeys(("max_wavelength", "rope_theta", "theta"), ("base",)),
    "max_steps": ("steps",),
    "optim": ("optimizer",),
    "overwrite_output_dir": ("overwrite",),
    "metric": ("metrics",),
    "dropout": ("dropout_rate",),
    "hidden_dropout_prob": ("dropout_rate",),
    "attention_probs_dropout_prob": ("attention_dropout_rate",),
    "lora_r": ("lora_rank",),
    "mlm_probability": ("masked",),
    "doc_stride": ("stride", "task=Answer(stride=128)"),
    "pooling_mode": ("pooling", 'task=Classify(pooling="cls")'),
    "prompt_name": ("prompt",),
    "truncate_dim": ("dimension",),
    "cross_encoder": ("reranker",),
    "show_progress_bar": ("verbose",),
}


def argument_here(name, known):
    """What an argument, or option, of others is called by a function: (name, words behind it), or
    None.

    Example:

    >>> argument_here("batch_size", ["texts", "token_budget"])
    ('token_budget', ', the number of tokens in a batch')
    """
    name = name.lstrip("-").replace("-", "_").lower()
    for candidate in (name, *HERE.get(name, ())):
        here, words = re.match(r"(\w*)(.*)", candidate).groups()
        if here in known:
            return here, words
    return None


def check_arguments(function, given, more=()):
    """Refuses keywords that a function, or `__init__`, does not have, with their names here."""
    parameters = inspect.signature(function).parameters
    known = [*more, *(name for name in parameters if name not in ("self", "args", "kwargs"))]
    unknown = [name for name in given if name not in known]
    if not unknown:
        return
    hints = []
    for name in unknown:
        found, near = argument_here(name, known), difflib.get_close_matches(name, known, 1)
        if found is not None:
            here, words = found
            hints.append(f"{name} is {here}{'' if words.startswith('=') else '='}{words}")
        elif near:
            hints.append(f"did you mean {near[0]}=?")
    of = function.__qualname__.removesuffix(".__init__")
    hint = f": {'; '.join(hints)}".rstrip(".") if hints else ""
    end = "" if hint.endswith("?") else "."
    raise TypeError(f"{of} has no argument {', '.join(unknown)}{hint}{end}")
