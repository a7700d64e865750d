"""What TextBatches yields, on lists and on the real corpora; how fit uses it is in test_fit.py."""

import numpy as np
import pytest

from keras_posenc.text import TextBatches, Tokenizer, read_texts

pytestmark = pytest.mark.once


def documents(count=200, longest=100, seed=0):
    """Lists of ids; the first id tells the document."""
    rng = np.random.default_rng(seed)
    return [[i + 1000, *rng.integers(1, 50, rng.integers(1, longest))] for i in range(count)]


def order_of(batches):
    drawn = [batches[i] for i in range(len(batches))]
    inputs = [batch[0] if isinstance(batch, tuple) else batch for batch in drawn]
    return [(batch["token_ids"][:, 0] - 1000).tolist() for batch in inputs]


@pytest.fixture(scope="module")
def tokenizer(minilm):
    return Tokenizer(minilm)


@pytest.fixture(scope="module")
def books(book_excerpts):
    return read_texts(book_excerpts)


def test_a_batch_holds_the_texts_padded(tokenizer, books):
    texts, names = books.texts[:40], books.labels[:40]
    names[::3] = ["adult"] * 14
    batches = TextBatches(texts, names, tokenizer, max_length=900, token_budget=4000)
    encoded = tokenizer.encode_batch(texts, max_length=900)
    assert batches.classes == ["adult", "children"]
    seen = []
    for inputs, labels in batches:
        assert set(inputs) == {"token_ids", "segment_ids"}
        token_ids, segment_ids = inputs["token_ids"], inputs["segment_ids"]
        assert token_ids.dtype == segment_ids.dtype == labels.dtype == np.int32
        assert token_ids.shape == segment_ids.shape == (len(labels), token_ids.shape[1])
        assert token_ids.size <= 4000 and (token_ids.shape[1] % 8 == 0 or token_ids.shape[1] == 900)
        assert not segment_ids.any()
        for row, label in zip(token_ids.tolist(), labels, strict=True):
            length = len(row) - row[::-1].index(tokenizer.sep_id)
            assert set(row[length:]) <= {tokenizer.pad_id}
            seen.append(next(i for i, (ids, _) in enumerate(encoded) if ids == row[:length]))
            assert batches.classes[label] == names[seen[-1]]
    assert sorted(seen) == list(range(40))
    assert batches.lengths.tolist() == [len(ids) for ids, _ in tokenizer.encode_batch(texts)]


def test_pairs_and_encoded_texts_give_the_same_batches(tokenizer, books):
    texts = [text[: 40 + 7 * i] for i, text in enumerate(books.texts[:30])]
    pairs = list(zip(texts, reversed(texts), strict=True))
    options = {"tokenizer": tokenizer, "max_length": 60, "shuffle": False}
    one = TextBatches(pairs, **options)
    two = TextBatches(tokenizer.encode_batch(*map(list, zip(*pairs, strict=True)), 60), **options)
    assert one.shapes == two.shapes
    for a, b in zip(one, two, strict=True):
        assert (a["token_ids"] == b["token_ids"]).all()
        assert (a["segment_ids"] == b["segment_ids"]).all()
        assert a["segment_ids"].max() == 1
    whole = tokenizer.encode_batch(*map(list, zip(*pairs, strict=True)))
    assert one.lengths.tolist() == [len(ids) for ids, _ in whole]


def test_windows_of_a_long_text(tokenizer, books):
    windows = tokenizer.windows(" ".join(books.texts[:3]), 128, 16)
    options = {"shuffle": False, "token_budget": 1024, "max_shapes": 1}
    batches = TextBatches(windows, tokenizer=tokenizer, **options)
    rows = np.concatenate([batch["token_ids"] for batch in batches])
    assert batches.restore_order(rows).tolist()[0] == windows[0][0]


def test_a_cut_of_ids_keeps_the_last():
    batches = TextBatches(
        [[1, 2, 3, 4, 102], np.array([5, 102])], max_length=3, pad_to=1, max_shapes=1
    )
    rows = batches[0]["token_ids"].tolist()
    assert sorted(rows) == [[1, 2, 102], [5, 102, 0]]
    assert batches.lengths.tolist() == [5, 2]


def test_every_epoch_has_every_document_once_in_another_order():
    batches = TextBatches(documents(), token_budget=512, max_length=64, max_shapes=4)
    epochs, lengths, shapes = [], set(), set()
    for _ in range(4):
        epochs.append(order_of(batches))
        lengths.add(len(batches))
        shapes.add(tuple(batches.shapes))
        batches.on_epoch_end()
    assert batches.epoch == 4
    assert len(lengths) == len(shapes) == 1
    for epoch in epochs:
        assert sorted(sum(epoch, [])) == list(range(200))
    composition = [{frozenset(batch) for batch in epoch} for epoch in epochs]
    assert all(a != b for a, b in zip(composition, composition[1:], strict=False))


def test_an_epoch_follows_from_the_seed_and_its_number():
    make = lambda seed: TextBatches(documents(), token_budget=512, seed=seed)  # noqa: E731
    one, two, other = make(7), make(7), make(8)
    for _ in range(3):
        order_of(one)
        one.on_epoch_end()
    two.set_epoch(3)
    other.set_epoch(3)
    assert order_of(one) == order_of(two)
    assert order_of(one) != order_of(other)
    two.set_epoch(0)
    assert order_of(two) == order_of(make(7))


@pytest.mark.parametrize("read", [1, 2])
def test_a_glance_at_the_data_is_no_epoch(read):
    """`fit` draws a batch or two, asks how many there are, and says that an epoch ended."""
    batches = TextBatches(documents(), token_budget=512)
    batches.on_epoch_begin()
    for index in range(read):
        batches[index]
    assert batches.num_batches > 2
    batches.on_epoch_end()
    assert batches.epoch == 0


@pytest.mark.parametrize("processes", [2, 3, 5])
@pytest.mark.parametrize("equal", [True, False])
def test_processes_that_read_every_nth_batch_read_all_of_each_epoch(processes, equal):
    """As Keras 3.16 has them read; `equal` leaves out what not all of them would get."""
    whole = TextBatches(documents(196), token_budget=512, max_shapes=1)
    assert len(whole) % processes
    count = len(whole) - (len(whole) % processes if equal else 0)
    shares = [TextBatches(documents(196), token_budget=512, max_shapes=1) for _ in range(processes)]
    for epoch in range(2):
        expected, read = order_of(whole)[:count], {}
        for rank, share in enumerate(shares):
            share.on_epoch_begin()
            for index in range(rank, share.num_batches, processes):
                if index < count:
                    read[index] = (share[index]["token_ids"][:, 0] - 1000).tolist()
            share.on_epoch_end()
            assert share.epoch == epoch + 1
        assert [read[index] for index in range(count)] == expected
        whole.on_epoch_end()


def test_a_pause_within_an_epoch_is_not_its_end():
    batches = TextBatches(documents(), token_budget=512)
    for index in range(batches.num_batches):
        batches.on_epoch_begin()
        assert batches.epoch == 0
        batches[index]
        batches.on_epoch_end()
    assert batches.epoch == 1


def test_restore_order():
    batches = TextBatches(documents(), shuffle=False, token_budget=512)
    rows = np.array(sum(order_of(batches), []))
    assert rows.tolist() != list(range(200))
    assert batches.restore_order(np.stack([rows, rows], 1)).tolist() == [[i, i] for i in range(200)]
    batches.on_epoch_end()
    assert sum(order_of(batches), []) == rows.tolist()
    with pytest.raises(ValueError, match="199 rows of predictions for 200 texts"):
        batches.restore_order(rows[1:])
    with pytest.raises(ValueError, match="shuffle=True moves on to another order; predict with"):
        TextBatches(documents()).restore_order(rows)


def test_labels_are_names_or_ids():
    texts = documents(4)
    by_name = TextBatches(texts, ["b", "a", "b", "c"], shuffle=False)
    assert by_name.classes == ["a", "b", "c"]
    restored = by_name.restore_order(np.concatenate([labels for _, labels in by_name]))
    assert restored.tolist() == [1, 0, 1, 2]
    given = TextBatches(texts, ["b", "a", "b", "c"], classes=("c", "b", "a", "z"), shuffle=False)
    restored = given.restore_order(np.concatenate([labels for _, labels in given]))
    assert restored.tolist() == [1, 2, 1, 0]
    by_id = TextBatches(texts, np.array([3, 0, 3, 1]), shuffle=False)
    assert by_id.classes is None
    assert by_id.restore_order(np.concatenate([y for _, y in by_id])).tolist() == [3, 0, 3, 1]
    assert isinstance(TextBatches(texts)[0], dict)


@pytest.fixture(scope="module")
def newsgroups(tokenizer, newsgroups_test):
    return tokenizer.encode_batch(read_texts(newsgroups_test).texts[::4])


@pytest.mark.parametrize("max_length", [256, 512, 2048])
def test_newsgroups_in_few_shapes_with_little_padding(newsgroups, max_length):
    batches = TextBatches(newsgroups, max_length=max_length)
    widths = {width for _, width in batches.shapes}
    assert len(widths) <= 10
    assert len(batches.shapes) <= len(widths) + 1
    assert max(widths) == max_length
    assert max(size * width for size, width in batches.shapes) <= 8192
    padded = sum(inputs["token_ids"].size for inputs in batches)
    real = np.minimum(batches.lengths, max_length).sum()
    assert batches.padding_share == pytest.approx(1 - real / padded)
    one_length = TextBatches(newsgroups, max_length=max_length, max_shapes=1)
    assert len(one_length.shapes) <= 2
    assert batches.padding_share < 0.4 * one_length.padding_share  # 31%, 56%, 87%


def test_wrong_arguments(tokenizer):
    texts = ["one", "two", "three"]
    with pytest.raises(ValueError, match="No texts to batch"):
        TextBatches([], [], tokenizer)
    for none in ("one", None, 3, (text for text in texts)):
        with pytest.raises(TypeError, match="`texts` must be a list. Received: "):
            TextBatches(none, tokenizer=tokenizer)
    with pytest.raises(ValueError, match="Text 1 is empty; leave it out"):
        TextBatches(["one", " \n"], tokenizer=tokenizer)
    with pytest.raises(ValueError, match="Text 0 is empty"):
        TextBatches([("one", "")], tokenizer=tokenizer)
    with pytest.raises(ValueError, match="Text 1 is empty"):
        TextBatches([[1, 2], []])
    with pytest.raises(TypeError, match="Text 2 is a NoneType; give a str"):
        TextBatches(["one", "two", None], tokenizer=tokenizer)
    with pytest.raises(TypeError, match="Texts of several kinds, ids and str: give one kind"):
        TextBatches(["one", [1]], tokenizer=tokenizer)
    with pytest.raises(ValueError, match="Texts need a tokenizer="):
        TextBatches(texts)
    with pytest.raises(ValueError, match="3 texts but 2 labels: give one label to each text"):
        TextBatches(texts, ["a", "b"], tokenizer)
    with pytest.raises(ValueError, match="Text 1 has the label 'b', .* the 2 classes: 'a', 'c'"):
        TextBatches(texts, ["a", "b", "c"], tokenizer, classes=["a", "c"])
    with pytest.raises(ValueError, match=r"Text 0 has the label 0, .* 11 classes: '0', .*, \.\.\."):
        TextBatches(texts, [0, 1, 2], tokenizer, classes=[str(i) for i in range(11)])
    for labels in ([1.0, 0.0], np.eye(2), [[1, 0], [0, 1]]):
        message = r"Text 0 has the label .*1.*0.*: .*argmax\(labels, axis=1\) .* FloatLabels\(lab"
        with pytest.raises(TypeError, match=message):
            TextBatches([[7], [8]], labels)
    batches = TextBatches([[7], [8]], np.array([True, False]), shuffle=False)
    assert batches[0][1].tolist() == [1, 0]
    with pytest.raises(TypeError, match="Text 1 has the label None: give names, or only ints"):
        TextBatches(texts, ["a", None, "b"], tokenizer)
    with pytest.raises(ValueError, match="A label id is -1; ids go from 0 up"):
        TextBatches(texts, [0, -1, 2], tokenizer)
    for name in ("token_budget", "max_shapes", "pad_to", "max_length"):
        with pytest.raises(ValueError, match=f"`{name}` must be a positive integer. Received: 0"):
            TextBatches(texts, None, tokenizer, **{name: 0})
    with pytest.raises(TypeError, match="TextBatches has no argument batch_size"):
        TextBatches(texts, None, tokenizer, batch_size=8)


def test_no_batch_is_longer_than_max_length():
    batches = TextBatches([[1] * n for n in (5, 9, 12, 30)], max_length=12, pad_to=8)
    assert max(length for _, length in batches.shapes) == 12


def test_no_maximum_truncates_nothing():
    texts = [[7] * length for length in (3, 900, 1500)]
    batches = TextBatches(texts, max_length=None, shuffle=False)
    rows = [row for index in range(len(batches)) for row in batches[index]["token_ids"]]
    assert sorted((row > 0).sum() for row in rows) == [3, 900, 1500]
    assert batches.lengths.tolist() == [3, 900, 1500]


@pytest.mark.parametrize(
    "ids, message",
    [
        ([1.0, 2.0], "the token id 1.0: give ints below 2147483648"),
        ([1, 2.5], "the token id 2.5: give ints"),
        ([True, False], "the token id .*: give ints"),
        ([1, None], "the token id None: give ints"),
        ([1, "a"], "the token id a: give ints"),
        ([1, [2]], r"the token id \[2\]: give ints"),
        ([1, 2**31], "the token id 2147483648: they go from 0 to 2147483647"),
        ([1, 2**63], "the token id 9223372036854775808"),
        ([1, 2**70], "the token id 1180591620717411303424: give ints"),
        ([1, -2], "the token id -2: they go from 0 to 2147483647"),
        (np.array([1.5, 2]), "the token id 1.5: give ints"),
        (([1, 2], [0, -1]), "the segment id -1: they go from 0"),
        (([1, 2], [0, 0.5]), "the segment id 0.5: give ints"),
        (([1, 2], [0]), "2 token ids but 1 segment ids"),
    ],
)
def test_ids_that_are_none(ids, message):
    with pytest.raises(ValueError, match=f"Text 1 has .*{message}"):
        TextBatches([[1, 2], ids])


def test_ids_are_those_of_the_tokenizer(tokenizer):
    with pytest.raises(ValueError, match=f"id {tokenizer.vocab_size}: they go from 0 to"):
        TextBatches([[tokenizer.vocab_size]], tokenizer=tokenizer)


@pytest.mark.parametrize("value", [float("nan"), 8.0, True, "8", None, 0])
@pytest.mark.parametrize("name", ["token_budget", "max_shapes", "pad_to"])
def test_sizes_that_are_no_numbers(name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be a positive integer. Received: "):
        TextBatches([[1]], **{name: value})


def test_classes_and_labels_that_repeat_or_overflow():
    with pytest.raises(ValueError, match="`classes` must have each name once. Received twice: 'a'"):
        TextBatches([[1], [2]], ["a", "b"], classes=["a", "b", "a"])
    with pytest.raises(ValueError, match="A label id is 2147483648; ids go to 2147483647"):
        TextBatches([[1]], [2**31])
