"""The output of each text, one at a time, and documents in the order of scores."""

import numpy as np

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.models.inputs import inputs_of
from keras_posenc.models.precision import lower_precision
from keras_posenc.text import TextBatches
from keras_posenc.text.shapes import longest_length, prepare_predictions, shape_options
from keras_posenc.training.finetuning.task import check_encoded
from keras_posenc.training.progress import BatchProgress


def predicted(model, texts, verbose="auto", **options):
    """Yields (output, number of the text), as soon as its batch has been computed.

    Outputs of several lengths, or too large for memory together, cannot come from `predict`.
    """
    numbers = list(range(len(texts)))
    batches = TextBatches(
        texts,
        numbers,
        classes=numbers,
        shuffle=False,
        fixed_shapes=longest_length(model, options.get("max_length")),
        **shape_options(model),
        **options,
    )
    prepare_predictions(model, batches, on_batch=True)
    progress = BatchProgress(batches, verbose)
    for step in range(len(batches)):
        inputs, numbers, *weights = batches[step]
        with lower_precision(model):
            outputs = model.predict_on_batch(inputs_of(model, inputs))
        if weights:  # 0 for rows that fill up the batch
            real = weights[0] > 0
            outputs, numbers = outputs[real], numbers[real]
        check_encoded(outputs)
        for part in backend.gather((outputs, numbers.tolist())):  # of each process
            yield from zip(*part, strict=True)
        progress.step()


def ranked(scores, top_k=None):
    """Orders documents by their scores, the best first, as dicts of `corpus_id` and `score`."""
    if top_k is not None:
        checks.whole("top_k", top_k)
    order = np.argsort(-check_encoded(scores), kind="stable")[:top_k]
    return [{"corpus_id": int(n), "score": float(scores[n])} for n in order]
