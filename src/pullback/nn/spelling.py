"""Operators under PyTorch's argument names and dtype rules: what ``nn.functional`` is made of."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from pullback.nn.dtype_rules import DtypeRule

__all__ = ["spell"]

_Function = Callable[..., Any]


def spell(
    function: _Function,
    *,
    first: tuple[str, ...] = ("input",),
    axis: str = "",
    has_inplace: bool = False,
    kinds: str = "",
    mode: str = "same",
    each: str = "bifc",
    tensors: tuple[str, ...] = (),
    keeps_integers: bool = False,
    is_elementwise: bool = False,
    complex_form: _Function | None = None,
) -> _Function:
    """A function that also takes PyTorch's argument names, and refuses the dtypes it refuses.

    Args:
        function: an operator's function, whose first arguments have no names.
        first: the names of these arguments.
        axis: the name of its argument ``axis``.
        has_inplace: whether it takes ``inplace=True``, which writes the result into the input.
        kinds: the kinds of dtypes that it takes; the empty string stands for all.
        mode: how dtypes have to agree, see `DtypeRule`.
        each: the kinds that every tensor may have.
        tensors: the names of its tensors beyond the `first`.
        keeps_integers: whether the result of integers is truncated to their dtype.
        is_elementwise: whether it warns where the shapes of input and target differ.
        complex_form: computes it for complex tensors.
    """
    signature = inspect.signature(function).parameters
    count = sum(p.kind is not p.KEYWORD_ONLY for p in signature.values())
    names = (*first, *tensors)
    places = _places(signature, first, names)
    rule = DtypeRule(function.__name__, names, places, kinds, mode, each) if kinds else None

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if has_inplace and len(args) == count + 1:
            args, kwargs["inplace"] = args[:-1], args[-1]
        if not kwargs and complex_form is None:
            return function(*args if rule is None else rule.apply(args, kwargs))
        for name in first[len(args) :]:
            if name in kwargs:
                args = (*args, kwargs.pop(name))
        if axis in kwargs:
            kwargs["axis"] = _require_axis(function.__name__, kwargs.pop(axis))
        is_inplace = has_inplace and kwargs.pop("inplace", False)
        if rule is not None:
            args = rule.apply(args, kwargs)
        chosen = function
        if complex_form is not None and args and _is_complex(args[0]):
            chosen = complex_form
        if is_inplace:
            # The derivative may need the input, so the function gets a copy of it.
            return args[0].copy_(chosen(args[0].clone(), *args[1:], **kwargs))
        return chosen(*args, **kwargs)

    if keeps_integers:
        return _truncate_integers(call)
    return _warn_of_broadcasting(call) if is_elementwise else call


def _places(
    signature: Iterable[str], first: tuple[str, ...], names: tuple[str, ...]
) -> tuple[int, ...]:
    order = (*first, *list(signature)[len(first) :])
    return tuple(map(order.index, names))


def _require_axis(name: str, dim: Any) -> Any:
    if dim is None:
        raise TypeError(f"{name}: dim must be an integer, not None")
    return dim


def _is_complex(x: Any) -> bool:
    return hasattr(x, "dtype") and x.dtype.kind == "c"


def _truncate_integers(function: _Function) -> _Function:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        dtype = getattr(args[0] if args else kwargs.get("input"), "dtype", None)
        result = function(*args, **kwargs)
        return result.astype(dtype) if dtype is not None and dtype.kind in "iu" else result

    return call


def _warn_of_broadcasting(function: _Function) -> _Function:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        given = (*args, *(kwargs[name] for name in ("input", "target") if name in kwargs))
        shapes = [tuple(x.shape) for x in given[:2] if hasattr(x, "shape")]
        if len(shapes) == 2 and shapes[0] != shapes[1]:
            warnings.warn(
                f"{function.__name__}: using a target size {shapes[1]} that is different to the "
                f"input size {shapes[0]}. This will likely lead to incorrect results due to "
                "broadcasting. Please ensure they have the same size.",
                stacklevel=2,
            )
        return result

    return call
