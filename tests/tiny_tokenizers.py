"""Tiny tokenizers of the families, trained here on a page of hard text."""

import io
import json

PAGE = """The quick brown foxes don't jump over 1,234.56 lazy dogs: isn't it?  "So" (they) say…
Une naïve façade d'été à Noël, l'eau œuvre; Größe, Straße, İstanbul ıI ﬁn ½ Å Å e\u0301
Съешь же ещё этих мягких французских булок, да выпей чаю №5.
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία; ΣΊΣΥΦΟΣ σίσυφος
صِف خَلقَ خَودِ كَمِثلِ الشَمسِ إِذ بَزَغَت ١٢٣
עטלף אבק נס דרך מזגן שהתפוצץ כי חם
ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश १२३
我能吞下玻璃而不伤身体。漢字テスト、かな　ＡＢＣ１２３！
키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다.
เป็นมนุษย์สุดประเสริฐเลิศคุณค่า 👩‍👩‍👧 😀🏽 ❤️ 𠀀𪜀
tab\tnew\nline\r\x0b end\u2028para\u3000wide\xa0nbsp\u200bzero    spaces
def f(x):\n    return x**2 - a[0]/b  # 99, 100% [x] <y> </z> www.a-b.c/d_e?f=1&g=2
"""
LINES = [line for line in PAGE.split("\n") if line.strip()]
TEXTS = [*LINES, "", " ", "a", "  two  spaces ", "new\n\nlines\n", PAGE, "unseen: 龘 ꙮ Ж ﷽"]
# transformers takes an empty second text for none at all, so no pair has one.
PAIRS = [(text or "b", other or "c") for text, other in zip(TEXTS, reversed(TEXTS), strict=True)]


def write_sentence_piece(path, **options):
    """Writes a SentencePiece model; the options are those of its trainer."""
    import sentencepiece

    file = io.BytesIO()
    options = {"vocab_size": 420, "character_coverage": 1.0, "minloglevel": 2} | options
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 3), model_writer=file, hard_vocab_limit=False, **options
    )
    path.write_bytes(file.getvalue())


def write_merges(folder, special):
    """Writes vocab.json and merges.txt of a byte-level BPE whose first tokens are the special."""
    import tokenizers

    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(LINES * 3, 420, 2, False, special)
    made.save_model(str(folder))


def write_words(folder, special):
    """Writes a vocab.txt."""
    import tokenizers

    made = tokenizers.BertWordPieceTokenizer()
    made.train_from_iterator(LINES * 3, 500, 2, special_tokens=special, show_progress=False)
    made.save_model(str(folder))


def numbered(pad=-1, unk=-1, bos=-1, eos=-1):
    return {"pad_id": pad, "unk_id": unk, "bos_id": bos, "eos_id": eos}


# Family -> class in transformers, file, and how its SentencePiece model was made, as far as it
# matters here.
PIECES = {
    "albert": (
        "AlbertTokenizer",
        "spiece.model",
        numbered(pad=0, unk=1) | {"control_symbols": ["[CLS]", "[SEP]", "[MASK]"]},
    ),
    "camembert": ("CamembertTokenizer", "sentencepiece.bpe.model", numbered(unk=0, bos=1, eos=2)),
    "deberta-v2": (
        "DebertaV2Tokenizer",
        "spm.model",
        numbered(pad=0, unk=3)
        | {"pad_piece": "[PAD]", "unk_piece": "[UNK]", "control_symbols": ["[CLS]", "[SEP]"]},
    ),
    "gemma": (
        "GemmaTokenizer",
        "tokenizer.model",
        numbered(pad=0, unk=3, bos=2, eos=1)
        | {"bos_piece": "<bos>", "eos_piece": "<eos>", "model_type": "bpe", "vocab_size": 700}
        | {"byte_fallback": True, "add_dummy_prefix": False, "remove_extra_whitespaces": False}
        | {"normalization_rule_name": "identity", "user_defined_symbols": ["<mask>"]},
    ),
    "t5": ("T5Tokenizer", "spiece.model", numbered(pad=0, unk=2, eos=1)),
    "xlm-roberta": (
        "XLMRobertaTokenizer",
        "sentencepiece.bpe.model",
        numbered(unk=0, bos=1, eos=2),
    ),
}
MERGES = {
    "gpt2": ("GPT2Tokenizer", ["<|endoftext|>"]),
    "qwen2": ("Qwen2Tokenizer", ["<|endoftext|>", "<|im_end|>"]),
    "roberta": ("RobertaTokenizer", ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]),
}
WORDS = {
    "bert": ("BertTokenizer", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]),
    "mpnet": ("MPNetTokenizer", ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]),
}
FAMILIES = (*PIECES, *MERGES, *WORDS)


def write(family, folder, **settings):
    """Writes the files that a family published before there was tokenizer.json.

    Returns:
        The class in transformers.
    """
    if family in PIECES:
        name, file, options = PIECES[family]
        write_sentence_piece(folder / file, **options)
    else:
        name, special = (MERGES | WORDS)[family]
        (write_merges if family in MERGES else write_words)(folder, special)
    if family == "gemma":
        settings = {"add_bos_token": True} | settings
    config = {"tokenizer_class": name} | settings
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    import transformers

    return getattr(transformers, name)
