"""Language modelling on any text file: the next token, or masked ones."""

import collections
import pathlib
import re

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import check_pointer
from keras_posenc.tasks.synthetic_task import Task

WORD = re.compile(r"\w+|[^\w\s]|\n")


class Corpus:
    """A text as token ids, part of which is held out for the test.

    Args:
        path: str. Path of a file, whose end is held out, or of a directory with train.txt and
            test.txt.
        unit: str, or a tokenizer whose `encode(text)` gives `(token_ids, segment_ids)`. With
            "characters" (of UTF-8), ids number the sorted characters of the text. With "bytes",
            they are the bytes. With "words", lower-case words, punctuation marks and line ends have
            ids: the most frequent ones of the training part from 1 on, all others 0.
        test_share: float. Fraction of the tokens of a file, at its end, that is the test part.
        most_words: int. Number of words with a separate id.

    Attributes:
        parts: dict. The ids of "train" and of "test".
        vocabulary_size: int. Ids are 0 .. vocabulary_size - 1.
        mask_id: int. The id of the mask token: the largest id plus 1, or that of the tokenizer.
        chance: float. The accuracy, in the test part, of always guessing the most frequent token of
            the training part.

    Example:

    >>> _ = pathlib.Path("abc.txt").write_text("abc" * 40)
    >>> corpus = Corpus("abc.txt")
    >>> corpus.vocabulary_size, corpus.parts["train"][:4].tolist(), len(corpus.parts["test"])
    (3, [0, 1, 2, 0], 12)
    """

    def __init__(self, path, unit="characters", test_share=0.1, most_words=2000):
        checks.number("test_share", test_share, above=0, below=1)
        checks.whole("most_words", most_words)
        path = pathlib.Path(path)
        apart = path.is_dir()
        files = [path / "train.txt", path / "test.txt"] if apart else [path]
        pieces = [_pieces(file, unit) for file in files]
        ids = np.concatenate(pieces)
        cut = len(pieces[0]) if apart else len(ids) - round(len(ids) * test_share)
        if unit == "bytes":
            self.vocabulary_size = self.mask_id = 256
        elif unit == "characters":
            characters, ids = np.unique(ids, return_inverse=True)
            self.vocabulary_size = self.mask_id = len(characters)
        elif unit == "words":
            ids = _by_frequency(ids, cut, most_words)
            self.vocabulary_size = self.mask_id = int(ids.max(initial=0)) + 1
        else:
            self.vocabulary_size, self.mask_id = unit.vocab_size, unit.mask_id
        ids = ids.astype("int32")
        self.parts = {"train": ids[:cut], "test": ids[cut:]}
        for part, some in self.parts.items():
            if len(some) < 2:
                raise ValueError(
                    f"{path}: its {part} part has {len(some)} tokens: give a longer text, or "
                    "another test_share."
                )
        frequent = np.bincount(self.parts["train"]).argmax()
        self.chance = float((self.parts["test"] == frequent).mean())

    def windows(self, part, rng, batch_size, length):
        """Draws pieces of the text uniformly: an int32 array (batch_size, length)."""
        ids = self.parts[part]
        if length > len(ids):
            raise ValueError(
                f"The {part} part has {len(ids)} tokens and {length} are wanted: give a longer "
                "text, or a shorter length."
            )
        start = rng.integers(0, len(ids) - length + 1, (batch_size, 1))
        return ids[start + np.arange(length)]


def _pieces(path, unit):
    """The units of a file: an array of numbers, or of str for words."""
    data = path.read_bytes()
    check_pointer(path, data)
    if unit == "bytes":
        return np.frombuffer(data, "uint8")
    if unit == "characters":
        return np.frombuffer(_decoded(path, data).encode("utf-32-le"), "<u4")
    if unit == "words":
        return np.array(WORD.findall(_decoded(path, data).lower()), object)
    if isinstance(unit, str) or not hasattr(unit, "encode"):
        raise ValueError(
            f"`unit` must be 'characters', 'bytes', 'words' or a tokenizer. Received: {unit!r}"
        )
    ids = np.array(unit.encode(_decoded(path, data))[0])
    return ids[~np.isin(ids, [unit.cls_id, unit.sep_id])]


def _by_frequency(words, cut, most):
    """Ids from 1 on for the `most` most frequent of the first `cut` words, 0 for all others."""
    frequent = collections.Counter(words[:cut]).most_common(most)
    ids = {word: number for number, (word, _) in enumerate(frequent, 1)}
    return np.array([ids.get(word, 0) for word in words], "int32")


def _decoded(path, data):
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8, byte {error.start}: give unit='bytes'.") from None


class Text(Task):
    """Pieces of a text. There is nothing to solve: `solve` raises.

    `corpus`: a `Corpus`, or the path of one. `split`: "train" or "test". `unit`: of a path, as in
    `Corpus`.
    """

    causal = is_text = True
    splits = ("train", "test")

    def __init__(self, corpus, split="train", unit="characters"):
        super().__init__()
        if split not in self.splits:
            raise ValueError(f"{self.name} has no split {split!r}: give 'train' or 'test'.")
        self.corpus = corpus if isinstance(corpus, Corpus) else Corpus(corpus, unit)
        self.split, self.chance = split, self.corpus.chance
        self.vocabulary_size = self.classes = self.corpus.vocabulary_size

    def solve(self, tokens):
        raise ValueError(f"{self.name}: no rule continues a text; take the targets of sample.")


class LanguageModel(Text):
    """The next token of a text, at every position.

    `corpus`: a `Corpus`, or the path of one. `split`: "train" or "test". `unit`: of a path, as in
    `Corpus`.

    Example:

    >>> _ = pathlib.Path("abc.txt").write_text("abc" * 40)
    >>> tokens, targets, mask = LanguageModel("abc.txt").sample(1, 6, seed=0)
    >>> bool(((tokens + 1) % 3 == targets).all())
    True
    """

    name = "language_model"

    def sample(self, batch_size, length, seed):
        rng = np.random.default_rng(seed)
        window = self.corpus.windows(self.split, rng, batch_size, length + 1)
        return window[:, :-1], window[:, 1:], np.ones((batch_size, length), "int32")


class MaskedLanguageModel(Text):
    """The masked tokens of a text, with context on both sides.

    In each row the share `rate` (at least one token) is to be predicted. Of these, as in BERT, 80%
    become the mask token, 10% a random token, and 10% stay. `corpus`: a `Corpus`, or the path of
    one. `split`: "train" or "test". `rate`: float. Share of the tokens to predict, above 0 and at
    most 1. `unit`: of a path, as in `Corpus`.

    Example:

    >>> _ = pathlib.Path("abc.txt").write_text("abc" * 40)
    >>> task = MaskedLanguageModel("abc.txt")
    >>> tokens, targets, mask = task.sample(2, 20, seed=0)
    >>> mask.sum(1).tolist(), bool((tokens == targets)[mask == 0].all())
    ([3, 3], True)
    """

    name, bidirectional = "masked_language_model", True
    paper = "https://arxiv.org/abs/1810.04805"

    def __init__(self, corpus, split="train", rate=0.15, unit="characters"):
        super().__init__(corpus, split, unit)
        self.rate = checks.number("rate", rate, above=0, most=1)
        self.mask_id = self.corpus.mask_id
        if self.mask_id is None:
            raise ValueError(f"{self.name}: the tokenizer has no mask token.")
        # The mask is an id of the input, and never a target.
        self.vocabulary_size = max(self.classes, self.mask_id + 1)

    def sample(self, batch_size, length, seed):
        rng = np.random.default_rng(seed)
        targets = self.corpus.windows(self.split, rng, batch_size, length)
        num_masked = max(round(self.rate * length), 1)
        mask = np.zeros(targets.shape, "int32")
        chosen = np.argsort(rng.random(targets.shape), axis=1)[:, :num_masked]
        np.put_along_axis(mask, chosen, 1, axis=1)
        way = rng.random(targets.shape)
        shown = np.where(way < 0.8, self.mask_id, targets)
        shown = np.where(way >= 0.9, rng.integers(0, self.classes, targets.shape), shown)
        return np.where(mask, shown, targets).astype("int32"), targets, mask


def far_tokens(tokens, targets, distance):
    """Marks the targets whose last occurrence is far back, where only a long context helps.

    Args:
        tokens, targets: (B, T) ids, as `LanguageModel` draws them.
        distance: int. How many positions back the last occurrence must be, at least.

    Returns:
        int32 array (B, T), to pass as the mask of `accuracy`. A target without an earlier
        occurrence is not marked.

    Example:

    >>> tokens = np.array([[5, 1, 2, 3, 3]])
    >>> far_tokens(tokens, np.array([[1, 2, 3, 3, 5]]), distance=4).tolist()
    [[0, 0, 0, 0, 1]]
    """
    text = np.concatenate([tokens, targets[:, -1:]], axis=1)
    order = np.argsort(text, axis=1, kind="stable")
    ordered = np.take_along_axis(text, order, 1)
    gap = np.where(ordered[:, 1:] == ordered[:, :-1], np.diff(order, axis=1), 0)
    back = np.zeros(text.shape, int)
    np.put_along_axis(back, order[:, 1:], gap, axis=1)
    return (back[:, 1:] >= distance).astype("int32")
