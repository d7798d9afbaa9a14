"""An operator as a function of the arrays that it is differentiated by.

Operators that write to their arguments become functions too: they are called with copies that are
no leaves, and the arguments that they write to count as outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.api import grad
from pullback.autograd.modes import no_grad
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.library.checks.case import Case, copy_tensor, with_tensors
from pullback.library.checks.numeric import precision
from pullback.library.kernel_call import tensors_in
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["Problem", "converted", "doubled"]

_Array = NDArray[Any]
_SEED = 20240607
_WIDE = {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}


def converted(case: Case, dtypes: dict[str, np.dtype[Any]]) -> Case:
    """The same call with floating-point tensors in other precisions, by kind."""

    def change(_: str, tensor: Tensor) -> Tensor:
        kind = dtypes.get(tensor.dtype.kind)
        if kind is None or tensor.dtype == kind:
            return tensor
        made = wrap(np.asarray(tensor._array, kind))
        made._flags |= tensor._flags & REQUIRES_GRAD
        return made

    return case.changed(change)


def doubled(case: Case) -> Case:
    """The same call in double precision, where finite differences are good to many digits."""
    return converted(case, _WIDE)


class Problem:
    """The floating-point outputs of a call, by the inputs that require grad.

    Attributes:
        names: the inputs that are differentiated.
        at: their values.
        here: the outputs there.
        is_differentiable: for each output, whether it has a history.
        weights: a random cotangent for each output; zero where it has no history.
    """

    def __init__(self, case: Case):
        self.case = case
        self.names = case.needs_grad()
        self.at = {p.name: np.array(p.tensor._array) for p in case.places() if p.name in self.names}
        self.random = np.random.default_rng(_SEED)
        # What jacobian.py computes once: the Jacobian by the reverse rule, and sizes of gradients.
        self.pulled: Any = None
        self.grains: dict[str, _Array] = {}
        self.here = self.outputs({})
        recorded = self.call({}, leaves=True)[0]
        self.is_differentiable = [out.requires_grad for out in recorded]
        self.eps = precision(self.here) or float(np.finfo(np.float64).eps)
        self.weights = [
            self.noise(out) if known else np.zeros_like(out)
            for out, known in zip(self.here, self.is_differentiable, strict=True)
        ]

    @cached_property
    def base(self) -> dict[str, _Array]:
        """The gradients at the given values, for the random cotangents."""
        return self.gradients()

    @property
    def is_wide(self) -> bool:
        """Whether all outputs are in double precision."""
        return self.eps < 1e-12

    @property
    def tolerance(self) -> float:
        """The relative difference of two results that differ by rounding only."""
        return self.case.rtol or (1e-9 if self.is_wide else 1e-3)

    def noise(self, like: _Array) -> _Array:
        """A random array of the same shape and dtype."""
        made = self.random.standard_normal(like.shape)
        if like.dtype.kind == "c":
            return (made + 1j * self.random.standard_normal(like.shape)).astype(like.dtype)
        return np.asarray(made, like.dtype)

    def call(
        self, values: dict[str, Any], *, leaves: bool, only: set[str] | None = None
    ) -> tuple[list[Tensor], dict[str, Tensor]]:
        """The floating-point outputs for other values of some inputs, and the tensors used.

        With `leaves`, inputs that were given as arrays require grad: all, or `only` some.
        """
        used: dict[str, Tensor] = {}
        written = self.case.written
        given: list[Tensor] = []

        def change(name: str, tensor: Tensor) -> Tensor:
            is_written = name.partition("[")[0] in written
            if name not in self.at:
                tensor = copy_tensor(tensor, copies)
            else:
                value = values.get(name, self.at[name])
                tensor = value if isinstance(value, Tensor) else wrap(np.array(value))
                if leaves and not isinstance(value, Tensor) and (only is None or name in only):
                    tensor._flags |= REQUIRES_GRAD
                used[name] = tensor
                if is_written and (leaves or isinstance(value, Tensor)):
                    tensor = tensor * 1  # no leaf, so that it can be written to
            if is_written:
                given.append(tensor)
            return tensor

        copies: dict[int, Any] = {}
        args, kwargs = with_tensors(self.case, self.case.args, self.case.kwargs, change)
        result = self.case.operator(*args, **kwargs)
        found = {id(out): out for out in [*tensors_in([result]), *given]}
        return [out for out in found.values() if out.dtype.kind in "fc"], used

    def outputs(self, values: dict[str, Any]) -> list[_Array]:
        """The outputs as arrays, without recording."""
        with no_grad():
            return [out._array for out in self.call(values, leaves=False)[0]]

    def along(self, name: str) -> Callable[[_Array], list[_Array]]:
        """The outputs as a function of one input."""
        return lambda value: self.outputs({name: value})

    def pull(
        self,
        outputs: list[Tensor],
        used: dict[str, Tensor],
        cotangents: Sequence[_Array | Tensor | None],
        retain: bool = True,
    ) -> dict[str, _Array]:
        """The gradients of the inputs; outputs whose cotangent is None are left out.

        A cotangent that is a tensor is passed on itself, an array as a copy.
        """
        kept = [
            (out, weight if isinstance(weight, Tensor) else wrap(np.array(weight)))
            for out, weight in zip(outputs, cotangents, strict=True)
            if weight is not None and out.requires_grad
        ]
        if not kept:
            return {name: np.zeros_like(self.at[name]) for name in used}
        found = grad(
            [out for out, _ in kept],
            list(used.values()),
            [weight for _, weight in kept],
            allow_unused=True,
            retain_graph=retain,
        )
        return {
            name: np.zeros_like(self.at[name]) if g is None else np.array(g._array)
            for name, g in zip(used, found, strict=True)
        }

    def gradients(
        self, values: dict[str, Any] | None = None, cotangents: list[_Array] | None = None
    ) -> dict[str, _Array]:
        """The gradients for the random cotangents, from a fresh call."""
        outputs, used = self.call(values or {}, leaves=True)
        return self.pull(outputs, used, cotangents or self.weights, retain=False)
