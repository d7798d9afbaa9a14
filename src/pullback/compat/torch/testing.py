"""``torch.testing``: `assert_close`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.compat.torch.tensor import values_of
from pullback.tensor.tensor import Tensor

__all__ = ["assert_close"]

_TOLERANCES = {  # relative and absolute, PyTorch's
    "float16": (1e-3, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Any = None,
) -> None:
    """Raises AssertionError unless tensors, numbers or trees of them are equal up to tolerances.

    >>> import pullback.compat.torch as torch
    >>> torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-7)
    """
    del allow_subclasses, check_device, check_layout, check_stride
    if isinstance(actual, dict | list | tuple):
        _compare_trees(
            actual,
            expected,
            rtol=rtol,
            atol=atol,
            equal_nan=equal_nan,
            check_dtype=check_dtype,
            msg=msg,
        )
        return
    one, other = (
        values_of(v.detach()) if isinstance(v, Tensor) else np.asarray(v)
        for v in (actual, expected)
    )
    if one.shape != other.shape:
        raise AssertionError(
            f"The values for attribute 'shape' do not match: {one.shape} != {other.shape}."
        )
    if check_dtype and one.dtype != other.dtype and isinstance(actual, Tensor):
        raise AssertionError(
            f"The values for attribute 'dtype' do not match: {one.dtype} != {other.dtype}."
        )
    if (rtol is None) != (atol is None):
        raise ValueError("assert_close: rtol and atol must both be given, or none of them")
    pairs = [_TOLERANCES.get(kind.name, (0.0, 0.0)) for kind in (one.dtype, other.dtype)]
    relative, absolute = (rtol, atol) if rtol is not None else map(max, zip(*pairs, strict=True))
    if not np.allclose(one, other, relative, absolute, equal_nan=equal_nan):  # type: ignore[arg-type]
        worst = np.abs(one.astype(np.complex128) - other).max()
        text = f"Tensor-likes are not close! Greatest absolute difference: {worst}"
        raise AssertionError(msg(text) if callable(msg) else msg or text)


def _compare_trees(actual: Any, expected: Any, **options: Any) -> None:
    if len(actual) != len(expected):
        raise AssertionError(
            f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
        )
    if isinstance(actual, dict):
        if actual.keys() != expected.keys():
            raise AssertionError(
                f"The keys of the mappings do not match: {list(actual)} and {list(expected)}"
            )
        pairs = [(actual[key], expected[key]) for key in actual]
    else:
        pairs = list(zip(actual, expected, strict=True))
    for one, other in pairs:
        assert_close(one, other, **options)
