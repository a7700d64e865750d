"""What a traced program would compute: its matrix products and its largest array."""

import math

MB = 2**20


def product_flops(jaxpr):
    """Floating-point operations of all matrix products; a loop counts as often as it runs.

    The compiler's own count takes the body of a loop once. A kernel counts the whole grid of its
    blocks, and a condition the branch that has most.
    """
    return sum(map(_flops, jaxpr.eqns))


def _flops(equation):
    name, parameters = equation.primitive.name, equation.params
    if name == "dot_general":
        (contracted, _), _ = parameters["dimension_numbers"]
        left = equation.invars[0].aval.shape
        return 2 * math.prod((*equation.outvars[0].aval.shape, *(left[i] for i in contracted)))
    inner = [product_flops(jaxpr) for jaxpr in _jaxprs(parameters)]
    if name == "cond":
        return max(inner)
    turns = 1
    if name == "scan":
        turns = parameters["length"]
    elif name == "pallas_call":
        turns = math.prod(parameters["grid_mapping"].grid)
    return turns * sum(inner)


def largest_array(jaxpr):
    """The bytes of the largest array that a program names, in loops too."""
    sizes = [0]
    for equation in jaxpr.eqns:
        for variable in equation.outvars:
            shape, dtype = (getattr(variable.aval, key, None) for key in ("shape", "dtype"))
            if shape is not None and hasattr(dtype, "itemsize"):
                sizes.append(math.prod(shape) * dtype.itemsize)
        sizes += map(largest_array, _jaxprs(equation.params))
    return max(sizes)


def _jaxprs(parameters):
    for value in parameters.values():
        for one in value if isinstance(value, (tuple, list)) else (value,):
            jaxpr = getattr(one, "jaxpr", one)
            if hasattr(jaxpr, "eqns"):
                yield jaxpr
