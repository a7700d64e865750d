"""Writes what version 0.4 stored in recipe.json: run it with the code of that version.

    git worktree add /tmp/before v0.4.0
    PYTHONPATH=/tmp/before python tests/references/make_records.py

Each file has the record and the call of version 0.5 with the same settings.
"""

import inspect
import json
import pathlib

from keras_posenc.training import finetune, pretrain, stretch
from keras_posenc.training.finetune_recipe import FinetuneRecipe
from keras_posenc.training.pretrain import PretrainRecipe
from keras_posenc.training.stretching.stretch_recipe import StretchRecipe

FOLDER = pathlib.Path(__file__).parent / "records"
RUN = "lengths=((512, 3),), longer='cut', stretch_first=None, extension='hierarchical', "
RUN += "token_budget=8192, dropout_rate=None, attention_dropout_rate=None, lora_rank=None, "
RUN += "freeze=None, metrics=None, callbacks=None, seed=0"
PRETRAIN = "max_length=128, epochs=1, steps=None, objective='mlm', masked=0.15, whole_words=True, "
PRETRAIN += "max_ngram=1, token_budget=4096, pack=False, dropout_rate=None, "
PRETRAIN += "attention_dropout_rate=None, extension='hierarchical', seed=0"
STRETCH = "max_length=2048, local=None, global_every=None, steps=64, "
STRETCH += "extension='hierarchical:0.2,kept_rows=1', train_length=2048, seed=0"
CASES = {
    "classify": (finetune, {}, f"checkpoint='bert', task='classify', optimizer='adamw', {RUN}"),
    "classify_lion": (
        finetune,
        {
            "model": "bert",
            "ignore": ["cls*"],
            "pooling": "cls",
            "head_dropout": 0.2,
            "class_weight": "balanced",
            "optimizer": "lion",
            "learning_rate": 3e-5,
            "schedule": "linear",
            "warmup": 0.0,
            "weight_decay": 0.1,
            "use_ema": True,
        },
        "checkpoint=Source('bert', model='bert', ignore=['cls*']), "
        "task=Classify(pooling='cls', head_dropout=0.2, class_weight='balanced'), "
        "optimizer=Optimizer('lion', 3e-5, 'linear', 0.0, 0.1, use_ema=True), " + RUN,
    ),
    "embed": (
        finetune,
        {"task": "embed", "loss": "cosent:10", "matryoshka": [8, 4], "query_prompt": "q: "},
        "checkpoint='bert', task=Embed(loss='cosent:10', matryoshka=[8, 4], query_prompt='q: '), "
        "optimizer='adamw', " + RUN,
    ),
    "tag": (finetune, {"task": "tag"}, f"checkpoint='bert', task='tag', optimizer=None, {RUN}"),
    "qa": (
        finetune,
        {"task": "qa", "stride": 64, "clip": None},
        f"checkpoint='bert', task=Answer(stride=64), optimizer='adamw:clip=none', {RUN}",
    ),
    "pretrain": (
        pretrain,
        {"length": 128, "learning_rate": 1e-4, "config": "config.json"},
        f"checkpoint=Source('bert', config='config.json'), optimizer='adamw:1e-4', {PRETRAIN}",
    ),
    "stretch": (
        stretch,
        {"keep": "features", "train_length": 2048, "learning_rate": 4e-5},
        f"checkpoint='bert', optimizer='adamw', log_n=None, {STRETCH}",
    ),
    "stretch_log_n": (
        stretch,
        {"keep": "features", "train_length": 2048, "learning_rate": 1e-5, "log_n": 128},
        f"checkpoint='bert', optimizer='adamw', log_n=128, {STRETCH}",
    ),
}
KINDS = {finetune: FinetuneRecipe, pretrain: PretrainRecipe, stretch: StretchRecipe}


def main():
    FOLDER.mkdir(exist_ok=True)
    for name, (function, changes, call) in CASES.items():
        parameters = inspect.signature(function).parameters
        arguments = {key: each.default for key, each in parameters.items()}
        more = {"lengths": ((512, 3),)} if function is finetune else {}
        recipe = KINDS[function].of({**arguments, "checkpoint": "bert", **changes}, **more)
        record = recipe.record(texts="0123456789abcdef")
        content = {"function": function.__name__, "call": call, "record": record}
        (FOLDER / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
