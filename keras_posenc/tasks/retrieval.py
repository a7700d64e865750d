"""Retrieval in which one sentence of a long document matters: passkeys and needles by length.

As in LongEmbed (https://arxiv.org/abs/2404.12096): each query asks for a fact that is in a single
document of the collection, so documents of any length can be made.
"""

import itertools
import re
import typing

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.tasks.long_texts import NAMES

SURNAMES = (
    "Abbott", "Barker", "Carver", "Dalton", "Ellis", "Fisher", "Gardner", "Hunter", "Ingram",
    "Jarvis", "Keller", "Lawson", "Mercer", "Norton", "Osborne", "Potter", "Ramsey", "Sawyer",
    "Turner", "Walker",
)  # fmt: skip
FILLER = (
    "The river is wide. The hills are far away. Some birds are singing. The wind comes and goes. "
    "It will be evening soon."
)
THINGS = (
    "violin", "telescope", "bicycle", "compass", "lantern", "kettle", "saddle", "umbrella",
    "typewriter", "ladder",
)  # fmt: skip
PLACES = (
    "behind the old mill", "under the kitchen floor", "in the bell tower", "at the ferry landing",
    "beside the orchard wall", "above the bakery", "inside the boat house", "near the north gate",
    "below the stone bridge", "in the attic of the school",
)  # fmt: skip


class Retrieval(typing.NamedTuple):
    """Queries and documents; the document of a query is the one at its place.

    `documents`: list of lists of token ids, without special tokens.

    Example:

    >>> Retrieval(["Who?"], [[5, 7]]).documents
    [[5, 7]]
    """

    queries: list
    documents: list


def passkeys(tokenizer, length, count, seed=0):
    """Makes documents that repeat a few sentences and contain one person's pass key.

    `length`: int. Tokens of a document, special tokens included. `count`: int. Documents, and
    queries. Returns `Retrieval`.

    Example:

    >>> from keras_posenc.text import Tokenizer
    >>> made = passkeys(Tokenizer("bert"), length=64, count=3)
    >>> len(made.queries), {len(ids) for ids in made.documents}
    (3, {62})
    """
    rng = np.random.default_rng((seed, 0))
    facts, queries = [], []
    for name in _drawn(itertools.product(NAMES, SURNAMES), count, rng):
        name, key = " ".join(name), rng.integers(10_000, 100_000)
        facts.append(f"The pass key of {name} is {key}. Remember it. {key} is the pass key.")
        queries.append(f"What is the pass key of {name}?")
    sentences = _sentences(tokenizer, FILLER)
    return Retrieval(queries, [_hidden(tokenizer, fact, sentences, length, rng) for fact in facts])


def needles(tokenizer, length, count, fillers, seed=0):
    """Makes documents of real text that state somewhere, in one sentence, where a thing is kept.

    `length`: int. Tokens of a document, special tokens included. `count`: int. Documents, and
    queries. `fillers`: list of str, real texts; a document begins at a sentence of one of them and
    goes on with others where it ends. Returns `Retrieval`.

    Example:

    >>> from keras_posenc.text import Tokenizer
    >>> made = needles(Tokenizer("bert"), 64, 3, ["w1 w2. w3 w4 w5.", "w6 w7."])
    >>> {len(ids) for ids in made.documents}
    {62}
    """
    rng = np.random.default_rng((seed, 1))
    facts, queries = [], []
    for thing, name in _drawn(itertools.product(THINGS, NAMES), count, rng):
        facts.append(f"{name} keeps the {thing} {rng.choice(PLACES)}.")
        queries.append(f"Where does {name} keep the {thing}?")
    sentences = [_sentences(tokenizer, text) for text in fillers]
    if not any(itertools.chain(*sentences)):
        raise ValueError(f"The {len(fillers)} fillers have no tokens: give texts.")
    documents = []
    for fact in facts:
        order = rng.permutation(len(sentences))
        start = rng.integers(0, max(1, len(sentences[order[0]])))
        parts = [sentences[order[0]][start:], *(sentences[i] for i in order[1:])]
        documents.append(_hidden(tokenizer, fact, sum(parts, []), length, rng))
    return Retrieval(queries, documents)


def _drawn(choices, count, rng):
    choices = list(choices)
    count = checks.whole("count", count, 1, len(choices), why="there are so many documents")
    return [choices[i] for i in rng.permutation(len(choices))[:count]]


def _sentences(tokenizer, text):
    return [ids for ids in tokenizer.contents(re.split(r"(?<=[.!?])\s+", text)) if ids]


def _hidden(tokenizer, fact, sentences, length, rng):
    """Sentences, over again where they end, with a fact between two of them."""
    fact = tokenizer.contents([fact])[0]
    room = length - tokenizer.special_tokens() - len(fact)
    if room < 0:
        raise ValueError(
            f"length={length}: what is to be found takes {len(fact)} tokens, so give at least "
            f"{length - room}."
        )
    starts, ids = [0], []
    for sentence in itertools.cycle(sentences):
        ids += sentence
        if len(ids) > room:
            break
        starts.append(len(ids))
    place = starts[rng.integers(len(starts))]
    return ids[:place] + fact + ids[place:room]
