"""Gradients as each backend computes them, of a loss that `laws.gradients` makes."""


def _jax_gradients(layer, x, loss, compiled):
    import jax

    def total(weights, x):
        values = [v.value for v in layer.non_trainable_variables]
        return loss(x, lambda *a, **k: layer.stateless_call(weights, values, *a, **k)[0])

    # Operation by operation JAX would compile hundreds of programs.
    grad = jax.jit(jax.grad(total, (0, 1), has_aux=True))
    (weights, features), out = grad([v.value for v in layer.trainable_variables], x)
    return [out, features, *weights]


def _tensorflow_gradients(layer, x, loss, compiled):
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def compiled_step(x):
        return step(x)

    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total, out = loss(x, layer)
        weights = [v.value for v in layer.trainable_variables]
        found = tape.gradient(total, [x, *weights], unconnected_gradients="zero")
        return [out, *(tf.convert_to_tensor(g) for g in found)]

    return (compiled_step if compiled else step)(x)


def _torch_gradients(layer, x, loss, compiled):
    import torch

    x = x.clone().requires_grad_()
    total, out = loss(x, layer)
    weights = [v.value for v in layer.trainable_variables]
    found = torch.autograd.grad(total, [x, *weights], allow_unused=True)
    pairs = zip(found, [x, *weights], strict=True)
    return [out.detach(), *(torch.zeros_like(w) if g is None else g for g, w in pairs)]


GRADIENTS = {
    "jax": _jax_gradients,
    "tensorflow": _tensorflow_gradients,
    "torch": _torch_gradients,
}
