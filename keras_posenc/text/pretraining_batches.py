"""Batches to pretrain on: masked language models, causal ones and UniLM."""

import math
import re
import zlib

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.text.documents import encode_rows
from keras_posenc.text.encoded_texts import EncodedTexts, encode_texts
from keras_posenc.text.labels import ClassLabels, NextTokenLabels
from keras_posenc.text.packing import pack_rows
from keras_posenc.text.text_batches import TextBatches
from keras_posenc.text.truncation import tell_truncation

# What begins a word in SentencePiece, and in byte-level vocabularies (a space, a new line).
MARKS = ("▁", "Ġ", "Ċ")
# Letters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese.
SPACELESS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)
# Tokens of a word. What is longer is no word, but a sentence without spaces.
MOST_PIECES = 12


def begins_words(tokenizer):
    """Whether each token begins a word, (V,) bool.

    In a WordPiece vocabulary that is what does not begin with "##". In one with marks of spaces it
    is what begins with one, punctuation, and tokens of scripts that have no spaces. A vocabulary
    without either, of words or of characters, does not show which tokens belong together: each
    begins a word.
    """
    begins = np.ones(tokenizer.vocab_size, bool)
    pieces = any(token.startswith("##") for token in tokenizer.vocabulary)
    if not pieces and not any(token.startswith(MARKS) for token in tokenizer.vocabulary):
        return begins
    for token, number in tokenizer.vocabulary.items():
        if pieces:
            begins[number] = not token.startswith("##")
        else:
            alone = not token[:1].isalnum() or SPACELESS.match(token)
            begins[number] = token.startswith(MARKS) or alone
    return begins


def choose_words(begins, eligible, count, rng, max_ngram=1):
    """Chooses whole words at random until `count` tokens are chosen, or none fits any more.

    Of more than `MOST_PIECES` tokens between two spaces each is chosen for itself. If all words are
    longer than `count`, a part of one is chosen.

    `begins`: (T,) bool, whether a token begins a word. `eligible`: (T,) bool, whether it is of a
    word. `max_ngram`: most neighbouring words to choose together, n of them at odds of 1 / n.
    """
    first = eligible & (begins | ~np.concatenate([[False], eligible[:-1]]))
    starts, ends = _words(first, eligible)
    long = np.flatnonzero(ends - starts > MOST_PIECES)
    if len(long):
        for start, end in zip(starts[long], ends[long], strict=True):
            first[start:end] = True
        starts, ends = _words(first, eligible)
    chosen = np.zeros(len(eligible), bool)
    sizes = np.ones(len(starts), int)
    if max_ngram > 1:
        numbers = np.arange(1, max_ngram + 1)
        sizes = rng.choice(numbers, len(starts), p=(1 / numbers) / (1 / numbers).sum())
    left = count
    order = rng.permutation(len(starts))
    for first in order:
        last = min(first + sizes[first], len(starts)) - 1
        word = slice(starts[first], ends[last])
        size = word.stop - word.start
        if size <= left and not chosen[word].any() and eligible[word].all():
            chosen[word] = True
            left -= size
            if not left:
                break
    if left == count and len(order):  # whatever was drawn is longer than that
        start, end = starts[order[0]], ends[order[0]]
        start += rng.integers(0, max(end - start - count, 0) + 1)
        chosen[start : min(start + count, end)] = True
    return chosen


def _words(first, eligible):
    """Starts and ends of words, from which tokens are the first of one."""
    starts, stops = np.flatnonzero(first), np.append(np.flatnonzero(first | ~eligible), len(first))
    return starts, stops[np.searchsorted(stops, starts, side="right")]


def hide(token_ids, chosen, mask_id, others, rng):
    """Replaces chosen tokens: 80% by the mask, 10% by a random token; 10% stay.

    `token_ids`: int array. `chosen`: bool array of its shape. `others`: (N,) ids that random tokens
    are drawn from. `rng`: NumPy generator. Returns an int array of the shape and dtype of
    `token_ids`.
    """
    draw = rng.random(token_ids.shape)
    hidden = np.where(chosen & (draw < 0.8), mask_id, token_ids)
    random = others[rng.integers(0, len(others), token_ids.shape)]
    return np.where(chosen & (draw >= 0.8) & (draw < 0.9), random, hidden).astype(token_ids.dtype)


def pieces(texts, tokenizer, max_length):
    """Cuts texts into rows of full length; no row holds two texts.

    The last row of a long text ends with it and begins earlier, inside the row before, so that it
    is full too; a text shorter than `max_length` is one shorter row. `max_length`: int. Tokens of a
    row, special tokens included. Returns a list of `(token_ids, segment_ids)`.

    Example:

    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "d"]
    >>> tokenizer = Tokenizer(vocabulary={word: i for i, word in enumerate(words)})
    >>> [tokenizer.decode(ids) for ids, _ in pieces(["a b c d", "d"], tokenizer, max_length=5)]
    ['a b c', 'b c d', 'd']
    """
    rows = _rows_of(texts, tokenizer, max_length)
    if not rows:
        raise ValueError("The texts have no tokens to learn from.")
    return rows


def _rows_of(texts, tokenizer, max_length):
    special = tokenizer.special_tokens()
    size = checks.whole("max_length", max_length, special + 1, why=f"{special} are special tokens")
    size -= special
    rows = []
    for ids in filter(None, tokenizer.contents(texts)):
        last = max(0, len(ids) - size)
        starts = [*range(0, last, size), last]
        rows += [tokenizer.assemble(ids[start : start + size]) for start in starts]
    return rows


def encode_corpus(texts, tokenizer, max_length, masked):
    """`EncodedTexts` of texts, as the classes below make them of a list; None without tokens.

    `texts`: list of str, or of (prompt, answer) pairs of str. `tokenizer`, `max_length`: as in
    `pieces`. `masked`: bool. Whether tokens are masked, so that there are no labels.
    """
    if isinstance(texts[0], tuple):
        return encode_texts(texts, NextTokenLabels(segment=1), tokenizer, max_length)
    rows = _rows_of(texts, tokenizer, max_length)
    labels = ClassLabels() if masked else NextTokenLabels()
    return encode_texts(rows, labels, tokenizer, max_length) if rows else None


class MaskedLanguageModelBatches(TextBatches):
    """Batches for masked language models: `(inputs, targets, weights)`, with new masks each epoch.

    In each row about a fraction `masked` of the tokens is chosen, as whole words at random. Of
    these 80% become [MASK], 10% another token, and 10% stay. Targets are the original ids (B, T),
    weights 1 where a token was chosen and 0 elsewhere. Long texts are cut into rows of full length;
    a row holds one text, or with `pack` several. Masks and batches are a function of (seed, epoch),
    as in `TextBatches`.

    Train with `keras.losses.SparseCategoricalCrossentropy(reduction="mean_with_sample_weight")`.
    With `weighted_metrics=["accuracy"]`, the accuracy is that of the chosen tokens.

    Args:
        texts: list of str, of any length.
        tokenizer: a `Tokenizer` with a mask token.
        max_length: int. Tokens of a row, special tokens included.
        masked: float in (0, 1). Fraction of the tokens to predict.
        whole_words: bool. Whether the pieces of a word are chosen together: WordPiece's "##",
            SentencePiece's and byte-level BPE's spaces mark words.
        max_ngram: int. Maximum number of neighbouring words chosen together. The probability of n
            words is proportional to 1 / n.
        positions: bool. Adds an input `masked_positions` (B, M) with the M = ceil(masked T)
            positions to predict. Targets and weights are then (B, M). The MLM head skips the other
            positions, which are most of the work of a small model.
        pack: bool. Short texts share rows, filled up to `max_length`, and an input `position_ids`
            starts again with each text. For a model with `packed=True`.
        token_budget, shuffle, seed, max_shapes, pad_to, **kwargs: as in `TextBatches`.

    Example:

    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "so", "it", "goes", "on"]
    >>> tokenizer = Tokenizer(vocabulary={word: i for i, word in enumerate(words)})
    >>> batches = MaskedLanguageModelBatches(["So it goes on"], tokenizer, max_length=8, masked=0.5)
    >>> inputs, targets, weights = batches[0]
    >>> tokenizer.decode(targets[0]), float(weights.sum())
    ('so it goes on', 2.0)

    Reference: [BERT](https://arxiv.org/abs/1810.04805), its whole-word masks of 2019;
    [RoBERTa](https://arxiv.org/abs/1907.11692) for new masks each epoch and full rows;
    [ALBERT](https://arxiv.org/abs/1909.11942) for n-grams.
    """

    @checks.renamed_argument("length", "max_length")
    def __init__(
        self,
        texts,
        tokenizer,
        max_length=512,
        masked=0.15,
        whole_words=True,
        max_ngram=1,
        positions=False,
        token_budget=8192,
        shuffle=True,
        seed=0,
        max_shapes=10,
        pad_to=8,
        pack=False,
        **kwargs,
    ):
        if tokenizer.mask_id is None:
            raise ValueError("The tokenizer has no mask token, [MASK] or <mask>.")
        checks.number("masked", masked, above=0, below=1)
        checks.whole("max_ngram", max_ngram)
        self.masked, self.max_ngram, self.positions = masked, max_ngram, positions
        self._mask_id = tokenizer.mask_id
        special = set(tokenizer.special_ids)
        self._eligible = np.ones(tokenizer.vocab_size, bool)
        self._eligible[tokenizer.special_ids] = False
        ids = tokenizer.vocabulary.values()
        self._others = np.array(sorted(set(ids) - special) or [tokenizer.mask_id])
        self._begins = np.ones(tokenizer.vocab_size, bool)
        if whole_words:
            self._begins = begins_words(tokenizer)
        rows = texts if isinstance(texts, EncodedTexts) else pieces(texts, tokenizer, max_length)
        super().__init__(
            pack_rows(rows, max_length) if pack else rows,
            tokenizer=tokenizer,
            max_length=max_length,
            token_budget=token_budget,
            shuffle=shuffle,
            seed=seed,
            max_shapes=max_shapes,
            pad_to=pad_to,
            **kwargs,
        )

    def _read(self, index):
        inputs = super()._read(index)
        token_ids = inputs["token_ids"]
        # By what is read, not by its number: `fit` names batches in an order of its own.
        rng = np.random.default_rng((self.seed, self.epoch, zlib.crc32(token_ids.tobytes())))
        eligible, begins = self._eligible[token_ids], self._begins[token_ids]
        chosen = np.zeros(token_ids.shape, bool)
        for row, places in enumerate(eligible):
            count = max(1, int(self.masked * places.sum()))
            chosen[row] = choose_words(begins[row], places, count, rng, self.max_ngram)
        hidden = hide(token_ids, chosen, self._mask_id, self._others, rng)
        inputs = {**inputs, "token_ids": hidden}
        if not self.positions:
            return inputs, token_ids, chosen.astype("float32")
        most = math.ceil(self.masked * token_ids.shape[1])
        places = np.argsort(~chosen, axis=1, kind="stable")[:, :most].astype("int32")
        weights = np.take_along_axis(chosen, places, 1).astype("float32")
        inputs["masked_positions"] = places
        return inputs, np.take_along_axis(token_ids, places, 1), weights


class CausalBatches(TextBatches):
    """Batches for language models, `(inputs, targets, weights)`: at each token the next one.

    These are `TextBatches` with `NextTokenLabels`. Targets are the ids (B, T) shifted by one, with
    weights 1 where there is a next token to predict. In texts all tokens are predicted, and long
    texts are cut into rows of full length. In pairs (prompt, answer), as UniLM reads them, only the
    answer and the token that ends it are predicted, and long pairs are truncated. A row holds one
    text or pair, or with `pack` several. Batches are a function of (seed, epoch), as in
    `TextBatches`.

    Train with `keras.losses.SparseCategoricalCrossentropy(reduction="mean_with_sample_weight")`.
    With `weighted_metrics=["accuracy"]`, the accuracy is that of the predicted tokens.

    Args:
        texts: list of str, or of (prompt, answer) pairs of str.
        tokenizer: a `Tokenizer`.
        max_length: int. Tokens of a row, special tokens included.
        pack: bool. Short texts share rows, as in `MaskedLanguageModelBatches`.
        token_budget, shuffle, seed, max_shapes, pad_to, **kwargs: as in `TextBatches`.

    Example:

    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "so", "it", "goes", "on"]
    >>> tokenizer = Tokenizer(vocabulary={word: i for i, word in enumerate(words)})
    >>> inputs, targets, weights = CausalBatches([("so it", "goes on")], tokenizer, max_length=8)[0]
    >>> tokenizer.decode(inputs["token_ids"][0])
    'so it goes on'
    >>> tokenizer.ids_to_tokens(targets[0][weights[0] > 0])
    ['goes', 'on', '[SEP]']

    Reference: [UniLM](https://arxiv.org/abs/1905.03197).
    """

    @checks.renamed_argument("length", "max_length")
    def __init__(self, texts, tokenizer, max_length=512, token_budget=8192, pack=False, **kwargs):
        is_encoded = isinstance(texts, EncodedTexts)
        pairs = not is_encoded and bool(len(texts)) and isinstance(texts[0], tuple)
        rows = texts if pairs or is_encoded else pieces(texts, tokenizer, max_length)
        if pack and pairs:
            encoded, lengths = encode_rows(texts, tokenizer, max_length)
            tell_truncation(lengths, max_length)
            rows = [(row.token_ids, row.segment_ids) for row in encoded]
        super().__init__(
            pack_rows(rows, max_length) if pack else rows,
            NextTokenLabels(segment=1 if pairs else None),
            tokenizer=tokenizer,
            max_length=max_length,
            token_budget=token_budget,
            **kwargs,
        )
