"""``autograd.numpy.linalg``: the functions of ``numpy.linalg``, for arrays and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.compat.autograd.namespace import member
from pullback.tensor import Tensor

__all__: list[str] = []
__all__ += np.linalg.__all__


def eigh(a: Any, UPLO: str = "L") -> Any:  # noqa: N803 - NumPy's name
    """Eigenvalues and vectors of a symmetric matrix; the half that is read has all the gradient.

    >>> from pullback.compat.autograd import grad
    >>> grad(lambda a: eigh(a)[0].sum() + eigh(a)[0][0])(np.array([[2.0, 1.0], [1.0, 2.0]]))
    array([[ 1.5,  0. ],
           [-1. ,  1.5]])
    """
    if isinstance(a, Tensor):
        half, rest = (np.tril, np.tril(a, -1)) if UPLO == "L" else (np.triu, np.triu(a, 1))
        a = half(a) + np.conj(np.swapaxes(rest, -1, -2))
    return np.linalg.eigh(a, UPLO)  # type: ignore[call-overload]


def __getattr__(name: str) -> Any:
    return member(np.linalg, name)


def __dir__() -> list[str]:
    return __all__
