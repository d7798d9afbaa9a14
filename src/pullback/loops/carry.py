"""The carry of a loop: a tree of tensors that keeps its structure, shapes and dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.errors import AutogradTypeError, AutogradValueError
from pullback.operators.creation.functions import asarray
from pullback.tensor.tensor import Tensor
from pullback.utils import pytree

__all__ = ["Carry", "as_tensor", "check_callable", "kind_of", "structure_error"]

_NUMBERS = (bool, int, float, complex)


def as_tensor(leaf: Any, where: str) -> Tensor:
    """A leaf as a tensor; `where` names it in the error."""
    if type(leaf) is Tensor:
        return leaf
    try:
        return asarray(leaf)
    except (TypeError, ValueError) as error:
        raise AutogradTypeError(
            f"{where} is of type {type(leaf).__name__}; a tensor, an array or a number is expected"
        ) from error


def check_callable(where: str, function: Any) -> None:
    """Raises if an argument, which `where` names, is no function."""
    if not callable(function):
        raise AutogradTypeError(
            f"{where} is of type {type(function).__name__}; a function is expected"
        )


def kind_of(leaf: Tensor) -> str:
    """Dtype and shape of a leaf in errors, such as ``float64[3]``."""
    return f"{leaf.dtype}{list(leaf.shape)}"


def structure_error(name: str, what: str, expected: pytree.Spec, found: pytree.Spec) -> Exception:
    """The error for a tree of another structure than the one before."""
    return AutogradTypeError(
        f"{name}: {what} has to keep its structure, {expected!r}, but the function returns "
        f"{found!r} (each * is a tensor, an array or a number)"
    )


def _is_number(leaf: Any) -> bool:
    """Whether a leaf is a Python number, or one of a program that is traced."""
    return type(leaf) in _NUMBERS or hasattr(leaf, "__pullback_operand__")


class Carry:
    """The structure of a carry, by which each new one is checked.

    Args:
        name: the public function, for errors.
        init: the first carry; numbers and arrays in it become tensors.
    """

    def __init__(self, name: str, init: Any):
        self.name = name
        given, self.spec = pytree.flatten(init)
        self.is_number = [_is_number(leaf) for leaf in given]
        self.first = [
            as_tensor(leaf, f"{name}: init{path}")
            for leaf, path in zip(given, self.spec.paths(), strict=True)
        ]

    def tree(self, leaves: list[Tensor]) -> Any:
        """The carry with these leaves."""
        return pytree.unflatten(self.spec, leaves)

    def leaves(self, returned: Any) -> list[Tensor]:
        """The leaves of a carry that a function has returned, with its structure checked."""
        found, spec = pytree.flatten(returned)
        if spec != self.spec:
            found = self._reordered(returned, spec)
        if all(type(leaf) is Tensor for leaf in found):
            return found
        paths = self.spec.paths()
        return [as_tensor(x, f"{self.name}: carry{p}") for x, p in zip(found, paths, strict=True)]

    def _reordered(self, returned: Any, spec: pytree.Spec) -> list[Any]:
        """The leaves of a carry whose dicts have their keys in another order."""
        error = structure_error(self.name, "the carry", self.spec, spec)
        try:
            found = pytree.flatten_like(self.spec, returned)
        except AutogradValueError:
            raise error from None
        if not all(map(pytree.is_leaf, found)):
            raise error
        return found

    def check(self, before: list[Tensor], after: list[Tensor]) -> None:
        """Raises if a leaf has another shape or dtype than before; names it."""
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            if old.dtype != new.dtype or old.shape != new.shape:
                path = self.spec.paths()[place]
                raise AutogradTypeError(
                    f"{self.name}: carry{path} is {kind_of(old)} before a step and {kind_of(new)} "
                    f"after it; shape and dtype have to stay the same. Give init{path} the shape "
                    f"and dtype of the result, or convert the result with astype() or reshape()."
                )

    def promotions(self, after: list[Tensor]) -> dict[int, np.dtype[Any]]:
        """The Python numbers in `init` that take the dtype of the first result, if it holds them.

        The first step has to run again then, after ``promote``.
        """
        found = {}
        for place, (old, new) in enumerate(zip(self.first, after, strict=True)):
            if not self.is_number[place] or old.dtype == new.dtype or new.shape != ():
                continue
            if np.result_type(new.dtype, old.dtype.type(0).item()) == new.dtype:
                found[place] = new.dtype
        return found

    def promote(self, dtypes: dict[int, np.dtype[Any]]) -> bool:
        """Gives numbers in `init` other dtypes; returns whether there were any."""
        for place, dtype in dtypes.items():
            self.first[place] = self.first[place].astype(dtype)
        return bool(dtypes)
