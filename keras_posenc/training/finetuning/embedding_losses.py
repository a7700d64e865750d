"""The losses of `finetune(task="embed")`, by name: which fits which documents."""

import inspect

from keras_posenc.arguments import checks
from keras_posenc.losses.matryoshka import Matryoshka
from keras_posenc.losses.passages import PassageRanking
from keras_posenc.losses.ranking import ListwiseKL, MarginMSE
from keras_posenc.losses.similarity import (
    CoSENT,
    CosineRegression,
    MultipleNegativesRanking,
)

# Name -> the loss, and which documents it takes.
LOSSES = {
    "multiple_negatives_ranking": (MultipleNegativesRanking, "groups"),
    "cosine_regression": (CosineRegression, "pairs with a score"),
    "cosent": (CoSENT, "pairs with a score"),
    "passage_ranking": (PassageRanking, "passages of documents"),
    "margin_mse": (MarginMSE, "groups with a teacher's scores"),
    "listwise_kl": (ListwiseKL, "groups with a teacher's scores"),
}
SCALE = 20.0  # of cosines, where the recipe has none
MEAN = "mean_with_sample_weight"


def check_loss(loss):
    """The name and the scale (float or None) of `loss`, such as "cosent" or "cosent:10"."""
    name, colon, scale = loss.partition(":") if isinstance(loss, str) else (loss, "", "")
    checks.choice("loss", name, LOSSES)
    if not colon:
        return name, None
    try:
        scale = float(scale)
    except ValueError:
        pass
    remedy = f"give it as {name}:{SCALE:g}"
    if not _has_scale(name):
        raise ValueError(f"loss={loss!r}: {name} has no scale; give the name alone.")
    return name, checks.number(f"loss={name}:", scale, above=0, remedy=remedy)


def loss_of(kind, loss, dimensions, **more):
    """The `keras.losses.Loss` for documents of a kind; without a name, the first that fits."""
    fitting = [name for name, (_, takes) in LOSSES.items() if takes == kind]
    name, scale = (fitting[0], None) if loss is None else check_loss(loss)
    if name not in fitting:
        raise ValueError(
            f"loss={loss!r} is for {LOSSES[name][1]}, and train has {kind}: give "
            f"{' or '.join(fitting)}, or other documents."
        )
    options = {"scale": SCALE if scale is None else scale} if _has_scale(name) else {}
    found = LOSSES[name][0](**options, **more, reduction=MEAN)
    return found if dimensions is None else Matryoshka(found, dimensions, reduction=MEAN)


def _has_scale(name):
    return "scale" in inspect.signature(LOSSES[name][0]).parameters
