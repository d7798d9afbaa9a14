"""PyTorch's spelling: ``import pullback.compat.torch as torch`` for programs written for PyTorch.

A thin translation of names and arguments; the mathematics is that of ``pullback``.

>>> import pullback.compat.torch as torch
>>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
>>> values, places = x.max(dim=1)
>>> values.sum().backward()
>>> x.grad.tolist(), x.size(0), isinstance(x.grad, torch.Tensor)
([[0.0, 1.0], [0.0, 1.0]], 2, True)

How it is built. The methods of ``pullback.Tensor`` have NumPy's meaning (``x.max(0)``, ``x.size``,
``x.transpose()``, ``x.std()``), so that PyTorch's need a class of their own, `Tensor`, a subclass
without slots. Three rules keep a program's tensors in the class:

- An instance has the bit ``SUBCLASS`` in its flags. The tables of operators link calls with the bit
  through ``tensor.py``, which promotes dtypes by PyTorch's rules, calls the kernel that the same
  call has without the bit, and makes the results instances, in place. So recording, vmap, forward
  mode, ``nn.functional`` and optimizers work on instances, and calls on other tensors cost what
  they did.
- Functions here that make tensors without an operator convert them: ``creation.py``, ``random.py``.
- Where autograd calls user code, the gradients become instances: hooks in a pass that an instance
  starts, the methods of `autograd.Function`, functions that `func` transforms, ``x.grad``.

Inside the package, code that gets tensors of users calls functions (``reduction.max(x, axis)``),
not methods whose meaning differs; a test watches that. What PyTorch has and this package has not
raises AttributeError by name with the reason; ``docs/compat_torch.md`` lists it.
"""

from __future__ import annotations

import builtins as _builtins
import math as _math
from typing import Any

import numpy as _np

import pullback as _pb
from pullback.autograd import (
    enable_grad,
    inference_mode,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from pullback.compat.torch import (
    autograd,
    fft,
    func,
    library,
    linalg,
    methods,
    nn,
    optim,
    special,
    testing,
    utils,
)
from pullback.compat.torch.absent import absence as _absence
from pullback.compat.torch.absent import backends, cuda, mps
from pullback.compat.torch.creation import *
from pullback.compat.torch.dtypes import *
from pullback.compat.torch.func import vmap
from pullback.compat.torch.indexing import *
from pullback.compat.torch.pointwise import *
from pullback.compat.torch.products import *
from pullback.compat.torch.random import *
from pullback.compat.torch.reductions import *
from pullback.compat.torch.serialization import load, save
from pullback.compat.torch.shapes import *
from pullback.compat.torch.tensor import Tensor, result_type
from pullback.kernels.threads import get_num_threads, set_num_threads

pi, e, inf, nan, newaxis = _math.pi, _math.e, _math.inf, _math.nan, None

# Functions of ``nn.functional`` that PyTorch has in its first namespace too.
_FUNCTIONAL = (
    "adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout avg_pool1d batch_norm bilinear celu_ "
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d dropout embedding "
    "feature_alpha_dropout group_norm instance_norm layer_norm max_pool1d max_pool2d relu_ "
    "rms_norm selu_ threshold_ binary_cross_entropy_with_logits cosine_embedding_loss "
    "hinge_embedding_loss kl_div margin_ranking_loss poisson_nll_loss triplet_margin_loss"
).split()
for _name in _FUNCTIONAL:
    globals()[_name] = getattr(nn.functional, _name)
for _name in "get_device is_conj is_inference is_neg is_same_size is_signed renorm".split():
    globals()[_name] = getattr(Tensor, _name)
for _name in dir(Tensor):
    if _name.endswith("_") and not _name.startswith("_") and _name not in globals():
        globals()[_name] = getattr(Tensor, _name)  # torch.sin_(x)


class _TypedTensor:
    """``torch.FloatTensor`` and the like: makes tensors of one dtype."""

    def __init__(self, dtype: Any):
        self.tensor_dtype = dtype

    def __call__(self, *data: Any) -> Any:
        """A tensor of some data, or uninitialised memory of a shape."""
        return Tensor(*data).to(self.tensor_dtype)


FloatTensor, DoubleTensor, HalfTensor = map(_TypedTensor, (float32, float64, float16))
LongTensor, IntTensor, ShortTensor = map(_TypedTensor, (int64, int32, int16))
CharTensor, ByteTensor, BoolTensor = map(_TypedTensor, (int8, uint8, bool))


def is_tensor(obj: Any) -> Any:
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)


def numel(input: Any) -> Any:
    """The number of elements of a tensor."""
    return input.numel()


def detach(input: Any) -> Any:
    """``input.detach()``."""
    return input.detach()


def is_nonzero(input: Any) -> Any:
    """Whether the only element is not zero."""
    return input.is_nonzero()


def can_cast(from_: Any, to: Any) -> Any:
    """Whether a dtype may be converted to another without a lower category."""
    ranks = "biufc"
    return ranks.index(_np.dtype(from_).kind) <= ranks.index(_np.dtype(to).kind)


def compile(model: Any = None, **options: Any) -> Any:
    """``pullback.compile``; of the options of PyTorch's compiler, ``fullgraph`` is used."""
    if model is None:
        return lambda function: compile(function, **options)
    return _pb.compile(model, fullgraph=options.get("fullgraph", False))


def unravel_index(indices: Any, shape: Any) -> Any:
    """Places of the flattened tensor as one tensor of places for each axis."""
    return tuple(map(as_tensor, _pb.unravel_index(indices, shape)))


def igamma(input: Any, other: Any) -> Any:
    """``special.gammainc``."""
    return special.gammainc(input, other)


def igammac(input: Any, other: Any) -> Any:
    """``special.gammaincc``."""
    return special.gammaincc(input, other)


def gradient(input: Any, *, spacing: Any = 1, dim: Any = None, edge_order: Any = 1) -> Any:
    """Derivatives of samples along axes, by central differences."""
    steps = spacing if isinstance(spacing, list | tuple) else (spacing,)
    axes = tuple(_builtins.range(input.ndim)) if dim is None else dim
    found = _pb.gradient(input, *steps, axis=axes, edge_order=edge_order)
    return tuple(found) if isinstance(found, list | tuple) else (found,)


def set_printoptions(
    precision: Any = None, linewidth: Any = None, sci_mode: Any = None, **_: Any
) -> None:
    """Sets how tensors are printed: NumPy's options."""
    given = {
        "precision": precision,
        "linewidth": linewidth,
        "suppress": None if sci_mode is None else not sci_mode,
    }
    _np.set_printoptions(**{name: value for name, value in given.items() if value is not None})


def use_deterministic_algorithms(mode: Any, *, warn_only: Any = False) -> None:
    """Accepts any mode: all algorithms are deterministic."""


def are_deterministic_algorithms_enabled() -> Any:
    """True."""
    return True


def set_float32_matmul_precision(precision: str) -> None:
    """Accepts any: products of float32 are computed in float32."""


def __getattr__(name: str) -> Any:
    raise _absence(name)


# Helpers of the modules that are no names of PyTorch.
for _name in ("DTYPE_NAMES", "SAME", "Pair", "get_item", "made", "set_item", "shape_of"):
    del globals()[_name]
__all__: list[str] = []
__all__ += sorted(name for name in globals() if not name.startswith("_") and name != "annotations")
