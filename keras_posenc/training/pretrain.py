"""`pretrain`: a checkpoint goes on learning from texts without labels."""

import functools

from keras_posenc.arguments import checks
from keras_posenc.processes.devices import on_devices
from keras_posenc.processes.together import check_processes
from keras_posenc.training.optimizer_settings import FORMER_OPTIMIZER
from keras_posenc.training.pretraining import OBJECTIVES, Pretraining, read_corpus
from keras_posenc.training.recipe import Recipe
from keras_posenc.training.runs import run_once, whence
from keras_posenc.training.settings import former_settings, renamed
from keras_posenc.training.source import FORMER_SOURCE

KEYS = ("before", "after", "losses")


class PretrainRecipe(Recipe):
    """All settings of a pretraining run except its texts: keywords of `pretrain`."""

    learning_rate = 5e-5

    def check(self):
        super().check()
        checks.choice("objective", self.objective, OBJECTIVES)
        checks.whole("max_length", self.max_length, least=3)
        checks.whole("epochs", self.epochs)
        if self.steps is not None:
            checks.whole("steps", self.steps)
        checks.number("masked", self.masked, above=0, below=1)
        checks.whole("max_ngram", self.max_ngram)
        checks.whole("token_budget", self.token_budget)

    def record(self, **texts):
        record = super().record(**texts)
        # Its name until version 0.4.
        return {"length": record.pop("max_length"), **record}


@former_settings(
    extension="hierarchical",
    checkpoint=FORMER_SOURCE,
    optimizer=FORMER_OPTIMIZER,
    max_length=renamed("length"),
)
@on_devices
def pretrain(
    checkpoint,
    corpus,
    output,
    *,
    objective="mlm",
    max_length=512,
    validation=0.05,
    epochs=1,
    steps=None,
    extension="hierarchical",
    masked=0.15,
    whole_words=True,
    max_ngram=1,
    optimizer="adamw",
    token_budget=4096,
    pack=False,
    dropout_rate=None,
    attention_dropout_rate=None,
    text=None,
    label=None,
    seed=0,
    cache=None,
    overwrite=False,
    devices=None,
    verbose=True,
):
    """Continues pretraining a checkpoint on unlabelled texts; an interrupted run can be resumed.

    The result is a checkpoint with its MLM head, which `finetune`, `stretch` and Hugging Face's
    transformers read. The same call resumes an interrupted run from its last state, at most half a
    minute old. It ends with the weights of an uninterrupted run. If the run is complete, the call
    returns immediately.

    Args:
        checkpoint: str or `Source`. Path of the pretrained weights, or of a directory with weights,
            config and tokenizer. If they have no MLM head, a new one is trained.
        corpus: the texts: a path for `read_texts`, a `Texts`, or a list of str. The objective
            "unilm" also needs the answers: as labels, or in a list of (prompt, answer) pairs.
        output: str. Directory for the checkpoint, its tokenizer, recipe.json and metrics.json.
        objective: str. What to predict. One of "mlm", masked tokens, see
            `MaskedLanguageModelBatches`; "causal", the next token; or "unilm", the next token of an
            answer to a prompt, see `CausalBatches`.
        max_length: int. Tokens of a row, special tokens included. Longer texts are several rows.
        validation: texts, given like `corpus`, to measure the loss on before and after the
            training. A float in (0, 1) holds out that fraction of `corpus`.
        epochs: int. Passes over the corpus.
        steps: int. Batches to train on, in place of `epochs`.
        masked: float in (0, 1). Fraction of the tokens to predict.
        whole_words: bool. Mask all pieces of a word together.
        max_ngram: int. Maximum number of neighbouring words masked together.
        optimizer: str, `Optimizer` or `keras.optimizers.Optimizer`. How the weights are trained,
            such as "adamw:2e-5", "lion" or `Optimizer(learning_rate=2e-5, warmup=0.2)`. The default
            has a learning rate of 5e-5 and a weight decay of 0.01.
        pack: bool. Put several short texts into one row of `max_length` tokens; none attends to
            another. There is less padding and fewer shapes to compile, but a larger attention
            matrix.
        text: as in `finetune`.
        label: str. Name of the column of answers, for "unilm"; by default one with a usual name,
            such as label.
        seed: int. Seed of the batches, the masks, the dropout and the new weights.
        extension, token_budget, dropout_rate, attention_dropout_rate, cache, overwrite, devices: as
            in `finetune`.
        verbose: bool. Whether to print the progress and the time left.

    Returns:
        dict, the content of metrics.json. `before` and `after` have the `loss` and the `accuracy`
            on the tokens to predict in the validation texts, with the same masks. The other keys
            are `losses` (one per step), `seconds`, `new_head` and `versions`.

    Raises:
        FileNotFoundError: if a file is missing.
        ImportError: for a .parquet file, if pyarrow is not installed.
        NotADirectoryError: if `output` is a file.
        OSError: if `output` cannot be written, or has no room for the state.
        BlockingIOError: if another run uses `output`.

    Example:

    >>> metrics = pretrain("bert", "train.tsv", "domain", max_length=24, steps=2, verbose=False)
    >>> len(metrics["losses"]), sorted(metrics["after"])
    (2, ['accuracy', 'loss'])
    """
    check_processes("pretrain")
    recipe = PretrainRecipe.of(locals())
    if cache is not None and pack:
        raise ValueError(
            "`cache` does not go with pack=True, which sorts the rows of all texts by their "
            f"lengths: leave one of them out. Received: cache={str(cache)!r}"
        )
    sizes = recipe.source.read_config()
    recipe.options(sizes)  # refuses a length before the texts are read
    words = recipe.source.read_tokenizer(sizes)
    texts = read_corpus(corpus, validation, objective == "unilm", text, label, seed, cache)
    prepare = functools.partial(Pretraining, recipe, sizes, words, texts)
    record = recipe.record(texts=texts.digest())
    data = whence(corpus=corpus, validation=validation, text=text, label=label)
    return run_once(output, record, overwrite, verbose, prepare, KEYS, data=data)
