"""Writes a BERT encoder of random weights as an ONNX file; onnxruntime fuses it when it reads it.

build/peers/transformers/bin/python -m benchmarks.steps.export_onnx minilm build/peers/minilm.onnx
"""

import sys

import torch
from transformers import BertConfig, BertModel

from benchmarks.steps import libraries, rows


def main():
    model, path = sys.argv[1:]
    task = libraries.Task(rows.NAMES["onnxruntime"], "forward", model, 2, 16, 0.1)
    config = BertConfig(**task.config(positions=max(length for _, length in rows.SHAPES)))
    encoder = BertModel(config, add_pooling_layer=False).eval()
    encoder.config.return_dict = False
    ids = torch.from_numpy(task.arrays()[0].astype("int64"))
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    program = torch.onnx.export(
        encoder,
        (ids, torch.ones_like(ids)),
        input_names=["input_ids", "attention_mask"],
        output_names=["features"],
        dynamic_shapes={"input_ids": axes, "attention_mask": axes},
        dynamo=True,
    )
    program.save(path, external_data=False)


if __name__ == "__main__":
    main()
