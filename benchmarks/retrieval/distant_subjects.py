"""Libraries for distant_context.py about other subjects than one person by first name.

They are introduced by a surname, by a role or inside a sentence; they are companies or ships; there
are two of one sex; or someone is renamed.
"""

import dataclasses
import zlib

import numpy as np

from benchmarks.retrieval import distant_texts
from benchmarks.retrieval.distant_texts import APART, INTRODUCTIONS, JOBS, NAMES, RELATIONS

DISTANCE = 700  # tokens from the introduction to the first sentence about the subject
SURNAMES = (
    "Abbot Barlow Carver Dalton Everett Fenwick Gifford Harlow Ibsen Jarvis Kendall Lomax Merrick "
    "Norwood Osborne Prescott Quincy Radley Selwyn Thorpe Underhill Varley Whitmore Yardley"
).split()
FIRMS = (
    "Ashcombe Birkdale Cavendor Drayton Elmhurst Farleigh Grantley Hollis Ironbridge Kingsmead "
    "Larkfield Marlowe Northgate Oakhurst Penrose Ravenscar Silverdale Trelawney Wexford Yarrow"
).split()
SHIPS = (
    "Albatross Bonaventure Cormorant Daybreak Endurance Fortune Gannet Halcyon Intrepid Jubilee "
    "Leviathan Mermaid Nautilus Osprey Petrel Resolute Swallow Tempest Undaunted Victory"
).split()
OF_FIRMS = [
    ("Where does {} have its office now?", "{} now has its office {}.",
     ["by the harbour", "near the station", "on a farm", "in the old mill", "next to the church"]),
    ("What did {} buy?", "{} then bought {}.",
     ["a brewery", "two printing presses", "a coal mine", "a fleet of vans", "a rival"]),
    ("What does {} sell?", "{} mostly sells {}.",
     ["clocks", "boots", "paper", "glass", "soap"]),
    ("What did {} complain about?", "{} often complained about {}.",
     ["the taxes", "the roads", "the bank", "late deliveries", "the weather"]),
]  # fmt: skip
OF_SHIPS = [
    ("Where does the {} lie now?", "{} now lies {}.",
     ["in the harbour", "near the lighthouse", "off the cape", "in the river", "on a reef"]),
    ("What did the {} carry?", "{} then carried {}.",
     ["timber", "tea", "two hundred sheep", "salt", "letters"]),
    ("Where was the {} built?", "{} was built {}.",
     ["in Glasgow", "in Lisbon", "in Boston", "in Hamburg", "in Genoa"]),
    ("What did the {} lose?", "{} once lost {}.",
     ["an anchor", "the main mast", "the rudder", "six barrels", "a boat"]),
]  # fmt: skip
INSIDE_A_SENTENCE = [
    "On the way home they had met {name}, a {job}, who was walking to the town.",
    "When the rain stopped, a {job} called {name} came out of the house.",
    "Nobody in the village remembered when {name}, the {job}, had first come there.",
]
OF_A_FIRM = [
    "{name} is a company that was founded by a {job}.",
    "A {job} had founded {name}, a company in the north.",
    "There was a company called {name}, which belonged to a {job}.",
]
OF_A_SHIP = [
    "The {name} is a ship that belongs to a {job}.",
    "A {job} had bought the {name}, a ship with three masts.",
    "There was a ship called the {name}, which belonged to a {job}.",
]
OF_A_ROLE = [
    "There was a {name} whom everyone knew.",
    "At the end of the road lived a {name}.",
    "This is the story of a {name}.",
]
RENAMED = "From that day on, {pronoun} was no longer called {name}, but {new}."


@dataclasses.dataclass(frozen=True)
class Kind:
    """How the subject of a document is introduced, referred to and asked for.

    Attributes:
        introductions: list of str with {name}, and {job} if they have one.
        reference: str that stands for the subject in its sentences; None: its pronoun.
        relations: list, as `RELATIONS`.
        names: list of str; None: the first names of one sex.
        asked: str with {name} and {second}, what the query has.
        second: what comes between the introduction and the sentences: someone "other", of the
            other sex; someone of the "same" sex; a "new" name.
    """

    introductions: list = dataclasses.field(default_factory=lambda: INTRODUCTIONS)
    reference: str | None = None
    relations: list = dataclasses.field(default_factory=lambda: RELATIONS)
    names: list | None = None
    asked: str = "{name}"
    second: str = "other"


FULL_NAMES = {
    sex: [f"{first} {last}" for number in range(6) for first, last in
          zip(names.split(), np.roll(SURNAMES * 2, number), strict=False)]
    for sex, names in NAMES.items()
}  # fmt: skip
# Name of a library -> its kind.
KINDS = {
    "inside a sentence": Kind(INSIDE_A_SENTENCE),
    "by a surname": Kind(names=SURNAMES),
    "by a role, such as the baker": Kind(OF_A_ROLE, names=JOBS, asked="the {name}"),
    "a company, it": Kind(OF_A_FIRM, "It", OF_FIRMS, FIRMS),
    "a company, the company": Kind(OF_A_FIRM, "The company", OF_FIRMS, FIRMS),
    "a ship, it": Kind(OF_A_SHIP, "It", OF_SHIPS, SHIPS),
    "two of one sex, by the first": Kind(second="same"),
    "two of one sex, by the second": Kind(second="same", asked="{second}"),
    "renamed halfway, by the old name": Kind(second="new"),
    "renamed halfway, by the new name": Kind(second="new", asked="{second}"),
}
MANY = "200 documents"  # with a first name and a surname each, so that all are different


def library(tokenizer, name, seed, documents=16):
    """Documents with a subject in the first sentence, and someone else or a new name halfway.

    Args:
        name: a key of `KINDS`, or `MANY`.
    """
    kind = KINDS.get(name, Kind())
    if name == MANY:
        documents = 200
    texts = name.partition(", by ")[0]  # those of two names are the same
    rng = np.random.default_rng([seed, zlib.crc32(texts.encode()), documents])
    sexes = list(NAMES)[:: 1 if seed % 2 else -1]
    every = {sex: FULL_NAMES[sex] if name == MANY else NAMES[sex].split() for sex in NAMES}
    subjects = rng.permutation(kind.names or every[sexes[0]])
    seconds = rng.permutation(every[sexes[kind.second == "other"]])
    if kind.second != "other":  # of the same list
        seconds = np.roll(subjects, documents)
    found = distant_texts.Library.empty("document", "distance")
    filler = distant_texts.tales_of_filler(tokenizer)
    for number in range(documents):
        subject, second = str(subjects[number]), str(seconds[number])
        asked, events = kind.asked.format(name=subject, second=second), []
        opening = rng.choice(kind.introductions).format(name=subject, job=rng.choice(JOBS))
        later = rng.choice(INTRODUCTIONS).format(name=second, job=rng.choice(JOBS))
        if kind.second == "new":
            later = RENAMED.format(pronoun=sexes[0].lower(), name=subject, new=second)
        halfway = int(rng.uniform(0.3, 0.7) * DISTANCE)
        events += [(0, opening, subject, None), (halfway, later, second, None)]
        for step, relation in enumerate(rng.permutation(len(kind.relations))):
            question, sentence, objects = kind.relations[relation]
            sentence = sentence.format(kind.reference or sexes[0], rng.choice(objects))
            about = second if kind.asked == "{second}" else subject
            events.append((DISTANCE + step * APART, sentence, about, question.format(asked)))
        size = DISTANCE + (len(kind.relations) + 1) * APART
        sentences = distant_texts.filler_of(filler, number + seed * documents, size)
        distant_texts.add(found, tokenizer, *sentences, events)
    found.rank_by_relation()
    return found
