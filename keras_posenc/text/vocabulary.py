"""vocab.txt files: one token per line."""

from keras_posenc.files.untrusted import read_bytes
from keras_posenc.text.tables import lines_of

MOST_LINES = 2**20  # the largest vocabularies have half of them; a line takes 300 bytes of memory
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
BERT = dict(zip(("pad", "unk", "cls", "sep", "mask"), SPECIAL, strict=True))
MPNET = {"pad": "<pad>", "unk": "[UNK]", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}


def read_vocabulary(path):
    """Reads a vocab.txt: one token per line, with the line number from 0 as id.

    `path`: the file, in UTF-8. Returns a dict token -> id. A token on two lines keeps the later id,
    as in `transformers`.
    """
    data = read_bytes(path)
    count = max(data.count(b"\n"), data.count(b"\r"))
    if count > MOST_LINES:
        raise ValueError(f"{path} is refused: it has {count} lines, more than {MOST_LINES}.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line}: not UTF-8, so not a vocabulary.") from None
    vocabulary = {line: number - 1 for number, line in lines_of(text.rstrip("\r\n"))}
    check_vocabulary(vocabulary, path)
    return vocabulary


def special_of(vocabulary):
    """Dict role -> special token: those of BERT, or of MPNet, which are RoBERTa's."""
    return dict(BERT if "[CLS]" in vocabulary else MPNET)


def check_vocabulary(vocabulary, source):
    """Raises ValueError unless the vocabulary holds the tokens that every encoded text needs."""
    if all(token in vocabulary for role, token in MPNET.items() if role != "mask"):
        return
    missing = [token for token in SPECIAL[:4] if token not in vocabulary]
    if missing:
        raise ValueError(
            f"{source}: a vocabulary of {len(vocabulary)} tokens without {', '.join(missing)}. "
            "A BERT vocabulary has one token per line and contains [PAD], [UNK], [CLS] and [SEP]."
        )
