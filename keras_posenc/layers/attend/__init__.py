"""Softmax attention over a grid: the only place that knows what each backend is good at.

Shapes: q (B, Tq, H, D), k (B, Tk, H, D), v (B, Tk, H, Dv); logits and weights (B, H, Tq, Tk).
"""

from keras_posenc.layers.attend.choose import attend, forms_map
from keras_posenc.layers.attend.dropout import drop_weights
from keras_posenc.layers.attend.explicit import attend_explicitly

__all__ = ["attend", "attend_explicitly", "drop_weights", "forms_map"]
