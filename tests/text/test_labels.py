"""Labels of every kind in TextBatches, aligned to tokens as transformers aligns them."""

import keras
import numpy as np
import pytest

from keras_posenc import backend
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.models.heads import classifier
from keras_posenc.text import (
    FloatLabels,
    Labels,
    MultiLabels,
    NextTokenLabels,
    SpanLabels,
    TagLabels,
    TextBatches,
    Tokenizer,
    read_texts,
    tag_names,
)
from keras_posenc.text.labels.tags import WordsOf

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def tokenizer(minilm):
    return Tokenizer(minilm)


@pytest.fixture(scope="module")
def peer(minilm):
    import transformers

    return transformers.AutoTokenizer.from_pretrained(minilm)


@pytest.fixture(scope="module")
def books(book_excerpts):
    return read_texts(book_excerpts).texts[:8]


def by_row(batches):
    """The parts of all batches, row by row in the order of the texts."""
    drawn = [batches[n] for n in range(len(batches))]
    rows = []
    for _, *parts in drawn:
        rows += list(zip(*parts, strict=True))
    order = np.empty(len(rows), object)
    order[:] = rows
    return list(batches.restore_order(order))


def test_tags_stand_at_the_first_token_of_each_word(tokenizer, peer, books):
    texts = [book.split()[: 30 + 40 * n] for n, book in enumerate(books)]
    tags = [["B-X" if word[0].isupper() else "I-X" for word in text] for text in texts]
    batches = TextBatches(texts, TagLabels(tags), tokenizer, max_length=128, shuffle=False)
    rows = by_row(batches)
    names = batches.classes
    for text, wanted_tags, (ids, weights) in zip(texts, tags, rows, strict=True):
        found = peer(text, is_split_into_words=True, truncation=True, max_length=128)
        words = [-1 if word is None else word for word in found.word_ids()]
        first = np.array(words) != np.roll(words, 1)
        expected = [w >= 0 and new for w, new in zip(words, first, strict=True)]
        assert weights[: len(words)].astype(bool).tolist() == expected
        assert not weights[len(words) :].any()
        for word, new, label in zip(words, expected, ids, strict=False):
            if word >= 0:
                wanted = wanted_tags[word] if new else "I-X"
                assert names[label] == wanted


def test_a_word_may_have_a_no_break_space(tokenizer):
    texts, tags = [["about", "10\u00a0000", "\u00a0", "words"]], [["O", "B-N", "O", "B-W"]]
    batches = TextBatches(texts, TagLabels(tags), tokenizer, shuffle=False)
    ((ids, weights),) = by_row(batches)
    tokens = ["[CLS]", *tokenizer.tokenize(" ".join(texts[0])), "[SEP]"]
    assert tokens[1:-1] == ["about", "10", "000", "words"]
    assert [batches.classes[n] for n in ids[1:5]] == ["O", "B-N", "B-N", "B-W"]
    assert weights[:6].tolist() == [0, 1, 1, 0, 1, 0]
    with pytest.raises(ValueError, match="Text 0 is empty"):
        TextBatches([["\u00a0"]], tokenizer=tokenizer)
    with pytest.raises(ValueError, match=r"the word 'a b': words are not empty and have no spaces"):
        TextBatches([["a b"]], tokenizer=tokenizer)


def test_a_text_has_the_words_of_files_of_tags():
    text = "한국어 책을 읽는다. Dr. A-B 20.5%; 玻璃"
    found = ["한국어", "책을", "읽는다", ".", "Dr", ".", "A-B", "20.5", "%", ";", "玻", "璃"]
    assert WordsOf(text) == found
    assert [text[slice(*span)] for span in WordsOf(text).places.T] == found


def test_spans_of_characters_become_tags_of_all_their_tokens(tokenizer):
    text = "Ada Lovelace met Babbage."
    spans = [(17, 24, "PER"), (0, 12, "PER")]
    batches = TextBatches([text], TagLabels([spans]), tokenizer, pad_to=1)
    assert batches.classes == ["O", "B-PER", "I-PER"]
    ((tags, weights),) = by_row(TextBatches([text], TagLabels([spans]), tokenizer, shuffle=False))
    tokens = ["[CLS]", *tokenizer.tokenize(text), "[SEP]"]
    predicted = [batches.classes[tag] for tag in tags[: len(tokens)]]
    inside = [token for token, tag in zip(tokens, predicted, strict=True) if tag != "O"]
    assert "".join(inside).replace("##", "") == "adalovelacebabbage"
    assert [token for token, tag in zip(tokens, predicted, strict=True) if tag == "B-PER"] == [
        "ada",
        next(token for token in tokens if token.startswith("ba")),
    ]
    assert weights.sum() == len(tokens) - 2


def test_tags_of_windows_are_those_of_the_whole(tokenizer, books):
    words = books[0].split()[:150]
    tags = [f"B-{n % 7}" for n in range(len(words))]
    labels = TagLabels([tags])
    whole = TextBatches([words], labels, tokenizer, max_length=None, shuffle=False)
    ((expected, weights),) = by_row(whole)
    batches = TextBatches([words], labels, tokenizer, max_length=40, stride=0, shuffle=False)
    assert batches.text_of.tolist() == [0] * len(batches.rows) and len(batches.rows) > 3
    rows = [
        (tag, weight)
        for row, (tags, weights) in zip(batches.rows, by_row(batches), strict=True)
        for tag, weight in list(zip(tags, weights, strict=True))[1 : len(row.token_ids) - 1]
    ]
    length = len(whole.rows[0].token_ids)
    # Every word once, however the windows cut it.
    assert [t for t, w in rows if w] == [t for t, w in zip(expected, weights, strict=True) if w]
    assert len(rows) == length - 2


def test_per_token_tags_of_ids_are_cut_as_the_ids_are():
    labels = TagLabels([["a", "b", "c", "d"], ["d"]])
    batches = TextBatches([[1, 2, 3, 9], [9]], labels, max_length=3, pad_to=1, shuffle=False)
    rows = by_row(batches)
    assert [batches.classes[n] for n in rows[0][0]] == ["a", "b", "d"]
    assert [row[1].tolist() for row in rows] == [[1, 1, 1], [1, 0, 0]]


def test_windows_are_those_of_transformers(tokenizer, peer, books):
    question, passage = "Who is it about?", books[0]
    pairs = [(question, passage), (question, "It is short.")]
    batches = TextBatches(
        pairs, SpanLabels(), tokenizer, max_length=64, stride=20, shuffle=False, max_shapes=2
    )
    found = peer(
        *map(list, zip(*pairs, strict=True)),
        truncation="only_second",
        max_length=64,
        stride=20,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    assert [row.token_ids for row in batches.rows] == found["input_ids"]
    assert batches.text_of.tolist() == found["overflow_to_sample_mapping"]
    for row, offsets in zip(batches.rows, found["offset_mapping"], strict=True):
        assert [tuple(place) for place in row.offsets[:, 1:].tolist()] == offsets
    assert all(row.window == 0 for row in (batches.rows[0], batches.rows[-1]))
    assert isinstance(batches[0], dict)  # no labels are known
    whole = tokenizer.encode(question, passage)[0]
    assert batches.lengths[0] == len(whole)


def test_an_answer_is_in_the_windows_that_hold_it(tokenizer, books):
    passage, answer = books[0], books[0].split()[90]
    start = passage.index(f" {answer} ", 300) + 1
    span = (start, start + len(answer))
    labels = SpanLabels([span, None])
    pairs = [("Who?", passage), ("What?", passage)]
    batches = TextBatches(pairs, labels, tokenizer, max_length=50, stride=16, shuffle=False)
    seen = 0
    for row, (place, weight) in zip(batches.rows, by_row(batches), strict=True):
        assert weight == 1
        begins, stops = row.offsets[row.offsets[:, 0] == 1][[0, -1], [1, 2]]
        if row.text == 0 and begins <= span[0] and stops >= span[1]:
            tokens = row.token_ids[place[0] : place[1] + 1]
            assert tokens == tokenizer.contents([answer])[0]
            seen += 1
        else:
            assert place.tolist() == [0, 0]
    assert seen >= 1
    # Without windows the answer may be cut off, which says nothing about the passage.
    cut = TextBatches(pairs, labels, tokenizer, max_length=20, shuffle=False)
    assert [weight for _, weight in by_row(cut)] == [0, 1]


def test_an_answer_may_have_spaces_at_its_ends(tokenizer):
    """Also where the passage ends with it, and no token stands in the last space."""
    for words, span in ((" one two ", (0, 5)), (" one two ", (4, 9)), (" one\n", (0, 5))):
        first = next(n for n, word in enumerate(("one", "two")) if word in words[slice(*span)])
        batches = TextBatches([("who", words)], SpanLabels([span]), tokenizer, shuffle=False)
        ((place, weight),) = by_row(batches)
        assert weight == 1 and place.tolist() == [first + 3] * 2
    batches = TextBatches([["one", "two"]], SpanLabels([(4, 7)]), tokenizer, shuffle=False)
    assert [place.tolist() for place, _ in by_row(batches)] == [[2, 2]]


@pytest.mark.parametrize("end", ["\u0301", "\u200b"], ids=["accent", "no width"])
def test_an_answer_may_end_with_what_is_in_no_token(tokenizer, end):
    text = np.str_(f"one two{end}")  # as an array of texts has it
    batches = TextBatches([("who", text)], SpanLabels([(4, len(text))]), tokenizer, shuffle=False)
    ((place, weight),) = by_row(batches)
    assert weight == 1 and place.tolist() == [4, 4]


def test_windows_of_a_text_without_spans_are_outside(tokenizer):
    labels, text = TagLabels([[]], ["O", "B-X", "I-X"]), "one two three four five"
    batches = TextBatches([text], labels, tokenizer, max_length=5, stride=1, shuffle=False)
    rows = by_row(batches)
    assert len(rows) == 2 and all(weights.sum() == 3 and not tags.any() for tags, weights in rows)


def test_several_classes_numbers_and_next_tokens():
    texts = [[5, 6, 7], [8]]
    options = {"shuffle": False, "pad_to": 1}
    several = TextBatches(texts, MultiLabels([["b", "a"], []], ["a", "b", "c"]), **options)
    assert [y.tolist() for (y,) in by_row(several)] == [[1, 1, 0], [0, 0, 0]]
    numbers = TextBatches(texts, FloatLabels([[0.5, 2], [1, 3]]), **options)
    assert [y.tolist() for (y,) in by_row(numbers)] == [[0.5, 2], [1, 3]]
    following = TextBatches(texts, NextTokenLabels(), **options)
    assert [(y.tolist(), w.tolist()) for y, w in by_row(following)] == [
        ([6, 7, 0], [1, 1, 0]),
        ([0, 0, 0], [0, 0, 0]),
    ]


def test_sample_weights_multiply():
    weighted = TextBatches([[1], [2]], [0, 1], sample_weights=[2, 0.5], shuffle=False)
    assert [float(w) for _, w in by_row(weighted)] == [2, 0.5]
    tags = TagLabels([["a", "b"], ["a"]])
    batches = TextBatches([[1, 2], [3]], tags, sample_weights=[2, 3], pad_to=1, shuffle=False)
    assert [w.tolist() for _, w in by_row(batches)] == [[2, 2], [3, 0]]


def test_every_window_has_the_weight_of_its_text(tokenizer):
    texts, options = ["one two three four five six", "seven"], {"max_length": 5, "stride": 0}
    batches = TextBatches(texts, [0, 1], tokenizer, sample_weights=[2, 3], shuffle=False, **options)
    assert [float(w) for _, w in by_row(batches)] == [2, 2, 3]


def test_texts_apart(tokenizer):
    texts = [("one", "another one", "three"), ("a rather longer text than that", "b", "c")]
    batches = TextBatches(texts, [7, 3], tokenizer, apart=True, pad_to=4, shuffle=False)
    assert batches.shapes == [(1, 3, 4), (1, 3, 8)] or batches.shapes == [(2, 3, 8)]
    for inputs, labels in batches:
        for row, label in zip(inputs["token_ids"], labels, strict=True):
            for ids, text in zip(row, texts[[7, 3].index(label)], strict=True):
                assert [i for i in ids if i != tokenizer.pad_id] == tokenizer.encode(text)[0]
    assert batches.lengths.tolist() == [4, 8]
    with pytest.raises(TypeError, match="Text 1 is no tuple of str, or of pairs of str, as"):
        TextBatches([("a", "b"), "c"], tokenizer=tokenizer, apart=True)
    with pytest.raises(ValueError, match="Text 1 is .* give tuples of as many texts each"):
        TextBatches([("a", "b"), ("c",)], tokenizer=tokenizer, apart=True)
    with pytest.raises(ValueError, match="labels of a whole row, not NextTokenLabels of its"):
        TextBatches([("a", "b")], NextTokenLabels(), tokenizer, apart=True)
    with pytest.raises(ValueError, match="apart=True takes no stride="):
        TextBatches([("a", "b")], tokenizer=tokenizer, apart=True, stride=1)


WORDS = ["one", "two"]


@pytest.mark.parametrize(
    ("texts", "make", "error", "match"),
    [
        ([WORDS], lambda: TagLabels([["O"]]), ValueError, "has 2 words but 1 tags: give one to e"),
        (
            [WORDS],
            lambda: TagLabels([[(0, 1, "X")] * 2]),
            ValueError,
            "is a list of words: give on",
        ),
        (["one"], lambda: TagLabels([["O"]]), ValueError, "has tags, but is one str"),
        (["one"], lambda: TagLabels([[(0, 4, "X")]]), ValueError, r"the span \(0, 4, 'X'\), of no"),
        (["one"], lambda: TagLabels([[(2, 2, "X")]]), ValueError, "of no character: it has 3"),
        (
            ["one two"],
            lambda: TagLabels([[(0, 4, "X"), (3, 7, "Y")]]),
            ValueError,
            "has spans that meet, .* a token has one tag",
        ),
        ([WORDS], lambda: TagLabels([["O", "Q"]], ["O"]), ValueError, "the tag 'Q', which is not"),
        ([WORDS], lambda: TagLabels([[1, 2]]), TypeError, "has the tags .*: give a list of tags"),
        ([("a", "b")], lambda: TagLabels([["O"]]), TypeError, "is a pair; tags are of one text"),
        ([["a b"]], lambda: TagLabels([["O"]]), ValueError, "has the word 'a b': words are not em"),
        ([("q", "abc")], lambda: SpanLabels([(1, 4)]), ValueError, "beyond its passage of 3 char"),
        ([("q", "abc")], lambda: SpanLabels([(2, 2)]), ValueError, "beyond its passage"),
        ([("q", "a b")], lambda: SpanLabels([(1, 2)]), ValueError, "no character except spaces"),
        ([("q", "a \0 b")], lambda: SpanLabels([(2, 3)]), ValueError, "in which stands no token"),
        (
            [("q", "abc")],
            lambda: SpanLabels([(1.0, 2)]),
            TypeError,
            "the answer .*: give .start, e",
        ),
        (["a", "b"], lambda: SpanLabels([None]), ValueError, "2 texts but 1 labels"),
        (["a"], lambda: MultiLabels(["x"]), TypeError, "has the labels 'x': give a list of names"),
        (["a"], lambda: MultiLabels([["x"]], ["y"]), ValueError, "'x', which is not one of the 1"),
        (["a"], lambda: FloatLabels(["x"]), ValueError, "has the label 'x': give a finite number"),
        (["a"], lambda: FloatLabels([float("nan")]), ValueError, "give a finite number"),
        (
            ["a", "b"],
            lambda: FloatLabels([1, [1, 2]]),
            ValueError,
            "has 2 numbers where text 0 has",
        ),
    ],
)
def test_labels_that_do_not_fit(tokenizer, texts, make, error, match):
    with pytest.raises(error, match=match):
        TextBatches(texts, make(), tokenizer)


TEXTS, NAMES = [[5, 6], [7, 8], [6, 5], [8, 5]], ["b", "a", "b", "b"]


def weights_of(class_weight, texts=TEXTS, labels=NAMES, **options):
    batches = TextBatches(
        texts, labels, shuffle=False, class_weight=class_weight, pad_to=1, **options
    )
    return batches[0][2].tolist()


def test_class_weights_are_by_name_or_by_id_and_multiply_others():
    assert weights_of({"a": 3}) == weights_of({0: np.int64(3)}) == [1, 3, 1, 1]
    assert weights_of({"b": 2}, sample_weights=[1, 2, 3, 4]) == [2, 2, 6, 8]
    assert weights_of("balanced") == pytest.approx([2 / 3, 2, 2 / 3, 2 / 3])
    assert weights_of({2: 5}, labels=[2, 0, 2, 1]) == [5, 1, 5, 1]
    # A class of no text has no part in the sum, which is the number of texts.
    found = weights_of("balanced", classes=["a", "b", "c"])
    assert found == pytest.approx([2 / 3, 2, 2 / 3, 2 / 3])


def test_class_weights_of_tags_leave_out_what_does_not_count():
    labels = TagLabels([["O", "B-x"], ["O", "O"]])
    texts = [[5, 6], [7, 8]]
    assert weights_of({"B-x": 4}, texts, labels) == [[1, 4], [1, 1]]
    assert weights_of("balanced", texts, labels) == pytest.approx(
        np.array([[2 / 3, 2], [2 / 3, 2 / 3]])
    )


def test_fit_takes_class_weights_by_name(pretrained):
    """Keras alone would take no notice of names."""
    encoder = build_transformer_model(pretrained, dropout_rate=0.0, attention_dropout_rate=0.0)
    model = classifier(encoder, 2, dropout_rate=0.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    losses = []
    for class_weight in ({"a": 9.0}, {0: 9.0}, None):
        batches = TextBatches(TEXTS, NAMES, shuffle=False)
        model.compile(keras.optimizers.SGD(0.0), loss)
        fitted = model.fit(batches, class_weight=class_weight, verbose=0)
        losses.append(fitted.history["loss"][0])
    assert losses[0] == pytest.approx(losses[1]) != pytest.approx(losses[2])
    batches = TextBatches(TEXTS, NAMES, sample_weights=[1, 1, 1, 1])
    with pytest.raises(ValueError, match=r"give it to TextBatches\(class_weight=...\) instead"):
        model.fit(batches, class_weight={"a": 9.0}, verbose=0)
    with pytest.raises(ValueError, match="has 'z', which is none of the 2 classes: 'a', 'b'"):
        model.fit(TextBatches(TEXTS, NAMES), class_weight={"z": 9.0}, verbose=0)


def test_labels_of_several_outputs_train_each_of_them(tokenizer):
    """As with arrays by hand: the loss is the sum of those of the outputs."""
    texts = [["Ada", "left"], ["It", "was", "late"], ["late"]]
    tags = TagLabels([["B-x", "O"], ["O", "O", "O"], ["O"]])
    topics, numbers = ["b", "a", "b"], [1.0, 2.0, 3.0]
    labels = {"topic": topics, "size": FloatLabels(numbers), "tags": tags}
    batches = TextBatches(texts, labels, tokenizer, shuffle=False)
    inputs, targets, weights = batches[0]
    for name, alone in (("topic", topics), ("size", FloatLabels(numbers)), ("tags", tags)):
        expected = TextBatches(texts, alone, tokenizer, shuffle=False)[0]
        np.testing.assert_array_equal(targets[name], expected[1])
        wanted_tags = expected[2] if len(expected) == 3 else np.ones(3)
        np.testing.assert_array_equal(weights[name], wanted_tags)
    assert batches.classes["topic"] == ["a", "b"]

    ids = keras.Input((None,), dtype="int32", name="token_ids")
    features = keras.layers.Embedding(40_000, 4)(ids)
    mean = keras.layers.GlobalAveragePooling1D()(features)
    heads = {
        "topic": keras.layers.Dense(2)(mean),
        "size": keras.layers.Dense(1)(mean),
        "tags": keras.layers.Dense(3)(features),
    }
    model = keras.Model({"token_ids": ids}, heads)
    crossed = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    model.compile("sgd", {"topic": crossed, "size": "mse", "tags": crossed})
    outputs = model.predict_on_batch({"token_ids": inputs["token_ids"]})
    parts = [
        float(crossed(targets["topic"], outputs["topic"])),
        float(np.square(targets["size"] - outputs["size"]).mean()),
        float(crossed(targets["tags"], outputs["tags"], weights["tags"])),
    ]
    ids_alone = {"token_ids": inputs["token_ids"]}
    fitted = model.fit(ids_alone, targets, sample_weight=weights, shuffle=False, verbose=0)
    assert fitted.history["loss"][0] == pytest.approx(sum(parts), rel=1e-5)


def test_rows_of_several_outputs_are_weighted_and_filled(monkeypatch):
    labels = {"one": ["a", "b", "a"], "two": FloatLabels([1, 2, 3])}
    texts, options = [[5], [6, 7], [8]], {"shuffle": False, "sample_weights": [1, 2, 3]}
    plain = TextBatches(texts, labels, **options)[0]
    assert plain[2]["one"].tolist() == plain[2]["two"].tolist() == [1, 3, 2]
    monkeypatch.setattr(backend, "row_multiple", lambda: 4)
    _, targets, weights = TextBatches(texts, labels, **options)[0]
    assert len(targets["two"]) == 4 and weights["one"].tolist() == [1, 3, 2, 0]
    _, targets, weights = TextBatches(texts, labels, shuffle=False)[0]
    assert weights["two"].tolist() == [1, 1, 1, 0]


def test_labels_of_several_outputs_that_do_not_fit():
    for labels, message in (
        ({}, "labels of several outputs are a dict, .* Received: {}"),
        ({1: [1]}, "labels of several outputs are a dict"),
        ({"one": ["a", "b"], "two": ["a"]}, "2 texts but 1 labels"),
        ({"one": ["a", "b"], "two": FloatLabels()}, "The output 'two' has no labels"),
    ):
        with pytest.raises(ValueError, match=message):
            TextBatches([[5], [6]], labels)


def test_class_weights_need_classes():
    for labels, kind in ((None, "no labels"), (FloatLabels([1, 2, 3, 4]), "FloatLabels")):
        with pytest.raises(ValueError, match=f"one class a text, or tags. Received: {kind}"):
            TextBatches(TEXTS, labels, class_weight={0: 1})


def test_arguments_that_do_not_fit(tokenizer):
    with pytest.raises(ValueError, match="classes= belongs to a list of labels"):
        TextBatches(["a"], FloatLabels([1]), tokenizer, classes=["x"])
    with pytest.raises(ValueError, match="`stride` must be an integer of at least 0. Received: -1"):
        TextBatches(["a"], None, tokenizer, stride=-1)
    with pytest.raises(ValueError, match="stride= makes windows of max_length tokens, which is N"):
        TextBatches(["a"], None, tokenizer, stride=1, max_length=None)
    with pytest.raises(ValueError, match="stride= splits texts; make windows of ids with"):
        TextBatches([[1]], stride=1)
    with pytest.raises(ValueError, match="have room for 1 of it, and are to share 2"):
        TextBatches([("a b c", "d e f g")], None, tokenizer, max_length=7, stride=2)
    with pytest.raises(
        ValueError, match=r"`sample_weights` must be . numbers.* Received: the shape \(1,\)"
    ):
        TextBatches([[1], [2]], sample_weights=[1])
    with pytest.raises(
        ValueError, match="`sample_weights` must be finite and at least 0. Received: "
    ):
        TextBatches([[1]], sample_weights=[-1])
    with pytest.raises(ValueError, match="`sample_weights` must have a number above 0"):
        TextBatches([[1]], sample_weights=[0])
    with pytest.raises(ValueError, match="`class_weight` must have a weight above 0 for a class"):
        TextBatches([[1]], [1], class_weight={1: 0})
    with pytest.raises(NotImplementedError):
        TextBatches([[1]], Labels([1]))


def test_the_names_of_tags():
    assert tag_names([["B-b", "I-b", "O"], [(0, 1, "a")]]) == ["O", "B-a", "I-a", "B-b", "I-b"]
    assert tag_names([["NOUN", "VERB"]]) == ["NOUN", "VERB"]
