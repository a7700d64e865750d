"""The tokenizer: bert4keras's `encode` on top of the `tokenizers` library."""

from keras_posenc.arguments import checks
from keras_posenc.text.importing import refusals
from keras_posenc.text.offsets import characters_of, check_texts, in_chunks, without_spaces
from keras_posenc.text.tokens import Tokens
from keras_posenc.text.truncation import PLACES, tell_truncation, truncate

# Documents per call into Rust: enough to use all cores, few enough to hold in memory.
CHUNK = 1024


class Tokenizer(Tokens):
    """Encodes text as token ids and segment ids, as the family's tokenizer in transformers does.

    By default it differs in one thing: the names of the special tokens that inputs are assembled
    with are text in a text, as in `BertTokenizer(split_special_tokens=True)`. Other special tokens,
    such as markers that were added for texts, are read.

    Args:
        path: str or path. A file, or a directory with one of these files; the first in this order
            counts. `tokenizer.json` of any kind, `vocab.txt`, or `vocab.json` with `merges.txt`
            beside it. Or a SentencePiece model: `spm.model`, `spiece.model`,
            `sentencepiece.bpe.model` or `tokenizer.model`. `tokenizer_config.json` and
            `special_tokens_map.json` beside it are followed. Settings of truncation, padding and
            dropout in tokenizer.json are dropped, so that a text always has the same tokens.
        lowercase: bool or None. None follows tokenizer.json, or `do_lower_case` of the
            tokenizer_config.json beside vocab.txt. Without these it follows the vocabulary: one
            with more than 1% of tokens in capitals is cased.
        strip_accents: bool or None. None follows the files, then `lowercase`.
        vocabulary: dict. Token -> id; replaces that of the files (see `simplified_vocabulary`).
        special_in_text: bool. Whether "[SEP]" in a text is the special token. False reads it as
            five characters, so that no author of a text can end it early. Set True for trusted
            texts that contain "[MASK]".
        pre_tokenize: function. Maps a text, in lower case if the tokenizer is, to the list of its
            words, as in bert4keras. Words in the vocabulary are tokens; the others are split as
            usual. For BERT's tokenizers only. It is not saved, so pass it again. Default: words of
            jieba for a RoFormer that has them (`pip install rjieba`), none for others.
        truncate_from: str. Where longer texts are cut: "right" at their end, "left" at their
            beginning, "middle" between both, of which half each is kept. It is saved. None follows
            tokenizer_config.json, then "right".
        **others: Not accepted. For an argument of bert4keras or transformers, the error gives the
            name it has here.

    Attributes:
        vocabulary: dict. Token -> id.
        vocab_size: int. The required rows of a token table, the largest id + 1.
        pad_id, cls_id, sep_id, mask_id, unk_id, bos_id, eos_id: int or None. Ids of the special
            tokens; None if missing. `pad_id` is never None: if no file names one, it is `eos_id`.
        pre_tokenize: function or None. The function that splits a text into words.

    Raises:
        FileNotFoundError: if there is no such file, or none of them in the directory.
        ImportError: if `tokenizers` is not installed, or `rjieba` for a RoFormer with words.

    Example:

    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "is", "it", "long", "?"]
    >>> tokenizer = Tokenizer(vocabulary={word: i for i, word in enumerate(words)})
    >>> ids, segments = tokenizer.encode("Is it long?", "It is", max_length=8)
    >>> tokenizer.ids_to_tokens(ids)
    ['[CLS]', 'is', 'it', 'long', '[SEP]', 'it', 'is', '[SEP]']
    >>> _, _, offsets = tokenizer.encode("Is it?", offsets=True)
    >>> ["Is it?"[start:end] for start, end in offsets]
    ['', 'Is', 'it', '?', '']
    """

    def __init__(
        self,
        path=None,
        lowercase=None,
        strip_accents=None,
        vocabulary=None,
        special_in_text=False,
        pre_tokenize=None,
        truncate_from=None,
        **others,
    ):
        if others:
            refuse("Tokenizer", others)
        super().__init__(path, lowercase, strip_accents, vocabulary, special_in_text, pre_tokenize)
        if truncate_from is not None:
            self.truncate_from = checks.choice("truncate_from", truncate_from, PLACES)
        self._has_warned = False

    def encode(
        self, first=None, second=None, max_length=None, truncate_from=None, offsets=False, **others
    ):
        """Encodes one text, or a pair: [CLS] first [SEP] second [SEP].

        Args:
            first: str. The text.
            second: str or None. The second text of a pair.
            max_length: int or None. Maximum number of tokens, special tokens included; None keeps
                all. A pair loses one token at a time from the text that is then longer. Truncation
                is logged once.
            truncate_from: str. "right" keeps the beginning of each text, "left" its end, "middle"
                both. Default: as in the constructor.
            offsets: bool. Whether to add the position of each token in its text.
            **others: Not accepted. For an argument of bert4keras or transformers, the error gives
                the name it has here.

        Returns:
            `(token_ids, segment_ids)`, two lists of ints of the same length. `offsets` adds a
            third: (start, end) in characters of the text that contains the token, without the
            spaces around it; (0, 0) for special tokens.
        """
        if others:
            refuse("Tokenizer.encode", others)
        if first is None:
            raise TypeError("Tokenizer.encode needs a text, as its first argument.")
        pairs = None if second is None else [second]
        return self.encode_batch([first], pairs, max_length, truncate_from, offsets)[0]

    def encode_batch(
        self, texts, pairs=None, max_length=None, truncate_from=None, offsets=False, **others
    ):
        """Encodes many texts in parallel, on all cores.

        Args:
            texts: a list of str.
            pairs: None, or a list of str: the second texts.
            max_length, truncate_from, offsets, **others: as in `encode`.

        Returns:
            A list of what `encode` returns.
        """
        if others:
            refuse("Tokenizer.encode_batch", others)
        rows = [self._contents(texts, offsets)]
        if pairs is not None:
            if len(pairs) != len(texts):
                raise ValueError(f"{len(texts)} texts but {len(pairs)} pairs: give one to each.")
            rows.append(self._contents(pairs, offsets))
        rows = list(zip(*rows, strict=True))
        if max_length is not None and not self._has_warned:
            special = self.special_tokens(pairs is not None)
            lengths = [special + sum(len(ids) for ids, _ in row) for row in rows]
            self._has_warned = tell_truncation(lengths, max_length)
        return [self._row(row, max_length, truncate_from, offsets) for row in rows]

    def windows(self, text, length, stride=0, question=None, offsets=False, **others):
        """Splits a long text into windows, each with the special tokens.

        Args:
            text: str. The text to split.
            length: int. Maximum number of tokens per window, special tokens included.
            stride: int. Number of tokens that neighbouring windows share (as in `tokenizers`).
            question: str or None. Precedes the text in every window, unabridged.
            offsets: bool. Whether to add the position of each token in `text`.
            **others: Not accepted. For an argument of transformers, the error gives the name it has
                here.

        Returns:
            A list of `(token_ids, segment_ids)`; a single window if the text fits. With `offsets`,
            of `(token_ids, segment_ids, offsets)` as in `encode`. Tokens outside `text`, such as
            those of the question, have (0, 0), so an answer can only be where end > start.

        Example:

        >>> words = "[PAD] [UNK] [CLS] [SEP] who ? a man and dog".split()
        >>> tokenizer = Tokenizer(vocabulary={word: i for i, word in enumerate(words)})
        >>> windows = tokenizer.windows("a man and a dog", length=8, stride=1, question="who?")
        >>> [tokenizer.decode(ids) for ids, _ in windows]
        ['who? a man and', 'who? and a dog']
        """
        if others:
            refuse("Tokenizer.windows", others)
        asked = [] if question is None else self._contents([question])
        taken = sum(len(ids) for ids, _ in asked)
        room = self._room("length", length, pair=bool(asked), taken=taken)
        why = f"windows of length={length} hold {room} tokens of the text"
        stride = checks.whole("stride", stride, least=0, most=room - 1, why=why)
        ids, spans = self._contents([text], offsets)[0]
        asked = [(ids, [(0, 0)] * len(ids)) for ids, _ in asked]
        starts = range(0, max(len(ids) - stride, 1), room - stride)
        parts = [(ids[n : n + room], spans and spans[n : n + room]) for n in starts]
        return [self._row((*asked, part), offsets=offsets) for part in parts]

    def tokenize(self, text):
        """Returns the tokens of a text as strings, without special tokens."""
        return self.ids_to_tokens(self.contents([text])[0])

    def rematch(self, text, tokens):
        """Returns which characters of a text each of its tokens stands for, as in bert4keras.

        Args:
            text: a str.
            tokens: list of str, the first tokens of the text, with or without special tokens.

        Returns:
            A list of lists of character positions, empty for special tokens.

        Example:

        >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "long", "##er"]
        >>> tokenizer = Tokenizer(vocabulary={word: i for i, word in enumerate(words)})
        >>> tokenizer.rematch("So long", ["[CLS]", "[UNK]", "long", "[SEP]"])
        [[], [0, 1], [3, 4, 5, 6], []]
        """
        ids, spans = self._contents([text], offsets=True)[0]
        special = self.ids_to_tokens(self._special)
        return characters_of(tokens, self.ids_to_tokens(ids), spans, special)

    def contents(self, texts, offsets=False):
        """Encodes texts without special tokens, as the input of `assemble`.

        Args:
            texts: a list of str.
            offsets: whether to add the place of each token in its text, as in `encode`.

        Returns:
            A list of lists of ids; with `offsets`, of `(ids, offsets)`.
        """
        contents = self._contents(texts, offsets)
        return contents if offsets else [ids for ids, _ in contents]

    def assemble(self, first, second=None, max_length=None, truncate_from=None):
        """Truncates ids from `contents` and adds the special tokens.

        Args:
            first: a list of ids, or of anything that stands for them.
            second: another, or None.
            max_length: as in `encode`, but nothing is logged.
            truncate_from: as in `encode`.

        Returns:
            `(token_ids, segment_ids)`.
        """
        row = [(first, None)] if second is None else [(first, None), (second, None)]
        return self._row(row, max_length, truncate_from)

    def special_tokens(self, pair=False):
        """Returns the number of special tokens added to a text, or to a pair."""
        return sum(len(ids) for which, ids, _ in self._layouts[pair] if which is None)

    def _contents(self, texts, offsets=False):
        """A list of (ids, spans); the spans are None unless asked for."""
        check_texts(texts)
        encode = self._rust.encode_batch if offsets else self._rust.encode_batch_fast
        contents = []
        for chunk in in_chunks(texts, CHUNK):
            with refusals(self._source):
                encodings = encode(chunk, add_special_tokens=False)
            for text, each in zip(chunk, encodings, strict=True):
                spans = [without_spaces(text, *span) for span in each.offsets] if offsets else None
                contents.append((each.ids, spans))
        return contents

    def _row(self, row, max_length=None, truncate_from=None, offsets=False):
        """What `encode` returns of the (ids, spans) of one text or two."""
        parts, runs = list(zip(*row, strict=True))[: 1 + offsets], self._layouts[len(row) - 1]
        side = checks.choice("truncate_from", truncate_from or self.truncate_from, PLACES)
        if max_length is not None:
            room = self._room("max_length", max_length, len(row) == 2)
            parts = [truncate(each, room, side) for each in parts]
        token_ids, segment_ids, spans = [], [], []
        for which, ids, segment in runs:
            ids = ids if which is None else parts[0][which]
            token_ids += ids
            segment_ids += [segment] * len(ids)
            if offsets:
                spans += [(0, 0)] * len(ids) if which is None else parts[1][which]
        return (token_ids, segment_ids, spans) if offsets else (token_ids, segment_ids)

    def _room(self, name, length, pair, taken=0):
        special = self.special_tokens(pair)
        why = f"{special} are special tokens" + f" and {taken} of the question" * bool(taken)
        reserved = special + taken
        return checks.whole(name, length, least=reserved + 1, why=why) - reserved


HERE = {
    "maxlen": "max_length=",
    "max_len": "max_length=",
    "first_text": "first, without a name",
    "text": "first, without a name",
    "second_text": "second=",
    "text_pair": "second=",
    "second_maxlen": "max_length=, for both texts together",
    "first_maxlen": "max_length=, for both texts together",
    "truncation": "max_length=, which is enough",
    "truncation_side": "truncate_from=",
    "padding": "TextBatches, which pads",
    "pad_to_multiple_of": "pad_to= of TextBatches",
    "return_tensors": "np.array of what is returned",
    "return_offsets_mapping": "offsets=True",
    "return_overflowing_tokens": "the method windows",
    "add_special_tokens": "the methods contents and tokenize, which add none",
    "skip_special_tokens": "nothing: they are always left out",
    "token_dict": "path, without a name, or vocabulary=",
    "do_lower_case": "lowercase=",
}


def refuse(function, arguments):
    """Raises one TypeError for arguments of others' names, with their names here.

    `function`: str, what was called. `arguments`: dict, the arguments that it does not know.
    """
    names = ", ".join(arguments)
    known = [f"{name} is {HERE[name]}" for name in arguments if name in HERE]
    here = f": {'; '.join(known)}" if known else ""
    raise TypeError(f"{function} has no argument {names}{here}.")
