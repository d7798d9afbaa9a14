"""`Factorization`: SciPy's ``SuperLU``, for tensors too.

``splu`` and ``spilu`` return a compiled object whose ``solve`` takes arrays only, and whose class
cannot be changed. Their hooks wrap it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.func.primitive import apply_linear
from pullback.interop.arguments import as_tensor, plain, refusal
from pullback.sparse.products import Pattern, solve
from pullback.sparse.solvers import DirectSolver
from pullback.tensor.batched import levels_of
from pullback.tensor.tensor import Tensor

__all__ = ["Factorization"]

_OPPOSITE = {"N": "T", "T": "N"}


class Factorization:
    """A factorisation by ``splu`` or ``spilu`` that solves for arrays and for tensors.

    ``isinstance(f, scipy.sparse.linalg.SuperLU)`` holds, and the other attributes are SciPy's.
    """

    def __init__(self, factors: Any):
        self._made = factors
        self._system: tuple[Pattern, Tensor, bool, DirectSolver] | None = None

    def with_values(
        self, pattern: Pattern, values: Tensor, transposed: bool, solver: DirectSolver
    ) -> Factorization:
        """The factorisation of a matrix whose values have derivatives."""
        self._system = (pattern, values, transposed, solver)
        if not levels_of(values):
            self._made = solver.factor(pattern.matrix(plain(values)))
        return self

    @property  # type: ignore[misc] # read-only
    def __class__(self) -> Any:
        return sys.modules["scipy.sparse.linalg"].SuperLU

    def __getattr__(self, name: str) -> Any:
        if self._made is None:
            raise AttributeError(f"SuperLU.{name}: inside vmap there is one for each sample")
        return getattr(self._made, name)

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """Solves for one or several right sides: ``trans`` is N, T or H, as in SciPy."""
        if self._system is None and not isinstance(rhs, Tensor):
            return self._made.solve(rhs, trans)
        right = as_tensor(rhs)
        size = (self._made if self._system is None else self._system[0]).shape[0]
        if right.ndim not in (1, 2) or right.shape[0] != size:
            raise ValueError("rhs is of incompatible size")
        if trans not in _OPPOSITE:
            raise refusal(
                "scipy.sparse.linalg.SuperLU.solve",
                f"it has no derivative here with trans={trans!r}",
                "Conjugate the right side and the result of trans='T'.",
            )
        if self._system is None:
            return apply_linear(
                right, lambda v: self._run(v, trans), lambda v: self._run(v, _OPPOSITE[trans])
            )
        pattern, values, transposed, solver = self._system
        dtype = np.result_type(values.dtype, right.dtype)
        values, right = (t if t.dtype == dtype else t.astype(dtype) for t in (values, right))
        return solve(values, right, pattern, solver, transposed != (trans == "T"))

    def _run(self, right: NDArray[Any], trans: str) -> NDArray[Any]:
        dtype = self._made.U.dtype
        if right.dtype.kind == "c" and dtype.kind != "c":
            parts = [np.ascontiguousarray(part) for part in (right.real, right.imag)]
            return self._run(parts[0], trans) + 1j * self._run(parts[1], trans)
        return np.asarray(self._made.solve(right.astype(dtype), trans))
