"""`contextualize`: an embedder learns, without labels, to bring distant names to its passages."""

import contextlib
import functools
import hashlib
import pathlib
import tempfile
import typing

import keras
import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import quote
from keras_posenc.folders.sentence_transformers import prompt_of_side, read_modules, read_pooling
from keras_posenc.folders.written import sentence_transformers_files, with_pooling
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.processes.together import check_processes, check_shared
from keras_posenc.text.files import long_texts
from keras_posenc.text.truncation import LOGGER
from keras_posenc.training.contextual.batches import Prompted
from keras_posenc.training.contextual.corpus import Corpus
from keras_posenc.training.contextual.pronouns import LANGUAGES, language_of
from keras_posenc.training.contextual.training import ContextualTraining
from keras_posenc.training.optimizer_settings import FORMER_OPTIMIZER
from keras_posenc.training.recipe import Recipe
from keras_posenc.training.runs import run_once, whence
from keras_posenc.training.settings import former_settings
from keras_posenc.training.source import Source, separator_id
from keras_posenc.training.stretching.stretch_recipe import StretchRecipe

LEAST = 128  # tokens of a copy: two introductions and a passage


class ContextualRecipe(StretchRecipe):
    """All settings of a contextual training except its texts: keywords of `contextualize`."""

    def check(self):
        Recipe.check(self)
        checks.whole("train_length", self.train_length, least=LEAST)
        checks.whole("max_length", self.max_length, least=self.train_length)
        checks.whole("steps", self.steps, least=0)
        if self.log_n is not None:
            checks.whole("log_n", self.log_n, least=2, why="ln 1 is 0")
        if self.names is not None:
            checks.number("names", self.names, least=0, most=1)
        checks.number("opening", self.opening, least=0, most=1)
        checks.number("supervised_attention", self.supervised_attention, least=0)
        checks.choice("language", self.language, ("auto", None, *LANGUAGES))

    def record(self, **texts):
        return Recipe.record(self, **texts)

    @classmethod
    def usual(cls, settings):
        return {"learning_rate": 5e-5, "weight_decay": cls.weight_decay}

    def options(self, config):
        arguments = {}
        if config.beyond_table(self.max_length) is not None:
            arguments = {"extension": self.extension, "max_position": self.longest}
        return arguments | self.encodings(config)


KEYS = ("found", "chance", "sentences", "losses")
POOLINGS = ("mean", "cls", "last")
TEST_SHARE, FEWEST = 0.1, 3  # of the texts, and of few: between name and passage others stand
NAMES = 0.8  # of the copies, where the pronouns of the language are known


class Contextualized(typing.NamedTuple):
    """An embedder's encoder after contextual training, and its report.

    Attributes:
        model: the encoder, as `build_transformer_model` loads it from `output`.
        report: dict, the content of metrics.json.

    Example:

    >>> Contextualized(model=None, report={"chance": 0.1667}).report["chance"]
    0.1667
    """

    model: keras.Model
    report: dict


@former_settings(optimizer=FORMER_OPTIMIZER)
def contextualize(
    checkpoint,
    texts,
    output=None,
    *,
    test=None,
    max_length=4096,
    train_length=768,
    steps=120,
    optimizer="adamw",
    names=None,
    opening=0.4,
    supervised_attention=0.0,
    language="auto",
    log_n=128,
    extension="hierarchical:0.2,kept_rows=1",
    text=None,
    seed=0,
    overwrite=False,
    verbose=True,
):
    """Trains an embedder, without labels, so that vectors of passages have distant context.

    Late chunking gives a passage the context of its document, but a pretrained encoder hardly
    links a passage with "she" to a name 800 tokens earlier. This training teaches it to, on your
    documents and in minutes. Afterwards `embed(..., reading="late:256")` and `search` find
    passages by names and topics that stand far before them.

    In each step, a text is copied four times with another name, or two texts are interleaved and
    copied with two. A name stands only in its introduction; in later passages a pronoun replaces
    it. The teacher is the original encoder, which reads each passage alone, with the name. The
    student reads the whole copy, and must distinguish the passages of all copies
    (`ContextualModel` has the loss). In other steps, a word that is frequent in one text and rare
    in the others takes the place of the name, and is left out of the passages. That needs no
    pronouns, and works in every language. Two further terms keep the features of near context and
    of texts that are read alone, so queries stay where they were. The directory's prompt of
    documents, if it has one, stands before all that is read.

    The same call resumes an interrupted run from its last state. If the run is complete, the call
    returns immediately.

    Args:
        checkpoint: str. A directory of sentence-transformers that pools by the mean, the first or
            the last token, or the directory of an encoder, whose features are then averaged. What
            is written pools by the mean: the mean over the tokens of a query becomes the vector
            that the original gives it.
        texts: documents without labels, best those that are searched later: a path for
            `read_texts`, a `Texts`, or a list of str.
        output: str or None. Directory for the new checkpoint with tokenizer, pooling and prompts,
            recipe.json and metrics.json; None saves nothing.
        test: documents to measure on, as `texts`; by default a tenth of `texts` is held out, or 3
            of 9 to 39.
        max_length: int. Number of positions to serve. Positions beyond `train_length` are trained
            by skipped position ids.
        train_length: int. Maximum tokens of a copy.
        steps: int. Training steps.
        optimizer: str, `Optimizer` or `keras.optimizers.Optimizer`. How the weights are trained.
            The default has a learning rate of 5e-5 and no weight decay.
        names: float in [0, 1] or None. Fraction of the steps that exchange names; the others
            exchange words. None: 0.8 if `language` has pronouns, otherwise 0.
        opening: float in [0, 1]. Fraction of the copies that have a name or word in their first
            sentence. In the others, other text stands before it. For documents that introduce names
            later, give 0.2 with names=1, steps=240 and optimizer="adamw:1e-4"; in 120 steps at the
            default rate it makes no difference that was measured.
        supervised_attention: float from 0 on. Weight of a further term of the loss, by which one
            head attends from a pronoun to its name. With a_h the attention of head h to that name,
            it is the mean of -ln (sum_h a_h^8)^(1/8). 1 is a good value. More companies, ships and
            roles are found that the first sentence introduces; MiniLM finds fewer names inside.
        language: str or None. A key of `keras_posenc.training.LANGUAGES`, which has the pronouns of
            each language and can be extended. "auto": the one whose words are frequent in the
            texts, if any. None: words are exchanged, and no names.
        log_n: int or None. Length m from which on attention is sharper, by the factor ln n / ln m
            for n tokens (`LogN`). A good value is the length that the checkpoint was last trained
            with. None: attention stays as it is.
        extension: `Extension`, str or dict. Initial values of new positions, as in `stretch`.
        seed: int. Seed of the choice of texts.
        text, overwrite: as in `finetune`.
        verbose: bool. Whether to print the progress and the time left.

    Returns:
        `Contextualized`: the encoder and the report, a dict. `found` has a row per distance in
            tokens: the fraction of passages of held-out texts that are found by a name so far
            before them, among four copies of the text with other names. `windows` is the original
            encoder in windows, `first_sentence` the same with the first sentence prepended, and
            `trained` the student. `sentences` has what happened to single sentences: the
            rank correlation of their similarities with those of the original, and the mean cosine.
            `left_out` has the number of capitalised words that are no names, by reason. The others
            are `examples`, `targets`, `losses`, `seconds` and `versions`.

    Raises:
        FileNotFoundError: if a file is missing.
        NotADirectoryError: if `output` is a file.
        BlockingIOError: if another run uses `output`.
        ImportError: if a .parquet file is given without pyarrow.

    Example:

    >>> from keras_posenc.training import contextualize
    >>> story = "Ada is here. Ada reads well. Ada was kind. I saw Ada sleep. We like Ada. "
    >>> texts = [story.replace("Ada", name) for name in ("Ada", "Otto", "Nora")]
    >>> _, report = contextualize("bert", texts, test=texts, steps=2, max_length=200,
    ...                           train_length=128, verbose=False)
    >>> len(report["losses"])
    2

    References:
        [Late chunking](https://arxiv.org/abs/2409.04701);
        [PoSE](https://arxiv.org/abs/2309.10400) (skipped positions).
    """
    arguments = locals()
    check_processes("contextualize")
    check_shared("output", output)
    checks.choice("language", language, ("auto", None, *LANGUAGES))
    checks.seed(seed)
    embedder = Source.of(checkpoint)
    folder = embedder.folder
    modules = read_modules(folder)
    pooling = _pooling(modules, folder)
    source = embedder if modules[0].folder is folder else Source(modules[0].folder)
    old = source.read_config()
    train, held_out = _read(texts, test, text, seed)
    if language == "auto":
        language = language_of(train)
    chosen = {"language": language, "names": names}
    if names is None:
        chosen["names"] = 0.0 if language is None else NAMES
    elif language is None and names:
        raise ValueError(
            "`names` needs the pronouns that stand for names: give `language`, one of "
            f"{', '.join(LANGUAGES)}, or names=0, which exchanges words. Received: "
            f"names={quote(names)}, and texts in no such language"
        )
    recipe = ContextualRecipe.of(arguments, checkpoint=embedder, **chosen)
    if recipe.supervised_attention and not recipe.names:
        raise ValueError(
            "`supervised_attention` leads from pronouns to names, and names=0 exchanges words: "
            f"give names, or 0. Received: supervised_attention={supervised_attention!r}"
        )
    recipe.options(old)
    prompt = prompt_of_side(*folder.prompts, "document")
    tokenizer = Prompted(source.read_tokenizer(old), prompt)
    if separator_id(tokenizer.tokenizer, old) is not None:
        raise ValueError(
            "`checkpoint` must not read passages in their documents already, joined by separators: "
            f'use it as it is, with reading="late:256". Received: {folder}'
        )
    corpora = [
        _corpus(each, [text for text in others if text not in each], what, tokenizer, recipe)
        for each, others, what in ((train, held_out, "train"), (held_out, train, "measure"))
    ]
    files = with_pooling(sentence_transformers_files(folder, max_length), "mean")
    with contextlib.ExitStack() as scratch:
        if output is None:
            output = pathlib.Path(scratch.enter_context(tempfile.TemporaryDirectory())) / "model"
        prepare = functools.partial(
            ContextualTraining, recipe, source, old, tokenizer, *corpora, files, pooling
        )
        record = recipe.record(texts=_digest(train, held_out))
        data = whence(texts=texts, test=test, text=text)
        report = run_once(output, record, overwrite, verbose, prepare, KEYS, data=data)
        return Contextualized(build_transformer_model(output), report)


def _pooling(modules, checkpoint):
    poolings = read_pooling(modules[1])[0]
    if len(poolings) > 1 or poolings[0] not in POOLINGS:
        raise ValueError(
            f"`checkpoint` must pool by one of {', '.join(POOLINGS)}, because its vectors become "
            f"means of tokens, as late chunking averages them. {checkpoint} pools by "
            f"{' and '.join(poolings)}: take another embedder."
        )
    return poolings[0]


def _read(texts, test, text, seed):
    """The texts to train on and those that are held out, lists of str."""
    train = long_texts(texts, text)
    held_out = [] if test is None else long_texts(test, text, "test")
    if test is None:
        order = np.random.default_rng((seed, 0)).permutation(len(train))
        count = max(1, min(FEWEST, len(train) // 3), int(TEST_SHARE * len(train)))
        if len(train) > 1:
            held_out = [train[i] for i in order[:count]]
            train = [train[i] for i in order[count:]]
        elif held_out := train:
            LOGGER.warning(
                "There is one text, and what is found is measured on it, too: give other texts as "
                "`test` to see what is found in texts that were not trained on."
            )
    return train, held_out


def _digest(*texts):
    return hashlib.sha256(repr(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _corpus(texts, others, what, tokenizer, recipe):
    language = LANGUAGES.get(recipe.language) if recipe.names else None
    size = recipe.train_length - tokenizer.special_tokens()
    corpus = Corpus(texts, tokenizer, language, size, recipe.names, recipe.opening, others)
    if not corpus.subjects:
        raise ValueError(
            f"`texts` must have names or words that repeat in a text, to {what} on. None of "
            f"{len(texts):,} texts has a word of four letters or more that stands in four of its "
            "sentences and in few other texts: give more or longer texts"
            + ("." if what == "train" else ", or `test`.")
        )
    return corpus
