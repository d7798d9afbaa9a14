"""`numpy_mode` and `differentiable`."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from numpy import array as make_array
from numpy import zeros

import pullback as pb
from pullback import func
from pullback.errors import AutogradError, SavedVersionError
from pullback.interop import in_numpy_mode, table

from .compare import check_call

V = np.array([0.3, -1.2, 2.5])


def _check(function: Any, *arrays: Any) -> None:
    check_call(pb.differentiable(function), *arrays)


def _check_mixed(function: Any, *arrays: Any) -> None:
    """For functions that give tensors even where NumPy alone gives arrays."""
    run = pb.differentiable(function)
    check_call(
        lambda *given: run(*given) if isinstance(given[0], pb.Tensor) else function(*given), *arrays
    )


@pytest.mark.parametrize(("mode", "shares"), [("ALWAYS", False), ("IF_NEEDED", True)])
def test_copy_accepts_numpys_other_spelling(mode: str, shares: bool) -> None:
    x = pb.tensor(V, requires_grad=True)
    with pb.numpy_mode():
        made = np.array(x, copy=np._CopyMode[mode])
    assert np.shares_memory(made.detach().numpy(), x.detach().numpy()) is shares
    assert pb.autograd.grad(made.sum(), x)[0].tolist() == [1, 1, 1]


def test_created_arrays_are_tensors() -> None:
    with pb.numpy_mode():
        made = [
            np.zeros(2), np.ones((2, 2)), np.empty(3), np.full(2, 1.5), np.eye(2), np.identity(2),
            np.tri(2), np.arange(3.0), np.linspace(0, 1, 3), np.array([1.0]), np.asarray(V),
            np.zeros_like(V), np.copy(V), np.concatenate([V, V]), np.mgrid[0:1:3j], np.r_[V, 1.0],
            np.fromiter(iter([1.0]), float), np.fft.fft(V), np.diag(V), np.tile(V, 2),
        ]  # fmt: skip
        whole = [
            np.zeros(2, int),
            np.arange(3),
            np.array([1, 2]),
            np.array(["a"]),
            np.array([True]),
        ]
        numbers = [np.sum(V), np.mean(V)]
    assert all(type(made_one) is pb.Tensor for made_one in made)
    assert all(type(one) is np.ndarray for one in whole)
    assert all(isinstance(one, np.generic) for one in numbers)


def test_everything_is_put_back() -> None:
    before = {
        name: getattr(np, name, None) for name in [*table.IN_MODE, "vectorize", "ndenumerate"]
    }
    call, get = np.vectorize.__call__, type(np.r_).__getitem__
    with pb.numpy_mode():
        assert np.zeros is not before["zeros"]
        with pytest.raises(ZeroDivisionError), pb.numpy_mode():
            raise ZeroDivisionError
        assert isinstance(np.zeros(1), pb.Tensor)
    assert {name: getattr(np, name, None) for name in before} == before
    assert np.vectorize.__call__ is call
    assert type(np.r_).__getitem__ is get
    assert not in_numpy_mode()
    assert zeros is before["zeros"]


def test_elements_are_joined() -> None:
    def joined(x: Any) -> Any:
        a = np.array([x[0], 2.0, x[1] * x[2]])
        b = np.asarray([[x[0], x[1]], [1.0, 2.0]])
        c = np.r_[x, 1.0, a, 0:2]
        d = np.c_[x, a]
        e = np.fromiter((v * v for v in x), float)
        f = np.full(2, x[0])
        return np.sum(a) + np.sum(b * b) + np.sum(c**2) + np.sum(d**3) + np.sum(e) + np.sum(f)

    _check_mixed(joined, V)


def test_lists_of_tensors_are_joined() -> None:
    _check_mixed(lambda x: np.sum([x[0], x[1] * x[2]]) + np.max([x[0], x[2]]) * np.mean([x, x]), V)
    _check_mixed(lambda x: np.dot([x[0], x[1]], [x[1], x[2]]) + np.linalg.norm([x[0], 1.0]), V)


def test_vectorize_loops_over_elements() -> None:
    step = np.vectorize(lambda v, k: v * v if v > 0 else k * v)
    _check_mixed(lambda x: step(x, 0.5), V)
    _check_mixed(lambda x: np.vectorize(lambda v: (v, 2 * v))(x), V)
    _check_mixed(
        lambda x: np.vectorize(lambda v, power: v**power, excluded={"power"})(x, power=3), V
    )
    with pb.numpy_mode(), pytest.raises(NotImplementedError, match="signature"):
        np.vectorize(lambda v: v, signature="(n)->(n)")(pb.tensor(V, requires_grad=True))


def test_names_imported_by_the_module_are_seen() -> None:
    def function(x: Any) -> Any:
        target = zeros(3)
        target[:] = make_array([x[0], x[1], 1.0])
        return target * x

    _check_mixed(function, V)


def test_helpers_that_are_called_are_in_the_mode() -> None:
    def helper(n: int) -> Any:
        return np.zeros(n)

    @pb.differentiable
    def function(x: Any) -> Any:
        target = helper(2)
        target[0] = x[0]
        return target

    x = pb.tensor(V, requires_grad=True)
    assert function(x).requires_grad


def test_other_threads_are_not_in_the_mode() -> None:
    seen: list[Any] = []
    with pb.numpy_mode():
        worker = threading.Thread(target=lambda: seen.append(type(np.zeros(2))))
        worker.start()
        worker.join()
    assert seen == [np.ndarray]


def test_threads_enter_and_leave_independently() -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with pb.numpy_mode():
            inside.set()
            leave.wait(10)

    worker = threading.Thread(target=hold)
    worker.start()
    inside.wait(10)
    with pb.numpy_mode():
        assert isinstance(np.zeros(1), pb.Tensor)
    assert type(np.zeros(1)) is np.ndarray
    leave.set()
    worker.join()
    assert not hasattr(np.zeros, "__wrapped__")


def test_numpys_own_code_is_not_in_the_mode() -> None:
    with pb.numpy_mode():
        assert np.percentile([1.0, 2.0, 4.0], 50) == 2.0
        assert isinstance(np.polynomial.Polynomial([1.0, 2.0])(3.0), float)
        assert np.interp(2.5, [1, 2, 3], [3, 2, 0]) == 1.0


def test_metadata_and_errors() -> None:
    def documented(x: Any) -> Any:
        """Says what it does."""
        return x

    assert pb.differentiable(documented).__doc__ == "Says what it does."
    with pytest.raises(TypeError, match="takes a function"):
        pb.differentiable(3)  # type: ignore[arg-type]
    _check(lambda x: np.sin(x) * 2, V)


def test_ndenumerate_and_grids() -> None:
    def function(x: Any) -> Any:
        total = 0.0
        for (i,), value in np.ndenumerate(x):
            total = total + i * value * value
        return total + np.sum(np.mgrid[0:1:3j] * x)

    _check_mixed(function, V)


def test_inside_vmap() -> None:
    @pb.differentiable
    def function(x: Any) -> Any:
        made = np.zeros(np.shape(x))
        made[0] = x[0]
        made[1:] = x[1:] * np.size(x)
        made *= made
        return np.concatenate([made, np.cumsum(x)])

    rows = np.stack([V, V * 2])
    batched = func.vmap(function)(pb.asarray(rows))
    assert batched.tolist() == [function(pb.asarray(row)).tolist() for row in rows]
    with pytest.raises(AutogradError, match="one sample"):
        func.vmap(lambda x: np.unique(x))(pb.asarray(rows))


def test_values_that_are_written_over_are_kept() -> None:
    @pb.differentiable
    def function(x: Any) -> Any:
        y = np.exp(x)
        z = y * y
        y[0] = 0.0
        z **= 2
        return np.sum(y * z)

    x = pb.tensor(V, requires_grad=True)
    (grad,) = pb.autograd.grad(function(x), x, create_graph=True)
    np.testing.assert_allclose(grad.detach().numpy(), 5 * np.exp(5 * V) * [0, 1, 1])
    (second,) = pb.autograd.grad(grad.sum(), x)
    np.testing.assert_allclose(second.numpy(), 25 * np.exp(5 * V) * [0, 1, 1])
    with pb.numpy_mode():
        y = np.exp(x)
        z = np.sum(y * y)
    y[0] = 1.0  # after the mode
    with pytest.raises(SavedVersionError, match="modified by an inplace operation"):
        z.backward()


def _swap(x: Any) -> Any:
    x = np.copy(x)
    x[0], x[1] = x[1], x[0]
    return x


def _read_and_write(x: Any) -> Any:
    x = np.copy(x)
    first, index = x[0], np.int64(1)
    second = x[index]
    x *= 3.0
    return first * x[0] + second


def _unpack(x: Any) -> Any:
    x = np.copy(x)
    a, b, c = x
    x[0] = b
    x[1] = c
    x[2] = a
    return x * a


def _remember_total(x: Any) -> Any:
    total = np.sum(x)
    before = total
    total += x[0] * x[1]
    total *= 2.0
    return total - before


def _grow(x: Any) -> Any:
    total = x[0] * 1.0
    total += x  # a number in NumPy, and now an array
    return total


def _write_to_part(x: Any) -> Any:
    x = np.copy(x)
    part = x[0, ...]
    part *= 2.0
    return x


@pytest.mark.parametrize(
    "function", [_swap, _read_and_write, _unpack, _remember_total, _grow, _write_to_part]
)
def test_elements_are_numbers_as_in_numpy(function: Any) -> None:
    """In the mode an element that was read is no view, and ``+=`` gives a number a new value."""
    run = pb.differentiable(function)

    def call(x: Any) -> Any:
        return run(x) if isinstance(x, pb.Tensor) else function(x)

    check_call(call, np.array([0.5, -0.7, 1.2]))


def test_elements_are_views_outside_of_the_mode() -> None:
    x = pb.tensor([1.0, 2.0])
    first = x[0]
    x[0] = 5.0
    assert first.item() == 5.0


def test_objects_are_replaced_after_a_thousand_entries():
    """Python 3.13 keeps calling an old ``__getitem__`` of a class that is changed so often."""

    @pb.differentiable
    def joined(x):
        return np.r_[x, x[:1]].sum() + np.c_[x, x].sum() + np.mgrid[0:2].sum()

    def tangent():
        return pb.func.jvp(joined, (pb.ones(2),), (pb.ones(2),))[1].item()

    assert {tangent() for _ in range(30)} == {7.0}
    for _ in range(1200):
        with pb.numpy_mode():
            pass
        np.r_[np.ones(2), 1.0]
    assert {tangent() for _ in range(30)} == {7.0}


BUFFER = np.zeros(2)


def test_write_to_an_element_of_an_outer_array_names_the_line():
    def fill(x):
        BUFFER[0] = x[0]
        return BUFFER.sum()

    line = fill.__code__.co_firstlineno + 1
    with pytest.raises(ValueError, match=rf"plain ndarray at .*test_mode\.py:{line}") as caught:
        pb.grad(fill)(np.ones(2))
    assert isinstance(caught.value, pb.errors.AutogradError)
    assert BUFFER.tolist() == [0.0, 0.0]
