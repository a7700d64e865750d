"""Text tasks: pieces of the file, train and test apart, what is hidden and what is told."""

import numpy as np
import pytest

from keras_posenc import Tokenizer, tasks

pytestmark = pytest.mark.once

ALPHABET = "abcdefgh äß漢\n"


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "text.txt"
    path.write_text("".join(rng.choice(list(ALPHABET), 900)) + "Z" * 100, encoding="utf-8")
    return path


def decode(path, rows):
    characters = np.array(sorted(set(path.read_text("utf-8"))))
    return ["".join(characters[row]) for row in rows]


def test_pieces_are_of_the_file_and_the_next_token_is_the_target(path):
    text = path.read_text("utf-8")
    task = tasks.get("language_model", corpus=path)
    tokens, targets, mask = task.sample(50, 30, seed=0)
    assert tokens.shape == targets.shape == mask.shape == (50, 30) and mask.all()
    assert {str(a.dtype) for a in (tokens, targets, mask)} == {"int32"}
    assert task.causal and task.input_size == task.classes == len(ALPHABET) + 1
    for first, rest in zip(decode(path, tokens), decode(path, targets[:, -1:]), strict=True):
        assert first + rest in text[:900]


def test_the_end_of_the_file_is_the_test_part(path):
    assert (
        decode(path, tasks.get("language_model", corpus=path, split="test").sample(3, 9, 0)[0])[0]
        == "Z" * 9
    )
    corpus = tasks.Corpus(path, test_share=0.25)
    assert (len(corpus.parts["train"]), len(corpus.parts["test"])) == (750, 250)
    assert corpus.parts["test"][-100:].tolist() == corpus.parts["test"][-1:].tolist() * 100


def test_every_start_is_drawn_and_the_last_token_too(tmp_path):
    path = tmp_path / "digits.txt"
    path.write_text("0123456789" + "x" * 9)
    task = tasks.get("language_model", corpus=tasks.Corpus(path, test_share=9 / 19))
    tokens, targets, _ = task.sample(2000, 4, seed=0)
    starts = np.bincount(tokens[:, 0], minlength=10) / 2000
    assert np.abs(starts[:6] - 1 / 6).max() < 0.04 and not starts[6:].any()
    assert targets.max() == 9


def test_masked_tokens_are_hidden_in_the_proportions_of_bert(path):
    task = tasks.get("masked_language_model", corpus=path, rate=0.2)
    tokens, targets, mask = task.sample(400, 50, seed=0)
    assert (mask.sum(1) == 10).all() and (tokens == targets)[mask == 0].all()
    assert (task.classes, task.vocabulary_size, task.mask_id) == (14, 15, 14)
    shown, right = tokens[mask == 1], targets[mask == 1]
    assert abs((shown == 14).mean() - 0.8) < 0.03
    # One in ten stays, and one random token in fourteen is the right one by luck.
    assert abs((shown == right).mean() - (0.1 + 0.1 / 14)) < 0.02
    assert targets.max() < 14 and abs(mask.mean(0) - 0.2).max() < 0.1
    assert (tasks.get("masked_language_model", corpus=path).sample(5, 2, 0)[2].sum(1) == 1).all()


def test_bytes_and_tokenizers(path):
    raw = tasks.Corpus(path, unit="bytes")
    assert np.concatenate(list(raw.parts.values())).astype("uint8").tobytes() == path.read_bytes()
    assert (raw.vocabulary_size, raw.mask_id) == (256, 256)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "long", "text"]
    tokenizer = Tokenizer(vocabulary={word: i for i, word in enumerate(words)})
    path.write_text("long text " * 30)
    corpus = tasks.Corpus(path, unit=tokenizer)
    assert np.concatenate(list(corpus.parts.values())).tolist() == [5, 6] * 30
    task = tasks.get("masked_language_model", corpus=corpus)
    assert (task.vocabulary_size, task.classes, task.mask_id) == (7, 7, 4)


def test_words_have_ids_by_frequency_in_the_training_part(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("A cat, a dog.\n" * 3 + "a cat! " + "A bird bird bird bird bird")
    corpus = tasks.Corpus(path, unit="words", test_share=6 / 30, most_words=3)
    # Of the first 24 tokens "a" is 7, "cat" 4, and "," the first of those that are 3.
    assert corpus.parts["train"].tolist() == [1, 2, 3, 1, 0, 0, 0] * 3 + [1, 2, 0]
    assert corpus.parts["test"].tolist() == [1, 0, 0, 0, 0, 0]
    assert (corpus.vocabulary_size, corpus.mask_id, corpus.chance) == (4, 4, 5 / 6)
    task = tasks.get("language_model", corpus=path, unit="words")
    assert task.classes == task.corpus.vocabulary_size == 9


@pytest.mark.parametrize("unit", ["characters", "bytes", "words"])
def test_a_directory_has_its_test_part_in_a_file(tmp_path, unit):
    (tmp_path / "train.txt").write_text("b a a b b ")
    (tmp_path / "test.txt").write_text("c b a b")
    corpus = tasks.Corpus(tmp_path, unit=unit)
    ids = {"characters": " abc", "bytes": map(chr, range(256)), "words": "?ba"}[unit]
    number = {one: i for i, one in enumerate(ids)}
    texts = {"train": "b a a b b ", "test": "c b a b"}
    for part, text in texts.items():
        units = text.split() if unit == "words" else text
        assert corpus.parts[part].tolist() == [number.get(one, 0) for one in units]


def test_chance_is_the_share_of_the_most_frequent_token(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("aab" * 30 + "ab" * 5)
    assert tasks.get("language_model", corpus=path).chance == 0.5


def slow_far_tokens(tokens, targets, distance):
    marks = []
    for row, last in zip(tokens.tolist(), targets[:, -1].tolist(), strict=True):
        text = [*row, last]
        marks.append([])
        for place in range(1, len(text)):
            near = text[max(place - distance + 1, 0) : place]
            far = text[: max(place - distance + 1, 0)]
            marks[-1].append(int(text[place] in far and text[place] not in near))
    return marks


@pytest.mark.parametrize("distance", [1, 3, 8])
def test_far_tokens_were_seen_far_back_and_not_nearby(path, distance):
    tokens, targets, _ = tasks.get("language_model", corpus=path).sample(20, 40, seed=0)
    found = tasks.far_tokens(tokens, targets, distance)
    assert found.tolist() == slow_far_tokens(tokens, targets, distance)
    assert found.any() and not found.all()


@pytest.mark.parametrize("name", ["language_model", "masked_language_model"])
def test_a_seed_means_one_batch(name, path):
    first, second = (tasks.get(name, corpus=path).sample(4, 20, (1, 2)) for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, second, strict=True))
    assert (tasks.get(name, corpus=path).sample(4, 20, (1, 3))[0] != first[0]).any()


def test_what_cannot_be_is_refused(path, tmp_path):
    task = tasks.get("language_model", corpus=path, split="test")
    with pytest.raises(ValueError, match="The test part has 100 tokens and 101 are wanted"):
        task.sample(1, 100, seed=0)
    with pytest.raises(ValueError, match="no rule continues a text"):
        task.solve([[0, 1]])
    with pytest.raises(ValueError, match="has no split 'dev': give 'train' or 'test'"):
        tasks.get("language_model", corpus=path, split="dev")
    with pytest.raises(ValueError, match="`rate` must be a number above 0 and at most 1"):
        tasks.get("masked_language_model", corpus=path, rate=0)
    with pytest.raises(ValueError, match="`test_share` must be a number above 0 and below 1"):
        tasks.Corpus(path, test_share=1)
    with pytest.raises(ValueError, match="`unit` must be 'characters', 'bytes', 'words' or a tok"):
        tasks.Corpus(path, unit="pages")
    with pytest.raises(ValueError, match="`most_words` must be a positive integer. Received: 0"):
        tasks.Corpus(path, unit="words", most_words=0)
    latin = tmp_path / "latin.txt"
    latin.write_bytes("aä".encode("latin-1") * 40)
    with pytest.raises(ValueError, match="is not UTF-8, byte 1: give unit='bytes'"):
        tasks.Corpus(latin)
    latin.write_text("abc")
    with pytest.raises(ValueError, match="its test part has 0 tokens: give a longer text"):
        tasks.Corpus(latin)
