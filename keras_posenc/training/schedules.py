"""Learning-rate schedules with warm-up."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_posenc")
class LinearWarmup(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up to the peak, then linear decay to zero: BERT's schedule.

    rate(t) = peak * min((t + 1) / (w + 1), (T - t) / (T - w)), with w warm-up steps of T. No step
    has rate 0: the first has peak / (w + 1), the last peak / (T - w).

    Args:
        peak: float. The highest rate, reached at step `warmup_steps`.
        total_steps: int. T, all steps of the training.
        warmup_steps: int. w, less than `total_steps`.

    Call arguments:
        step: int or scalar tensor, from 0.

    Returns:
        The learning rate, a float32 scalar.

    Example:

    >>> [round(float(LinearWarmup(1.0, 6, 2)(step)), 2) for step in range(7)]
    [0.33, 0.67, 1.0, 0.75, 0.5, 0.25, 0.0]

    Reference: [BERT](https://arxiv.org/abs/1810.04805), appendix A.2.
    """

    def __init__(self, peak, total_steps, warmup_steps=0):
        super().__init__()
        _check(total_steps, warmup_steps)
        self.peak = peak
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rise = (step + 1) / (self.warmup_steps + 1)
        fall = (self.total_steps - step) / (self.total_steps - self.warmup_steps)
        return self.peak * ops.maximum(ops.minimum(rise, fall), 0.0)

    def get_config(self):
        return {
            "peak": self.peak,
            "total_steps": self.total_steps,
            "warmup_steps": self.warmup_steps,
        }


@keras.saving.register_keras_serializable(package="keras_posenc")
class Noam(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then inverse square root decay: the schedule of the original Transformer.

        rate(t) = factor * d^-0.5 * min(n^-0.5, n * w^-1.5),    n = t + 1.

    After w warm-up steps, at n = w, the rate has its peak, factor / sqrt(d w). It does not need the
    total number of steps.

    Args:
        hidden_size: int. Size d of the model's features.
        warmup_steps: int, at least 1. Number w of warm-up steps.
        factor: float. Scales all rates.

    Call arguments:
        step: int or scalar tensor, from 0.

    Returns:
        The learning rate, a float32 scalar.

    Example:

    >>> [round(float(Noam(64, warmup_steps=4, factor=16.0)(step)), 2) for step in (0, 3, 15)]
    [0.25, 1.0, 0.5]

    Reference: [Attention Is All You Need](https://arxiv.org/abs/1706.03762), section 5.3.
    """

    def __init__(self, hidden_size, warmup_steps=4000, factor=1.0):
        super().__init__()
        for name, value in (
            ("hidden_size", hidden_size),
            ("warmup_steps", warmup_steps),
            ("factor", factor),
        ):
            if not value > 0:
                raise ValueError(f"`{name}` must be above 0. Received: {value}")
        self.hidden_size = hidden_size
        self.warmup_steps = warmup_steps
        self.factor = factor

    def __call__(self, step):
        step = ops.cast(step, "float32") + 1
        rise, fall = step * self.warmup_steps**-1.5, ops.rsqrt(step)
        return self.factor * self.hidden_size**-0.5 * ops.minimum(rise, fall)

    def get_config(self):
        return {
            "hidden_size": self.hidden_size,
            "warmup_steps": self.warmup_steps,
            "factor": self.factor,
        }


def cosine_warmup(peak, total_steps, warmup_steps=0):
    """Returns Keras' `CosineDecay` with a linear warm-up whose first step does not have rate 0.

    Args:
        peak: float. The highest rate, reached at step `warmup_steps`.
        total_steps: int. All steps of the training; the rate reaches 0 after the last.
        warmup_steps: int. Less than `total_steps`.

    Example:

    >>> [round(float(cosine_warmup(1.0, 6, 2)(step)), 2) for step in range(7)]
    [0.33, 0.67, 1.0, 0.85, 0.5, 0.15, 0.0]
    """
    _check(total_steps, warmup_steps)
    if warmup_steps == 0:
        return keras.optimizers.schedules.CosineDecay(peak, total_steps)
    return keras.optimizers.schedules.CosineDecay(
        peak / (warmup_steps + 1),
        total_steps - warmup_steps,
        warmup_target=peak,
        warmup_steps=warmup_steps,
    )


def _check(total_steps, warmup_steps):
    if not 0 <= warmup_steps < total_steps:
        raise ValueError(
            f"warmup_steps must be at least 0 and less than total_steps ({total_steps}); received "
            f"{warmup_steps}. Train longer or warm up for fewer steps."
        )
