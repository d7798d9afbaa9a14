"""Arrays of every sort beside tensors: a defined result, or a clear error."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.errors import AutogradError, InplaceError, UnsupportedDtypeError
from pullback.interop.adapt import adapted

from .compare import check_call

V = np.array([0.5, -1.5, 2.0])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float32", "complex64"])
@pytest.mark.parametrize("own", ["float32", "float64", "complex64"])
def test_mixed_dtypes_promote_as_in_numpy(own: str, dtype: str) -> None:
    array = np.array([1, 0, 1]).astype(dtype)
    values = V.astype(own)
    x = pb.tensor(values, requires_grad=True)
    for made, expected in (
        (x * array, values * array),
        (array * x, array * values),
        (np.add(array, x), np.add(array, values)),
        (np.where(array, x, array), np.where(array, values, array)),
        (np.concatenate([array, x]), np.concatenate([array, values])),
        (x * 2, values * 2),
        (x * 2.5, values * 2.5),
        (np.float64(2) * x, np.float64(2) * values),
    ):
        assert made.dtype == expected.dtype
        np.testing.assert_array_equal(made.detach().numpy(), expected)
        (grad,) = pb.autograd.grad(abs(made).sum(), x)
        assert grad.dtype == own
        assert grad.shape == x.shape


def test_longdouble_and_half_stay() -> None:
    for dtype in (np.float16, np.longdouble):
        x = pb.tensor(V.astype(dtype), requires_grad=True)
        y = np.sum(x * x)
        y.backward()
        assert y.dtype == x.grad.dtype == dtype


def test_read_only_arrays() -> None:
    array = V.copy()
    array.flags.writeable = False
    check_call(lambda x: x * array + np.sum(array), V)
    shared = pb.asarray(array)
    assert shared.tolist() == V.tolist()
    with pytest.raises(InplaceError, match="read-only"):
        shared[0] = 1.0
    with pytest.raises(InplaceError, match="read-only"):
        shared += 1.0
    with pytest.raises(ValueError, match="read-only"):
        np.sin(pb.tensor(V), out=array)
    assert array.tolist() == V.tolist()


_REFUSED = [
    np.array([1, "a", None], dtype=object),
    np.array([Fraction(1, 2), Decimal(1), 3], dtype=object),
    np.array(["a", "b", "c"]),
    np.array([b"a", b"b", b"c"]),
    np.array(["2020-01-01"] * 3, dtype="datetime64[D]"),
    np.array([1, 2, 3], dtype="timedelta64[s]"),
    np.zeros(3, dtype=[("a", float), ("b", int)]),
    np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False]),
]


@pytest.mark.parametrize("array", _REFUSED, ids=lambda array: str(array.dtype))
def test_arrays_that_are_no_numbers_are_refused(array: Any) -> None:
    x = pb.tensor(V, requires_grad=True)
    for attempt in (
        lambda: pb.asarray(array),
        lambda: pb.tensor(array),
        lambda: pb.from_numpy(array),
        lambda: x * array,
        lambda: np.add(x, array),
        lambda: np.concatenate([x, array]),
        lambda: np.where([True, False, True], x, array),
    ):
        with pytest.raises(TypeError, match=r"tensor|mask|number"):
            attempt()


@pytest.mark.parametrize("dtype", [object, "U3", "S2", "M8[s]", [("a", float)]])
def test_no_tensor_is_made_of_what_is_no_number(dtype: Any) -> None:
    x = pb.tensor(V, requires_grad=True)
    for attempt in (
        lambda: x.astype(dtype),
        lambda: x.to(np.dtype(dtype)),
        lambda: np.astype(x, dtype),
        lambda: np.zeros_like(x, dtype=dtype),
        lambda: np.empty(2, dtype=dtype, like=x),
        lambda: np.full(2, 0, dtype=dtype, like=x),
        lambda: np.array([1], dtype=dtype, like=x),
        lambda: np.add(x, 1, dtype=dtype),
        lambda: pb.zeros(2, dtype=dtype),
        lambda: pb.ones(2, dtype=dtype),
        lambda: pb.empty(2, dtype=dtype, device="meta"),
        lambda: pb.eye(2, dtype=dtype),
    ):
        with pytest.raises((TypeError, ValueError)):
            attempt()


def test_operators_refuse_what_is_no_array_by_name() -> None:
    x = pb.tensor(V, requires_grad=True)
    for other in (None, "a", {}, object()):
        with pytest.raises(TypeError, match="number"):
            x + other
    assert (x == None) is False  # noqa: E711 - the comparison is tested
    with pytest.raises(UnsupportedDtypeError, match="numbers"):
        np.add(x, ["a", "b", "c"])
    with pytest.raises(ValueError, match="inhomogeneous"):
        np.concatenate([x, [[1], [2, 3]]])
    y = np.copy(x)
    for wrong in (None, "nan", 1j):
        with pytest.raises(TypeError):
            y[0] = wrong
    assert y.tolist() == V.tolist()


def test_an_object_array_on_the_left_is_refused() -> None:
    x = pb.tensor(V, requires_grad=True)
    with pytest.raises(UnsupportedDtypeError, match="object"):
        np.array([1, 2, 3], dtype=object) * x


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_matrices_are_refused() -> None:
    with pytest.raises(UnsupportedDtypeError, match=r"np.matrix.*asarray"):
        np.matrix([[1.0, 2.0, 3.0]]) * pb.tensor(V)


def test_masked_arrays_are_refused_on_either_side() -> None:
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    x = pb.tensor(V)
    with pytest.raises(TypeError, match="mask"):
        x + masked
    with pytest.raises(TypeError, match="mask"):
        np.maximum(x, masked)
    # On the left the masked array decides: it takes values, and refuses to lose a gradient.
    assert (masked + x).tolist() == [1.5, None, 5.0]
    with pytest.raises(AutogradError, match="requires grad"):
        masked + x.requires_grad_()


def test_other_subclasses_count_as_arrays(tmp_path: Any) -> None:
    class Named(np.ndarray):
        pass

    check_call(lambda x: np.sin(x) * V.view(Named) + V.view(Named), V)
    assert type(pb.asarray(V.view(Named)).numpy()) is np.ndarray
    stored = np.memmap(tmp_path / "numbers", dtype=float, mode="w+", shape=3)
    stored[:] = V
    assert (pb.tensor(V) * stored).tolist() == (V * V).tolist()
    del stored


def test_nan_and_infinity_pass_through() -> None:
    x = pb.tensor([np.nan, np.inf, -np.inf, 1.0], requires_grad=True)
    with np.errstate(all="ignore"):
        y = np.nan_to_num(x * 2.0, nan=0.0, posinf=5.0, neginf=-5.0)
        assert y.tolist() == [0.0, 5.0, -5.0, 2.0]
        y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0, 2.0]
    assert np.isnan(np.max(x)).item()
    assert np.nanmin(x).item() == -np.inf
    assert np.isfinite(x).tolist() == [False, False, False, True]


def test_zero_size_arrays() -> None:
    x = pb.tensor(np.zeros((0, 3)), requires_grad=True)
    assert np.sum(x).item() == 0.0
    assert np.sum(x, axis=0).tolist() == [0.0, 0.0, 0.0]
    assert np.concatenate([x, x]).shape == (0, 3)
    assert np.sin(x).shape == (0, 3)
    assert np.stack([x, x]).shape == (2, 0, 3)
    assert (x @ np.ones((3, 2))).shape == (0, 2)
    np.prod(x).backward()
    assert x.grad.shape == (0, 3)
    with pytest.raises(ValueError, match="no elements"):
        np.max(x)


def test_zero_size_arrays_in_more_functions() -> None:
    x = pb.tensor(np.zeros((0, 3)), requires_grad=True)
    square = pb.tensor(np.zeros((0, 0)), requires_grad=True)
    assert np.linalg.det(square).item() == 1.0
    for made, shape in (
        (np.sort(x), (0, 3)),
        (np.cumsum(x, axis=0), (0, 3)),
        (np.diff(x, axis=1), (0, 2)),
        (np.linalg.inv(square), (0, 0)),
        (np.einsum("ij,kj", x, x), (0, 0)),
        (np.where(x > 0, x, 0.0), (0, 3)),
        (np.pad(x, 1), (2, 5)),
        (np.add.reduceat(x[:, 0], []), (0,)),
        (np.interp(x[:, 0], [0, 1], [0, 1]), (0,)),
        (np.max(x, axis=0, initial=0.0), (3,)),
    ):
        assert made.shape == shape
        if made.requires_grad:
            (grad,) = pb.autograd.grad(made.sum(), [x], retain_graph=True, allow_unused=True)
            assert grad is None or grad.shape == x.shape
    target = np.copy(pb.tensor(V, requires_grad=True))
    np.add.at(target, [], [])
    assert target.tolist() == V.tolist()
    for refused in (
        lambda: np.median(x),
        lambda: np.quantile(x, 0.5),
        lambda: np.argmax(x),
        lambda: np.fft.fft(x[:, 0]),
        lambda: np.convolve(x[:, 0], [1.0]),
    ):
        with pytest.raises(ValueError, match=r"elements|empty|points|element"):
            refused()


def test_shapes_that_do_not_fit_raise() -> None:
    x = pb.tensor(V, requires_grad=True)
    with pytest.raises(ValueError, match="shape"):
        np.add(x, np.ones(4))
    with pytest.raises(ValueError, match="out has shape"):
        np.sin(x, out=np.zeros(4, like=x))
    with pytest.raises(TypeError, match="cannot be cast"):
        np.sin(x, out=np.zeros(3, dtype=int, like=x))
    with pytest.raises(np.exceptions.AxisError):
        np.sum(x, axis=3)
    with pytest.raises(TypeError, match="positional"):
        np.sort(x, 0, None, None, None, None)


def test_arguments_that_we_do_not_have_are_refused_by_name() -> None:
    with pytest.raises(NotImplementedError, match=r"numpy.gradient_like: the argument extra"):
        _adapted_example()(pb.tensor(V), extra=1)


def _adapted_example() -> Any:
    def theirs(a: Any, extra: Any = None) -> Any:
        return a, extra

    def ours(self: Any, /) -> Any:
        return self

    theirs.__module__, theirs.__name__ = "numpy", "gradient_like"
    return adapted(theirs, ours, {})
