"""The rivals of a long model: regressions on features, counted words; and what an interval carries.

A way of telling is scored on units that are drawn independently (documents, episodes), each with
the share of what was asked of it that was told right. Seeds are averaged within a unit, so that an
interval is that of the mean over units, and two ways are compared on the same units.
"""

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.shared.intervals import paired

# A model, and what of it is chosen by the accuracy on the validation part.
FEATURES = (
    make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
    {"logisticregression__C": [1e-4, 1e-3, 1e-2, 1e-1, 1.0]},
)
TFIDF = (
    make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(max_iter=300)),
    {"logisticregression__C": [1.0, 10.0, 100.0, 1000.0]},
)
BAYES = (
    make_pipeline(CountVectorizer(), MultinomialNB()),
    {"multinomialnb__alpha": [0.01, 0.03, 0.1, 0.3, 1.0]},
)


def fitted(rival, x, labels, validation):
    """`FEATURES`, `TFIDF` or `BAYES` fitted to x, its strength chosen by validation.

    Args:
        rival: one of the three.
        x: features (N, D), or a list of str.
        labels: list of N labels.
        validation: what `GridSearchCV` takes as `cv`.
    """
    model, grid = rival
    return GridSearchCV(model, grid, scoring="accuracy", cv=validation).fit(x, labels)


def table(scores, first):
    """A row a way: accuracy, and what it has more than the way `first`."""
    lines = [f"| | accuracy | more than {first} |", "|---|---|---|"]
    for way, values in scores.items():
        row = paired(values, scores[first])
        more = "" if way == first else f"{100 * row['more']:+.1f} ± {100 * row['more_half']:.1f}"
        lines.append(f"| {way} | {row['accuracy']:.1%} ± {100 * row['half']:.1f} | {more} |")
    return "\n".join(lines)


def compared(scores, one, others):
    """The difference between `one` and the best of `others`, with a verdict, as a sentence."""
    found = _difference(scores, one, others)
    return "{} against {}: {} points, {}.".format(*found) if found else ""


def comparisons(scores, pairs):
    """`compared` for several pairs of (one, others), as a table."""
    found = [row for pair in pairs if (row := _difference(scores, *pair))]
    rows = [f"| {one} against {best} | {more} | {what} |" for one, best, more, what in found]
    return "\n".join(["| comparison | points | verdict |", "|---|---|---|", *rows])


def _difference(scores, one, others):
    """`one`, the best of `others`, the difference in points and the verdict; or None."""
    mean = {way: np.mean(scores[way]) for way in others if way in scores}
    if one not in scores or not mean:
        return None
    best = max(mean, key=mean.get)
    row = paired(scores[one], scores[best])
    more, half = 100 * row["more"], 100 * row["more_half"]
    what = "no significant difference" if abs(more) <= half else "better" if more > 0 else "worse"
    return one, best, f"{more:+.1f} ± {half:.1f}", what
