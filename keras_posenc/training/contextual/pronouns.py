"""How languages refer to a name: the pronouns that stand for it in later sentences."""

import dataclasses

from keras_posenc.training.contextual.sentences import WORD

FREQUENT = 0.08  # of all words; English prose has twice as many


@dataclasses.dataclass(frozen=True)
class Pronoun:
    """The forms that stand for a name of one kind, such as those of women.

    Attributes:
        subject: str, such as "she".
        object: str, behind a preposition or a verb, such as "her".
        possessive: str, in place of "Ada's", such as "her".
        names: str. Names of this kind, separated by spaces. They replace those of a text, as other
            names of the corpus do.

    Example:

    >>> sorted(Pronoun("she", "her", "her").forms)
    ['her', 'she']
    """

    subject: str
    object: str
    possessive: str
    names: str = ""

    @property
    def forms(self):
        """All forms, as a set of str in lower case."""
        return {self.subject, self.object, self.possessive}


@dataclasses.dataclass(frozen=True)
class Language:
    """What is known of a language: its pronouns, and the words around a name.

    Attributes:
        pronouns: tuple of `Pronoun`. The pronoun of a name is the first one that is frequent
            after it, or the last one if none is.
        prepositions: frozenset of words in lower case. After them, a name is an object.
        titles: frozenset of words that belong to the name after them, such as "Mr".
        possessive: str, a regular expression of the ending of a possessive, such as "['’]s".
        articles: frozenset of words in lower case. No name follows them.
        joining: frozenset of words in lower case that stand inside longer names, such as "of".
        no_names: frozenset of capitalised words that are no names: months, days, peoples.
        behind_nouns: frozenset of words in lower case. If another word follows a name with an
            article, as in "the London road", the name describes it and is left out.

    Example:

    >>> forms = (("ella", "ella", "su"), ("él", "él", "su"), ("esto", "esto", "su"))
    >>> spanish = Language(
    ...     tuple(Pronoun(*each) for each in forms),
    ...     prepositions=frozenset("a con de en para por sin sobre".split()),
    ...     titles=frozenset(["Don", "Doña", "Señor", "Señora"]),
    ...     possessive="(?!)",  # Spanish has no ending of a possessive
    ... )
    >>> LANGUAGES["es"] = spanish
    >>> [pronoun.subject for pronoun in LANGUAGES.pop("es").pronouns]
    ['ella', 'él', 'esto']
    """

    pronouns: tuple
    prepositions: frozenset
    titles: frozenset
    possessive: str
    articles: frozenset = frozenset()
    joining: frozenset = frozenset()
    no_names: frozenset = frozenset()
    behind_nouns: frozenset = frozenset()


WOMEN = (
    "Abigail Alice Amanda Amelia Amy Andrea Angela Anna Anne Annie Audrey Barbara Beatrice Bella "
    "Bertha Bridget Caroline Catherine Cecily Charlotte Chloe Christine Cora Daphne Deborah "
    "Dorothy Eleanor Elizabeth Ella Ellen Elsie Emily Esther Eva Eve Evelyn Florence Frances "
    "Georgina Gertrude Hannah Harriet Hester Ida Isabel Ivy Jane Janet Jean Jennifer Jenny Jessica "
    "Jessie Josephine Joyce Julia June Katherine Lily Lisa Lottie Louise Lucy Lydia Mabel Margaret "
    "Maria Marion Mary Maud Mildred Molly Naomi Nell Nina Olive Olivia Patricia Penelope Philippa "
    "Phoebe Polly Rebecca Rosa Rose Ruth Sally Sandra Sara Sharon Sheila Sophia Stella Sybil "
    "Sylvia Teresa Thea Violet Virginia Winifred"
)
MEN = (
    "Alan Alec Alexander Alfred Andrew Anthony Archie Arthur Barnaby Basil Benjamin Bernard Bill "
    "Bob Brian Cecil Charles Christopher Clement Clive Cyril Dennis Derek Dick Donald Douglas "
    "Duncan Edmund Edward Ernest Evan Francis Fred Frederick Geoffrey Gerald Gilbert Gordon Graham "
    "Gregory Guy Harold Henry Herbert Horace Howard Hugh Humphrey Isaac James Jim Joe John "
    "Jonathan Joseph Julian Kenneth Laurence Lawrence Leonard Lionel Luke Malcolm Mark Matthew "
    "Maurice Michael Miles Nathan Neville Nicholas Nigel Oliver Owen Patrick Paul Percy Raymond "
    "Reginald Richard Roger Roland Ronald Rupert Samuel Sidney Stanley Stephen Thomas Timothy "
    "Toby Vincent Wilfred William"
)
NO_NAMES = (
    "January February March April May June July August September October November December Monday "
    "Tuesday Wednesday Thursday Friday Saturday Sunday Christmas Easter Sabbath African Africans "
    "American Americans Arab Arabs Asian Asians Australian Australians Austrian Austrians Baptist "
    "Belgian Brazilian British Briton Britons Buddhist Canadian Canadians Catholic Catholics "
    "Chinese Christian Christians Cuban Cubans Dane Danes Danish Dutch Egyptian Egyptians English "
    "Englishman Englishmen European Europeans Filipino Filipinos Finnish French Frenchman "
    "Frenchmen German Germans Greek Greeks Hebrew Hindu Hindus Hungarian Indian Indians Iranian "
    "Iraqi Iraqis Irish Irishman Islamic Israeli Israelis Italian Italians Japanese Jew Jewish "
    "Jews Korean Koreans Latin Mexican Mexicans Mormon Moslem Muslim Muslims Norwegian "
    "Palestinian Persian Polish Portuguese Protestant Protestants Roman Romans Russian Russians "
    "Scot Scots Scottish Scotch Spaniard Spaniards Spanish Swedish Swiss Syrian Turk Turkish "
    "Turks Vietnamese Welsh"
)
ENGLISH = Language(
    pronouns=(
        Pronoun("she", "her", "her", WOMEN),
        Pronoun("he", "him", "his", MEN),
        Pronoun("it", "it", "its", "Arden Brindle Castor Dunmore Elstree Fairfax Garland Hexham "
                "Ingram Juniper Kestrel Lowell Meridian Norfolk Orion Pembroke Quill Redmond "
                "Sterling Tamar"),
    ),
    prepositions=frozenset(
        "about after against among around at before behind beside between beyond by for from in "
        "into like near of off on onto over past round than through to toward towards under upon "
        "with without".split()
    ),
    titles=frozenset("Admiral Aunt Baron Bishop Captain Colonel Count Doctor Dr Duke Emperor "
                     "Father General Governor Judge King Lady Lieutenant Lord Madam Madame Major "
                     "Miss Mister Mother Mr Mrs Ms Pope President Prince Princess Professor Queen "
                     "Senator Sergeant Sir Uncle".split()),
    possessive="['’]s",
    articles=frozenset("a an any each every no some that the these this those".split()),
    joining=frozenset(["of"]),
    no_names=frozenset(NO_NAMES.split()),
    behind_nouns=frozenset(
        "also and are as be but can could did do does had has have if is may might must never no "
        "not now often or shall should so than that then there this was were when where which "
        "while who whom whose will would".split()
    ),
)  # fmt: skip
LANGUAGES = {"en": ENGLISH}


def language_of(corpus):
    """The key of `LANGUAGES` whose pronouns and prepositions are frequent in a corpus, or None."""
    words = [word.lower() for text in corpus for word in WORD.findall(text[:20_000])]
    fractions = {}
    for name, language in LANGUAGES.items():
        forms = {form for pronoun in language.pronouns for form in pronoun.forms}
        known = forms | language.prepositions
        fractions[name] = sum(word in known for word in words) / max(1, len(words))
    best = max(fractions, key=fractions.get)
    return best if fractions[best] >= FREQUENT else None
