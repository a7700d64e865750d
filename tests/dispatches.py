"""What a step of PyTorch dispatches, counted without a GPU and without computing.

Under FakeTensorMode a tensor has a size and no numbers, so a step of any size takes no time. Each
operation that is dispatched is counted, as on CUDA: kernels, views, bytes read and written, casts,
and waits of the host for a number.
"""

import collections
import contextlib
import dataclasses

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# What launches nothing on a GPU.
VIEWS = set(
    "view _unsafe_view transpose t permute expand slice select unsqueeze squeeze alias split "
    "split_with_sizes unbind as_strided diagonal reshape _reshape_alias chunk narrow unfold "
    "movedim empty empty_like empty_strided new_empty new_empty_strided unflatten view_as "
    "lift_fresh set_".split()
)
UNCOUNTED = {"detach", "sym_size", "stride", "storage_offset", "is_same_size", "result_type"}
WAIT = torch.ops.aten._local_scalar_dense.default


@dataclasses.dataclass
class Counts:
    """Numbers of a step, or of a layer of it."""

    kernels: int = 0
    views: int = 0
    bytes: int = 0
    casts: int = 0
    waits: int = 0

    @property
    def dispatches(self):
        return self.kernels + self.views

    def __sub__(self, other):
        return self._with(other, lambda a, b: a - b)

    def layers(self, two, count):
        """The counts of `count` layers, by these of one and those of two."""
        return self._with(two, lambda a, b: a + (count - 1) * (b - a))

    def _with(self, other, function):
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        return Counts(*(function(*pair) for pair in pairs))


class Counting(TorchDispatchMode):
    """Counts what is dispatched within it.

    Attributes:
        counts: `Counts`.
        names: Counter of the kernels.
    """

    def __init__(self):
        super().__init__()
        self.counts, self.names = Counts(), collections.Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is WAIT:
            self.counts.waits += 1
            if isinstance(args[0], FakeTensor):  # any number will do
                return 1.0 if args[0].is_floating_point() else 1
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if function.namespace != "aten" or name in UNCOUNTED or function is WAIT:
            return result
        if name in VIEWS:
            self.counts.views += 1
            return result
        self.names[name] += 1
        self.counts.kernels += 1
        sources = _tensors((args, kwargs))
        self.counts.bytes += _bytes(name, sources, _tensors(result))
        made = _tensors(result)
        casts = name == "_to_copy" and made and sources and made[0].dtype != sources[0].dtype
        self.counts.casts += bool(casts)
        return result


def _tensors(tree):
    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def _bytes(name, sources, made):
    if name == "embedding":
        sources = made  # it reads the rows that it returns
    total = 0
    for x in {id(x): x for x in (*sources, *made)}.values():
        size = x.element_size()
        for length, stride in zip(x.shape, x.stride(), strict=True):
            size *= length if stride else 1
        total += size
    return 2 * total if name == "embedding" else total


def count(step, fake=True):
    """The `Counts` of a step, after one that is not counted, and the names of its kernels."""
    with FakeTensorMode(allow_non_fake_inputs=True) if fake else contextlib.nullcontext():
        with Counting():
            step()
        with Counting() as counting:
            step()
    return counting.counts, counting.names


@contextlib.contextmanager
def as_on_cuda(patch):
    """A context in which a CPU dispatches what CUDA would.

    Args:
        patch: `pytest.MonkeyPatch`.
    """
    from keras_posenc.backend import torch_cuda

    functional = torch.nn.functional
    attention, adam, inference = (
        functional.scaled_dot_product_attention,
        torch.optim.Adam,
        torch.inference_mode,
    )

    def fused(q, k, v, attn_mask=None, dropout_p=0.0, **named):
        # On a CPU no kernel drops weights; on CUDA those that do are one operation, too.
        return attention(q, k, v, attn_mask=attn_mask, dropout_p=0.0, **named)

    def of_lists(*args, **named):
        return adam(*args, **{**named, "foreach": True})

    def unrecorded(mode=None):
        # In the mode itself, operations that consist of others are not taken apart.
        return torch.no_grad() if mode is None else inference(mode)

    with patch.context() as here:
        here.setitem(torch_cuda.STANDS_FOR, "cpu", (9, 0))
        here.setattr(functional, "scaled_dot_product_attention", fused)
        here.setattr(torch.optim, "Adam", of_lists)
        here.setattr(torch, "inference_mode", unrecorded)
        yield
