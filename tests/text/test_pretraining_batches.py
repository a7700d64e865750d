import numpy as np
import pytest

from keras_posenc import TextBatches, Tokenizer
from keras_posenc.text import CausalBatches, MaskedLanguageModelBatches, pack_rows
from keras_posenc.text.pretraining_batches import begins_words, choose_words, hide, pieces

pytestmark = pytest.mark.once

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# Letters, each with a piece that continues a word.
LETTERS = "abcdefghij"
WORDS = [*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
PAD, UNK, CLS, SEP, MASK = range(5)


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(vocabulary={word: i for i, word in enumerate(WORDS)})


def texts(count=12, seed=0):
    """Texts of 3 to 40 words of 1 to 3 letters."""
    rng = np.random.default_rng(seed)

    def word():
        return "".join(rng.choice(list(LETTERS), rng.integers(1, 4)))

    return [" ".join(word() for _ in range(rng.integers(3, 41))) for _ in range(count)]


def read(batches):
    return [batches[index] for index in range(len(batches))]


def test_rows_are_full_and_hold_one_text_each(tokenizer):
    given = texts()
    rows = pieces(given, tokenizer, 12)
    contents = tokenizer.contents(given)
    assert sorted({len(ids) for ids, _ in rows})[-1] == 12
    count = 0
    for ids in contents:
        parts = [row[1:-1] for row, _ in rows[count : count + max(1, -(-len(ids) // 10))]]
        count += len(parts)
        assert all(len(row) == min(10, len(ids)) for row in parts)
        whole = sum(parts[:-1], [])
        assert (whole + parts[-1])[: len(whole)] == ids[: len(whole)] and ids[
            -len(parts[-1]) :
        ] == parts[-1]
        assert len(whole) + len(parts[-1]) >= len(ids)
    assert count == len(rows)


@pytest.mark.parametrize("ngram", [1, 3])
@pytest.mark.parametrize("whole", [True, False])
def test_a_share_of_each_row_is_to_guess_in_whole_words(tokenizer, whole, ngram):
    arguments = dict(max_length=16, masked=0.3, whole_words=whole, max_ngram=ngram)
    batches = MaskedLanguageModelBatches(texts(), tokenizer, token_budget=64, **arguments)
    begins = np.array([not word.startswith("##") for word in WORDS])
    shares, broken = [], 0
    for inputs, targets, weights in read(batches):
        assert inputs["token_ids"].shape == targets.shape == weights.shape
        real = targets > MASK
        assert not weights[~real].any()  # nor the padding, nor [CLS] and [SEP]
        same = inputs["token_ids"] == targets
        assert same[weights == 0].all()
        chosen = weights.sum(1)
        assert (chosen <= np.maximum(1, 0.3 * real.sum(1))).all() and (chosen >= 1).all()
        shares.append(chosen / real.sum(1))
        # A piece that continues a word is chosen with the piece before it.
        follows = ~begins[targets[:, 2:]] & (targets[:, 1:-1] > MASK)
        apart = (weights[:, 2:] != weights[:, 1:-1]) & follows
        broken += apart.sum()
    assert np.concatenate(shares).mean() > 0.2
    assert (broken == 0) if whole else (broken > 20)


def test_eight_in_ten_are_masked_and_one_is_another(tokenizer):
    rng = np.random.default_rng(0)
    ids, others = np.full(30000, 7), np.arange(5, 25)
    chosen = np.arange(30000) % 3 == 0
    hidden = hide(ids, chosen, MASK, others, rng)
    np.testing.assert_array_equal(hidden[~chosen], 7)
    shares = [(hidden[chosen] == MASK).mean(), np.isin(hidden[chosen], others).mean()]
    np.testing.assert_allclose(shares, [0.8, 0.2], atol=0.02)
    assert ((hidden[chosen] != MASK) & (hidden[chosen] != 7)).mean() == pytest.approx(
        0.095, abs=0.01
    )
    assert set(np.unique(hidden)) == {MASK, *others}


def test_several_words_at_once():
    begins, eligible = np.ones(1000, bool), np.ones(1000, bool)
    runs = []
    for seed in range(5):
        chosen = choose_words(begins, eligible, 150, np.random.default_rng(seed), max_ngram=3)
        assert chosen.sum() == 150
        edges = np.flatnonzero(np.diff(np.concatenate([[0], chosen, [0]])))
        runs.append(np.mean(edges[1::2] - edges[::2]))
    # (1 + 2/2 + 3/3) / (1 + 1/2 + 1/3) = 18/11 words, and neighbours by chance
    assert 1.5 < np.mean(runs) < 2.1


def test_several_words_at_once_end_with_their_text():
    """In a packed row, [SEP] and [CLS] stand between the words of two texts."""
    eligible = np.tile([False, True, True, False], 20)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        chosen = choose_words(np.ones(80, bool), eligible, 30, rng, max_ngram=3)
        assert chosen.any() and not chosen[~eligible].any()


def test_a_word_that_is_too_long_is_hidden_in_part():
    eligible = np.array([False, *[True] * 6, False])
    begins = np.array([True, True, *[False] * 5, True])
    parts = set()
    for seed in range(40):
        chosen = choose_words(begins, eligible, 2, np.random.default_rng(seed))
        parts.add(tuple(np.flatnonzero(chosen).tolist()))
    assert parts == {(1, 2), (2, 3), (3, 4), (4, 5), (5, 6)}
    assert not choose_words(begins, eligible & False, 2, np.random.default_rng(0)).any()


def test_a_sentence_without_spaces_is_not_one_word():
    begins, eligible = np.arange(400) % 40 == 0, np.ones(400, bool)
    runs = []
    for seed in range(5):
        chosen = choose_words(begins, eligible, 60, np.random.default_rng(seed))
        assert chosen.sum() == 60
        runs.append((np.diff(np.concatenate([[0], chosen])) == 1).sum())
    assert min(runs) > 30  # of 60 tokens; in whole "words" it would be 2


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_a_vocabulary_without_marks_is_masked_everywhere(kind):
    """Each place as often as the others, and not the first tokens of each row."""
    tokens = [f"w{n}" for n in range(30)] if kind == "words" else list("一二三四五六七八九十")
    tokenizer = Tokenizer(vocabulary={t: i for i, t in enumerate([*SPECIAL, *tokens])})
    rng = np.random.default_rng(0)
    given = [" ".join(rng.choice(tokens, 20)) for _ in range(200)]
    batches = MaskedLanguageModelBatches(given, tokenizer, max_length=22, masked=0.2)
    chosen = np.concatenate([weights[:, 1:21] for _, _, weights in read(batches)])
    assert (chosen.sum(1) == 4).all()
    assert 0.1 < chosen.mean(0).min() and chosen.mean(0).max() < 0.3


@pytest.mark.parametrize(
    ("tokens", "begins"),
    [
        (["[PAD]", "so", "##me", ",", "##s"], [1, 1, 0, 1, 0]),
        (["[PAD]", "▁so", "me", ",", "▁", "s"], [1, 1, 0, 1, 1, 0]),
        (["[PAD]", "Ġso", "me", ",", "Ċ", "s"], [1, 1, 0, 1, 1, 0]),
        (["[PAD]", "▁so", "me", "東京", "ผม", "の"], [1, 1, 0, 1, 1, 1]),
        (["[PAD]", "so", "me", "東", "s"], [1, 1, 1, 1, 1]),
    ],
)
def test_what_begins_a_word(tokens, begins):
    class Known:
        vocab_size, vocabulary = len(tokens), {token: i for i, token in enumerate(tokens)}

    assert begins_words(Known).tolist() == [bool(each) for each in begins]


def test_masks_follow_from_seed_and_epoch(tokenizer):
    def make(seed=0):
        return MaskedLanguageModelBatches(
            texts(), tokenizer, 16, token_budget=64, masked=0.3, seed=seed
        )

    one, other = make(), make()
    first = read(one)
    assert len(first) > 3
    for index in reversed(range(len(other))):  # in whatever order
        np.testing.assert_array_equal(other[index][0]["token_ids"], first[index][0]["token_ids"])
    one.set_epoch(2)
    other.set_epoch(1)
    other.set_epoch(2)
    for a, b in zip(read(one), read(other), strict=True):
        np.testing.assert_array_equal(a[0]["token_ids"], b[0]["token_ids"])

    def chosen(batches):
        """Text -> the places to guess in it."""
        return {
            row.tobytes(): w.tolist()
            for _, t, ws in read(batches)
            for row, w in zip(t, ws, strict=True)
        }

    one.set_epoch(0)
    before = chosen(one)
    one.set_epoch(1)
    assert before.keys() == chosen(one).keys() and before != chosen(one)
    assert before != chosen(make(seed=1))


def test_places_to_guess_alone(tokenizer):
    full, few = (
        MaskedLanguageModelBatches(
            texts(), tokenizer, 16, masked=0.25, token_budget=64, positions=positions
        )
        for positions in (False, True)
    )
    for (inputs, targets, weights), (less, parts, counts) in zip(
        read(full), read(few), strict=True
    ):
        np.testing.assert_array_equal(inputs["token_ids"], less["token_ids"])
        places = less["masked_positions"]
        assert (
            places.shape == parts.shape == counts.shape == (len(targets), -(-targets.shape[1] // 4))
        )
        for row in range(len(targets)):
            kept = places[row][counts[row] > 0]
            np.testing.assert_array_equal(np.sort(kept), np.flatnonzero(weights[row]))
            np.testing.assert_array_equal(parts[row][counts[row] > 0], targets[row][kept])


def test_the_next_token_of_a_text_and_of_an_answer(tokenizer):
    inputs, targets, weights = CausalBatches(["a b c"], tokenizer, 8)[0]
    a, b, c = (WORDS.index(letter) for letter in "abc")
    assert inputs["token_ids"].tolist() == [[CLS, a, b, c, SEP, 0, 0, 0]]
    assert targets.tolist() == [[a, b, c, SEP, 0, 0, 0, 0]]
    assert weights.tolist() == [[1, 1, 1, 1, 0, 0, 0, 0]]
    inputs, targets, weights = CausalBatches([("a b", "c")], tokenizer, 8)[0]
    assert inputs["segment_ids"].tolist() == [[0, 0, 0, 0, 1, 1, 0, 0]]
    assert targets.tolist() == [[a, b, SEP, c, SEP, 0, 0, 0]]
    assert weights.tolist() == [[0, 0, 0, 1, 1, 0, 0, 0]]
    rows = CausalBatches(texts(), tokenizer, 12, token_budget=48)
    assert max(inputs["token_ids"].shape[1] for inputs, *_ in read(rows)) == 12


def documents(token_ids, position_ids):
    """The documents of a packed row without its padding, as a list of lists."""
    starts = np.flatnonzero(position_ids == 0)
    assert starts[0] == 0
    parts = np.split(token_ids, starts[1:])
    for part, ids in zip(parts, np.split(position_ids, starts[1:]), strict=True):
        np.testing.assert_array_equal(ids, np.arange(len(part)))
    return [part[part != PAD].tolist() for part in parts]


def test_packed_rows_hold_every_text_once_and_little_padding(tokenizer):
    given = texts(40)
    alone = TextBatches(pieces(given, tokenizer, 32), tokenizer=tokenizer, max_length=32)
    packed = MaskedLanguageModelBatches(
        given, tokenizer, 32, masked=0.3, token_budget=128, pack=True
    )
    assert packed.padding_share < 0.1
    found, last = [], {word: 0 for word in ("to guess", "all")}
    for inputs, targets, weights in read(packed):
        assert inputs["position_ids"].shape == targets.shape
        for row, ids, chosen in zip(targets, inputs["position_ids"], weights, strict=True):
            found += documents(row, ids)
            ends = np.flatnonzero(row == SEP) - 1  # the last word of each text is hidden, too
            last["all"] += len(ends)
            last["to guess"] += chosen[ends].sum()
    starts = alone._starts
    rows = [alone._tokens[a:b].tolist() for a, b in zip(starts, starts[1:], strict=False)]
    assert sorted(found) == sorted(rows)
    assert 0.15 < last["to guess"] / last["all"] < 0.45


def test_no_token_predicts_one_of_the_next_text(tokenizer):
    inputs, targets, weights = CausalBatches(["a b", "c", "d"], tokenizer, 10, pack=True)[0]
    a, b, c, d = (WORDS.index(letter) for letter in "abcd")
    assert inputs["token_ids"].tolist() == [[CLS, a, b, SEP, CLS, c, SEP, CLS, d, SEP]]
    assert inputs["position_ids"].tolist() == [[0, 1, 2, 3, 0, 1, 2, 0, 1, 2]]
    assert weights.tolist() == [[1, 1, 1, 0, 1, 1, 0, 1, 1, 0]]
    assert (targets == np.roll(inputs["token_ids"], -1))[weights > 0].all()
    pairs = [("a b", "c"), ("d", "a")]
    inputs, targets, weights = CausalBatches(pairs, tokenizer, 12, pack=True, pad_to=12)[0]
    assert inputs["segment_ids"].tolist() == [[0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0]]
    assert weights.tolist() == [[0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0]]
    assert inputs["position_ids"].tolist() == [[*range(6), *range(5), 5]]  # padding counts on


def test_rows_go_where_the_least_room_is_left():
    rng = np.random.default_rng(0)
    rows = [[7] * n for n in rng.integers(1, 40, 500)]
    packed = pack_rows(rows, 64)
    sizes = [len(ids) for ids, *_ in packed]
    assert max(sizes) <= 64 and sum(sizes) == sum(map(len, rows))
    assert len(packed) == -(-sum(sizes) // 64)  # none could be spared
    assert pack_rows([], 8) == []
    again = pack_rows(packed, 64)  # positions are kept
    assert sum(ids.count(0) for *_, ids in again) == len(rows)


def test_what_is_no_packed_row():
    with pytest.raises(ValueError, match="A row of 9 tokens does not fit into max_length=8"):
        pack_rows([[7] * 9], 8)
    row = ([7] * 9, [0] * 9, [*range(5), *range(4)])
    with pytest.raises(ValueError, match="Text 0 has position ids and 9 tokens, more than max_len"):
        TextBatches([row], max_length=8)
    with pytest.raises(ValueError, match="Text 0 has 9 token ids but 2 position ids"):
        TextBatches([(*row[:2], [0, 1])])
    with pytest.raises(ValueError, match="Text 0 has the position id -1"):
        TextBatches([(*row[:2], [-1] * 9)])
    both = TextBatches([row, [7, 8]], pad_to=1, max_shapes=1, shuffle=False)
    assert both[0]["position_ids"].tolist() == [[*range(9)], row[2]]


def test_errors(tokenizer):
    with pytest.raises(ValueError, match=r"The tokenizer has no mask token, \[MASK\] or <mask>"):
        words = {word: i for i, word in enumerate(SPECIAL[:4])}
        MaskedLanguageModelBatches(["a"], Tokenizer(vocabulary=words))
    with pytest.raises(
        ValueError, match="`masked` must be a number above 0 and below 1. Received: 1"
    ):
        MaskedLanguageModelBatches(["a"], tokenizer, masked=1)
    with pytest.raises(ValueError, match="`max_ngram` must be a positive integer. Received: 0"):
        MaskedLanguageModelBatches(["a"], tokenizer, max_ngram=0)
    with pytest.raises(
        ValueError, match="`max_length` must be .* at least 3: 2 are special tokens. Received: 2"
    ):
        CausalBatches(["a"], tokenizer, max_length=2)
    with pytest.raises(ValueError, match="The texts have no tokens to learn from"):
        CausalBatches([" "], tokenizer)
    with pytest.raises(TypeError, match="Text 0 is a int, not a str"):
        MaskedLanguageModelBatches([3], tokenizer)
