"""Sparse Jacobians and Hessians: equal to dense ones, in few passes, without dense matrices."""

from __future__ import annotations

import importlib
import tracemalloc

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional
from pullback.errors import AutogradError, MissingPackageError
from pullback.sparse import (
    Coloring,
    color_hessian,
    color_jacobian,
    derivatives,
    hessian_pattern,
    jacobian_pattern,
    sparse_hessian,
    sparse_jacobian,
)

scipy_sparse = pytest.importorskip("scipy.sparse", reason="pip install scipy")
RNG = np.random.default_rng(0)
INDEX = np.array([3, 0, 3, 5])


class Cubed(pb.autograd.Function):
    """Element by element, but nobody knows."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        return grad * 3 * ctx.saved_tensors[0] ** 2

    @staticmethod
    def jvp(ctx, tangent):
        raise NotImplementedError


def writes(x):
    y = x * 1
    y[1:3] *= x[4:]
    y[::2] = y[::2] + pb.sin(x[::2]) * x[0]
    return y


def writes_into_zeros(x):
    y = pb.zeros(8)
    y[1:7] = x * x
    view = y.reshape(2, 4)
    view[0] += x[2]
    return y * 2


FUNCTIONS = {
    "band": lambda x: x[1:] * x[:-1] ** 2,
    "periodic": lambda x: pb.roll(x, 1) - 2 * x + pb.roll(x, -1) * x,
    "gather": lambda x: x[INDEX] * x[:4],
    "scatter": lambda x: pb.concatenate([pb.flip(x), x[::2]]) ** 2,
    "where": lambda x: pb.where(x > 0, x[::-1], pb.exp(x)),
    "sum": lambda x: x.reshape(2, 3).sum(axis=0) * x[:3],
    "mean": lambda x: x.reshape(2, 3).mean(axis=1, keepdims=True) * pb.ones((2, 2)),
    "max": lambda x: x.reshape(2, 3).max(axis=1),
    "cumsum": lambda x: pb.cumsum(x.reshape(2, 3), axis=1) * 2,
    "softmax": lambda x: pullback.nn.functional.softmax(x.reshape(3, 2), -1),
    "matmul": lambda x: x.reshape(2, 3) @ pb.tensor(np.arange(6.0).reshape(3, 2)),
    "batch": lambda x: x.reshape(3, 1, 2) @ x.reshape(3, 2, 1),
    "einsum": lambda x: pb.einsum("ij,ij->i", x.reshape(3, 2), pb.sin(x.reshape(3, 2))),
    "outer": lambda x: pb.outer(x[:2], x[2:4]),
    "convolve": lambda x: pb.convolve(x, pb.tensor([1.0, -2.0, 1.0]), "same"),
    "det": lambda x: pb.linalg.det(pb.concatenate([x, x[:2]]).reshape(2, 2, 2)),
    "norm": lambda x: x / pb.sqrt((x * x).sum()),
    "fft": lambda x: pb.abs(pb.fft.fft(x.reshape(2, 3), axis=1)),
    "custom": lambda x: Cubed.apply(x[:3]),
    "writes": writes,
    "writes into zeros": writes_into_zeros,
    "constant": lambda x: x.detach() * 2,
    "scalar": lambda x: (x[1] * x[2]).reshape(()),
}


def dense_jacobian(f, x):
    leaf = pb.tensor(x, requires_grad=True)
    y = f(leaf)
    if not y.requires_grad:
        return np.zeros((y.size, x.size))
    rows = [
        pb.autograd.grad(
            y, leaf, pb.tensor(seed.reshape(y.shape)), retain_graph=True, materialize_grads=True
        )[0]
        for seed in np.eye(y.size)
    ]
    return np.array([row.numpy().reshape(-1) for row in rows])


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_equals_the_dense_jacobian(name, mode):
    if name == "custom" and mode == "forward":
        pytest.skip("has no forward rule")
    x = RNG.uniform(0.5, 1.5, 6)
    found = sparse_jacobian(FUNCTIONS[name], x, mode=mode)
    assert isinstance(found, scipy_sparse.csr_array)
    np.testing.assert_allclose(found.toarray(), dense_jacobian(FUNCTIONS[name], x), atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equals_the_dense_hessian(name):
    if name in ("custom", "max"):
        pytest.skip("not smooth, or with a backward that is no business of ours")
    x = RNG.uniform(0.5, 1.5, 6)

    def f(x):
        y = FUNCTIONS[name](x)
        return (y * y * pb.tensor(np.linspace(1, 2, y.size).reshape(y.shape))).sum()

    def slope(leaf):
        y = f(leaf)
        if not y.requires_grad:
            return pb.zeros(6)
        return pb.autograd.grad(y, leaf, create_graph=True)[0]

    found = sparse_hessian(f, x)
    np.testing.assert_allclose(found.toarray(), dense_jacobian(slope, x), atol=1e-10)


@pytest.mark.parametrize(
    ("name", "entries"),
    [
        ("band", 10),
        ("periodic", 18),
        ("gather", 8),
        ("scatter", 9),
        ("sum", 6),
        ("softmax", 12),
        ("matmul", 12),
        ("batch", 6),
        ("convolve", 16),
        ("det", 8),
        ("fft", 18),
        ("constant", 0),
        ("scalar", 2),
        ("writes into zeros", 6 + 3),
    ],
)
def test_patterns_have_no_needless_entries(name, entries):
    assert jacobian_pattern(FUNCTIONS[name], np.ones(6)).nnz == entries


def banded(x):
    return x[2:] * x[:-2] ** 2 - pb.sin(x[1:-1]) * x[2:] + x[1:-1]


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def count_passes(monkeypatch):
    """Counts backward and forward passes of what is sparse."""
    counted = []

    def counting(function):
        return lambda *args, **kwargs: counted.append(1) or function(*args, **kwargs)

    monkeypatch.setattr(derivatives, "grad", counting(derivatives.grad))
    monkeypatch.setattr(derivatives, "jvp", counting(derivatives.jvp))
    return counted


def test_a_large_banded_jacobian_takes_a_handful_of_passes(monkeypatch):
    passes = count_passes(monkeypatch)
    x = RNG.normal(size=10_000)
    tracemalloc.start()
    found = sparse_jacobian(banded, x, verify=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(passes) == 3
    assert found.nnz == 3 * 9998
    assert peak < 30e6  # a dense matrix takes 800 MB
    probe = RNG.normal(size=10_000)
    _, expected = pb.func.jvp(banded, (pb.tensor(x),), (pb.tensor(probe),))
    np.testing.assert_allclose(found @ probe, expected.numpy(), rtol=1e-12, atol=1e-12)


def test_a_large_banded_hessian_takes_a_handful_of_passes(monkeypatch):
    passes = count_passes(monkeypatch)
    x = RNG.normal(size=10_000)
    found = sparse_hessian(rosenbrock, x, verify=False)
    assert len(passes) - 1 <= 3  # one pass for the gradient
    probe = pb.tensor(RNG.normal(size=10_000))
    leaf = pb.tensor(x, requires_grad=True)
    (slope,) = pb.autograd.grad(rosenbrock(leaf), leaf, create_graph=True)
    (expected,) = pb.autograd.grad(slope, leaf, probe)
    np.testing.assert_allclose(found @ probe.numpy(), expected.numpy(), rtol=1e-9, atol=1e-9)
    assert (abs(found - found.T) > 1e-9).nnz == 0


def test_an_arrow_takes_two_passes():
    x = RNG.normal(size=2_000)
    pattern = hessian_pattern(lambda x: (x[0] * x[1:] ** 2).sum(), x)
    assert color_hessian(pattern).passes == 2


def test_a_grid_of_two_axes():
    x = RNG.normal(size=(12, 15))

    def laplace(x):
        inside = x[1:-1, 1:-1]
        return x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4 * inside * inside

    found = sparse_jacobian(laplace, pb.tensor(x))
    assert found.shape == (10 * 13, 12 * 15)
    assert found.nnz == 5 * 130
    assert color_jacobian(jacobian_pattern(laplace, x)).passes <= 8
    np.testing.assert_allclose(found.toarray(), dense_jacobian(laplace, x), atol=1e-12)


def test_a_convolution_is_banded_and_so_is_its_hessian():
    weight = pb.tensor(RNG.normal(size=(1, 1, 3)))

    def f(x):
        return pullback.nn.functional.conv1d(x.reshape(1, 1, -1), weight, padding=1) ** 3

    x = RNG.normal(size=500)
    pattern = jacobian_pattern(f, x)
    assert pattern.nnz == 3 * 500 - 2
    assert color_jacobian(pattern).passes == 3
    assert color_hessian(hessian_pattern(lambda x: f(x).sum(), x)).passes <= 6
    small = x[:9]
    np.testing.assert_allclose(
        sparse_jacobian(f, small).toarray(), dense_jacobian(f, small), atol=1e-12
    )


def test_the_cheaper_direction_is_taken():
    x = RNG.normal(size=40)

    def dense_row(x):
        return pb.concatenate([x * x, x.sum(keepdims=True)])

    def dense_column(x):
        return x[0] * x

    row = color_jacobian(jacobian_pattern(dense_row, x))
    column = color_jacobian(jacobian_pattern(dense_column, x))
    assert (row.mode, row.passes) == ("reverse", 2)
    assert (column.mode, column.passes) == ("forward", 2)
    for f in (dense_row, dense_column):
        np.testing.assert_allclose(sparse_jacobian(f, x).toarray(), dense_jacobian(f, x))


def test_pattern_and_coloring_are_used_again(monkeypatch):
    pattern = jacobian_pattern(banded, RNG.normal(size=30))
    coloring = color_jacobian(pattern)
    monkeypatch.setattr(derivatives, "dependencies", None)
    monkeypatch.setattr(derivatives, "color_jacobian", None)
    x = RNG.normal(size=30)
    expected = dense_jacobian(banded, x)
    for given in (pattern, pattern.tocoo(), pattern.toarray()):
        found = sparse_jacobian(banded, x, pattern=given, coloring=coloring)
        np.testing.assert_allclose(found.toarray(), expected, atol=1e-12)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_an_entry_that_the_pattern_lacks_is_found_out(mode):
    x = RNG.normal(size=30)
    pattern = jacobian_pattern(banded, x).tolil()
    pattern[4, 5] = False
    with pytest.raises(AutogradError, match="lacks an entry in column"):
        sparse_jacobian(banded, x, pattern=pattern, mode=mode)
    wrong = Coloring(mode, np.zeros(30 if mode == "forward" else 28, int))
    with pytest.raises(AutogradError, match="lacks an entry in column"):
        sparse_jacobian(banded, x, coloring=wrong)
    assert sparse_jacobian(banded, x, coloring=wrong, verify=False).shape == (28, 30)


def test_an_entry_that_a_hessians_pattern_lacks_is_found_out():
    x = RNG.normal(size=10)
    with pytest.raises(AutogradError, match="lacks an entry in column"):
        sparse_hessian(rosenbrock, x, pattern=np.eye(10))


def test_inputs_are_left_alone():
    x = pb.tensor(RNG.normal(size=5), requires_grad=True)
    before = x.tolist()
    sparse_jacobian(lambda x: x * x, x)
    with pb.no_grad():
        assert sparse_jacobian(lambda x: x * x, x).nnz == 5
    assert (x.tolist(), x.grad, x._version) == (before, None, 0)


def test_single_precision():
    x = RNG.normal(size=50).astype(np.float32)
    found = sparse_jacobian(banded, x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.toarray(), dense_jacobian(banded, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sparse_jacobian(banded, np.arange(5)), "x has dtype int64"),
        (lambda: sparse_jacobian(banded, np.ones(5) * 1j), "x has dtype complex128"),
        (lambda: sparse_jacobian(lambda _: 3.0, np.ones(5)), "f returns float"),
        (lambda: sparse_jacobian(lambda x: x > 0, np.ones(5)), "f returns bool"),
        (lambda: sparse_hessian(lambda x: x, np.ones(5)), "one element is expected"),
        (lambda: sparse_hessian(lambda _: 3.0, np.ones(5)), "one element is expected"),
        (lambda: sparse_jacobian(banded, np.ones(5), mode="up"), "mode is 'up'"),
        (
            lambda: sparse_jacobian(banded, np.ones(5), pattern=np.eye(5)),
            "pattern has shape",
        ),
        (
            lambda: sparse_jacobian(banded, np.ones(5), coloring=Coloring("forward", np.zeros(3))),
            "coloring is of mode 'forward' with 3 colors",
        ),
        (
            lambda: sparse_hessian(
                rosenbrock, np.ones(5), coloring=Coloring("forward", np.zeros(5))
            ),
            "one of .'symmetric'. ",
        ),
    ],
)
def test_wrong_arguments(call, words):
    with pytest.raises((AutogradError, ValueError), match=words):
        call()


def test_what_is_not_sparse_is_refused_before_memory_is_gone(monkeypatch):
    monkeypatch.setattr("pullback.sparse.pattern._MOST_ENTRIES", 1_000)
    with pytest.raises(AutogradError, match="not sparse"):
        sparse_jacobian(FUNCTIONS["norm"], np.ones(100))


def test_without_scipy_the_error_names_what_to_install(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    for call in (
        lambda: pb.sparse_jacobian(banded, np.ones(5)),
        lambda: pb.sparse_hessian(rosenbrock, np.ones(5)),
    ):
        with pytest.raises(MissingPackageError, match="pip install scipy"):
            call()
