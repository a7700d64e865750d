"""The names in a corpus, and the pronouns that stand for them."""

import collections
import re

from keras_posenc.training.contextual.sentences import WORD

LEAST = 3  # times that a name stands in a text
# Of the words behind a name, how many may hold a pronoun that stands for it.
NEAR = 25


def names_in(corpus, language):
    """Finds the names of each text, and the pronoun of each name.

    A name is a capitalised word inside sentences that stands in a text three times or more, and
    hardly ever in lower case or behind an article. Its pronoun is that of the language's list of
    names, or the one that is frequent behind it. A name for which that is not clear is left out.

    Args:
        corpus: list with a list of sentences per text.
        language: `Language`.

    Returns:
        list of dicts per text, name -> `Pronoun`.
    """
    counts, lower, near = [], collections.Counter(), collections.defaultdict(collections.Counter)
    times, behind_article = collections.Counter(), collections.Counter()
    for sentences in corpus:
        counts.append(collections.Counter())
        for sentence in sentences:
            words = WORD.findall(sentence)
            lower.update(word for word in words if word[:1].islower())
            counts[-1].update(_inside(sentence))
    skip = {title.lower() for title in language.titles} | {"i"}
    skip |= {form for pronoun in language.pronouns for form in pronoun.forms}
    found = []
    for count in counts:
        found.append({
            name for name, times in count.items()
            if times >= LEAST and len(name) > 2 and name.isalpha() and name.lower() not in skip
            and lower[name.lower()] <= times // 10
        })  # fmt: skip
    for sentences, names in zip(corpus, found, strict=True):
        words = [WORD.findall(sentence) for sentence in sentences]
        flat = [word for some in words for word in some]
        for place, word in enumerate(flat):
            name = re.sub(f"{language.possessive}$", "", word)
            if name in names:
                near[name].update(each.lower() for each in flat[place + 1 : place + NEAR])
                times[name] += 1
                behind_article[name] += place > 0 and flat[place - 1].lower() in language.articles
    pronouns = {
        name: _pronoun(name, near[name], count, language)
        for name, count in times.items()
        if behind_article[name] <= count // 10
    }
    return [
        {name: pronouns[name] for name in sorted(names) if pronouns.get(name)} for names in found
    ]


def _inside(sentence):
    """The capitalised words of a sentence that do not begin it or a part of it in quotes."""
    for match in WORD.finditer(sentence):
        before = sentence[: match.start()].rstrip()
        if match[0][:1].isupper() and not match[0].isupper() and before[-1:].isalnum():
            yield re.sub("['’]s$", "", match[0])
        elif match[0][:1].isupper() and before.endswith(","):
            yield re.sub("['’]s$", "", match[0])


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


def name_pattern(name, language):
    """A regular expression of a name with its titles, and the ending of a possessive as group 1."""
    titles = "|".join(sorted(language.titles))
    return re.compile(
        rf"(?:\b(?:{titles})\.?\s+)*\b{re.escape(name)}(?!\w)({language.possessive})?"
    )


def without_name(sentence, pattern, pronoun, language):
    """A sentence in which a pronoun stands for a name."""

    def replace(match):
        before = sentence[: match.start()].rstrip()
        if match[1]:
            form = pronoun.possessive
        else:
            words = WORD.findall(before[-30:])
            is_object = bool(words) and words[-1].lower() in language.prepositions
            form = pronoun.object if is_object and before[-1:].isalpha() else pronoun.subject
        return form if before and before[-1] not in ".!?…\"“'‘" else form.capitalize()

    return pattern.sub(replace, sentence)
