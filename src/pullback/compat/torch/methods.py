"""Methods of ``pullback.compat.torch.Tensor``.

Most are functions of this package with the tensor as their first argument. Methods that the class
inherits keep their meaning where NumPy's and PyTorch's agree; what they return becomes an instance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

import pullback as pb
from pullback.compat.torch import (
    creation,
    indexing,
    pointwise,
    products,
    random,
    reductions,
    shapes,
)
from pullback.compat.torch.dtypes import DTYPE_NAMES, device
from pullback.compat.torch.tensor import Tensor, convert, values_of
from pullback.fx.tracer import forbid_in_trace
from pullback.kernels.random import source_of_numbers
from pullback.tensor.tensor import Tensor as PlainTensor

__all__ = [
    "METHODS",
    "apply_",
    "attach",
    "contiguous",
    "cpu",
    "cuda",
    "data_ptr",
    "dim",
    "element_size",
    "get_device",
    "index_put_",
    "is_complex",
    "is_contiguous",
    "is_floating_point",
    "is_nonzero",
    "is_same_size",
    "is_shared",
    "is_signed",
    "new",
    "numel",
    "pin_memory",
    "polygamma",
    "renorm",
    "resize_as_",
    "share_memory_",
    "storage_offset",
    "stride",
    "sum_to_size",
    "to",
    "type",
    "type_as",
    "where",
    "zero_",
]

_DATA: Any = PlainTensor.data
_DEVICE: Any = PlainTensor.device
_MODULES = (pointwise, reductions, shapes, products, indexing)
_NO_METHODS = frozenset(  # functions without a tensor in front, and helpers of the modules
    "SAME Pair atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors "
    "bucketize cartesian_prod cat cdist chain_matmul column_stack combinations concat concatenate "
    "cosine_similarity cumulative_trapezoid dstack einsum get_item hstack isin meshgrid "
    "pairwise_distance pdist polygamma row_stack rsub searchsorted set_item stack std_mean "
    "tensordot trapezoid trapz vander var_mean vstack where real imag celu selu "
    "threshold rrelu".split()
)
METHODS: dict[str, Callable[..., Any]] = {
    name: getattr(module, name)
    for module in _MODULES
    for name in module.__all__
    if name not in _NO_METHODS
}


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    METHODS[function.__name__] = function
    return function


# --- dtypes and devices --------------------------------------------------------------------------


@_method
def to(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The tensor with another dtype or on another device; itself without a change."""
    for name in ("non_blocking", "memory_format"):
        kwargs.pop(name, None)
    given = [device(a) if isinstance(a, str) else a for a in args if not isinstance(a, bool)]
    if kwargs.get("device") is not None:
        kwargs["device"] = device(kwargs["device"])
    return convert(PlainTensor.to(self, *given, **kwargs))


def _conversion(kind: np.dtype[Any]) -> Callable[..., Any]:
    return lambda self, **_: to(self, kind)


METHODS |= {name: _conversion(kind) for name, kind in DTYPE_NAMES.items()}


@_method
def type(self: Any, dtype: Any = None) -> Any:
    """The tensor in another dtype; without one, the name of its class in PyTorch."""
    if dtype is not None:
        return to(self, getattr(dtype, "tensor_dtype", dtype))
    names = {
        "float32": "Float",
        "float64": "Double",
        "int64": "Long",
        "int32": "Int",
        "bool": "Bool",
    }
    return f"torch.{names.get(self.dtype.name, self.dtype.name)}Tensor"


@_method
def cpu(self: Any) -> Any:
    """The tensor itself: all data is in the machine's memory."""
    return self


@_method
def cuda(_self: Any, *_: Any, **__: Any) -> Any:
    """Always raises: there is no CUDA device."""
    return device("cuda")


@_method
def type_as(self: Any, tensor: Any) -> Any:
    """The tensor in the dtype of another one."""
    return to(self, tensor.dtype)


# --- properties of the memory --------------------------------------------------------------------


@_method
def dim(self: Any) -> int:
    """The number of axes."""
    return int(self.ndim)


@_method
def numel(self: Any) -> int:
    """The number of elements."""
    return math.prod(self.shape)


METHODS |= {"ndimension": dim, "nelement": numel}


@_method
def stride(self: Any, dim: int | None = None) -> Any:
    """Elements from one place to the next, for each axis or one."""
    steps = tuple(step // self.itemsize for step in self.strides)
    return steps if dim is None else steps[dim]


@_method
def element_size(self: Any) -> int:
    """Bytes per element."""
    return int(self.itemsize)


@_method
def data_ptr(self: Any) -> int:
    """The address of the first element."""
    return int(self._array.__array_interface__["data"][0])


@_method
def contiguous(self: Any, **_: Any) -> Any:
    """The tensor itself, or a copy whose elements lie in the order of its axes."""
    return self if is_contiguous(self) else pb.ascontiguousarray(self)


@_method
def is_contiguous(self: Any, **_: Any) -> bool:
    """Whether the elements lie in the order of the axes."""
    array = self._array
    if isinstance(array, np.ndarray):
        return bool(array.flags.c_contiguous)
    return bool(getattr(array, "contiguous", True))


@_method
def is_floating_point(self: Any) -> bool:
    """Whether the dtype is a floating-point one."""
    return bool(self.dtype.kind == "f")


@_method
def is_complex(self: Any) -> bool:
    """Whether the dtype is complex."""
    return bool(self.dtype.kind == "c")


@_method
def is_signed(self: Any) -> bool:
    """Whether the dtype has negative numbers."""
    return bool(self.dtype.kind in "ifc")


@_method
def is_nonzero(self: Any) -> bool:
    """Whether the only element is not zero."""
    return bool(self.item())


@_method
def is_same_size(self: Any, other: Any) -> bool:
    """Whether two tensors have the same shape."""
    return bool(self.shape == other.shape)


@_method
def is_shared(_: Any) -> bool:
    """Whether other processes see the memory: they do not."""
    return False


@_method
def get_device(_: Any) -> int:
    """The number of the CUDA device: -1, the CPU."""
    return -1


@_method
def pin_memory(self: Any, *_: Any) -> Any:
    """The tensor itself."""
    return self


@_method
def storage_offset(self: Any) -> int:
    """Elements from the beginning of the memory to the first one."""
    base = self._array
    while isinstance(base.base, np.ndarray):
        base = base.base
    first = base.__array_interface__["data"][0]
    return int((data_ptr(self) - first) // self.itemsize)


# --- more functions of the tensor ----------------------------------------------------------------


@_method
def where(self: Any, condition: Any, other: Any) -> Any:
    """The elements where the condition holds, else those of `other`."""
    return pb.where(condition, self, other)


@_method
def polygamma(self: Any, n: int) -> Any:
    """The n-th derivative of the digamma function."""
    return pb.polygamma(n, self)


@_method
def sum_to_size(self: Any, *size: Any) -> Any:
    """The sums over axes that broadcasting from a shape would make."""
    wanted = creation.shape_of(size)
    extra = self.ndim - len(wanted)
    axes = [i + extra for i, n in enumerate(wanted) if n == 1 and self.shape[i + extra] != 1]
    summed = pb.sum(self, (*range(extra), *axes), True)
    return pb.reshape(summed, wanted)


@_method
def renorm(self: Any, p: float, dim: int, maxnorm: float) -> Any:
    """Parts along an axis scaled down to a norm."""
    axes = tuple(axis for axis in range(self.ndim) if axis != dim % self.ndim)
    norms = pb.linalg.vector_norm(self, axis=axes, keepdims=True, ord=p)
    return self * pb.where(norms > maxnorm, maxnorm / (norms + 1e-7), 1.0)


@_method
def apply_(self: Any, function: Callable[..., Any]) -> Any:
    """Writes a function of each element to its place."""
    flat = [function(value) for value in values_of(self).ravel().tolist()]
    return self.copy_(pb.tensor(np.array(flat, self.dtype).reshape(self.shape)))


@_method
def new(self: Any, *size: Any) -> Any:
    """Uninitialised memory of a shape, in this tensor's dtype."""
    return convert(PlainTensor.new_empty(self, *size))


@_method
def index_put_(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Writes values to places."""
    return convert(PlainTensor.index_put_(self, list(indices), values, accumulate))


@_method
def resize_as_(self: Any, the_template: Any) -> Any:
    """Changes the shape to that of another tensor."""
    return self.resize_(the_template.shape)


@_method
def share_memory_(self: Any) -> Any:
    """The tensor itself: threads share it, processes do not."""
    return self


@_method
def zero_(self: Any) -> Any:
    """Writes zero everywhere."""
    return PlainTensor.zero_(self)


def _with_options(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """An in-place method with PyTorch's options, which the operator does not have."""
    own = getattr(PlainTensor, name)

    @wraps(own)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        if not options:
            return own(self, *args)
        return self.copy_(function(self, *args, **options))

    return call


def _written(function: Callable[..., Any]) -> Callable[..., Any]:
    """An in-place method that writes what a function returns."""

    @wraps(function)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        return self.copy_(function(self, *args, **options))

    return call


for _name in (
    "add",
    "sub",
    "subtract",
    "div",
    "divide",
    "true_divide",
    "nan_to_num",
    "round",
    "clamp",
    "index_add",
):
    METHODS[f"{_name}_"] = _with_options(f"{_name}_", METHODS[_name])
for _name in (
    "addcmul addcdiv addmm addmv addr addbmm baddbmm index_copy index_fill masked_scatter renorm "
    "mvlgamma scatter"
).split():
    METHODS[f"{_name}_"] = _written(METHODS[_name])


# --- random numbers ------------------------------------------------------------------------------


def _random(name: str, draw: Callable[..., Any]) -> None:
    def call(self: Any, *args: Any, generator: Any = None, **named: Any) -> Any:
        forbid_in_trace("random numbers of NumPy")
        drawn = draw(source_of_numbers(generator), tuple(self.shape), *args, **named)
        return self.copy_(pb.asarray(np.asarray(drawn).astype(self.dtype)))

    call.__name__, call.__doc__ = name, draw.__doc__
    METHODS[name] = call


def _integers(source: Any, shape: Any, low: Any = None, high: Any = None) -> Any:
    """Writes random integers: of ``random_(high)`` or ``random_(low, high)``."""
    low, high = (0, low) if high is None else (low, high)
    draw = source.integers if isinstance(source, np.random.Generator) else source.randint
    return draw(low, 2**24 if high is None else high, shape)


def _uniform_(self: Any, a: float = 0.0, b: float = 1.0, *, generator: Any = None) -> Any:
    """Writes numbers between two bounds."""
    return self.copy_(random.rand(self.shape, dtype=np.float64, generator=generator) * (b - a) + a)


def _normal_(self: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
    """Writes normally distributed numbers."""
    return self.copy_(random.randn(self.shape, dtype=np.float64, generator=generator) * std + mean)


METHODS |= {"uniform_": _uniform_, "normal_": _normal_}
_random("exponential_", lambda source, shape, lambd=1.0: source.exponential(1 / lambd, shape))
_random("log_normal_", lambda source, shape, mean=1.0, std=2.0: source.lognormal(mean, std, shape))
_random("geometric_", lambda source, shape, p: source.geometric(p, shape))
_random(
    "cauchy_",
    lambda source, shape, median=0.0, sigma=1.0: median + sigma * source.standard_cauchy(shape),
)
_random(
    "bernoulli_",
    lambda source, shape, p=0.5: source.uniform(size=shape) < np.asarray(getattr(p, "_array", p)),
)
_random("random_", _integers)
METHODS |= {"bernoulli": random.bernoulli, "multinomial": random.multinomial}


# --- the class -----------------------------------------------------------------------------------

_INHERITED_RESULTS = (  # what these return is made without an operator
    "detach new_empty new_empty_strided new_full new_ones new_tensor new_zeros".split()
)


def _converted(name: str) -> Callable[..., Any]:
    own = getattr(PlainTensor, name)

    @wraps(own)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        options.pop("layout", None)
        return convert(own(self, *args, **options))

    return call


def _data(self: Any) -> Any:
    """The same memory without history and version."""
    return convert(PlainTensor.data.__get__(self))  # type: ignore[attr-defined]


def _set_data(self: Any, value: Any) -> None:
    _DATA.__set__(self, value)


def _false(_: Any) -> bool:
    """False: there are no such tensors."""
    return False


def attach() -> None:
    """Gives the class its methods and properties."""
    METHODS.update({name: _converted(name) for name in _INHERITED_RESULTS})
    METHODS.update({"__getitem__": indexing.get_item, "__setitem__": indexing.set_item})
    for name, function in METHODS.items():
        setattr(Tensor, name, function)
    properties: dict[str, Any] = {
        "data": property(_data, _set_data),
        "device": property(lambda self: device(_DEVICE.__get__(self))),
        "H": property(products.adjoint),
        "mH": property(products.adjoint),
        "is_cpu": property(lambda self: self.device == "cpu"),
        "is_meta": property(lambda self: self.device == "meta"),
        "layout": property(lambda _: "torch.strided"),
    }
    for name in (
        "is_cuda",
        "is_mps",
        "is_quantized",
        "is_sparse",
        "is_sparse_csr",
        "is_nested",
        "is_xpu",
    ):
        properties[name] = property(_false)
    for name, value in properties.items():
        setattr(Tensor, name, value)


attach()
