"""Calls with PyTorch's spelling give PyTorch's values, dtypes, shapes and gradients."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import pullback.compat.torch as ours
from tests.compat.torch_calls import CALLS, inputs

pytestmark = pytest.mark.oracle
ARRAYS = inputs()
ours.special.expit(ours.ones(1))  # loads these operators before tests count operators


def flatten(value):
    """The tensors and numbers of a result, in order; a shape counts as numbers."""
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in flatten(item)]
    return [value]


def evaluate(library, call):
    """The results of a call, and the gradients of a weighted sum of those that require grad."""
    used = set(re.findall(r"\w+", call))
    given = {}
    for name, array in ARRAYS.items():
        if name not in used:
            continue
        tensor = library.tensor(array)
        given[name] = tensor.requires_grad_() if array.dtype.kind in "fc" else tensor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = flatten(eval(call, {"torch": library, **given}))
    total = 0
    for place, result in enumerate(results):
        if isinstance(result, library.Tensor) and result.requires_grad:
            part = result.abs() if result.is_complex() else result
            weights = np.cos(np.arange(part.numel()) + place).reshape(tuple(part.shape))
            total = total + (part * library.tensor(weights).to(part.dtype)).sum()
    if isinstance(total, library.Tensor):
        total.backward()
    grads = {}
    for name, tensor in given.items():
        if tensor.is_leaf and tensor.grad is not None:
            grads[name] = tensor.grad.detach().resolve_conj().numpy(force=True)
    return results, grads


@pytest.mark.parametrize("call", CALLS)
def test_call(torch, call):
    expected, expected_grads = evaluate(torch, call)
    found, grads = evaluate(ours, call)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, ours.Tensor) == isinstance(other, torch.Tensor), (one, other)
        if not isinstance(one, ours.Tensor):
            if isinstance(other, torch.dtype):
                assert str(other) == f"torch.{one}"
            else:
                assert one == pytest.approx(other, rel=1e-9)
            continue
        assert tuple(one.shape) == tuple(other.shape)
        assert f"torch.{one.dtype}" == str(other.dtype)
        wanted = other.detach().resolve_conj().numpy()
        tolerance = 1e-5 if wanted.dtype.itemsize == 4 else 1e-9
        np.testing.assert_allclose(one.detach().numpy(), wanted, rtol=tolerance, atol=tolerance)
    assert grads.keys() == expected_grads.keys()
    for name, grad in grads.items():
        assert grad.dtype == expected_grads[name].dtype
        tolerance = 1e-5 if re.search(r"\bf\b", call) else 1e-8
        np.testing.assert_allclose(grad, expected_grads[name], rtol=tolerance, atol=tolerance)
