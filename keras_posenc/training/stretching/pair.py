"""The teacher and the student of a training without labels, and the files that it saves."""

import dataclasses

from keras_posenc.checkpoints import save_checkpoint
from keras_posenc.folders.written import write_files
from keras_posenc.models.config import RATES
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.models.heads_in import heads_in


class Pair:
    """A checkpoint's encoder as it is, the teacher, and with the positions that a recipe gives it,
    the student, which takes position ids if it `skips` some."""

    def __init__(self, recipe, source, old, teacher, skips=False):
        weights, options = source.open_weights(), recipe.options(old)
        build = dict(config_path=old, model=source.model, **dict.fromkeys(RATES, 0.0))
        load = dict(checkpoint_path=weights, ignore=source.ignore)
        self.teacher = build_transformer_model(**load, **build, **teacher)
        # The checkpoint's heads come along as they are; what learns is the encoder under them.
        self._whole = build_transformer_model(
            **load,
            return_keras_model=False,
            **heads_in(weights, source.model, old),
            **build,
            **options,
        )
        self.student = build_transformer_model(
            layers=self._whole.layers,
            custom_position_ids=skips,
            **build,
            **options,
        )
        self._rates = {name: getattr(old, name) for name in RATES}

    def save(self, folder, positions, tokenizer, other_files):
        """Writes the student's checkpoint, all positions as rows, with the original dropout rates,
        and what belongs to it: its tokenizer and other files, a dict path -> bytes."""
        self._whole.config = dataclasses.replace(self._whole.config, **self._rates)
        save_checkpoint(self._whole, folder, positions=positions)
        tokenizer.save(folder)
        write_files(folder, other_files)
