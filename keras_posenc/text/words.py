"""Words before pieces: bert4keras's `pre_tokenize`, and RoFormer's words of jieba."""

import collections.abc
import re

from keras_posenc.files.untrusted import quote
from keras_posenc.text.importing import import_tokenizers

# What BERT takes for Chinese characters, each a word of its own. By numbers, since an editor that
# normalizes text would write another character for the first of a range.
CHINESE = (
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f]"
)
WORD = re.compile(f"{CHINESE}{{2,}}")


class Words:
    """A pre-tokenizer: words that a function makes of a normalized text are tokens if they are in a
    vocabulary, and what else there is falls into BERT's words."""

    def __init__(self, function, vocabulary):
        self.function, self.vocabulary = function, vocabulary
        tokenizers = import_tokenizers()
        parts = tokenizers.pre_tokenizers
        self.others = parts.Sequence(
            [parts.Split(tokenizers.Regex(CHINESE), "isolated"), parts.BertPreTokenizer()]
        )

    def pre_tokenize(self, text):
        """What `tokenizers` calls."""
        text.split(self._split)

    def _split(self, _, text):
        content, pieces, end = str(text), [], 0
        words = self.function(content)
        if isinstance(words, str) or not isinstance(words, collections.abc.Iterable):
            raise ValueError(f"pre_tokenize gives {quote(words)}, which is no list of words")
        for word in words:
            start = content.find(word, end) if isinstance(word, str) else -1
            if start < 0:
                raise ValueError(
                    f"pre_tokenize gives {quote(word)}, which is not in the rest of the text, "
                    f"{quote(content[end:])}: it must give words of the text in their order"
                )
            end = start + len(word)
            if word in self.vocabulary:
                pieces.append(text[start:end])
            else:
                found = self.others.pre_tokenize_str(word)
                pieces += [text[start + a : start + b] for _, (a, b) in found]
        return pieces


def words_first(tokenizer, vocabulary, function, source):
    """Has a BERT tokenizer look for the words of a function before anything else.

    `tokenizer`: `tokenizers.Tokenizer`, changed in place. `vocabulary`: dict token -> id.
    `function`: as in `Words`. `source`: path of the file, for errors.
    """
    if not callable(function):
        raise TypeError(
            f"`pre_tokenize` must be a function, text -> words. Received: {function!r:.60}"
        )
    tokenizers = import_tokenizers()
    if not isinstance(tokenizer.normalizer, tokenizers.normalizers.BertNormalizer):
        raise ValueError(f"{source} is no BERT tokenizer: pre_tokenize= is for these alone.")
    # Spaces around each Chinese character would part the words.
    tokenizer.normalizer.handle_chinese_chars = False
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.PreTokenizer.custom(
        Words(function, vocabulary)
    )


def choose_words(given, settings, vocabulary, source):
    """The function that gives words, if there is one, and what a saved tokenizer has of it.

    `given`: `pre_tokenize` of the user, or None. `settings`: `TokenizerSettings` beside the file,
    or None. `source`: path of the file, for errors. Returns a function text -> words, or None, and
    the entries of tokenizer_config.json.
    """
    if given is not None:
        return given, {"pre_tokenize": True}
    if settings is None:
        return None, {}
    if settings.switch("pre_tokenize"):
        raise ValueError(f"{source} was saved with a function of yours: give it as pre_tokenize=.")
    # The vocabularies of its models of characters have no words.
    if settings.family != "roformer" or not any(map(WORD.fullmatch, vocabulary)):
        return None, {}
    try:
        import rjieba
    except ImportError as error:
        raise ImportError(
            f"{source}: RoFormer's vocabulary has words of jieba: pip install rjieba, or give "
            "pre_tokenize=, a function from a text to its words."
        ) from error
    # Without guesses at words that its dictionary lacks (HMM), as RoFormer was trained.
    return lambda text: rjieba.cut(text, False), {"tokenizer_class": "RoFormerTokenizer"}
