"""Fine-tunes a pretrained encoder, extended if needed, on a task with long texts."""

import hashlib
import os
import pathlib

from keras_posenc.arguments import checks
from keras_posenc.files.writing import subfolder
from keras_posenc.folders.finetuned import FILES
from keras_posenc.processes.devices import on_devices
from keras_posenc.processes.together import check_processes
from keras_posenc.text import Texts
from keras_posenc.text.files import long_texts
from keras_posenc.text.truncation import unlogged_truncation
from keras_posenc.training.cached_texts import cached_documents
from keras_posenc.training.finetuning.frozen import FrozenTrainer, as_read, check_frozen, is_frozen
from keras_posenc.training.finetuning.labelled_documents import digest, split
from keras_posenc.training.finetuning.recipe import FEW_EPOCHS, FinetuneRecipe, stages
from keras_posenc.training.finetuning.tasks import FORMER_TASK
from keras_posenc.training.finetuning.trainer import Trainer
from keras_posenc.training.optimizer_settings import FORMER_OPTIMIZER
from keras_posenc.training.runs import HELD_OUT, run_once, whence
from keras_posenc.training.settings import former_settings
from keras_posenc.training.source import FORMER_SOURCE, Source
from keras_posenc.training.stretching.stretch import stretch

# What metrics.json holds.
METRICS = ("labels", "train", "validation", "test", "versions")


@former_settings(
    extension="hierarchical", checkpoint=FORMER_SOURCE, task=FORMER_TASK, optimizer=FORMER_OPTIMIZER
)
@on_devices
def finetune(
    checkpoint,
    train,
    output,
    *,
    task="classify",
    validation=None,
    test=None,
    text=None,
    label=None,
    max_length=None,
    epochs=None,
    lengths=None,
    longer="cut",
    extension="hierarchical",
    stretch_first=None,
    optimizer="adamw",
    token_budget=8192,
    dropout_rate=None,
    attention_dropout_rate=None,
    lora_rank=None,
    freeze=None,
    metrics=None,
    callbacks=None,
    seed=0,
    cache=None,
    overwrite=False,
    devices=None,
    verbose="auto",
):
    """Fine-tunes a pretrained encoder for long texts; an interrupted run can be resumed.

    | task | documents | metrics |
    |---|---|---|
    | "classify" | texts or pairs with one label each | accuracy, macro F1 |
    | "multilabel" | texts with any number of labels each | micro and macro F1 |
    | "regress" | texts with one or more numbers each | Spearman, Pearson |
    | "tag" | words with one tag each, or texts with spans | F1 as in seqeval |
    | "qa" | questions, passages and answers | F1 and exact match as in SQuAD |
    | "embed" | pairs with negatives or without, or with scores | accuracy, or Spearman |

    The whole state (weights, optimizer, dropout seeds, history, callbacks) is saved to a single
    file after each epoch. A second call with the same arguments resumes from there and ends with
    the same weights as an uninterrupted run. If the run is complete, it returns the metrics
    immediately. Each epoch sets the global seeds to a function of `seed` and the epoch.

    Args:
        checkpoint: str or `Source`. Path of the pretrained weights, or of a directory with weights,
            config and tokenizer.
        train: the documents: a path, a `Texts`, or a pair (texts, labels). Texts, labels and files
            differ by task, see the guide of tasks.
        output: str. Directory for model.keras, tokenizer.json, labels.json, config.json,
            recipe.json, metrics.json, history.csv and steps.csv. `load_finetuned` reads it.
        task: str. The task to train for. One of "classify", "multilabel", "regress", "tag", "qa" or
            "embed". With other settings than the defaults, a `Classify`, `MultiLabel`, `Regress`,
            `Tag`, `Answer` or `Embed`, such as `Embed(loss="cosent")`.
        validation: documents to evaluate after every epoch. A float in (0, 1) holds out that
            fraction of `train`.
        test: documents to evaluate once, at the end.
        text: str. Name of the column of texts; by default one with a usual name, such as text or
            content (see `read_texts`). Several names, such as question and passage, read pairs.
        label: str. Name of the column of labels; by default one with a usual name, such as label or
            class.
        max_length: int. Tokens after which documents are truncated. Default 512.
        epochs: int. Passes over the documents. Default 3, or 10 for at most 200 texts with classes
            or numbers, where 3 would be about ten steps.
        lengths: stages of growing length under one learning-rate schedule, as pairs of `max_length`
            and `epochs`, in place of these two.
        longer: str. What a stage does with longer documents. One of "cut", which truncates them,
            "ends", which keeps their beginning and their end, in inference too, or "skip", which
            leaves them to later stages. Skipping helps if the evidence for a label may be in the
            part that is cut off; inference truncates then.
        extension: `Extension`, str or dict. How to serve more positions than the checkpoint has, if
            a length needs them: "hierarchical" as in Su (2020), "hierarchical:0.2" with another
            weight of the block index, "tile", "interpolate" or "fresh". None serves no more. For
            the output of `finetune`, that of its training.
        stretch_first: long texts without labels, as in `keras_posenc.stretch`. The checkpoint is
            first extended on them, with the defaults of that function, in `output`/stretched. Then
            `extension` is not used.
        optimizer: str, `Optimizer` or `keras.optimizers.Optimizer`. How the weights are trained,
            such as "adamw:2e-5", "lion" or `Optimizer(learning_rate=2e-5, warmup=0.2)`. The default
            has a learning rate of 1e-4 and a weight decay of 0.01.
        token_budget: int. Maximum number of tokens in a batch, padding included.
        dropout_rate: float. Dropout of the features; by default that of the config.
        attention_dropout_rate: float. Dropout of the attention weights; by default that of the
            config.
        lora_rank: int or None. Train low-rank factors of this rank (LoRA) in the attention and
            feed-forward layers, and the head; the weights of the checkpoint are frozen. Saved
            files have the factors merged into the weights. Use a higher learning rate, such as
            1e-3. By default, all weights are trained.
        freeze: weights of the checkpoint to leave as they are. "encoder" is for few texts: it
            computes the vector of each text once and trains a linear head on these to convergence
            in seconds. Its penalty is chosen by cross-validation. All of a text is read, in chunks
            whose mean is its vector ("encoder:256" for chunks of 256 tokens), or its first
            `max_length` tokens if that is given. Otherwise "embeddings"; an int, which adds
            that many of the first layers; a pattern of names, such as "*-FeedForward/*"; or a list
            of these. LoRA leaves them out.
        metrics: list of metrics of Keras, by name or as objects, of the model's raw outputs. They
            are shown during training. For `validation` and `test` they are also returned, at the
            cost of a second pass over these documents.
        callbacks: list of `keras.callbacks.Callback`. They see one training of all stages;
            `on_epoch_end` comes after the validation and has its scores as "val_...".
            `EarlyStopping(restore_best_weights=True)` ends all stages, and its best weights are
            evaluated and saved. A resumed run gives each callback back its attributes that are
            numbers, strings, arrays, lists of arrays, or lists and dicts of numbers and strings;
            the best weights are among them.
        seed: int. Seed of the batches, the dropout and the new weights.
        cache: path of a folder for training texts that are larger than memory. The files are then
            read in parts, and their tokens are computed once and read from the folder. A pattern of
            names, such as "part-*.parquet", reads several files.
        overwrite: bool. Start again, whatever run is in `output`. To resume after an interruption,
            leave it out.
        devices: int or "all". Number of devices of this machine that share each batch, on JAX and
            TensorFlow. Default: one, or those of a distribution that is set.
        verbose: as in `keras.Model.fit`.

    Returns:
        dict, the content of metrics.json: `task`, `labels`, `scores` (the keys of its metrics with
            their titles, most important first), `train`, `validation`, `test` (None if not given),
            `versions`, and `stretched`, the report of `stretch_first`.

    Raises:
        FileNotFoundError: if a file is missing.
        ImportError: for a .parquet file, if pyarrow is not installed.
        NotADirectoryError: if `output` is a file.
        OSError: if `output` cannot be written, or has no room for the state.
        BlockingIOError: if another run uses `output`.

    Example:

    >>> metrics = finetune("bert", "train.tsv", "long_run", validation=0.25,
    ...     lengths=[(16, 1), (48, 1)], verbose=0)
    >>> metrics["train"]["epochs"], metrics["validation"]["documents"]
    (2, 12)
    """
    check_processes("finetune")
    recipe = FinetuneRecipe.of(
        locals(), lengths=stages(max_length, epochs, lengths), stretch_first=_named(stretch_first)
    )
    task, frozen = recipe.task, is_frozen(recipe.freeze)
    if frozen:
        in_epochs = {"epochs": epochs, "lengths": lengths, "lora_rank": lora_rank, "cache": cache}
        in_epochs |= {"metrics": metrics, "callbacks": callbacks, "optimizer": optimizer}
        rates = {"dropout_rate": dropout_rate, "attention_dropout_rate": attention_dropout_rate}
        cuts = ("cut",) if max_length is None else ("cut", "ends")
        given = {"longer": None if longer in cuts else longer, "max_length": max_length}
        check_frozen(recipe, {**in_epochs, **rates, **given})
    documents, label_names = _documents(task, train, validation, test, text, label, seed, cache)
    task.check_settings(label_names)
    if frozen:
        recipe = as_read(recipe, max_length)
    elif epochs is None and lengths is None and recipe.is_for_few(len(documents["train"])):
        recipe = recipe.replace(lengths=((recipe.longest, FEW_EPOCHS),))

    def prepare():
        kind = FrozenTrainer if frozen else Trainer
        started, before = recipe, {}
        if stretch_first is not None:
            with unlogged_truncation(True):
                kind(recipe, documents, label_names, {})  # an error comes before the stretching
            stretched = subfolder(pathlib.Path(output), "stretched")
            report = stretch(
                recipe.source,
                stretch_first,
                stretched,
                max_length=recipe.longest,
                text=_column_of(text, stretch_first),
                seed=seed,
                overwrite=overwrite,
                verbose=verbose != 0,
            ).report
            started = recipe.replace(checkpoint=Source(str(stretched), model=recipe.source.model))
            before = {"stretched": report}
        return kind(started, documents, label_names, before)

    digests = {role: part and digest(part) for role, part in documents.items()}
    share = validation if isinstance(validation, float) else None
    record = recipe.record(**digests, **{HELD_OUT: share})
    data = whence(train=train, validation=validation, test=test, text=text, label=label)
    return run_once(output, record, overwrite, verbose, prepare, METRICS, FILES, data)


def _column_of(text, path):
    """The column of the long texts to stretch by: that of the documents, if it is one; none of a
    .txt."""
    is_table = isinstance(path, (str, os.PathLike)) and pathlib.Path(path).suffix != ".txt"
    return text if is_table and isinstance(text, str) else None


def _named(texts):
    """How a recipe identifies texts: by their path, or by a fingerprint."""
    if texts is None or isinstance(texts, (str, os.PathLike)):
        return texts and str(texts)
    return hashlib.sha256(repr(long_texts(texts)).encode()).hexdigest()[:16]


def _documents(task, train, validation, test, text, label, seed, cache):
    """Dict role -> labelled `Texts` or None, and the names of the outputs: none occurs in the
    documents that the training ones do not show."""
    if cache is None:
        documents = {"train": task.read(train, "train", text, label)}
    else:
        documents = {"train": cached_documents(cache, task, train, "train", text, label)}
    if isinstance(validation, float):
        checks.number("validation", validation, above=0, below=1)
        documents["train"], found = split(documents["train"], validation, seed, task.names_in)
        validation = Texts(list(found.texts), list(found.labels), list(found.lines))
    label_names = task.label_names(documents["train"])
    for role, source in (("validation", validation), ("test", test)):
        documents[role] = None if source is None else task.read(source, role, text, label)
        if documents[role]:
            task.check_label_names(documents[role], label_names, role)
    return documents, label_names
