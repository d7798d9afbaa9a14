"""Checks of the arguments and results of transforms, and their flattening.

Errors name the transform, and the argument by its position and the place in its tree.
"""

from __future__ import annotations

from typing import Any

from pullback.errors import AutogradError, AutogradTypeError, AutogradValueError
from pullback.tensor.tensor import Tensor
from pullback.utils import pytree

__all__ = [
    "Argnums",
    "differentiable_leaves",
    "dtype_error",
    "positions",
    "require_chunk_size",
    "require_function",
    "result_leaves",
    "with_aux",
]

Argnums = int | tuple[int, ...]


def require_function(name: str, func: Any) -> None:
    """Raises if `func` is not callable."""
    if not callable(func):
        raise AutogradTypeError(f"{name}: a function is expected, not {type(func).__name__}")


def require_chunk_size(name: str, chunk_size: Any) -> None:
    """Raises unless the chunk size is None or a positive integer."""
    if chunk_size is None:
        return
    if not isinstance(chunk_size, int) or isinstance(chunk_size, bool) or chunk_size <= 0:
        raise AutogradValueError(
            f"{name}: `chunk_size` should be None or greater than 0. (got {chunk_size!r})"
        )


def positions(name: str, argnums: Argnums, count: int) -> tuple[int, ...]:
    """The positions of the arguments to differentiate by, none negative."""
    if type(argnums) is int and 0 <= argnums < count:
        return (argnums,)
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool):
            raise AutogradTypeError(
                f"{name}: argnums must be int or Tuple[int, ...], got: {type(number).__name__}"
            )
        if not -count <= number < count:
            raise AutogradError(
                f"{name}: Got argnum={number}, but only {count} positional inputs; arguments given "
                f"by keyword cannot be differentiated by"
            )
    if not numbers:
        raise AutogradError(f"{name}: argnums must be non-empty")
    places = tuple(number % count for number in numbers)
    if len(set(places)) != len(places):
        raise AutogradError(f"{name}: argnums elements must be unique, got {numbers}")
    return places


def differentiable_leaves(name: str, what: str, tree: Any) -> tuple[list[Tensor], pytree.Spec]:
    """The leaves of an argument, which all have to be tensors that can be differentiated by."""
    if type(tree) is Tensor:
        if tree._array.dtype.kind not in "fc":
            raise dtype_error(name, what, tree)
        return [tree], pytree.LEAF
    leaves, spec = pytree.flatten(tree)
    for leaf, path in zip(leaves, spec.paths(), strict=True):
        if not isinstance(leaf, Tensor):
            raise AutogradValueError(
                f"{name}: {what}{path} must be Tensor, got {type(leaf).__name__}; make it a "
                f"tensor, or do not differentiate by it"
            )
        if leaf._array.dtype.kind not in "fc":
            raise dtype_error(name, what + path, leaf)
    if not leaves:
        raise AutogradValueError(f"{name}: {what} must be Tensor, or contain one, got {tree!r:.60}")
    return leaves, spec


def dtype_error(name: str, what: str, tensor: Tensor) -> AutogradValueError:
    """The error for integers, which have no derivatives."""
    return AutogradValueError(
        f"{name}: {what} has dtype {tensor.dtype}, and only Tensors of floating point dtype "
        f"can require gradients; Expected primal to be floating point or complex: use "
        f"astype(float)"
    )


def with_aux(name: str, returned: Any) -> tuple[Any, Any]:
    """Splits the result of a function into output and auxiliary data."""
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise AutogradError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True; it "
            f"is a {type(returned).__name__}"
        )
    return returned


def result_leaves(name: str, returned: Any) -> tuple[list[Tensor], pytree.Spec]:
    """The leaves of what a function has returned, which all have to be tensors."""
    if type(returned) is Tensor:
        return [returned], pytree.LEAF
    leaves, spec = pytree.flatten(returned)
    for leaf, path in zip(leaves, spec.paths(), strict=True):
        if not isinstance(leaf, Tensor):
            raise AutogradError(
                f"{name}: expected f(*primals) to return only tensors, got unsupported type "
                f"{type(leaf).__name__}{' at ' + path if path else ''}"
            )
    if not leaves:
        raise AutogradError(
            f"{name}: Expected f to be a function that has non-empty output (got output = "
            f"{returned!r:.60}); it has to return tensors"
        )
    return leaves, spec
