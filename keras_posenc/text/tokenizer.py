"""The tokenizer: bert4keras's `encode` on top of the `tokenizers` library."""

import itertools

from keras_posenc.text.loading import find_tokenizer, load, refusals, save
from keras_posenc.untrusted import quote

ROLES = {
    "pad": ("[PAD]", "<pad>"),
    "cls": ("[CLS]", "<s>"),
    "sep": ("[SEP]", "</s>"),
    "mask": ("[MASK]", "<mask>"),
    "unk": ("[UNK]", "<unk>"),
}

# Documents per call into Rust: enough to use all cores, few enough to hold in memory.
CHUNK = 1024

MOST_TOKENS = 2**24  # rows of a table; the largest vocabularies have 2^18


class Tokenizer:
    """Encodes text as token ids and segment ids, exactly like Hugging Face's BertTokenizer.

    Unless told otherwise it differs in one thing: the names of special tokens in a text are text,
    as in `BertTokenizer(split_special_tokens=True)`.

    Args:
        path: a vocab.txt, a tokenizer.json, or a directory with one of them (tokenizer.json takes
            precedence). Truncation and padding settings in tokenizer.json are dropped.
        lowercase: True or False; None follows tokenizer.json, or `do_lower_case` of the
            tokenizer_config.json beside vocab.txt, or else the vocabulary (one with more than 1% of
            tokens in capitals is cased).
        strip_accents: True or False; None follows the files, then `lowercase`.
        vocabulary: a dict token -> id that replaces that of the files (see
            `simplified_vocabulary`).
        special_in_text: whether "[SEP]" in a text is the special token. False takes it for the five
            characters it is, so that no writer of a text can end it early; set True for texts of
            your own with "[MASK]" in them.

    Attributes:
        vocabulary: the dict token -> id.
        vocab_size: the required rows of a token table, the largest id + 1.
        pad_id, cls_id, sep_id, mask_id, unk_id: ids of the special tokens; None where missing.

    Raises:
        FileNotFoundError: no such file, or neither file in the directory.
        ValueError: a damaged file, or an option that a tokenizer.json does not allow to change.
        ImportError: if `tokenizers` is not installed.

    Example:

    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "is", "it", "long", "?"]
    >>> tokenizer = Tokenizer(vocabulary={word: i for i, word in enumerate(words)})
    >>> tokenizer.encode("Is it long?", "It is", max_length=8)
    ([2, 4, 5, 6, 3, 5, 4, 3], [0, 0, 0, 0, 0, 1, 1, 1])
    """

    def __init__(
        self,
        path=None,
        lowercase=None,
        strip_accents=None,
        vocabulary=None,
        special_in_text=False,
    ):
        self._rust = load(path, lowercase, strip_accents, vocabulary)
        self._rust.encode_special_tokens = not special_in_text
        self._source = "vocabulary=" if path is None else find_tokenizer(path)
        self.vocabulary = self._rust.get_vocab(with_added_tokens=True)
        self.vocab_size = max(self.vocabulary.values(), default=-1) + 1
        if self.vocab_size > MOST_TOKENS:
            raise ValueError(
                f"{self._source}: a token has the id {self.vocab_size - 1}, and a table of at most "
                f"{MOST_TOKENS} rows is taken."
            )
        for role, names in ROLES.items():
            ids = [self.vocabulary[name] for name in names if name in self.vocabulary]
            setattr(self, f"{role}_id", ids[0] if ids else None)
        if self.pad_id is None:
            raise ValueError(f"{self._source}: the tokenizer has no padding token, [PAD] or <pad>.")
        with refusals(self._source):
            self._layouts = self._layout("a"), self._layout("a", "a")
        for layout in self._layouts:
            for _, ids, segment in layout:
                if max(ids) >= self.vocab_size or segment > MOST_TOKENS:
                    raise ValueError(
                        f"{self._source}: it adds the id {max(ids)} of segment {segment} to a "
                        f"text, beyond its {self.vocab_size} tokens."
                    )

    def encode(self, first, second=None, max_length=None, truncate_from="right"):
        """Encodes one text, or a pair: [CLS] first [SEP] second [SEP].

        Args:
            first: a str.
            second: a str, or None.
            max_length: maximum number of tokens, special tokens included; None keeps all. Of a
                pair, the text that is longer at that moment loses a token.
            truncate_from: "right" keeps the beginning of each text, "left" its end.

        Returns:
            `(token_ids, segment_ids)`, two lists of ints of the same length.

        Raises:
            TypeError: if a text is not a str.
            ValueError: if a text is not valid Unicode, or `max_length` leaves no room for text.
        """
        pairs = None if second is None else [second]
        return self.encode_batch([first], pairs, max_length, truncate_from)[0]

    def encode_batch(self, texts, pairs=None, max_length=None, truncate_from="right"):
        """Encodes many texts at once, on all cores.

        Args:
            texts: a list of str.
            pairs: None, or a list of str: the second texts.
            max_length: as in `encode`.
            truncate_from: as in `encode`.

        Returns:
            A list of `(token_ids, segment_ids)`.

        Raises:
            TypeError, ValueError: as in `encode`, or if there are not as many pairs as texts.
        """
        first = self.contents(texts)
        if pairs is None:
            second = itertools.repeat(None)
        elif len(pairs) == len(texts):
            second = self.contents(pairs)
        else:
            raise ValueError(f"{len(texts)} texts but {len(pairs)} pairs: give one to each.")
        both = zip(first, second, strict=False)
        return [self.assemble(a, b, max_length, truncate_from) for a, b in both]

    def windows(self, text, length, stride=0):
        """Splits a long text into windows, each with the special tokens.

        Args:
            text: a str.
            length: maximum number of tokens per window, special tokens included.
            stride: number of tokens that neighbouring windows share (as in `tokenizers`).

        Returns:
            A list of `(token_ids, segment_ids)`; a single window if the text fits.

        Raises:
            ValueError: if `stride` is not smaller than the room for text in a window.
        """
        room = self._room(length, pair=False)
        if not 0 <= stride < room:
            raise ValueError(
                f"stride={stride}: windows of length={length} hold {room} tokens of the text, "
                f"so they can share 0 to {room - 1}."
            )
        ids = self.contents([text])[0]
        starts = range(0, max(len(ids) - stride, 1), room - stride)
        return [self.assemble(ids[start : start + room]) for start in starts]

    def tokenize(self, text):
        """Returns the tokens of a text as strings, without special tokens."""
        return [self._rust.id_to_token(i) for i in self.contents([text])[0]]

    def decode(self, ids):
        """Returns the text of token ids, without special tokens.

        The spaces and the case of the original text are not restored.

        Args:
            ids: list of ints.

        Returns:
            str.

        Raises:
            ValueError: if an id is outside 0 .. `vocab_size` - 1.
        """
        ids = [int(i) for i in ids]
        outside = [i for i in ids if not 0 <= i < self.vocab_size]
        if outside:
            raise ValueError(
                f"{outside[0]} is no token id: they go from 0 to {self.vocab_size - 1}."
            )
        with refusals(self._source):
            return self._rust.decode(ids, skip_special_tokens=True)

    def contents(self, texts):
        """Encodes texts without special tokens, as the input of `assemble`.

        Args:
            texts: a list of str.

        Returns:
            A list of lists of ints.

        Raises:
            TypeError: if an element is not a str.
            ValueError: if an element is not valid Unicode.
        """
        if isinstance(texts, str):
            raise TypeError("Expected a list of texts, not one str; encode() takes one.")
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                kind = type(text).__name__
                raise TypeError(f"Text {number} is a {kind}, not a str: {quote(text)}.")
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise ValueError(
                    f"Text {number} has half a surrogate pair, {text[error.start]!r}, at character "
                    f"{error.start}: it was decoded wrongly; drop or replace it."
                ) from None
        ids = []
        for start in range(0, len(texts), CHUNK):
            chunk = list(texts[start : start + CHUNK])
            with refusals(self._source):
                encodings = self._rust.encode_batch_fast(chunk, add_special_tokens=False)
            ids.extend(encoding.ids for encoding in encodings)
        return ids

    def assemble(self, first, second=None, max_length=None, truncate_from="right"):
        """Truncates ids from `contents` and adds the special tokens.

        Args:
            first: a list of ids.
            second: a list of ids, or None.
            max_length: as in `encode`.
            truncate_from: as in `encode`.

        Returns:
            `(token_ids, segment_ids)`.
        """
        parts = [first] if second is None else [first, second]
        if max_length is not None:
            parts = truncate(parts, self._room(max_length, second is not None), truncate_from)
        token_ids, segment_ids = [], []
        for which, ids, segment in self._layouts[len(parts) - 1]:
            ids = ids if which is None else parts[which]
            token_ids += ids
            segment_ids += [segment] * len(ids)
        return token_ids, segment_ids

    @property
    def special_ids(self):
        """Ids of the special tokens but the unknown one: those that no text has by itself."""
        added = self._rust.get_added_tokens_decoder()
        return [i for i, token in sorted(added.items()) if token.special and i != self.unk_id]

    def special_tokens(self, pair=False):
        """Returns the number of special tokens added to a text, or to a pair."""
        return sum(len(ids) for which, ids, _ in self._layouts[pair] if which is None)

    def save(self, directory):
        """Writes files that `Tokenizer(directory)` and `transformers` read.

        Args:
            directory: where tokenizer.json and, for a BERT tokenizer, vocab.txt and
                tokenizer_config.json go; created if missing.
        """
        save(self._rust, self.vocabulary, directory)

    def _room(self, max_length, pair):
        room = max_length - self.special_tokens(pair)
        if room < 1:
            raise ValueError(
                f"max_length={max_length} leaves no room for text beside the "
                f"{max_length - room} special tokens; give at least {max_length - room + 1}."
            )
        return room

    def _layout(self, *texts):
        """The post-processor's output on texts, as runs (index of the text or None, ids,
        segment)."""
        probe = self._rust.encode(*texts)
        tokens = zip(probe.sequence_ids, probe.type_ids, probe.ids, strict=True)
        runs = itertools.groupby(tokens, key=lambda token: token[:2])
        return [(which, [ids for *_, ids in run], segment) for (which, segment), run in runs]


def truncate(parts, room, truncate_from="right"):
    """Drops tokens from the longer part (the first if equal) until `room` are left.

    Args:
        parts: one or two lists.
        room: maximum number of elements of both together.
        truncate_from: "right" drops from the end of a part, "left" from its beginning.

    Returns:
        The shortened parts.

    Raises:
        ValueError: on another `truncate_from`.
    """
    if truncate_from not in ("right", "left"):
        raise ValueError(f'truncate_from={truncate_from!r}: give "right" or "left".')
    lengths = [len(part) for part in parts]
    if sum(lengths) <= room:
        return parts
    if len(parts) == 1:
        keep = [room]
    else:
        half = room // 2
        first = min(lengths[0], max(half, room - lengths[1]))
        keep = [first, room - first]
    if truncate_from == "left":
        return [part[len(part) - n :] for part, n in zip(parts, keep, strict=True)]
    return [part[:n] for part, n in zip(parts, keep, strict=True)]
