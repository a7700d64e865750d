"""No map is saved for the backward pass, whatever its size: counted, not measured."""

import keras
import laws
import pytest
from keras import ops

from keras_posenc import PositionalAttention

T, H, D = 48, 2, 4

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="torch tells what it keeps for the backward pass"
)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize(
    "encodings", [[], ["t5"], ["cope", "rotary"], ["sandwich"], ["shaw"]], ids=str
)
def test_a_small_map_is_formed_again_not_saved(encodings, dropout):
    import torch

    layer = PositionalAttention(H, D, encodings=encodings, dropout=dropout)
    x = ops.convert_to_tensor(laws.numbers(length=T)).requires_grad_()
    layer(x, x, use_causal_mask=True)  # builds it
    saved = []

    def noted(tensor):
        saved.append(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(noted, lambda tensor: tensor):
        layer(x, x, use_causal_mask=True, training=True)
    assert saved
    assert [shape for shape in saved if shape[-2:] == (T, T) and len(shape) > 3] == []
