"""Byte-level BPE from vocab.json and merges.txt, as GPT-2, RoBERTa and Qwen use it."""

from keras_posenc.files.untrusted import check_inside, quote, read_bytes, read_object
from keras_posenc.text.added import add_tokens, place
from keras_posenc.text.importing import import_tokenizers, refusals
from keras_posenc.text.tables import lines_of
from keras_posenc.text.templates import NOTHING, ROBERTA, template

ANGLES = {"pad": "<pad>", "cls": "<s>", "sep": "</s>", "mask": "<mask>", "unk": "<unk>"}
ANGLES |= {"bos": "<s>", "eos": "</s>"}
END = "<|endoftext|>"
# Family -> layout, and tokens where no file names them.
USES = {
    "gpt2": (NOTHING, {"bos": END, "eos": END, "unk": END}),
    "qwen2": (NOTHING, {"pad": END, "eos": END, "unk": END}),
    "roberta": (ROBERTA, ANGLES),
}
SAME = {"qwen3": "qwen2", "bart": "roberta", "longformer": "roberta"}
# How Qwen splits a text, from its tokenizer.json: words, single digits, runs of marks, spaces.
QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def from_vocab_and_merges(file, settings):
    """The tokenizer of a vocab.json and the merges.txt beside it.

    `file`: `pathlib.Path` of vocab.json. `settings`: `TokenizerSettings` of its folder. Returns
    `(tokenizer, names)`: a `tokenizers.Tokenizer`, and a dict role -> token. Raises
    FileNotFoundError if there is no merges.txt.
    """
    vocabulary, merges = read_ids(file), _read_merges(file.with_name("merges.txt"))
    family = _family(file, vocabulary, settings)
    layout, names = USES[family]
    names = names | settings.names
    tokenizers = import_tokenizers()
    pre_tokenizers = tokenizers.pre_tokenizers
    prefix = bool(settings.switch("add_prefix_space"))
    new = place(settings.added, vocabulary, file)
    with refusals(file):
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges))
        splitter = pre_tokenizers.ByteLevel(prefix, use_regex=family != "qwen2")
        if family == "qwen2":
            words = pre_tokenizers.Split(tokenizers.Regex(QWEN), "isolated")
            splitter = pre_tokenizers.Sequence([words, splitter])
            tokenizer.normalizer = tokenizers.normalizers.NFC()
        tokenizer.pre_tokenizer = splitter
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        add_tokens(tokenizer, vocabulary, names, settings.found, new)
    vocabulary |= new
    special = {role: names[role] for role in ("cls", "sep") if role in names}
    lacking = [token for token in special.values() if layout != NOTHING and token not in vocabulary]
    if lacking:
        raise ValueError(f"{file} has no token {quote(lacking[0])}, which its family needs.")
    tokenizer.post_processor = template(layout, vocabulary, **special)
    return tokenizer, names


def read_ids(file):
    """Reads a vocab.json, an object of tokens and their ids."""
    vocabulary = read_object(file, file.parent)
    for token, number in vocabulary.items():
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**32:
            raise ValueError(f"{file}: the token {quote(token)} has the id {quote(number)}.")
        try:
            token.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{file}: {quote(token)} has half a surrogate pair.") from None
    return vocabulary


def _read_merges(file):
    """Reads a merges.txt: two tokens a line, and a line of the version before them."""
    if not file.is_file():
        raise FileNotFoundError(f"There is no {file}, which vocab.json needs.")
    check_inside(file, file.parent)
    try:
        lines = lines_of(read_bytes(file).decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not UTF-8, so no list of merges.") from None
    merges = []
    for number, line in lines:
        if not line or (number == 1 and line.startswith("#version")):
            continue
        pair = tuple(line.split(" "))
        if len(pair) != 2:
            raise ValueError(f"{file}, line {number}: {quote(line)} is no pair of tokens.")
        merges.append(pair)
    return merges


def _family(file, vocabulary, settings):
    # DeBERTa's first version, of whose pairs transformers 4 and 5 make different rows.
    type_or_default = settings.family or ("deberta" if "[CLS]" in vocabulary else None)
    family = SAME.get(type_or_default, type_or_default)
    if family in USES:
        return family
    if family is not None:
        raise ValueError(
            f"{file}: how {quote(type_or_default)} uses a vocab.json is not known here, only how "
            f"{', '.join(USES)} do. With its tokenizer.json, which transformers writes "
            "(AutoTokenizer.from_pretrained(...).save_pretrained(...)), it is read."
        )
    return "roberta" if "</s>" in vocabulary else "gpt2"
