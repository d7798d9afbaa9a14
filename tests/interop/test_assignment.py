"""Writing: tensors record it, ndarrays refuse what would lose a gradient."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.errors import AutogradError

from .compare import check_call

V, W = np.array([0.3, -1.2, 2.5]), np.array([1.1, 0.4, -0.7])
A = np.array([[0.3, -1.2, 2.5], [0.9, 0.4, -1.7]])


def _written(make: Any, write: Any) -> Any:
    def call(*arrays: Any) -> Any:
        target = make(arrays[0])
        write(target, *arrays)
        return target

    return call


@pytest.mark.parametrize(
    "make",
    [
        np.zeros_like,
        np.ones_like,
        lambda x: np.full_like(x, 2.0),
        lambda x: np.zeros_like(x, dtype=float),
        np.copy,
        lambda x: x.copy(),
        lambda x: np.zeros(3, like=x),
        lambda x: np.ones((3,), like=x),
        lambda x: np.full(3, 1.5, like=x),
        lambda x: np.arange(3.0, like=x),
        lambda x: np.array([1.0, 2.0, 3.0], like=x),
        lambda x: np.asarray([1.0, 2.0, 3.0], like=x),
        lambda x: np.identity(3, like=x)[0],
        lambda x: np.eye(3, like=x)[1],
    ],
)
def test_created_arrays_record_writes(make: Any) -> None:
    def write(target: Any, x: Any) -> None:
        target[0] = x[1] * 2
        target[1:] += x[:2]
        target[target > 2] *= 3.0
        target[[0, 2]] -= x[0]
        target[-1] = x[2]

    check_call(_written(make, write), V)


def test_masks_slices_and_views() -> None:
    def write(target: Any, x: Any, y: Any) -> None:
        target[:, 1] = y[:2]
        target[0] *= y
        row = target[1]
        row += 1.0
        row[x[1] > 0] = y[0]
        target.T[2, :] -= 0.5 * y[1]
        target.flat[4] = y[2]

    check_call(_written(np.copy, write), A, W)


def test_methods_that_write() -> None:
    check_call(_written(np.copy, lambda t, _: t.sort()), V)
    check_call(_written(np.copy, lambda t, _, y: t.fill(y[0] * 2)), V, W)
    check_call(_written(np.copy, lambda t, _, y: t.put([0, 2], y[:2])), V, W)
    check_call(_written(np.copy, lambda t, _: t.partition(1) or t.sort()), V)


def test_an_array_refuses_a_tensor_with_gradient() -> None:
    x = pb.tensor(V, requires_grad=True)
    array = np.zeros(3)
    writes = [
        lambda: array.__setitem__(slice(None), x),
        lambda: array.__setitem__([0], x[0]),
        lambda: np.copyto(array, x),
        lambda: np.put(array, [0], x[0]),
        lambda: np.place(array, [True, False, True], x),
        lambda: np.putmask(array, [True, False, True], x),
        lambda: np.put_along_axis(array, np.array([1]), x[:1], 0),
        lambda: np.fill_diagonal(np.zeros((3, 3)), x),
        lambda: array.put([0], x[0]),
    ]
    for write in writes:
        with pytest.raises(AutogradError, match=r"requires grad[\s\S]*pb.asarray\(array\)"):
            write()
    assert array.tolist() == [0.0, 0.0, 0.0]


def test_an_element_of_an_array_refuses_a_tensor_with_gradient() -> None:
    x = pb.tensor(V, requires_grad=True)
    array, numbers, whole = np.zeros(3), np.zeros(3, complex), np.zeros(3, int)
    # NumPy wraps the error of the conversion for floating-point elements; it stays as the cause.
    with pytest.raises(ValueError, match="setting an array element") as caught:
        array[0] = x[0]
    assert isinstance(caught.value.__cause__, AutogradError)
    assert "pb.asarray(array)" in str(caught.value.__cause__)
    with pytest.raises(AutogradError, match=r"pb.asarray\(array\)"):
        numbers[0] = x[0]
    with pytest.raises(AutogradError, match=r"pb.asarray\(array\)"):
        whole[0] = x[0]
    with pytest.raises((ValueError, AutogradError)):
        array.flat[0] = x[0]
    assert not array.any()


def test_an_array_takes_tensors_without_gradient() -> None:
    array = np.zeros(3)
    array[0] = pb.tensor(2.0)
    array[1:] = pb.tensor([3.0, 4.0])
    np.copyto(array[:1], pb.tensor([5.0]))
    assert array.tolist() == [5.0, 3.0, 4.0]


def test_without_grad_mode_nothing_is_lost() -> None:
    x = pb.tensor(V, requires_grad=True)
    array = np.zeros(3)
    with pb.no_grad():
        array[:] = x
        assert np.asarray(x).tolist() == array.tolist() == V.tolist()
        with pytest.warns(UserWarning, match="no part of the graph"):
            array[0] = x[1]
    assert array[0] == V[1]


def test_float_warns_and_works() -> None:
    """Rule 1.10."""
    x = pb.tensor(V, requires_grad=True)
    with pytest.warns(UserWarning, match="no part of the graph"):
        assert float(x[0]) == 0.3
    with pytest.warns(UserWarning, match="no part of the graph"):
        assert complex(x[0]) == 0.3
    numbers = {}
    with pytest.warns(UserWarning, match="no part"):
        numbers["a"] = float(x[0])  # an assignment, but not of the tensor
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert int(x[2]) == 2
        assert f"{x[0]:.2f}" == "0.30"
        numbers["b"] = x[0]  # a dictionary keeps the tensor itself
    assert numbers["b"].requires_grad


@pytest.mark.parametrize(
    "join",
    [
        lambda x: np.array([x[0], x[1]]),
        lambda x: np.asarray([x, x]),
        lambda x: np.array(x),
        lambda x: np.array([[1.0, x[0]]], dtype=float),
        lambda x: np.array([x[0], x[1]], dtype=object),
        lambda x: np.full(3, x[0]),
        lambda x: np.full(3, x[0], dtype=float),
        lambda x: np.r_[x, 1.0],
        lambda x: np.c_[x, x],
        lambda x: np.vectorize(lambda v: v * 2)(x),
        lambda x: np.sum([x[0], x[1]]),
        lambda x: np.random.default_rng(0).normal(x[0]),
        lambda x: np.zeros(3).dot(x),
        lambda x: np.zeros(3)[x],
        lambda x: np.arange(x[1]),
    ],
)
def test_what_numpy_converts_by_itself_raises(join: Any) -> None:
    with pytest.raises(AutogradError, match="requires grad"):
        join(pb.tensor(V, requires_grad=True))


def test_joining_functions_keep_the_graph() -> None:
    check_call(lambda x: np.stack([x[0], x[1] * 2]), V)
    check_call(lambda x: np.concatenate([x[:1], x, [1.0]]), V)
    check_call(lambda x: np.hstack([x[0], x[1], 3.0]), V)


def test_leaves_are_not_written_to() -> None:
    x = pb.tensor(V, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        np.fill_diagonal(pb.tensor(np.eye(2), requires_grad=True), x[0])
    with pytest.raises(RuntimeError, match="leaf"):
        np.add(x, 1.0, out=x)
    assert x.tolist() == V.tolist()


@pytest.mark.parametrize("function", [np.isposinf, np.isneginf])
def test_out_by_place_is_recorded_as_out_by_name_is(function: Any) -> None:
    x = pb.tensor(V, requires_grad=True)
    target = x * 2
    saved = pb.exp(target)
    squared = target * target
    assert function(saved, target) is target
    assert target.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squared.sum().backward()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        function(x, x)
    assert x.tolist() == V.tolist()


def test_ix_refuses_tables_and_is_mapped() -> None:
    with pytest.raises(ValueError, match=r"ix_: Cross index must be 1 dimensional.*\(2, 3\)"):
        np.ix_(pb.tensor(A), [0, 1])
    mapped = pb.func.vmap(lambda row: np.ix_([0, 1], row)[1])(pb.tensor(A))
    assert mapped.tolist() == A[:, np.newaxis].tolist()


def test_argmax_takes_out_by_place() -> None:
    place = pb.zeros((), dtype=np.int64)
    for function in (np.argmax, np.nanargmax):
        assert function(pb.tensor(V, requires_grad=True), None, place) is place
        assert place.item() == 2
