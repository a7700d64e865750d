"""A model and its tokenizer in one: raw texts in, one row of numbers a text out."""

import dataclasses
import functools
import json
import pathlib

import keras

from keras_posenc.checkpoints.folder import newest, replacing_together
from keras_posenc.checkpoints.keras_file import load_keras
from keras_posenc.models.inputs import id_inputs
from keras_posenc.models.model import TransformerModel
from keras_posenc.text import TextBatches, Tokenizer
from keras_posenc.text.documents import kind_of_all
from keras_posenc.untrusted import read_json, shorten
from keras_posenc.writing import replacing, write_text

SETTINGS = "text_model.json"
FIELDS = ("max_length", "token_budget", "labels", "prompt")


@dataclasses.dataclass
class TextModel:
    """A model with the tokenizer that its texts go through.

    Attributes:
        model: `keras.Model` from token ids (and segment ids) (B, T) to (B, ...), a row for each
            text.
        tokenizer: `Tokenizer`.
        max_length: int or None. Tokens after which texts are truncated, with a line in the log;
            None cuts none.
        token_budget: int. Maximum tokens in a batch, padding included.
        labels: list of str, the names of the model's outputs, or None.
        prompt: str, put before every text.

    Raises:
        ValueError: if the model does not give a row for each text, or its table has fewer rows than
            the tokenizer has tokens.

    Example:

    >>> texts = TextModel(embedder("all-MiniLM-L6-v2"), Tokenizer("all-MiniLM-L6-v2"))
    >>> texts.predict(["Train short, test long.", "Short."], verbose=0).shape
    (2, 384)
    >>> texts.save("mine")
    >>> load_text_model("mine").predict(["Short."], verbose=0).shape
    (1, 384)
    """

    model: keras.Model
    tokenizer: Tokenizer
    max_length: int | None = None
    token_budget: int = 8192
    labels: list | None = None
    prompt: str = ""

    def __post_init__(self):
        shape = self.model.output_shape
        if isinstance(shape, list) or len(shape) != 2:
            raise ValueError(
                "A TextModel gives one row (B, D) for each text: give an embedder or a "
                f"classifier. The model's outputs are {shape}."
            )
        check_table(self.tokenizer, self.model)

    def predict(self, texts, verbose="auto"):
        """What the model predicts for raw texts.

        Args:
            texts: list of str, or of pairs of str.
            verbose: as in `keras.Model.predict`.

        Returns:
            NumPy array (N, ...), a row for each text, in their order.

        Raises:
            TypeError: if a text is no str.
            ValueError: if a text is empty, or there is none.
        """
        if self.prompt:
            kind_of_all(texts)  # with the prompt none is empty
            texts = [self.prompt + t if isinstance(t, str) else t for t in texts]
        batches = TextBatches(
            texts,
            tokenizer=self.tokenizer,
            max_length=self.max_length,
            token_budget=self.token_budget,
            shuffle=False,
        )
        return self.of_batches(batches, verbose)

    def of_batches(self, batches, verbose="auto"):
        """The rows for a `TextBatches` that does not shuffle, in the order of its texts."""
        return batches.restore_order(
            self._checked.predict(_Chosen(batches, self.model), verbose=verbose)
        )

    @functools.cached_property
    def _checked(self):
        """The model, if need be as one that checks its ids and outlives what it refuses."""
        if isinstance(self.model, TransformerModel):
            return self.model
        return TransformerModel(self.model.inputs, self.model.outputs)

    def save(self, directory):
        """Writes model.keras, the tokenizer's files and the settings, all of them or none.

        Args:
            directory: str or path; created if missing.
        """
        settings = {name: getattr(self, name) for name in FIELDS}
        with replacing_together(pathlib.Path(directory)) as folder:
            with replacing(folder / "model.keras") as partial:
                self.model.save(partial)
            self.tokenizer.save(folder)
            settings["pad_id"] = self.tokenizer.pad_id
            write_text(folder / SETTINGS, json.dumps(settings, indent=1, ensure_ascii=False))


def load_text_model(directory):
    """Loads what `TextModel.save` wrote.

    Args:
        directory: str or path.

    Returns:
        `TextModel`.

    Raises:
        FileNotFoundError: if the directory or a file in it is missing.
        ValueError: if a file in it is damaged.

    Example:

    >>> TextModel(embedder("all-MiniLM-L6-v2"), Tokenizer("all-MiniLM-L6-v2"), 32).save("mine")
    >>> load_text_model("mine").max_length
    32
    """
    directory = pathlib.Path(directory)
    names = ("model.keras", SETTINGS, "tokenizer.json")
    lacking = [name for name in names if not newest(directory, name).is_file()]
    if lacking:
        raise FileNotFoundError(
            f"{directory} is not what TextModel.save wrote: it lacks {' and '.join(lacking)}."
        )
    settings = read_json(newest(directory, SETTINGS), (*FIELDS, "pad_id"))
    length, budget, labels, pad = (
        settings[name] for name in ("max_length", "token_budget", "labels", "pad_id")
    )
    sound = [length is None or type(length) is int and length > 0, type(budget) is int]
    sound += [labels is None or isinstance(labels, list), isinstance(settings["prompt"], str)]
    if not all(sound) or type(pad) is not int:
        raise ValueError(f"{directory / SETTINGS} is damaged ({shorten(settings)}).")
    tokenizer = Tokenizer(newest(directory, "tokenizer.json"))
    tokenizer.pad_id = pad
    model = load_keras(newest(directory, "model.keras"))
    return TextModel(model, tokenizer, **{name: settings[name] for name in FIELDS})


def check_table(tokenizer, table):
    """Refuses a tokenizer with tokens that a model's table has no row for.

    Args:
        tokenizer: `Tokenizer`.
        table: a functional `keras.Model`, or the number of rows of its token table.

    Raises:
        ValueError: if the tokenizer has an id beyond the table.
    """
    if not isinstance(table, int):
        bounds = {ids.name: ids.bound for ids in id_inputs(table)}
        table = next((bounds[name] for name in bounds if name.endswith("token_ids")), None)
    most = max(tokenizer.vocab_size, tokenizer.pad_id + 1)
    if table is not None and most > table:
        raise ValueError(
            f"The tokenizer has {most} tokens, and the model's table {table} rows: the ids from "
            f"{table} on have none. Give the tokenizer of this model; if tokens were added to it, "
            "resize the table by as many rows (`resize_token_embeddings` in transformers)."
        )


def padding_id(tokenizer, own):
    """The id to pad with, which no text has: models mask it in every place.

    Args:
        tokenizer: `Tokenizer`.
        own: int or None, that of the model's config. It is taken unless the tokenizer adds it to
            every text, as those of Qwen3's embedders do; then that of another special token, if
            there is one.

    Returns:
        int.
    """
    added = set(tokenizer.encode("a")[0])
    candidates = [own, tokenizer.pad_id, *tokenizer.special_ids]
    unused = (token for token in candidates if token is not None and token not in added)
    return next(unused, tokenizer.pad_id)


class _Chosen(keras.utils.PyDataset):
    """The inputs that a model has, out of those of other batches."""

    def __init__(self, batches, model):
        super().__init__()
        self._batches, self._names = batches, [x.name for x in model.inputs]
        self.pad_id, self.padding_share = batches.pad_id, batches.padding_share

    def __len__(self):
        return len(self._batches)

    def __getitem__(self, index):
        inputs = self._batches[index]
        return {name: inputs[name] for name in self._names}
