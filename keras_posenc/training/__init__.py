"""Training on long texts beyond `model.fit`: resumable fine-tuning, evaluation, schedules."""

from typing import TYPE_CHECKING

from keras_posenc.keras_support.lazy import names_on_request

if TYPE_CHECKING:
    from keras_posenc.metrics.answers import answer_f1, exact_match
    from keras_posenc.metrics.entities import entities, entity_scores
    from keras_posenc.metrics.scores import pearson, spearman
    from keras_posenc.training.averaging import average_checkpoints
    from keras_posenc.training.contextual.contextualize import Contextualized, contextualize
    from keras_posenc.training.contextual.pronouns import LANGUAGES, Language, Pronoun
    from keras_posenc.training.curriculum_batches import CurriculumBatches
    from keras_posenc.training.evaluate import evaluate, predict
    from keras_posenc.training.finetuning.answer import Answer
    from keras_posenc.training.finetuning.classify import Classify, Prediction
    from keras_posenc.training.finetuning.embed import Embed
    from keras_posenc.training.finetuning.finetune import finetune
    from keras_posenc.training.finetuning.multilabel import MultiLabel
    from keras_posenc.training.finetuning.regress import Regress
    from keras_posenc.training.finetuning.tag import Tag
    from keras_posenc.training.gradients import gradient
    from keras_posenc.training.optimizer import FusedAdamW, LayerwiseAdamW, adamw, rates_by_depth
    from keras_posenc.training.optimizer_settings import Optimizer
    from keras_posenc.training.prediction_table import predictions_table, write_predictions
    from keras_posenc.training.pretrain import pretrain
    from keras_posenc.training.saved_models import load_finetuned, load_text_model
    from keras_posenc.training.schedules import LinearWarmup, Noam, cosine_warmup
    from keras_posenc.training.source import Source
    from keras_posenc.training.stretching.stretch import Stretched, stretch
    from keras_posenc.training.summary import (
        contextual_summary,
        pretrain_summary,
        stretch_summary,
        summary,
        to_jsonl,
        to_tsv,
    )
    from keras_posenc.training.text_model import TextModel

__all__ = [
    "LANGUAGES", "Answer", "Classify", "Contextualized", "CurriculumBatches", "Embed", "FusedAdamW",
    "Language", "LayerwiseAdamW", "LinearWarmup", "MultiLabel", "Noam", "Optimizer", "Prediction",
    "Pronoun", "Regress", "Source", "Stretched", "Tag", "TextModel", "adamw", "answer_f1",
    "average_checkpoints", "contextual_summary", "contextualize", "cosine_warmup", "entities",
    "entity_scores", "evaluate", "exact_match", "finetune", "gradient", "load_finetuned",
    "load_text_model", "pearson", "predict", "predictions_table", "pretrain", "pretrain_summary",
    "rates_by_depth", "spearman", "stretch", "stretch_summary", "summary", "to_jsonl", "to_tsv",
    "write_predictions",
]  # fmt: skip

names_on_request(__name__)
