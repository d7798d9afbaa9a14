"""Reads and writes at positions: constant ones, and those that are data, in registers."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

pytest.importorskip("llvmlite")

DTYPES = (np.float64, np.float32, np.complex128, np.int64, np.bool_)


def _same(program, *args):
    compiled = pb.compile(program, fullgraph=True)
    compiled(*args)
    expected, found = program(*args), compiled(*args)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    assert compiled.stats["eager"] == 0


def _written(x, at, v):
    y = x.copy()
    y[at] = v
    return y


def _added(x, at, v):
    y = x.copy()
    np.add.at(y, at, v)
    return y


@pytest.mark.parametrize("is_constant", [True, False], ids=["constant", "given"])
@pytest.mark.parametrize("size", [1, 7, 8, 9, 17, 40, 90, 250])
def test_positions_of_any_number(size, is_constant):
    rng = np.random.default_rng(size)
    for dtype in DTYPES:
        x = (rng.normal(size=size) * 3).astype(dtype)
        at = rng.integers(-size, size, size=max(1, size // 2))
        v = (rng.normal(size=at.shape) * 3).astype(dtype)
        programs = [lambda x, at, v: x[at] | v if x.dtype == bool else x[at] * v, _written]
        programs += [] if dtype == np.bool_ else [_added]
        for program in programs:
            if is_constant:
                _same(lambda x, v, program=program, at=at: program(x, at, v), x, v)
            else:
                _same(program, x, at, v)


def test_positions_without_repetition():
    rng = np.random.default_rng(0)
    for size in (5, 30, 64, 65, 200):
        x, at = rng.normal(size=size), rng.permutation(size)[: size // 2]
        v = rng.normal(size=len(at))
        for program in (_written, _added):
            _same(lambda x, v, program=program, at=at: program(x, at, v), x, v)


def shifted(x):
    for _ in range(3):
        near = sum(np.roll(x, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1))
        x = np.tanh(0.3 * near - x)
    return np.sum(x * x)


def padded(x):
    p = np.pad(x, 1, mode="edge")
    return np.sum((p[2:, 1:-1] - p[:-2, 1:-1]) ** 2 + p[1:-1, 2:] * p[1:-1, :-2])


@pytest.mark.parametrize(("program", "most"), [(shifted, 10_000), (padded, 4_000)])
def test_stencils_are_short_code(program, most):
    x = np.random.default_rng(0).normal(size=(12, 12))
    derivative = pb.value_and_grad(program)
    compiled = pb.compile(derivative)
    value, gradient = compiled(x)
    np.testing.assert_allclose(value, derivative(x)[0], rtol=1e-13)
    np.testing.assert_allclose(gradient, derivative(x)[1], rtol=1e-11, atol=1e-13)
    assert len(compiled.llvm_ir(x).splitlines()) < most  # one line for each element: 50,000


def test_edges_of_a_network_are_inputs():
    def program(x, source, target):
        found = np.zeros_like(x)
        np.add.at(found, target, np.tanh(x[source]))
        np.subtract.at(found, (source, 0), x[target, 1])
        return np.sum(found**2)

    rng = np.random.default_rng(0)
    derivative = pb.value_and_grad(program)
    compiled = pb.compile(derivative, fullgraph=True)
    for _ in range(10):
        x, (source, target) = rng.normal(size=(6, 2)), rng.integers(-6, 6, size=(2, 9))
        for found, expected in zip(
            compiled(x, source, target), derivative(x, source, target), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    assert compiled.stats["traces"] == 1
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(x, source, target + 20)


@pytest.mark.parametrize("ufunc", [np.add, np.subtract])
@pytest.mark.parametrize("index", [np.array([0, 2, -1, 2]), slice(0, 4)], ids=["integers", "slice"])
@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("i8", np.array([0.7, 1.6, -2.5, 0.9])),
        ("i4", 0.7),
        ("u1", np.array([0.7, 1.6, 2.5, 0.9], np.float32)),
        ("f8", np.array([1, 2, 250, 3], np.uint8)),
        ("i8", np.array([1, 2, 250, 3], np.uint8)),
        ("f8", np.array([True, False, True, True])),
        ("c16", np.array([1, 2, 3, 4], np.uint16)),
    ],
)
def test_added_values_of_another_dtype(ufunc, index, dtype, values):
    """Each sum is converted, as by NumPy, and not the values; no unsigned number is negated."""

    def program(x, values):
        y = x.copy()
        ufunc.at(y, index, values)
        return y

    x = np.array([3, 5, 6, 7, 9]).astype(dtype)
    expected = program(x, values)
    with pb.numpy_mode():
        np.testing.assert_array_equal(program(pb.tensor(x), values).numpy(), expected)
    compiled = pb.compile(program)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(x, values), expected)


def test_filters_of_padded_images_are_short():
    """Eighteen parts of 14 x 14 elements: shuffles of registers made 5,500 lines."""
    kernel = np.array([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])

    def sobel(x):
        padded = np.pad(x, 1)
        parts = [(i, j, padded[i : i + 12, j : j + 12]) for i in range(3) for j in range(3)]
        across = sum(kernel[i, j] * part for i, j, part in parts)
        down = sum(kernel[j, i] * part for i, j, part in parts)
        return np.sqrt(across**2 + down**2 + 1e-3).sum()

    x = np.random.default_rng(0).normal(size=(12, 12))
    gradient = pb.grad(sobel)
    compiled = pb.compile(gradient, cache=False)
    for given in (x, x.T.copy()):
        np.testing.assert_allclose(compiled(given), gradient(given), rtol=1e-9, atol=1e-12)
    assert compiled.llvm_ir(x).count("\n") < 2000
