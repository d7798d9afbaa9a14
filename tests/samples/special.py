"""Records of special functions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.samples.opinfo import Make, OpInfo, Sample, call
from tests.samples.pointwise import binary, both, unary

__all__ = ["OPS"]


def _logit(make: Make) -> Iterator[Sample]:
    yield from unary(0.1, 0.9)(make)
    yield call(make(2, 3, low=0.0, high=1.0), 0.2)
    yield call(make(4, low=-0.5, high=1.5), eps=0.1)


def _softplus(make: Make) -> Iterator[Sample]:
    yield from unary()(make)
    yield call(make(3), 2.0)
    yield call(make(2, 3), beta=0.5, threshold=0.1)
    yield call(make(3, low=18.0, high=22.0))


def _polygamma(make: Make) -> Iterator[Sample]:
    for n in (0, 1, 2, 3):
        yield call(n, make(2, 3, low=0.5, high=4.0))
    yield call(1, make(3, low=-0.9, high=-0.1))
    yield call(2, make())
    yield call(1, make(0))


def _each(function: Any) -> Any:
    """A function of Python floats for every element of an array."""

    def reference(x: Any) -> Any:
        result = np.array([function(v) for v in np.ravel(x).tolist()], dtype=np.float64)
        return result.reshape(np.shape(x))

    return reference


def _real(
    name: str, low: float, high: float, reference: Any = None, inplace: bool = True
) -> OpInfo:
    """The record of a function of one real array that PyTorch has too."""
    return OpInfo(
        name,
        unary(low, high),
        reference,
        lambda t, x: getattr(t if hasattr(t, name) else t.special, name)(x),
        has_complex=False,
        inplace=f"{name}_" if inplace else None,
    )


OPS = [
    OpInfo(
        "sigmoid",
        unary(),
        lambda x: 1 / (1 + np.exp(-x)),
        lambda t, x: t.sigmoid(x),
        inplace="sigmoid_",
    ),
    OpInfo(
        "logit",
        _logit,
        None,
        lambda t, x, eps=None: t.logit(x, eps),
        has_complex=False,
        inplace="logit_",
    ),
    OpInfo(
        "softplus",
        _softplus,
        None,
        lambda t, x, beta=1.0, threshold=20.0: t.nn.functional.softplus(x, beta, threshold),
        has_complex=False,
    ),
    *(
        OpInfo(
            name,
            binary(low, 2.0),
            None,
            lambda t, x, y, name=name: getattr(t.special, name)(*both(t, x, y)),
            has_complex=False,
            inplace=inplace,
        )
        for name, low, inplace in (("xlogy", 0.3, "xlogy_"), ("xlog1py", -0.6, None))
    ),
    _real("entr", 0.2, 2.0, inplace=False),
    _real("erf", -2.0, 2.0, _each(math.erf)),
    _real("erfc", -2.0, 2.0, _each(math.erfc)),
    _real("erfinv", -0.9, 0.9),
    OpInfo("gamma", unary(0.5, 4.0), _each(math.gamma), has_complex=False),
    OpInfo("gamma", unary(-0.8, -0.2), _each(math.gamma), has_complex=False),
    _real("lgamma", 0.5, 4.0, _each(math.lgamma)),
    _real("lgamma", -1.8, -1.2, _each(math.lgamma)),
    _real("digamma", 0.5, 4.0),
    OpInfo("polygamma", _polygamma, torch=lambda t, n, x: t.polygamma(n, x), has_complex=False),
    _real("i0", -3.0, 3.0, np.i0, inplace=False),
    _real("i1", -3.0, 3.0, inplace=False),
]
