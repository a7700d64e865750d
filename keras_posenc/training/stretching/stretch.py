"""`stretch`: an encoder learns to read long texts from itself, without labels."""

import contextlib
import dataclasses
import functools
import hashlib
import pathlib
import tempfile
import typing

import keras

from keras_posenc.checkpoints import save_checkpoint
from keras_posenc.files.writing import make_folder, temporary_folder
from keras_posenc.folders.written import sentence_transformers_files
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.processes.together import check_processes, check_shared
from keras_posenc.training.optimizer_settings import FORMER_OPTIMIZER
from keras_posenc.training.progress import printer
from keras_posenc.training.runs import run_once, whence
from keras_posenc.training.settings import Former, former_settings, renamed
from keras_posenc.training.source import FORMER_SOURCE, Source
from keras_posenc.training.stretching.distillation import CorpusPieces, Distillation
from keras_posenc.training.stretching.stretch_recipe import StretchRecipe

KEYS = ("agreement", "within", "beyond")


class Stretched(typing.NamedTuple):
    """A stretched encoder and its report, as `stretch` returns them.

    Attributes:
        model: the stretched encoder, as `build_transformer_model` loads it from `output`.
        report: dict, the content of metrics.json.

    Example:

    >>> Stretched(model=None, report={"length": 2048}).report["length"]
    2048
    """

    model: keras.Model
    report: dict


def _only_features(_, given):
    """Refuses a training that is no more; that of features is the only one."""
    if given["keep"] not in (None, "features"):
        raise ValueError(
            f"`stretch` keeps features, and has no other training. Received: keep="
            f"{given['keep']!r}; leave it out, and for vectors of passages with distant context "
            "train an embedder by `contextualize`."
        )


@former_settings(
    extension="hierarchical:0.2,kept_rows=1",
    checkpoint=FORMER_SOURCE,
    optimizer=FORMER_OPTIMIZER,
    max_length=renamed("length"),
    removed=Former(("keep",), _only_features),
)
def stretch(
    checkpoint,
    texts,
    output=None,
    *,
    test=None,
    max_length=2048,
    local=None,
    global_every=None,
    steps=64,
    optimizer="adamw",
    log_n=None,
    extension="hierarchical:0.2,kept_rows=1",
    train_length=None,
    text=None,
    seed=0,
    overwrite=False,
    verbose=True,
):
    """Extends a pretrained encoder to longer texts by position distillation, without labels.

    The original encoder is the teacher of the extended one, which reads the whole text.

    For each token, the target is the teacher's feature vector, taken from the window of the old
    length in which the token is most central. This preserves the features of near context. It does
    not teach a passage what its document states far away: for search, train an embedder by
    `contextualize`.

    The loss is 1 - cos + scaled squared error, over all tokens. The first positions start with the
    values of the checkpoint, and the row of [CLS] serves position 0 only.

    The same call resumes an interrupted run from its last state, and ends with the weights of an
    uninterrupted run. If the run is complete, the call returns immediately.

    Args:
        checkpoint: str or `Source`. Path of the pretrained weights, or of a directory with weights,
            config and tokenizer. A `Source` may have a model of `build_transformer_model` in place
            of a path, with a tokenizer.
        texts: long texts, without labels: a path for `read_texts`, a `Texts`, or a list of str.
        output: str or None. Directory for the extended checkpoint, its tokenizer, recipe.json and
            metrics.json; None saves nothing. Pooling, prompts and everything else in a directory of
            sentence-transformers are copied.
        test: texts to measure on, as `texts`; by default a tenth of `texts` is held out.
        max_length: int. Number of positions to serve.
        local: int. Tokens to each side that a local layer attends to; [CLS] attends to all tokens
            and all attend to it. By default every layer is global.
        global_every: int. With `local`, the first of this many layers is global.
        steps: int. Training steps, each on one text of `train_length` tokens.
        optimizer: str, `Optimizer` or `keras.optimizers.Optimizer`. How the weights are trained.
            The first updates of Adam are large: at a learning rate of 2e-4 a single one undoes more
            than the training gains. The default has 4e-5, but 1e-5 with `log_n`, because larger
            rates lose the context that it gains, and no weight decay.
        log_n: int or None. Length m from which on attention is sharper, by the factor ln n / ln m
            for n tokens, in the teacher, too (`LogN`). It keeps the effect of distant text, which
            attention to more tokens dilutes. A good value is the length that the checkpoint was
            last trained with, such as 128 for all-MiniLM-L6-v2. By default, attention stays as
            it is.
        extension: `Extension`, str or dict. Initial values of the new positions: "hierarchical",
            "tile" or "interpolate". The default has the weight 0.2 of the block index, not Su's 0.4
            as everywhere else: the new positions start closer to the trained ones, so the training
            has less to recover. It reserves the row of [CLS], which no new position then uses.
        train_length: int. Tokens of the texts for training and measuring. Default: `max_length`,
            but at most four times the old length, because later positions share the rows of these.
        seed: int. Seed of the choice of text pieces.
        text, overwrite: as in `finetune`.
        verbose: bool. Whether to print the progress and the time left.

    Returns:
        `Stretched`: the model and the report, a dict. `agreement` is the mean cosine with the
            teacher's features by position, before and after. It is also given for the teacher with
            itself, between two readings whose windows are shifted by a quarter. `within` and
            `beyond` are the means within and beyond the old length. The others are `losses`,
            `seconds` and `versions`.

    Raises:
        FileNotFoundError: if a file is missing.
        ImportError: for a .parquet file, if pyarrow is not installed.
        NotADirectoryError: if `output` is a file.
        BlockingIOError: if another run uses `output`.

    Example:

    >>> model, report = stretch("bert", "train.tsv", max_length=24, steps=2, verbose=False)
    >>> report["length"], len(report["losses"])
    (24, 2)
    """
    arguments = locals()
    check_processes("stretch")
    check_shared("output", output)
    with contextlib.ExitStack() as scratch:
        if output is None:
            output = pathlib.Path(scratch.enter_context(tempfile.TemporaryDirectory())) / "model"
        source, named = _saved(Source.of(checkpoint), output, scratch)
        old = source.read_config()
        chosen = {}
        if train_length is None:
            chosen["train_length"] = min(max_length, 4 * old.max_position)
        recipe = StretchRecipe.of(arguments, checkpoint=named, **chosen)
        recipe.options(old)  # refuses a length before the texts are read
        tokenizer = source.read_tokenizer(old)
        corpus = CorpusPieces(texts, test, tokenizer, recipe.train_length, seed, text)
        other_files = _read_other_files(source.folder, max_length, printer(verbose))
        prepare = functools.partial(
            Distillation, recipe, source, old, tokenizer, corpus, other_files
        )
        record = recipe.record(texts=corpus.digest())
        data = whence(texts=texts, test=test, text=text)
        report = run_once(output, record, overwrite, verbose, prepare, KEYS, data=data)
        return Stretched(build_transformer_model(output, model=source.model), report)


def _read_other_files(folder, max_length, print_line):
    """What lies around the encoder in a directory of sentence-transformers: pooling, prompts."""
    try:
        return sentence_transformers_files(folder, max_length)
    except (ValueError, FileNotFoundError) as error:
        print_line(f"The encoder alone is stretched, without what modules.json lists: {error}")
        return {}


def _saved(source, output, scratch):
    """The `Source` and the one that the record of a run has; a model is written into `output`,
    whose next run removes it if this one is killed, until the context `scratch` ends."""
    if isinstance(source.checkpoint, str):
        return source, source
    transformer = getattr(source.checkpoint, "transformer", source.checkpoint)
    if not hasattr(transformer, "layers") or not hasattr(transformer, "config"):
        raise TypeError(
            "stretch needs the path of a checkpoint, or a model of build_transformer_model. "
            f"Received: {source.checkpoint!r}"
        )
    if source.tokenizer is None:
        raise ValueError(
            "A model has no tokenizer with it: give Source(model, tokenizer=...), its directory."
        )
    folder = scratch.enter_context(temporary_folder(make_folder(output))) / "teacher"
    save_checkpoint(transformer, folder)
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:16]
    named = dataclasses.replace(source, checkpoint=f"a model, {digest}", model=transformer.family)
    return dataclasses.replace(named, checkpoint=folder, config=None), named
