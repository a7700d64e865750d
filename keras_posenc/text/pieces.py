"""How the families use a SentencePiece model: their own pieces, normalization and layout."""

import dataclasses
import math
import struct

from keras_posenc.checkpoints.leveldb import read_fields
from keras_posenc.files.untrusted import quote, read_bytes, shorten
from keras_posenc.text.added import Added, add_tokens, place
from keras_posenc.text.bounds import check_tree
from keras_posenc.text.expansion_bounds import check_charsmap
from keras_posenc.text.importing import import_tokenizers, refusals
from keras_posenc.text.templates import BERT, END, ROBERTA, ends, template

MOST_BYTES = 2**26  # of a model; those of 256,000 pieces have 5 MB
MOST_PIECES = 2**20
MOST_PIECE = 2**10  # bytes; all ways to split a piece are tried
UNKNOWN, CONTROL, USER_DEFINED, BYTE = 2, 3, 4, 6  # kinds of pieces; a normal one is 1
ALGORITHMS = {1: "Unigram", 2: "BPE"}


@dataclasses.dataclass(frozen=True)
class SentencePiece:
    """A model as its file describes it."""

    pieces: list  # (piece, score), by id
    kinds: list  # by id; UNKNOWN and so on
    algorithm: str  # "Unigram" or "BPE"
    byte_fallback: bool  # whether characters without a piece become bytes
    charsmap: bytes  # the table of the normalization; empty if there is none
    prefix: bool  # whether a space is put before a text
    trims: bool  # whether spaces at the ends are dropped, and runs of spaces reduced to one


def read_sentence_piece(path):
    """Reads a SentencePiece model. `path`: the file. Returns a `SentencePiece`."""
    data = read_bytes(path, MOST_BYTES)
    try:
        return _parsed(data)
    except (ValueError, IndexError, TypeError, AttributeError, struct.error) as error:
        raise ValueError(f"{path} is no SentencePiece model: {shorten(error)}.") from None


def _parsed(data):
    model = read_fields(data, MOST_PIECES)
    trainer, normalizer = (read_fields(model.get(n, [b""])[-1], MOST_PIECES) for n in (2, 3))
    pieces = [_piece(message, number) for number, message in enumerate(model.get(1, []))]
    kinds = [kind for _, _, kind in pieces]
    if UNKNOWN not in kinds:
        raise ValueError(f"among its {len(pieces)} pieces is none for what is unknown")
    charsmap = bytes(normalizer.get(2, [b""])[-1])
    check_charsmap(charsmap)
    algorithm = trainer.get(3, [1])[-1]
    if algorithm not in ALGORITHMS:
        raise ValueError("it splits into words or characters, and only Unigram and BPE are read")
    if not normalizer.get(5, [1])[-1]:
        raise ValueError("it leaves spaces as they are, and only models that mark them are read")
    return SentencePiece(
        pieces=[(piece, score) for piece, score, _ in pieces],
        kinds=kinds,
        algorithm=ALGORITHMS[algorithm],
        byte_fallback=bool(trainer.get(35, [0])[-1]),
        charsmap=charsmap,
        prefix=bool(normalizer.get(3, [1])[-1]),
        trims=bool(normalizer.get(4, [1])[-1]),
    )


def _piece(message, number):
    fields = read_fields(message)
    piece = fields.get(1, [b""])[-1]
    if len(piece) > MOST_PIECE:
        raise ValueError(f"its piece {number} is longer than {MOST_PIECE} bytes")
    piece = piece.decode("utf-8")
    (score,) = struct.unpack("<f", fields.get(2, [bytes(4)])[-1])
    if not piece or not math.isfinite(score):
        raise ValueError(f"its piece {number} is empty, or its score is no number")
    return piece, score, fields.get(3, [1])[-1]


SPACE = "▁"
APART = (UNKNOWN, CONTROL, USER_DEFINED)  # pieces that are found before all others, or never
MOST_SPLIT = 2**23  # characters of all pieces of a BPE, each of which is split everywhere
MOST_MERGED = 2**24  # characters of all ways to make a piece of two others; Gemma has 5 million
NOTUSED = -100.0  # the score of a piece that no text should become


@dataclasses.dataclass(frozen=True)
class Use:
    """What a family makes of the pieces of a file."""

    first: tuple = ()  # (token, score); they replace the first `replaced` pieces
    replaced: int = 0  # number of pieces that are replaced
    last: tuple = ()  # tokens that follow, unless they are pieces already
    names: dict = dataclasses.field(default_factory=dict)  # role -> token
    # A layout of `templates`. None adds the tokens `bos` and `eos` as in tokenizer_config.json.
    layout: tuple | None = None


BRACKETS = {"cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]", "bos": "[CLS]", "eos": "[SEP]"}
ANGLES = {"cls": "<s>", "sep": "</s>", "bos": "<s>", "eos": "</s>"}
ANGLES |= {"pad": "<pad>", "mask": "<mask>", "unk": "<unk>"}
FAIRSEQ = (("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0))
CAMEMBERT = (
    ("<s>NOTUSED", 0.0),
    ("<pad>", 0.0),
    ("</s>NOTUSED", 0.0),
    ("<unk>", 0.0),
    ("<unk>NOTUSED", NOTUSED),
)
USES = {
    "albert": Use(names=BRACKETS | {"pad": "<pad>", "unk": "<unk>"}, layout=BERT),
    "camembert": Use(CAMEMBERT, 1, ("<mask>",), ANGLES, ROBERTA),
    "debertav2": Use((), 0, ("[MASK]",), BRACKETS | {"pad": "[PAD]", "unk": "[UNK]"}, BERT),
    "gemma": Use(names={role: f"<{role}>" for role in ("pad", "bos", "eos", "unk", "mask")}),
    "t5": Use(names={"pad": "<pad>", "sep": "</s>", "eos": "</s>", "unk": "<unk>"}, layout=END),
    "xlmroberta": Use(FAIRSEQ, 3, ("<mask>",), ANGLES, ROBERTA),
}
SAME = {
    "gemma2": "gemma",
    "gemma3": "gemma",
    "gemma3text": "gemma",
    "mt5": "t5",
    "umt5": "t5",
    "xlmrobertaxl": "xlmroberta",
    "gte": "xlmroberta",
    "new": "xlmroberta",
    "jinaembeddingsv3": "xlmroberta",
}


def from_sentence_piece(file, settings):
    """The tokenizer of a SentencePiece model, as its family uses it.

    `file`: `pathlib.Path` of the model. `settings`: `TokenizerSettings` of its folder. Returns
    `(tokenizer, names)`: a `tokenizers.Tokenizer`, and a dict role -> token.
    """
    model = read_sentence_piece(file)
    family = _family(file, model, settings)
    use = USES[family]
    names = use.names | settings.names
    pieces = [*use.first, *model.pieces[use.replaced :]]
    known = {piece for piece, _ in pieces}
    if family == "albert":
        pieces = [(piece, score + NOTUSED * _ends_in_a_comma(piece)) for piece, score in pieces]
    last = _extra(settings) if family == "t5" else use.last
    pieces += [(token, 0.0) for token in last if token not in known]
    vocabulary = {piece: number for number, (piece, _) in enumerate(pieces)}
    new = place(settings.added, vocabulary, file)
    tokenizers = import_tokenizers()
    with refusals(file):
        tokenizer = tokenizers.Tokenizer(_model(model, pieces, vocabulary, names))
        tokenizer.normalizer = tokenizers.normalizers.Sequence(
            [*_family_steps(family, settings), *_steps(model)]
        )
        tokenizer.pre_tokenizer = _splitter(model, pieces, settings)
        tokenizer.decoder = _decoder(model)
        pieces_and_kinds = zip(model.pieces, model.kinds, strict=True)
        added = {
            piece: Added(special=kind != USER_DEFINED)
            for (piece, _), kind in pieces_and_kinds
            if kind in APART
        }
        added |= {token: Added() for token in (*last, *(token for token, _ in use.first))}
        # The pieces that it has are found in the text as it is written, and so are those beside it.
        flags = {"normalized": False}
        more = {t: dataclasses.replace(a, flags=a.flags | flags) for t, a in settings.found.items()}
        add_tokens(tokenizer, vocabulary, names, added | more, new)
    vocabulary |= new
    if use.layout is None:
        wanted = {"bos": settings.switch("add_bos_token") is not False}
        wanted |= {"eos": bool(settings.switch("add_eos_token"))}
        special = {role: names[role] for role, add in wanted.items() if add and role in names}
    else:
        special = {role: names[role] for role in ("cls", "sep") if f"{{{role}}}" in use.layout[0]}
    lacking = [token for token in special.values() if token not in vocabulary]
    if lacking:
        raise ValueError(f"{file} has no piece {quote(lacking[0])}, which its family needs.")
    if use.layout is None:
        tokenizer.post_processor = ends(special.get("bos"), special.get("eos"), vocabulary)
    else:
        tokenizer.post_processor = template(use.layout, vocabulary, **special)
    return tokenizer, names


def _extra(settings):
    """T5's tokens that stand for what was left out; mT5 has none."""
    count = settings.config.get("extra_ids", 100)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= 1000:
        where = settings.folder.path / "tokenizer_config.json"
        raise ValueError(f"{where}: extra_ids is {quote(count)}, not a number of 0 to 1000.")
    return [f"<extra_id_{number}>" for number in reversed(range(count))]


def _family(file, model, settings):
    family = SAME.get(settings.family, settings.family)
    if family in USES:
        return family
    if family is not None:
        raise ValueError(
            f"{file}: how {quote(settings.family)} uses a SentencePiece model is not known here, "
            f"only how {', '.join(USES)} do. With its tokenizer.json, which transformers writes "
            "(AutoTokenizer.from_pretrained(...).save_pretrained(...)), it is read."
        )
    pieces = {piece for piece, _ in model.pieces}
    if "[CLS]" in pieces:
        return "debertav2" if "[PAD]" in pieces else "albert"
    if "<bos>" in pieces:
        return "gemma"
    if file.name == "sentencepiece.bpe.model":
        return "xlmroberta"
    if "<s>" not in pieces and "<pad>" in pieces:
        return "t5"
    raise ValueError(
        f"The family of {file} cannot be identified from its pieces: put a tokenizer_config.json "
        'beside it with its "tokenizer_class", such as "XLMRobertaTokenizer".'
    )


def _ends_in_a_comma(piece):
    """ALBERT takes "9," apart, since its commas are words."""
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


def _model(model, pieces, vocabulary, names):
    models = import_tokenizers().models
    unknown = names.get("unk")
    if unknown not in vocabulary:
        unknown = model.pieces[model.kinds.index(UNKNOWN)][0]
    if model.algorithm == "Unigram":
        check_tree(piece for piece, _ in pieces)
        return models.Unigram(pieces, vocabulary[unknown], model.byte_fallback)
    ordinary = {
        piece: score
        for (piece, score), kind in zip(model.pieces, model.kinds, strict=True)
        if kind not in (UNKNOWN, CONTROL, USER_DEFINED, BYTE) and piece in vocabulary
    }
    return models.BPE(
        vocabulary,
        _merges(ordinary, vocabulary),
        unk_token=unknown,
        fuse_unk=True,
        byte_fallback=model.byte_fallback,
    )


def _merges(ordinary, vocabulary):
    """All ways to make a piece of two others, best piece first."""
    split = sum(map(len, ordinary))
    if split > MOST_SPLIT:
        raise ValueError(f"its pieces have {split} characters together, more than {MOST_SPLIT}")
    ids = {piece: vocabulary[piece] for piece in ordinary}
    merges, merged = [], 0
    for piece, score in ordinary.items():
        count = len(merges)
        for end in range(1, len(piece)):
            left, right = ids.get(piece[:end]), ids.get(piece[end:])
            if left is not None and right is not None:
                merges.append((-score, left, right))
        merged += (len(merges) - count) * len(piece)
        if merged > MOST_MERGED:
            raise ValueError(
                f"the ways to make a piece of two others have {merged} characters together, more "
                f"than {MOST_MERGED}"
            )
    pieces = {number: piece for piece, number in ids.items()}
    return [(pieces[left], pieces[right]) for _, left, right in sorted(merges)]


def _family_steps(family, settings):
    """What a family does to a text before the model's own normalization."""
    normalizers = import_tokenizers().normalizers
    lowercase = settings.switch("do_lower_case")
    steps = []
    if family == "albert":
        steps = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
        if not settings.switch("keep_accents"):
            steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if lowercase or (family == "albert" and lowercase is None):
        steps.append(normalizers.Lowercase())
    return steps


def _steps(model):
    """The model's own normalization; the splitter puts the space before and marks spaces."""
    tokenizers = import_tokenizers()
    replace, regex = tokenizers.normalizers.Replace, tokenizers.Regex
    steps = [tokenizers.normalizers.Precompiled(model.charsmap)] if model.charsmap else []
    if model.trims:
        steps += [replace(regex(" {2,}"), " "), replace(regex(r"\A | \z"), "")]
    return steps


def _splitter(model, pieces, settings):
    pre_tokenizers = import_tokenizers().pre_tokenizers
    prefix = model.prefix and settings.switch("add_prefix_space") is not False
    # Where no piece goes over a space, words are found one by one.
    apart = not any(SPACE in piece[1:] for piece, _ in pieces)
    splitter = pre_tokenizers.Metaspace(SPACE, "always" if prefix else "never", apart)
    if not settings.switch("split_by_punct"):
        return splitter
    return pre_tokenizers.Sequence([pre_tokenizers.Punctuation("isolated"), splitter])


def _decoder(model):
    decoders = import_tokenizers().decoders
    if not model.byte_fallback:
        return decoders.Metaspace(SPACE, "always" if model.prefix else "never")
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(steps + [decoders.Strip(" ", 1, 0)] * model.prefix)
