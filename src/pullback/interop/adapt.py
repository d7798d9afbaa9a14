"""Adapters from NumPy's signatures to Pullback's.

Many functions of Pullback have the meaning of a NumPy function but lack some of its arguments, or
name them differently. `adapted` matches the two signatures once and returns a function that takes
NumPy's arguments. An argument without counterpart raises unless it has its default value, so no
meaningful argument is ever dropped.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pullback._generated import functions_indexing as indexing
from pullback._generated import functions_pointwise as pointwise
from pullback.errors import DerivativeMissingError
from pullback.interop.arguments import as_tensor, carries_gradient, lost_in_array, plain
from pullback.tensor.tensor import Tensor

__all__ = ["COMPILED_SIGNATURES", "adapted", "cast", "into", "parameters_of", "typed"]

# Arguments that change where or how values are stored or found, and not what they are.
_WITHOUT_EFFECT = frozenset(
    {"casting", "device", "kind", "order", "overwrite_input", "stable", "subok"}
)
_LISTS = (list, tuple)
_TENSORS_ONLY = inspect.Parameter.POSITIONAL_ONLY
_CATCH_ALL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def into(out: Any, result: Any, name: str) -> Any:
    """A result, written to the memory that the caller gave, if any."""
    if type(out) is tuple and len(out) == 1:
        out = out[0]
    if out is None:
        return result
    if isinstance(out, tuple):
        return tuple(into(*pair, name) for pair in zip(out, result, strict=True))
    if out.shape != result.shape:
        raise ValueError(
            f"{name}: out has shape {out.shape}, and the result has shape {result.shape}"
        )
    if not np.can_cast(result.dtype, out.dtype, "same_kind"):
        raise TypeError(f"{name}: a result of {result.dtype} cannot be cast to out, {out.dtype}")
    if isinstance(out, Tensor):
        return indexing.copy_(out, result)
    if carries_gradient(result):
        raise lost_in_array(f"{name}(out=...)")
    np.copyto(out, plain(result), casting="same_kind")
    return out


def typed(value: Any, dtype: Any) -> Tensor:
    """An argument as a tensor of a dtype, which None leaves as it is."""
    tensor = as_tensor(value)
    same = dtype is None or tensor.dtype == dtype
    return tensor if same else pointwise._astype(tensor, np.dtype(dtype))


def cast(result: Tensor, dtype: Any, casting: Any, name: str) -> Tensor:
    """A result in another dtype, where the rule that the caller gave allows it."""
    if not np.can_cast(result.dtype, dtype, casting):
        raise TypeError(
            f"{name}: {result.dtype} cannot be cast to {np.dtype(dtype)} by the rule {casting!r}"
        )
    return pointwise._astype(result, np.dtype(dtype))


# NumPy's compiled functions carry a signature since version 2.4; a test compares them with these.
COMPILED_SIGNATURES = {
    "bincount": "x, /, weights=None, minlength=0",
    "busday_count": (
        "begindates, enddates, weekmask='1111100', holidays=(), busdaycal=None, out=None"
    ),
    "busday_offset": (
        "dates, offsets, roll='raise', weekmask='1111100', holidays=None, busdaycal=None, out=None"
    ),
    "concatenate": "arrays, /, axis=0, out=None, *, dtype=None, casting='same_kind'",
    "dot": "a, b, out=None",
    "empty_like": "prototype, /, dtype=None, order='K', subok=True, shape=None, *, device=None",
    "inner": "a, b, /",
    "is_busday": "dates, weekmask='1111100', holidays=None, busdaycal=None, out=None",
    "ravel_multi_index": "multi_index, dims, mode='raise', order='C'",
    "unravel_index": "indices, shape, order='C'",
    "vdot": "a, b, /",
}


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except ValueError:
        name = getattr(function, "__name__", "")
        if getattr(function, "__module__", "") != "numpy" or name not in COMPILED_SIGNATURES:
            raise
    namespace: dict[str, Any] = {}
    exec(f"def function({COMPILED_SIGNATURES[name]}): ...", namespace)
    return inspect.signature(namespace["function"])


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters that have a name."""
    named = _signature(function).parameters.values()
    return [p for p in named if p.kind not in _CATCH_ALL]


def _entered(arrays: Any) -> list[Any]:
    """Several arrays, some of which may be lists of numbers and tensors."""
    return [as_tensor(a) if type(a) in _LISTS else a for a in arrays]


def adapted(
    theirs: Callable[..., Any], ours: Callable[..., Any], rename: Mapping[str, str]
) -> Callable[..., Any]:
    """Returns our function with a signature that takes NumPy's arguments.

    Leading positional-only arguments of ours are matched by place, others by name; `rename` has
    our names for NumPy's where they differ.
    """
    name = f"{theirs.__module__}.{theirs.__name__}"
    names = [p.name for p in parameters_of(theirs)]
    own = parameters_of(ours)
    tensors = names[: len([p for p in own if p.kind is _TENSORS_ONLY])]
    takes_several = own[0].name in ("arrays", "tensors")
    known = {p.name for p in own if p.kind is not _TENSORS_ONLY}
    known -= {"stable"}  # ours always is
    keywords = {n: rename.get(n, n) for n in names if rename.get(n, n) in known}

    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(names):
            raise TypeError(f"{name}() takes at most {len(names)} positional arguments")
        arguments = dict(zip(names, args, strict=False))
        arguments.update(kwargs)
        positional = [arguments.pop(key) for key in tensors if key in arguments]
        if takes_several:
            positional = [_entered(a) if type(a) in _LISTS else a for a in positional]
        else:
            positional = [as_tensor(a) if type(a) in _LISTS else a for a in positional]
        out = arguments.pop("out", None) if "out" not in known else None
        dtype = arguments.pop("dtype", None) if "dtype" not in known else None
        options: dict[str, Any] = {}
        for key, value in arguments.items():
            if key in keywords:
                if value is not np._NoValue:
                    options[keywords[key]] = value
            elif key not in _WITHOUT_EFFECT and value is not None and value is not np._NoValue:
                raise DerivativeMissingError(
                    f"{name}: the argument {key} is not supported for tensors; leave it out, or "
                    f"call the function on x.detach().numpy() if no gradient is wanted"
                )
        result = ours(*positional, **options)
        if dtype is not None:
            result = cast(result, dtype, arguments.get("casting", "unsafe"), name)
        return result if out is None else into(out, result, name)

    return call
