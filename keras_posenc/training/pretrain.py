"""`pretrain`: a checkpoint goes on learning from texts without labels."""

import dataclasses
import functools
import pathlib

from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.models.config import read_config
from keras_posenc.text import Tokenizer
from keras_posenc.training.pretraining import OBJECTIVES, Pretraining, read_corpus
from keras_posenc.training.recipe import STRETCHES, environment, in_range, one_of, whole
from keras_posenc.training.steps import once, told
from keras_posenc.training.text_model import check_table

KEYS = ("before", "after", "losses")


@dataclasses.dataclass(frozen=True)
class PretrainRecipe:
    """All settings of a pretraining run except its texts; see `pretrain` for the fields."""

    checkpoint: str
    config: str | None
    tokenizer: str | None
    model: str | None
    objective: str
    length: int
    epochs: int
    steps: int | None
    stretch: str | None
    alpha: float
    masked: float
    whole_words: bool
    max_ngram: int
    learning_rate: float
    warmup: float
    weight_decay: float
    clip: float | None
    token_budget: int
    pack: bool
    dropout_rate: float | None
    attention_dropout_rate: float | None
    seed: int

    def __post_init__(self):
        one_of("objective", self.objective, OBJECTIVES)
        if self.stretch is not None:
            one_of("stretch", self.stretch, STRETCHES)
        whole("length", self.length, above=2)
        whole("epochs", self.epochs, above=0)
        if self.steps is not None:
            whole("steps", self.steps, above=0)
        in_range("masked", self.masked, above=0, below=1)
        whole("max_ngram", self.max_ngram, above=0)
        in_range("learning_rate", self.learning_rate, above=0)
        in_range("warmup", self.warmup, least=0, below=1)
        in_range("weight_decay", self.weight_decay, least=0)
        whole("token_budget", self.token_budget, above=0)
        if self.clip is not None:
            in_range("clip", self.clip, above=0)

    def options(self, config):
        """Returns the keywords of `build_transformer_model`: dropout, and the stretching if needed.

        Args:
            config: `Config` of the checkpoint.
        """
        rates = ("dropout_rate", "attention_dropout_rate")
        arguments = {name: getattr(self, name) for name in rates if getattr(self, name) is not None}
        if not self.stretches(config):
            return arguments
        if self.stretch is None:
            raise ValueError(
                f"{self.checkpoint} has {config.max_position} positions, and length={self.length} "
                f"needs more: give a stretch, one of {', '.join(STRETCHES)}, or a smaller length."
            )
        arguments |= {"stretch": self.stretch, "max_position": self.length}
        if self.stretch == "hierarchical":
            arguments["hierarchical_position"] = self.alpha
        return arguments

    def stretches(self, config):
        """Whether the length needs more positions than the checkpoint has."""
        return config.position_table and self.length > config.max_position


def pretrain(
    checkpoint,
    corpus,
    output,
    *,
    objective="mlm",
    length=512,
    validation=0.05,
    epochs=1,
    steps=None,
    stretch="hierarchical",
    alpha=0.4,
    masked=0.15,
    whole_words=True,
    max_ngram=1,
    learning_rate=5e-5,
    warmup=0.1,
    weight_decay=0.01,
    clip=1.0,
    token_budget=4096,
    pack=False,
    dropout_rate=None,
    attention_dropout_rate=None,
    text=None,
    label=None,
    config=None,
    tokenizer=None,
    model=None,
    seed=0,
    overwrite=False,
    verbose=True,
):
    """Continues pretraining a checkpoint on unlabelled texts; an interrupted run can be resumed.

    The result is a checkpoint with its head over the vocabulary, which `finetune`, `stretch` and
    Hugging Face's transformers read. A killed run goes on where it was: the same call continues
    from the last state, at most half a minute back, to the weights of an uninterrupted run, and
    after the end it returns at once.

    Args:
        checkpoint: path of the pretrained weights, or of a directory with weights, config and
            tokenizer. If they have no head over the vocabulary, a new one is trained.
        corpus: texts: a path for `read_texts`, a `Texts`, or a list of str; for "unilm" with their
            answers, the labels, or a list of (prompt, answer) pairs.
        output: directory for the checkpoint, its tokenizer, recipe.json and metrics.json.
        objective: one of "mlm", masked tokens, see `MaskedLanguageModelBatches`; "causal", the next
            token; or "unilm", the next token of an answer to a prompt, see `CausalBatches`.
        length: int. Tokens of a row, special tokens included. Longer texts are several rows.
        validation: texts to measure the loss on, before and after, as `corpus`; a float in (0, 1)
            holds out that share of `corpus`.
        epochs: int. Passes over the corpus.
        steps: int. Batches to train on, in place of `epochs`.
        stretch: how to serve more positions than the checkpoint has, if `length` needs them. One of
            "hierarchical", "tile", "interpolate" or "fresh". With None it is an error.
        alpha: float. Weight of the block index in hierarchical positions.
        masked: float in (0, 1). Fraction of the tokens to predict.
        whole_words: bool. Mask all pieces of a word together.
        max_ngram: int. Maximum number of neighbouring words masked together.
        learning_rate: float. Peak of a cosine schedule.
        warmup: float in [0, 1). Fraction of the steps that warm up the learning rate.
        weight_decay: float. Weight decay; biases, norms and position embeddings have none.
        clip: float or None. Maximum global norm of the gradients; None: no bound.
        token_budget: int. Maximum number of tokens in a batch, padding included.
        pack: bool. Put several short texts into one row of `length` tokens; none attends to
            another. There is less padding and fewer shapes to compile, but a larger attention
            matrix.
        dropout_rate: float. Dropout of the features; by default that of the config.
        attention_dropout_rate: float. Dropout of the attention weights; by default that of the
            config.
        text: name of the column of texts; by default one with a usual name, see `read_texts`.
        label: name of the column of answers, for "unilm"; by default one with a usual name.
        config: path of the config; by default in the directory of `checkpoint`.
        tokenizer: path of the tokenizer; by default in the directory of `checkpoint`.
        model: family of the checkpoint; by default the one its config names.
        seed: int. Seed of the batches, the masks, the dropout and the new weights.
        overwrite: bool. Start again, whatever run is in `output`. To resume after an interruption,
            leave it out.
        verbose: bool. Whether to print where it stands and how long it will take.

    Returns:
        dict, the content of metrics.json: `before` and `after`, each the `loss` and the `accuracy`
            over the tokens to guess in the validation texts (the same ones, hidden in the same
            way); `losses` of the steps, `seconds`, `new_head`, `versions`.

    Raises:
        FileNotFoundError: if a file is missing.
        NotADirectoryError: if `output` is a file.
        OSError: if `output` cannot be written, or has no room for the state.
        BlockingIOError: if another run is at work in `output`.
        TypeError: if a text is not a str.
        ValueError: if a setting, a text or the checkpoint is invalid, or `output` holds a run with
            other settings.

    Example:

    >>> metrics = pretrain("bert", "train.tsv", "domain", length=24, steps=2, verbose=False)
    >>> len(metrics["losses"]), sorted(metrics["after"])
    (2, ['accuracy', 'loss'])
    """
    recipe = PretrainRecipe(
        checkpoint=str(checkpoint),
        config=None if config is None else str(config),
        tokenizer=None if tokenizer is None else str(tokenizer),
        model=model,
        objective=objective,
        length=length,
        epochs=epochs,
        steps=steps,
        stretch=stretch,
        alpha=alpha,
        masked=masked,
        whole_words=whole_words,
        max_ngram=max_ngram,
        learning_rate=learning_rate,
        warmup=warmup,
        weight_decay=weight_decay,
        clip=clip,
        token_budget=token_budget,
        pack=pack,
        dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate,
        seed=seed,
    )
    beside = pathlib.Path(checkpoint)
    beside = beside if beside.is_dir() else beside.parent
    sizes = read_config(config or beside, model)
    options = recipe.options(sizes)
    words = Tokenizer(tokenizer or beside)
    check_table(words, sizes.vocab_size)
    texts = read_corpus(corpus, validation, objective == "unilm", text, label, seed)
    settings = {
        **dataclasses.asdict(recipe),
        **environment(),
        "texts": texts.digest(),
    }

    def prepare():
        run = Pretraining(recipe, sizes, options, open_checkpoint(checkpoint), words, texts)
        return functools.partial(run.run, tell=told(verbose)), run.save

    return once(pathlib.Path(output), settings, overwrite, prepare, KEYS)


def pretrain_summary(metrics):
    """Formats the main numbers of `pretrain` as a table.

    Args:
        metrics: dict, as `pretrain` returns.

    Returns:
        str.

    Example:

    >>> told = {"loss": 2.0, "accuracy": 0.5}
    >>> metrics = {"before": told, "after": told, "losses": [2.0, 2.0], "seconds": 1.0}
    >>> print(pretrain_summary(metrics))
                      before     after
    loss               2.000     2.000
    accuracy           50.0%     50.0%
    2 steps in 1 s.
    """
    before, after = metrics["before"], metrics["after"]
    return "\n".join(
        [
            f"{'':14}{'before':>10}{'after':>10}",
            f"{'loss':14}{before['loss']:>10.3f}{after['loss']:>10.3f}",
            f"{'accuracy':14}{before['accuracy']:>10.1%}{after['accuracy']:>10.1%}",
            f"{len(metrics['losses']):,} steps in {metrics['seconds']:,.0f} s.",
        ]
    )
