"""NumPy's ufuncs on tensors: the operator for each, and their options.

``np.sin(x)`` without options is one lookup in `UNARY` or `UFUNCS` and one call. With ``out=``,
``where=``, ``dtype=`` and the like, `call_with_options` is called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback._generated import functions_indexing as indexing
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_products as products
from pullback._generated import functions_shape as shape
from pullback._generated import operators
from pullback.interop.adapt import into, typed
from pullback.interop.arguments import (
    as_tensor,
    holds_gradient,
    kind_of,
    plain,
    raw,
    refusal,
    wrapped,
)
from pullback.operators import array_functions
from pullback.tensor.tensor import Tensor, as_operand, has_values

__all__ = [
    "NOT_DIFFERENTIABLE",
    "UFUNCS",
    "UNARY",
    "call_with_options",
    "is_discrete",
    "ufunc_name",
    "without_derivative",
]


def _as_float(x: Any) -> Any:
    """An operand in the floating-point dtype that NumPy computes roots of its dtype in."""
    is_float = not isinstance(x, Tensor | np.ndarray) or x.dtype.kind == "f"
    return x if is_float else pointwise._astype(x, np.sqrt(np.ones((), x.dtype)).dtype)


def _fabs(x: Any) -> Tensor:
    operand = as_operand(x)
    if operand.dtype.kind == "c":
        raise TypeError("numpy.fabs is not defined for complex numbers; use numpy.abs")
    return pointwise.abs(_as_float(operand))


def _heaviside(x: Any, at_zero: Any) -> Tensor:
    """Steps have slope zero, so gradients are zero; the operator of this name has none at all."""
    if any(as_operand(given).dtype.kind == "c" for given in (x, at_zero)):
        raise TypeError("numpy.heaviside is not defined for complex numbers, which have no sign")
    kinds = kind_of(x), kind_of(at_zero), None
    x, at_zero = map(typed, (x, at_zero), np.heaviside.resolve_dtypes(kinds))
    step = (pointwise.sign(x) + 1) / 2
    return pointwise._where(pointwise.equal(x, 0), at_zero, step)


def _matvec(matrix: Any, vector: Any) -> Tensor:
    column = shape.expand_dims(vector, -1)
    return shape.squeeze(products.matmul(matrix, column), -1)


def _vecmat(vector: Any, matrix: Any) -> Tensor:
    row = shape.expand_dims(pointwise.conj(vector), -2)
    return shape.squeeze(products.matmul(row, matrix), -2)


_BY_NAME: dict[str, Callable[..., Any]] = {
    name: function
    for name, function in vars(pointwise).items()
    if isinstance(getattr(np, name, None), np.ufunc)
}
_BY_NAME |= {
    "degrees": pointwise.rad2deg,  # of their own, and not other names, in NumPy
    "radians": pointwise.deg2rad,
    "fabs": _fabs,
    "heaviside": _heaviside,
    "matmul": products.matmul,
    "matvec": _matvec,
    "vecdot": products.vecdot,
    "vecmat": _vecmat,
}

UFUNCS: dict[np.ufunc, Callable[..., Any]] = {
    getattr(np, name): function for name, function in _BY_NAME.items() if hasattr(np, name)
}


class _Probe:
    """An operand for which every universal function returns itself."""

    def __array_ufunc__(self, ufunc: np.ufunc, *_: Any, **__: Any) -> np.ufunc:
        return ufunc


# What array.clip(low, high) calls; it has no public name.
_CLIP: Any = np.zeros(()).clip(_Probe(), 1.0)  # type: ignore[call-overload]
UFUNCS |= {_CLIP: pointwise.clip}

# Functions of one argument with the operator's table of kernels: what the function itself would
# look into, so that a call from NumPy comes to the kernel without a step between.
_OPERATORS = {"bitwise_invert": "bitwise_not", "conj": "conjugate", "negative": "neg"}
UNARY: dict[np.ufunc, dict[Any, dict[int, Callable[..., Any]]]] = {
    ufunc: getattr(operators, _OPERATORS.get(function.__name__, function.__name__)).calls
    for ufunc, function in UFUNCS.items()
    if ufunc.nin == 1 and function.__module__ == pointwise.__name__
}

# Their operators raise in the backward pass, as PyTorch's do.
NOT_DIFFERENTIABLE = {
    "floor_divide": "Write np.floor(x / y), whose gradient is zero.",
    "nextafter": "Call it on x.detach().",
}
_DISCRETE = frozenset("?bBhHiIlLqQnNpP")  # the codes of booleans and integers
_GENERALIZED = {"axes", "axis", "keepdims"}


def ufunc_name(ufunc: np.ufunc) -> str:
    """Returns the public name of the function."""
    own = getattr(ufunc, "__module__", None)
    for module in ("numpy", "scipy.special", "scipy.special._ufuncs"):
        if own is None and getattr(sys.modules.get(module), ufunc.__name__, None) is ufunc:
            own = module if ufunc.__name__.startswith("_") else module.removesuffix("._ufuncs")
    return f"{own or 'a ufunc'}.{ufunc.__name__}"


def without_derivative(ufunc: np.ufunc, method: str, inputs: Any, options: dict[str, Any]) -> Any:
    """Runs a ufunc without an operator on the values; raises if that would lose a gradient."""
    name = ufunc_name(ufunc) + ("" if method == "__call__" else f".{method}")
    if holds_gradient(inputs) and not is_discrete(ufunc):
        raise refusal(
            name,
            "no derivative is known",
            "Wrap it as an operator with pullback.library.custom_op and register_autograd, or call "
            "it on x.detach() if no gradient is wanted.",
        )
    out = options.pop("out", None)
    result = getattr(ufunc, method)(*plain(list(inputs)), **plain(options))
    return into(out, wrapped(result), name)


def is_discrete(ufunc: np.ufunc) -> bool:
    """Whether all results are booleans or integers, or the function is flat everywhere."""
    outputs = {kind for loop in ufunc.types for kind in loop.split("->")[1]} - {"O"}
    return (bool(outputs) and outputs <= _DISCRETE) or ufunc is np.spacing


def call_with_options(ufunc: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A call with ``out``, ``where``, ``dtype``, ``casting``, ``axes`` and so on."""
    name = ufunc_name(ufunc)
    function = UFUNCS[ufunc]
    out = options.pop("out", None)
    where = options.pop("where", True)
    for without_effect in ("order", "subok"):
        options.pop(without_effect, None)
    generalized = {key: options.pop(key) for key in _GENERALIZED & set(options)}
    if options:
        inputs = _cast(ufunc, inputs, options)
    if out is not None and holds_gradient(inputs):
        inputs = tuple(_apart(value, out) for value in inputs)
    if generalized:
        result = _with_axes(ufunc, function, inputs, generalized)
    elif where is True:
        result = function(*inputs)
        if out is not None and ufunc.signature is None:
            result = _broadcast_to_out(result, out)
    else:
        return _where(ufunc, inputs, where, out, name)
    return into(out, result, name)


def _broadcast_to_out(result: Any, out: tuple[Any, ...]) -> Any:
    """Element-wise results in the shapes of `out`, which takes part in NumPy's broadcasting.

    A result that does not fit stays as it is; ``into`` refuses it.
    """
    results = result if isinstance(result, tuple) else (result,)
    spread = []
    for made, target in zip(results, out, strict=True):
        fits = target is None or made.shape == target.shape or not _fits(made.shape, target.shape)
        spread.append(made if fits else shape.broadcast_to(made, target.shape))
    return tuple(spread) if isinstance(result, tuple) else spread[0]


def _fits(given: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether an array of one shape can be broadcast to another one."""
    pairs = zip(reversed(given), reversed(wanted), strict=False)
    return len(given) <= len(wanted) and all(n in (1, m) for n, m in pairs)


def _apart(value: Any, targets: Any) -> Any:
    """An input that keeps its values for the backward pass when the result is written over it."""
    if not isinstance(value, Tensor) or not has_values(value):
        return value
    written = [t for t in targets if isinstance(t, Tensor) and has_values(t)]
    shared = any(np.may_share_memory(raw(value), raw(target)) for target in written)
    return pointwise.clone(value) if shared else value


def _cast(ufunc: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
    """The inputs in the dtypes of the loop that NumPy would choose, with NumPy's errors."""
    dtype = options.pop("dtype", None)
    signature = options.pop("signature", None) or options.pop("sig", None)
    casting = options.pop("casting", "same_kind")
    if options:
        raise TypeError(f"{ufunc.__name__}() got an unexpected keyword argument {min(options)!r}")
    if dtype is not None:
        signature = (None,) * ufunc.nin + (np.dtype(dtype),) * ufunc.nout
    loop = ufunc.resolve_dtypes(
        (*map(kind_of, inputs), *[None] * ufunc.nout), signature=signature, casting=casting
    )
    return tuple(
        pointwise._astype(i, wanted) if isinstance(i, Tensor) else np.asarray(plain(i), wanted)
        for i, wanted in zip(inputs, loop, strict=False)
    )


def _where(ufunc: np.ufunc, inputs: tuple[Any, ...], where: Any, out: Any, name: str) -> Any:
    """Only the elements that a mask picks are computed; the others are what `out` has, or zero.

    The function never sees the others, so that no infinite slope of theirs gets into a gradient.
    """
    out = (None,) * ufunc.nout if out is None else out
    mask = as_tensor(where)
    targets = [as_tensor(target) for target in out if target is not None]
    arrays = [value for value in inputs if as_operand(value).ndim]
    spread = array_functions.broadcast_arrays(*arrays, mask, *targets)
    mask = spread[len(arrays)]
    picks = [wrapped(np.flatnonzero(raw(mask)))]
    picked = (indexing._index(shape.reshape(t, -1), picks) for t in spread[: len(arrays)])
    # Numbers stay numbers, without a dtype of their own.
    made = UFUNCS[ufunc](*(next(picked) if as_operand(v).ndim else v for v in inputs))
    made = made if isinstance(made, tuple) else (made,)
    finished = []
    for target, values in zip(out, made, strict=True):
        kept = wrapped(np.zeros(mask.shape, values.dtype)) if target is None else as_tensor(target)
        flat = shape.reshape(shape.broadcast_to(kept, mask.shape), -1)
        put = indexing.index_put(flat, picks, pointwise._astype(values, kept.dtype))
        finished.append(into(target, shape.reshape(put, mask.shape), name))
    return finished[0] if ufunc.nout == 1 else tuple(finished)


def _with_axes(
    ufunc: np.ufunc, function: Callable[..., Any], inputs: tuple[Any, ...], given: dict[str, Any]
) -> Any:
    """A product of matrices or vectors that stand in other axes than the last."""
    core = [len(part.split(",")) if part else 0 for part in _core_parts(ufunc.signature)]
    axes = given.get("axes")
    if axes is None:
        axis = given.get("axis", -1)
        axes = [(axis,) * n for n in core]
    axes = [tuple(np.atleast_1d(a).tolist()) if n else () for a, n in zip(axes, core, strict=False)]
    moved = [
        shape.moveaxis(value, here, tuple(range(-len(here), 0))) if here else value
        for value, here in zip(inputs, axes, strict=False)
    ]
    result = function(*moved)
    back = axes[len(inputs)] if len(axes) > len(inputs) else ()
    if given.get("keepdims") and not core[-1]:
        return shape.expand_dims(result, axes[0][0])
    return shape.moveaxis(result, tuple(range(-len(back), 0)), back) if back else result


def _core_parts(signature: str | None) -> list[str]:
    """The named axes of each argument and result: ``(n?,k),(k,m?)->(n?,m?)``."""
    if signature is None:
        raise TypeError("axis, axes and keepdims are for matmul, vecdot, matvec and vecmat only")
    parts = signature.replace("->", ",").replace("),(", ")|(").split("|")
    return [part.strip("()") for part in parts]
