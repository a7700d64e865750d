"""The names in a corpus, and the pronouns that stand for them."""

import collections
import dataclasses
import re

from keras_posenc.training.contextual.sentences import WORD

LEAST = 3  # times that a name stands in a text
# Of the words behind a name, how many may hold a pronoun that stands for it.
NEAR = 25
ALONE = 2 / 3  # of a name's occurrences, at least, are in no longer name
# Why a capitalised word that a text repeats is no name.
LOWER = "also in lower case"
LISTED = "month, day, people or title"
LONGER = "part of a longer name"
ARTICLE = "behind an article"
UNCLEAR = "without one clear pronoun"


class Names(list):
    """A dict name -> `Pronoun` per text.

    `longer`: dict, name -> set of longer names that it is part of, such as "Ada Lovelace".
    `left_out`: `Counter`, reason -> number of repeated capitalised words that are no names.
    """

    def __init__(self, texts, longer, left_out):
        super().__init__(texts)
        self.longer, self.left_out = longer, left_out


def names_in(corpus, language, others=()):
    """Finds the names of each text, and the pronoun of each name.

    A name is a capitalised word inside sentences that stands in a text three times or more, and
    hardly ever in lower case or behind an article. Capitalised words in a row, or joined by a word
    such as "of", are one longer name: a word that often stands in such is no name itself. The
    pronoun of a name is that of the language's list of names, or the one that is frequent behind
    it. A name for which that is not clear is left out, and so are months, days, peoples and titles.

    The words of `others` are counted as well.
    """
    every = [[_words(sentence, language) for sentence in text] for text in (*corpus, *others)]
    flat = [[word for words in text for word in words] for text in every]
    lower = collections.Counter(w.text for text in flat for w in text if w.text[:1].islower())
    inside = [collections.Counter(w.name for w in text if w.inside) for text in flat]
    capital = sum(inside, collections.Counter())
    skip = {"i"} | {form for pronoun in language.pronouns for form in pronoun.forms}
    candidates = [
        {
            name for name, times in some.items()
            if times >= LEAST and len(name) > 2 and name.isalpha() and name.lower() not in skip
        }
        for some in inside
    ]  # fmt: skip
    uses = _Uses(language, lower, capital, skip)
    for sentences, text, names in zip(every, flat, candidates, strict=True):
        for words in sentences:
            uses.add(words)
        uses.add_near(text, names)
    here = sorted(set().union(*candidates[: len(corpus)]))
    judged = {name: uses.judge(name) for name in here}
    reasons = collections.Counter(each for each in judged.values() if isinstance(each, str))
    return Names(
        [
            {name: judged[name] for name in sorted(names) if not isinstance(judged[name], str)}
            for names in candidates[: len(corpus)]
        ],
        uses.longer,
        reasons,
    )


@dataclasses.dataclass(frozen=True)
class _Word:
    """A word of a sentence."""

    text: str
    name: str  # the text without the ending of a possessive
    between: str  # what stands between the word before and it
    # Whether it is capitalised, and begins neither the sentence nor a part of it in quotes.
    inside: bool

    @property
    def capital(self):
        return self.text[:1].isupper()


def _words(sentence, language):
    found, end = [], 0
    for match in WORD.finditer(sentence):
        text, before = match[0], sentence[: match.start()].rstrip()
        inside = text[:1].isupper() and (
            before.endswith(",") or (before[-1:].isalnum() and not text.isupper())
        )
        name = re.sub(f"{language.possessive}$", "", text)
        found.append(_Word(text, name, sentence[end : match.start()], inside))
        end = match.end()
    return found


class _Uses:
    """How capitalised words are used in a corpus: alone, in longer names, behind articles."""

    def __init__(self, language, lower, capital, skip):
        self.language, self.lower, self.capital, self.skip = language, lower, capital, skip
        self.times, self.alone = collections.Counter(), collections.Counter()
        self.behind_article = collections.Counter()
        self.longer = collections.defaultdict(set)
        self.near = collections.defaultdict(collections.Counter)

    def add(self, words):
        """Counts the names of a sentence."""
        place = 0
        while place < len(words):
            run = self._run(words, place)
            parts = [words[i] for i in run if words[i].capital]
            text = "".join(words[i].between + words[i].name for i in run).strip()
            for part in parts:
                self.times[part.name] += 1
                if len(parts) > 1:
                    self.longer[part.name].add(text)
                else:
                    self.alone[part.name] += 1
                    before = words[run[0] - 1].text.lower() if run[0] else ""
                    self.behind_article[part.name] += before in self.language.articles
            place = max(place, *run) + 1 if run else place + 1

    def _run(self, words, first):
        """The places of the words of one name, which begins there; none if none does."""
        if not self._is_part(words[first]):
            return []
        run, place = [first], first + 1
        while place < len(words) and words[run[-1]].text == words[run[-1]].name:
            # Words in lower case that may stand within a name, such as "of the".
            end = place
            while end - place < 2 and end < len(words) and self._joins(words[end], end == place):
                end += 1
            title = words[run[-1]].text in self.language.titles
            between = [word.between for word in words[place : end + 1]]
            if title:
                between[0] = between[0].removeprefix(".")
            if end == len(words) or not self._is_part(words[end]) or any(map(str.strip, between)):
                break
            if title and end == place and len(run) == 1:
                run = []
            run += range(place, end + 1)
            place = end + 1
        return run

    def _joins(self, word, is_first):
        return word.text in (self.language.joining if is_first else self.language.articles)

    def _is_part(self, word):
        if not word.capital or word.text.lower() in self.skip:
            return False
        return word.inside or self.capital[word.name] > self.lower[word.text.lower()]

    def add_near(self, words, names):
        """Counts the words behind the names of a text."""
        for place, word in enumerate(words):
            if word.name in names:
                behind = words[place + 1 : place + NEAR]
                self.near[word.name].update(each.text.lower() for each in behind)

    def judge(self, name):
        """The `Pronoun` of a name, or the reason why the word is none."""
        if self.lower[name.lower()] > self.capital[name] // 10:
            return LOWER
        if name in self.language.titles | self.language.no_names:
            return LISTED
        if self.alone[name] < ALONE * self.times[name]:
            return LONGER
        if self.behind_article[name] > self.times[name] // 10:
            return ARTICLE
        return _pronoun(name, self.near[name], self.times[name], self.language) or UNCLEAR


def _pronoun(name, near, times, language):
    """The pronoun of a name, by the list of names or how often each form stands behind it; None if
    several are frequent."""
    for pronoun in language.pronouns:
        if name in pronoun.names.split():
            return pronoun
    *persons, thing = language.pronouns
    scores = [sum(near[form] for form in pronoun.forms) for pronoun in persons]
    best = max(range(len(persons)), key=scores.__getitem__)
    rest = sum(scores) - scores[best]
    if scores[best] >= max(3, 2 * rest):
        return persons[best]
    return thing if sum(scores) <= times // 2 else None


def name_pattern(name, language, longer=()):
    """A regular expression of a name with its titles, and with the groups `article`, which stands
    before it, and `ending`, that of a possessive.

    The `longer` names that it is part of match as a whole, with an article that is in no group.
    """
    article = rf"(?i:{_one_of(language.articles)})\s+"
    # "that" before a name is mostly no article.
    before = rf"(?P<article>(?i:{_one_of(language.articles - language.behind_nouns)})\s+)?"
    name = re.escape(name)
    if longer:
        longest = "|".join(map(re.escape, sorted(longer, key=lambda each: (-len(each), each))))
        before, name = rf"(?:{article}(?={longest})|{before})", rf"(?:{longest}|{name})"
    titles = rf"(?:\b(?:{_one_of(language.titles)})\.?\s+)*"
    return re.compile(rf"\b{before}{titles}\b{name}(?!\w)(?P<ending>{language.possessive})?")


def _one_of(words):
    return "|".join(map(re.escape, sorted(words))) or "(?!)"


def without_name(sentence, pattern, pronoun, language):
    """A sentence in which a pronoun stands for a name, and for an article before it.

    Where the name describes a noun, as in "the London road", it is left out.
    """
    no_nouns = language.behind_nouns | language.prepositions

    def replace(match):
        before = sentence[: match.start()].rstrip()
        behind = WORD.match(sentence[match.end() :].removeprefix(" "))
        if match["article"] and not match["ending"] and behind:
            if behind[0].islower() and behind[0] not in no_nouns:
                return match["article"].rstrip()
        if match["ending"]:
            form = pronoun.possessive
        else:
            words = WORD.findall(before[-30:])
            is_object = bool(words) and words[-1].lower() in language.prepositions
            form = pronoun.object if is_object and before[-1:].isalpha() else pronoun.subject
        return capital(form) if begins_sentence(match) else form

    return pattern.sub(replace, sentence)


def begins_sentence(match):
    """Whether nothing, the end of a sentence or a quote stands before a match."""
    before = match.string[: match.start()].rstrip()
    return not before or before[-1] in ".!?…\"“'‘"


def capital(name):
    """A name with a capital letter."""
    return name[:1].upper() + name[1:]
