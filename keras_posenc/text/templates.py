"""What a family writes around a text and between two: its special tokens, and the segments."""

import itertools

from keras_posenc.text.importing import import_tokenizers

# {cls} and {sep} stand for the family's own tokens; ":1" is the segment.
BERT = "{cls}:0 $A:0 {sep}:0", "{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1"
ROBERTA = "{cls}:0 $A:0 {sep}:0", "{cls}:0 $A:0 {sep}:0 {sep}:0 $B:0 {sep}:0"
END = "$A:0 {sep}:0", "$A:0 {sep}:0 $B:0 {sep}:0"
NOTHING = "$A:0", "$A:0 $B:1"


def template(layout, vocabulary, **tokens):
    """The post-processor that writes a layout.

    `layout`: the layouts of a text and of a pair, as above. `vocabulary`: dict token -> id.
    `tokens`: the tokens that the names in it stand for.
    """
    used = {token for name, token in tokens.items() if f"{{{name}}}" in layout[1]}
    # A list, since a token may have a space in it.
    single, pair = ([piece.format(**tokens) for piece in words.split(" ")] for words in layout)
    return import_tokenizers().processors.TemplateProcessing(
        single=single,
        pair=pair,
        special_tokens=[(token, vocabulary[token]) for token in sorted(used)],
    )


def ends(bos, eos, vocabulary):
    """The post-processor that writes one token before, and one after, each text.

    `bos`, `eos`: the tokens, or None. `vocabulary`: dict token -> id.
    """
    single = ["{bos}:0"] * bool(bos) + ["$A:0"] + ["{eos}:0"] * bool(eos)
    second = [piece.replace("A:0", "B:1").replace(":0", ":1") for piece in single]
    layout = " ".join(single), " ".join(single + second)
    tokens = {"bos": bos, "eos": eos}
    return template(layout, vocabulary, **{name: t for name, t in tokens.items() if t})


def layout(tokenizer, pair=False):
    """What a tokenizer writes around a text, or around and between two.

    `tokenizer`: `tokenizers.Tokenizer`. Returns a list of runs (0 or 1 for the first and second
    text, or None; ids; segment).
    """
    texts = ("a", *itertools.islice(tokenizer.get_vocab(), 1000))
    ids = ((text, tokenizer.encode(text, add_special_tokens=False).ids) for text in texts)
    probe, text = next((each for each in ids if each[1]), ("a", []))
    encoding = tokenizer.encode(*[probe] * (1 + pair))
    tokens = zip(encoding.sequence_ids, encoding.type_ids, encoding.ids, strict=True)
    runs = itertools.groupby(tokens, key=lambda token: token[:2])
    runs = [(which, [ids for *_, ids in run], segment) for (which, segment), run in runs]
    # What is written in place of a text that is left out also counts as the first.
    if [ids for which, ids, _ in runs if which is not None] != [text] * (1 + pair) or not text:
        raise ValueError("it leaves out a text, or finds no token in any")
    return runs


def set_ends(tokenizer, vocabulary, names, add_bos, add_eos):
    """Follows `add_bos_token` and `add_eos_token` of tokenizer_config.json.

    Each setting concerns one token, and None leaves that token as tokenizer.json has it. If
    tokenizer.json adds other tokens than these two, both settings are ignored. `tokenizer`:
    `tokenizers.Tokenizer`, whose post-processor is set. `vocabulary`: dict token -> id. `names`:
    dict role -> token. `add_bos`, `add_eos`: True, False or None.
    """
    runs = layout(tokenizer)
    place = [which for which, *_ in runs].index(0)
    before, after = (
        sum((ids for _, ids, _ in part), []) for part in (runs[:place], runs[place + 1 :])
    )
    wanted = []
    for role, ids, add in (("bos", before, add_bos), ("eos", after, add_eos)):
        token = names.get(role)
        if ids and ids != [vocabulary.get(token)]:
            return
        add = bool(ids) if add is None else add
        wanted.append(token if add and token in vocabulary else None)
    if [bool(before), bool(after)] != [bool(token) for token in wanted]:
        tokenizer.post_processor = ends(*wanted, vocabulary)
