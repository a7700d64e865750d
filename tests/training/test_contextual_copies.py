"""What contextual training makes of texts: names, words, and the copies that differ in them."""

import string

import numpy as np
import pytest
from contextual_texts import ENGLISH, OPENING, TEXTS, write_embedder

from keras_posenc import Tokenizer
from keras_posenc.training.contextual.batches import CopyBatches
from keras_posenc.training.contextual.copies import COPIES, PASSAGES, draw
from keras_posenc.training.contextual.corpus import Corpus
from keras_posenc.training.contextual.pronouns import language_of


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Folder of a random embedder of 64 positions, whose tokenizer knows the names."""
    return write_embedder(tmp_path_factory.mktemp("contextual"))


@pytest.mark.once
@pytest.mark.parametrize(("opening", "least", "most"), [(1.0, 40, 40), (0.0, 0, 20)])
def test_a_name_is_in_the_first_sentence_of_a_fraction(small, opening, least, most):
    corpus = Corpus(TEXTS, Tokenizer(small), ENGLISH, 500, 1.0, opening)
    drawn = [draw(corpus, np.random.default_rng(step)).texts for step in range(40)]
    assert least <= sum(len({copy[0] for copy in texts}) > 1 for texts in drawn) <= most


@pytest.mark.once
@pytest.mark.parametrize("names", [0.0, 1.0])
def test_copies_differ_in_what_stands_far_before_the_passages(small, names):
    corpus = Corpus(TEXTS, Tokenizer(small), ENGLISH, 126, names, OPENING)
    for step in range(30):
        copies = draw(corpus, np.random.default_rng(step))
        texts, passages = copies.texts, copies.passages
        assert len(texts) == len(copies.named) == COPIES and 1 <= len(passages) <= PASSAGES
        other = {i for i in range(len(texts[0])) if len({text[i] for text in texts}) > 1}
        # Two introductions at most, and the passages are the same in all copies.
        assert 1 <= len(other) <= 2 and max(other) < min(passages)
        for number, place in enumerate(passages):
            # Only the teacher's passages have the name, another one for each copy.
            assert len({named[number] for named in copies.named}) == COPIES
            assert texts[0][place] not in [named[number] for named in copies.named]
        counts = corpus.counts
        assert sum(len(text.split()) for text in texts[0]) <= 126 < sum(map(sum, counts))


@pytest.mark.once
def test_few_words_make_fewer_copies(small):
    tokenizer, rng = Tokenizer(small), np.random.default_rng(0)
    copies = draw(Corpus(TEXTS[:2], tokenizer, None, 126, 0.0, OPENING), rng)
    assert len(copies.texts) == len(copies.named) < COPIES
    batch = CopyBatches(tokenizer, 128, 700, skips=True, window=64)(copies, rng)
    assert batch.inputs["token_ids"].shape[0] == COPIES
    real = batch.real.reshape(COPIES, PASSAGES).sum(axis=1)
    assert real.tolist() == [len(copies.passages)] * len(copies.texts) + [0] * (
        COPIES - len(copies.texts)
    )


@pytest.mark.once
def test_one_long_text_is_compared_with_its_own_parts(small):
    tokenizer = Tokenizer(small)
    corpus = Corpus([" ".join(TEXTS * 8)], tokenizer, ENGLISH, 126, 1.0, OPENING)
    assert len(corpus.sentences) == round(sum(map(sum, corpus.counts)) / 2000) > 1
    assert corpus.summary().endswith("of 1 of 1 texts")
    assert draw(corpus, np.random.default_rng(0)).passages


SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
GERMAN = "Da ist die {0}. Die {0} gehört ihm. Er mag die {0}. Neben der {0} steht ein Baum."
CODE = "def {0}(x): return x + 1. y = {0}(2). print({0}(y)). Then {0} of y is called again."
TABLE = "No. | Name | Sum. 1 | {0} | 12. 2 | {0} | 4. 3 | {0} | 7. 4 | {0} | 9."


@pytest.mark.once
@pytest.mark.parametrize(
    ("template", "words", "language"),
    [
        (GERMAN, ("Mühle", "Scheune", "Brücke"), None),
        (CODE, ("compute", "measure", "collect"), None),
        (TABLE, ("Coffee", "Sugar", "Butter"), None),
        ("{0}很大。我们去{0}。{0}下雨了。他的{0}很好。", ("茶园", "学校", "工厂"), None),
    ],
)
def test_texts_without_pronouns_that_are_known_give_words(template, words, language):
    texts = [template.format(word) for word in words]
    assert language_of(texts) == language
    letters = sorted({*"".join(texts).lower(), *string.ascii_lowercase} - {" "})
    tokens = [*SPECIAL, *letters, *(f"##{letter}" for letter in letters)]
    tokenizer = Tokenizer(vocabulary={token: number for number, token in enumerate(tokens)})
    corpus = Corpus([*texts, " \n", ""], tokenizer, None, 500, 0.0, OPENING)
    assert corpus.names == [] and {each.word for each in corpus.words} >= {
        word.lower() for word in words
    }
    found = f"{len(corpus.words)} words of 3 of 5 texts, 2 of them empty"
    assert corpus.summary() == f"0 names and {found}"


@pytest.mark.once
@pytest.mark.parametrize("names", [0.0, 1.0])
def test_copies_differ_in_their_tokens(small, tmp_path, names):
    """Names and words that the tokenizer makes equal, or does not know, are one."""
    known = (small / "vocab.txt").read_text("utf-8").split("\n")
    unknown = {"Nora", "Hugo", "boots", "chairs", "Rita"}
    words = [word for word in known if word not in {each.lower() for each in unknown}]
    (tmp_path / "vocab.txt").write_text("\n".join(words), "utf-8")
    texts = [*TEXTS, TEXTS[0].replace("Ada", "Adá").replace("cheese", "chéese")]
    tokenizer = Tokenizer(tmp_path)
    corpus = Corpus(texts, tokenizer, ENGLISH, 126, names, OPENING)
    assert corpus.subjects
    for step in range(40):
        copies = draw(corpus, np.random.default_rng(step))
        tokens = [tokenizer.contents([" ".join(copy)])[0] for copy in copies.texts]
        assert len({tuple(each) for each in tokens}) == len(tokens) > 1
    # Where no two words differ in their tokens, there is nothing to learn from.
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n", "utf-8")
    assert not Corpus(texts, Tokenizer(tmp_path), ENGLISH, 126, names, OPENING).subjects
