"""Training on long texts beyond `model.fit`: resumable fine-tuning, evaluation, schedules."""

from keras_posenc.training.adamw import FusedAdamW
from keras_posenc.training.averaging import average_checkpoints
from keras_posenc.training.curricula import CurriculumBatches
from keras_posenc.training.evaluate import Prediction, evaluate, predict
from keras_posenc.training.finetune import finetune
from keras_posenc.training.gradients import gradient
from keras_posenc.training.losses import SmoothedSparseCategoricalCrossentropy
from keras_posenc.training.optimizer import LayerwiseAdamW, adamw, rates_by_depth
from keras_posenc.training.saved import FineTuned, load_finetuned
from keras_posenc.training.schedules import LinearWarmup, Noam, cosine_warmup
from keras_posenc.training.stretching import Stretched, stretch, stretch_summary
from keras_posenc.training.summary import summary, to_jsonl, to_tsv

__all__ = [
    "CurriculumBatches",
    "FineTuned",
    "FusedAdamW",
    "LayerwiseAdamW",
    "LinearWarmup",
    "Noam",
    "Prediction",
    "SmoothedSparseCategoricalCrossentropy",
    "Stretched",
    "adamw",
    "average_checkpoints",
    "cosine_warmup",
    "evaluate",
    "finetune",
    "gradient",
    "load_finetuned",
    "predict",
    "rates_by_depth",
    "stretch",
    "stretch_summary",
    "summary",
    "to_jsonl",
    "to_tsv",
]
