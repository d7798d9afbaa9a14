"""The two linear maps at a point, in HIPS autograd's conventions; all operators are made of them.

Arguments and results are trees of arrays and numbers. A gradient by a complex number ``x + iy`` is
``df/dx - i df/dy``, the conjugate of PyTorch's and ours: cotangents are conjugated on the way in
and gradients on the way out. Tangents are the same everywhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback._generated import functions_pointwise as pointwise
from pullback.autograd.forward.tangents import tangents_of
from pullback.autograd.graph.views import requires_grad
from pullback.compat.autograd.boxes import Box, box_value, is_user_type
from pullback.errors import AutogradTypeError, AutogradValueError
from pullback.func import jvp, vjp
from pullback.operators.creation import functions as creation
from pullback.tensor.tensor import Tensor
from pullback.utils import pytree

__all__ = ["Argument", "Pulled", "conjugate", "is_traced", "plain", "pushed"]

_Function = Callable[..., Any]


def conjugate(tensor: Tensor) -> Tensor:
    """The conjugate, which for real numbers is the tensor itself."""
    return pointwise.conj(tensor) if tensor.dtype.kind == "c" else tensor


def is_traced(tensor: Tensor | Box) -> bool:
    """Returns whether a transform differentiates or maps the tensor or boxed value."""
    if not isinstance(tensor, Tensor):
        return True
    if requires_grad(tensor) or tangents_of(tensor):
        return True
    return not isinstance(tensor._array, np.ndarray)


def plain(tree: Any) -> Any:
    """Tensors as arrays, and without axes as numbers; those that are traced stay."""

    def value(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or is_traced(leaf):
            return leaf
        return leaf.numpy() if leaf.ndim else leaf.item()

    return pytree.map(value, tree)


class Argument:
    """An argument as tensors; converts gradients back to the argument's type.

    Attributes:
        returned_bool: whether the function that was called with it returned a bool.
    """

    def __init__(self, given: Any):
        self.returned_bool = False
        leaves, self.spec = pytree.flatten(given)
        self._keeps = any(isinstance(leaf, Tensor) and not is_traced(leaf) for leaf in leaves)
        self.boxes = {p: box_value(leaf) for p, leaf in enumerate(leaves) if is_user_type(leaf)}
        self.leaves = [
            self.boxes[p]._node if p in self.boxes else _tensor(leaf)
            for p, leaf in enumerate(leaves)
        ]
        self.tree = pytree.unflatten(self.spec, self.leaves)

    def open(self, tree: Any) -> Any:
        """The argument as the function sees it: boxes in the place of their handles."""
        if not self.boxes:
            return tree
        leaves = pytree.leaves(tree)
        for place, box in self.boxes.items():
            box._node, leaves[place] = leaves[place], box
        return pytree.unflatten(self.spec, leaves)

    def gradient(self, tree: Any) -> Any:
        """A gradient as what went in; those by boxed values are taken from their cells."""
        made = self.result(pytree.map(conjugate, tree))
        if not self.boxes:
            return made
        leaves = pytree.leaves(made)
        for place, box in self.boxes.items():
            leaves[place] = box._trace.take()
        return pytree.unflatten(self.spec, leaves)

    def result(self, tree: Any) -> Any:
        """A result as what went in: tensors if tensors did, else arrays and numbers."""
        return tree if self._keeps else plain(tree)

    def like(self, leaves: list[Any]) -> Any:
        """A tangent or gradient: its leaves have the types of the argument's."""
        given = zip(leaves, self.leaves, strict=True)
        return pytree.unflatten(self.spec, [_cast(leaf, to) for leaf, to in given])


def _tensor(leaf: Any) -> Tensor:
    """A leaf of an argument, to be differentiated by."""
    if isinstance(leaf, Tensor | np.ndarray | np.generic | float | complex):
        made = creation.asarray(leaf)
        if made.dtype.kind in "fc":
            return made
    kind = f"{type(leaf).__name__} of dtype {leaf.dtype}" if hasattr(leaf, "dtype") else repr(leaf)
    raise AutogradTypeError(
        f"Can't differentiate w.r.t. {kind}: arguments that are differentiated by have to be "
        f"floating point or complex; write 3.0 for 3, and array.astype(float)"
    )


def _cast(value: Any, to: Tensor) -> Tensor:
    """A cotangent or tangent beside the tensor that it belongs to."""
    made = creation.asarray(value)
    if made.shape != to.shape:
        raise AutogradValueError(
            f"a vector of shape {made.shape} was given where the value has shape {to.shape}"
        )
    if made.dtype.kind == "c" and to.dtype.kind != "c":
        raise AutogradTypeError("a complex vector was given where the value is real")
    return creation.asarray(made, dtype=to.dtype)


def _result(leaf: Any) -> Tensor:
    """A leaf of what a function has returned."""
    if isinstance(leaf, Box) and not isinstance(leaf, Tensor):
        raise AutogradTypeError(
            f"the function returned a {type(leaf._value).__name__}; functions of values of "
            f"registered types have to return arrays and numbers"
        )
    try:
        made = creation.asarray(leaf)
    except (TypeError, ValueError) as error:
        raise AutogradTypeError(
            f"the function returned a {type(leaf).__name__}, which is no array or number"
        ) from error
    return made if made.dtype.kind in "fc" else creation.asarray(made, dtype=float)


def _returning_tensors(fun: _Function, argument: Argument) -> _Function:
    def run(x: Any) -> Any:
        leaves, spec = pytree.flatten(fun(argument.open(x)))
        if not any(isinstance(leaf, Box) and is_traced(leaf) for leaf in leaves):
            warnings.warn("Output seems independent of input.", stacklevel=2)
        argument.returned_bool = any(isinstance(leaf, bool | np.bool_) for leaf in leaves)
        if not leaves:
            raise AutogradTypeError("the function returned nothing; a number or array is needed")
        return pytree.unflatten(spec, [_result(leaf) for leaf in leaves])

    return run


class Pulled:
    """VJP of a function at a point: call it with a cotangent.

    Attributes:
        value: what the function returned, as tensors.
        argument: what it was called with.
    """

    def __init__(self, fun: _Function, x: Any):
        self.argument = Argument(x)
        run = _returning_tensors(fun, self.argument)
        self._vjp: _Function
        if self.argument.leaves:
            self.value, self._vjp = vjp(run, self.argument.tree)
        else:  # empty containers: nothing to differentiate by
            self.value, self._vjp = run(x), lambda _: (x,)
        self._leaves, self._spec = pytree.flatten(self.value)

    @property
    def single(self) -> Tensor | None:
        """The value, if it is one tensor and not a tree of them."""
        return self.value if isinstance(self.value, Tensor) else None

    def __call__(self, cotangent: Any) -> Any:
        """The gradient by the argument."""
        found = pytree.flatten_like(self._spec, cotangent, "the cotangent, like the value,")
        pairs = zip(found, self._leaves, strict=True)
        seeds = [conjugate(_cast(leaf, to)) for leaf, to in pairs]
        (gradient,) = self._vjp(pytree.unflatten(self._spec, seeds))
        return self.argument.gradient(gradient)


def pushed(fun: _Function, x: Any, tangent: Any) -> tuple[Any, Any]:
    """The value of a function and its derivative in a direction, as what went in."""
    argument = Argument(x)
    found = pytree.flatten_like(argument.spec, tangent, "the tangent, like the argument,")
    if argument.boxes:
        raise AutogradTypeError(
            "values of registered types have no forward mode; use grad or make_vjp"
        )
    value, slope = jvp(_returning_tensors(fun, argument), (argument.tree,), (argument.like(found),))
    keeps = any(isinstance(leaf, Tensor) and not is_traced(leaf) for leaf in found)
    return (value, slope) if keeps else (argument.result(value), argument.result(slope))
