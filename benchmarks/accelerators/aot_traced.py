"""What a traced program would compute: products, selections, and its largest array."""

import math

MB = 2**20


def product_flops(jaxpr):
    """Floating-point operations of all matrix products; a loop counts as often as it runs.

    The compiler's own count takes the body of a loop once. A kernel counts the whole grid of its
    blocks, and a condition the branch that has most.
    """
    return _total(jaxpr, _flops)


def selections(jaxpr):
    """Numbers that selections write, counted as `product_flops` counts loops.

    A look-up on a TPU compares each number with each column of a table, which no product shows.
    """
    return _total(jaxpr, _selected)


def _total(jaxpr, of_equation):
    return sum(_total_of(equation, of_equation) for equation in jaxpr.eqns)


def _total_of(equation, of_equation):
    name, parameters = equation.primitive.name, equation.params
    inner = [_total(jaxpr, of_equation) for jaxpr in jaxprs(parameters)]
    if name == "cond":
        return max(inner)
    turns = 1
    if name == "scan":
        turns = parameters["length"]
    elif name == "pallas_call":
        turns = math.prod(parameters["grid_mapping"].grid)
    return of_equation(equation) + turns * sum(inner)


# Products of cuDNN's attention: logits and output; backward, logits again and four gradients.
KERNELS = {"dot_product_attention_fwd_wrapper": 2, "dot_product_attention_bwd_wrapper": 5}


def _flops(equation):
    if products := KERNELS.get(equation.primitive.name):
        q, k = (variable.aval.shape for variable in equation.invars[:2])  # (B, T, H, D)
        return 2 * products * math.prod(q) * k[1]
    if equation.primitive.name != "dot_general":
        return 0
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    return 2 * math.prod((*equation.outvars[0].aval.shape, *(left[i] for i in contracted)))


def _selected(equation):
    selects = equation.primitive.name == "select_n"
    return math.prod(equation.outvars[0].aval.shape) if selects else 0


def largest_array(jaxpr):
    """The bytes of the largest array that a program names, in loops too."""
    sizes = [0]
    for equation in jaxpr.eqns:
        for variable in equation.outvars:
            shape, dtype = (getattr(variable.aval, key, None) for key in ("shape", "dtype"))
            if shape is not None and hasattr(dtype, "itemsize"):
                sizes.append(math.prod(shape) * dtype.itemsize)
        sizes += map(largest_array, jaxprs(equation.params))
    return max(sizes)


def jaxprs(parameters):
    """The programs inside an operation, such as the body of a loop."""
    for value in parameters.values():
        for one in value if isinstance(value, (tuple, list)) else (value,):
            jaxpr = getattr(one, "jaxpr", one)
            if hasattr(jaxpr, "eqns"):
                yield jaxpr
