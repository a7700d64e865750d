"""A tokenizer.json put together by hand, of parts that may say anything."""

import json

MODEL = {
    "type": "WordPiece",
    "unk_token": "[UNK]",
    "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 100,
    "vocab": {"[PAD]": 0, "[UNK]": 1, "a": 2},
}
UNIGRAM = {"type": "Unigram", "unk_id": 1, "vocab": [["[PAD]", 0.0], ["[UNK]", 0.0], ["a", -1.0]]}
CLS = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}
TEXTS = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
TEMPLATE = {"type": "TemplateProcessing", "single": [CLS, TEXTS[0]], "pair": TEXTS}
DOUBLE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}


def crafted(folder, changes):
    whole = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": None,
        "model": MODEL,
    }
    (folder / "tokenizer.json").write_text(json.dumps(whole | changes))
    return folder
