"""Which words of a corpus are names, and the pronouns that stand for them."""

import dataclasses

import pytest
from contextual_texts import ENGLISH, PEOPLE, TEXTS

from keras_posenc.training.contextual.copies import in_place
from keras_posenc.training.contextual.names import name_pattern, names_in, without_name
from keras_posenc.training.contextual.sentences import sentences_of

SHE, HE, IT = ENGLISH.pronouns


@pytest.mark.once
def test_names_are_found_with_the_pronouns_behind_them():
    found = names_in([sentences_of(text) for text in TEXTS], ENGLISH)
    expected = {name: {"she": SHE, "he": HE}[p] for name, p, *_ in PEOPLE}
    assert {name: pronoun for names in found for name, pronoun in names.items()} == expected
    # Written in lower case, too, it is a word; a title or a month of few uses is no name.
    assert names_in([["We saw May there, may be.", "In May.", "Of May or may, May."]], ENGLISH) == [
        {}
    ]


@pytest.mark.once
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Ada went home.", "She went home."),
        ("Then Ada's sister sang.", "Then her sister sang."),
        ("I spoke with Ada about it.", "I spoke with her about it."),
        ("Mrs. Ada and Adam met Mrs Ada.", "She and Adam met she."),
        ("“Ada,” we said.", "“She,” we said."),
        # Where it describes a noun, it is left out.
        ("A fire burned on the Ada border.", "A fire burned on the border."),
        ("The Ada road and an old Ada.", "The road and an old she."),
        ("We saw the Ada.", "We saw she."),
        (
            "We knew that Ada came. After that Ada rarely sang.",
            "We knew that she came. After that she rarely sang.",
        ),
        ("The Ada was there, with the Ada in the rain.", "She was there, with her in the rain."),
        ("Then the Ada's mast broke.", "Then her mast broke."),
    ],
)
def test_a_pronoun_stands_for_a_name(before, after):
    assert without_name(before, name_pattern("Ada", ENGLISH), SHE, ENGLISH) == after


@pytest.mark.once
def test_a_language_without_articles_and_titles():
    plain = dataclasses.replace(ENGLISH, articles=frozenset(), titles=frozenset())
    pattern = name_pattern("Ada", plain, {"Ada Byron"})
    assert without_name("Then Ada met Ada Byron.", pattern, SHE, plain) == "Then she met she."


@pytest.mark.once
def test_an_article_stays_before_another_name():
    pattern, text = name_pattern("Ada", ENGLISH), "The Ada road, and Mrs. Ada's."
    replaced = pattern.sub(lambda match: in_place(match, "orion"), text)
    assert replaced == "The Orion road, and Orion's."


@pytest.mark.once
def test_a_name_without_one_clear_pronoun_is_none():
    def found(*sentences):
        return names_in([list(sentences)], ENGLISH)[0]

    # A word behind an article is no name, whatever its pronouns.
    assert found(*["Near the Scarecrow he sat, and he saw him."] * 3) == {}
    assert found(*["Near old Scarecrow he sat, and he saw him."] * 3) == {"Scarecrow": HE}
    # A listed name has the pronoun of its list, where the text has others.
    assert found(*["I saw Alice, and he saw him, and he left."] * 3) == {"Alice": SHE}
    assert found(*["I saw Xanthe, and he saw her, and she saw him."] * 3) == {}
    assert found(*["We went to Xanthe in spring."] * 3) == {"Xanthe": IT}


@pytest.mark.once
def test_a_part_of_a_longer_name_is_none():
    """Words in a row, or joined by "of", are one name, wherever it stands in the corpus."""
    one = (
        "We met Ada in the morning. Later Ada wrote to the Congress of the United States, and she "
        "asked the House of Representatives for a loan. In November the Bank of the United States "
        "paid, and Ada was glad. The House of Representatives met in November, and she smiled."
    )
    found = names_in([sentences_of(one)] * 3, ENGLISH)
    assert [set(names) for names in found] == [{"Ada"}] * 3
    # So it is counted in further texts, such as those that are held out.
    text = sentences_of("We like Norland. He went to Norland. I know Norland well. So it is.")
    assert names_in([text], ENGLISH)[0] == {"Norland": IT}
    longer = [[f"We like {kind} Norland." for kind in ("Grand", "New", "Great", "Old")] * 3]
    found = names_in([text], ENGLISH, longer)
    assert found == [{}] and found.left_out == {"part of a longer name": 1}
    assert names_in([text, *longer], ENGLISH) == [{}, {}]


@pytest.mark.once
@pytest.mark.parametrize("word", ["November", "Sunday", "Catholic", "Germans", "General"])
def test_months_days_peoples_and_titles_are_no_names(word):
    found = names_in([[f"It was {word} again, and we liked {word} then."] * 3], ENGLISH)
    assert found == [{}] and found.left_out == {"month, day, people or title": 1}


@pytest.mark.once
def test_words_that_are_no_names_are_counted_by_reason():
    sentences = [
        "Near the Scarecrow he sat.",
        "We met Xanthe, and he saw her.",
        "There was May, or may be.",
    ]
    left_out = names_in([sentences * 3], ENGLISH).left_out
    assert left_out == {
        "behind an article": 1, "without one clear pronoun": 1, "also in lower case": 1,
    }  # fmt: skip


@pytest.mark.once
def test_a_longer_name_is_exchanged_and_replaced_as_a_whole():
    text = "I saw Ada. Then Ada Byron of Lovelace left. The House of Ada is big, said Mrs. Ada."
    found = names_in(
        [sentences_of(text + " We met Ada, and Ada slept, and Ada ate, said Ada.")], ENGLISH
    )
    pattern = name_pattern("Ada", ENGLISH, found.longer["Ada"])
    assert without_name(text, pattern, SHE, ENGLISH) == (
        "I saw she. Then she left. She is big, said she."
    )
    assert pattern.sub("Otto", text) == "I saw Otto. Then Otto left. Otto is big, said Otto."
