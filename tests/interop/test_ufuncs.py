"""Universal functions on tensors: calls, options, methods, mixtures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.errors import AutogradError, DerivativeMissingError
from pullback.interop.status import status
from pullback.interop.ufuncs import UFUNCS, UNARY

from .compare import check_call

V, W = np.array([0.3, 0.65, 0.9]), np.array([0.7, 0.2, 1.4])
A = np.array([[0.3, 1.2, 2.5], [0.9, 0.4, 1.7]])
B = np.array([[1.3, 0.2, 0.5], [1.9, 0.6, 0.7]])


def _float_ufuncs() -> list[str]:
    own = {f.__name__ for f in UFUNCS if getattr(np, f.__name__, None) is f}  # others may be there
    return sorted(name for name in own if status(name).kind == "differentiable")


@pytest.mark.parametrize("name", _float_ufuncs())
def test_gradients_of_calls(name: str) -> None:
    ufunc = getattr(np, name)
    if name in ("matvec", "vecmat", "matmul"):
        shapes = {"matvec": (A, V), "vecmat": (V, A.T), "matmul": (A, B.T)}[name]
        return check_call(ufunc, *shapes)
    if name == "ldexp":
        return check_call(lambda x: np.ldexp(x, [1, 2, -1]), V)
    if name == "divmod":
        return check_call(lambda x, y: np.divmod(x, y)[1], V, W)
    if name in ("frexp", "modf"):
        return check_call(lambda x: ufunc(x)[0], V)
    if name == "vecdot":
        return check_call(np.vecdot, A, B)
    x = V + 1.0 if name in ("acosh", "arccosh") else V
    check_call(ufunc, x, W) if ufunc.nin == 2 else check_call(ufunc, x)
    if ufunc.nin == 2:
        check_call(lambda a, f=ufunc: f(a, W), V)
        check_call(lambda a, f=ufunc: f(W, a), V)
        check_call(lambda a, f=ufunc: f(a, 0.4), V)
        check_call(lambda a, f=ufunc: f(0.4, a), V)
    return None


def test_functions_of_one_argument_come_to_the_kernels_of_their_functions() -> None:
    assert {np.sin, np.negative, np.conjugate, np.invert, np.modf} <= UNARY.keys()
    for ufunc, calls in UNARY.items():
        function = UFUNCS[ufunc]
        read = [function.__globals__.get(name) for name in function.__code__.co_names]
        assert any(value is calls for value in read), ufunc


def test_an_error_of_a_function_of_one_argument_names_it() -> None:
    with pytest.raises(TypeError, match=r"^bitwise_invert: .*float64 of shape \(3,\) given"):
        np.invert(pb.tensor(V))
    with pytest.raises(TypeError, match=r"^bitwise_invert: .*float64 of shape \(3,\) given"):
        np.invert(pb.tensor(V))  # by the table, which the first call has linked


@pytest.mark.parametrize(
    "name", ["isfinite", "isnan", "isinf", "signbit", "logical_not", "spacing"]
)
def test_flat_functions_give_values(name: str) -> None:
    x = pb.tensor(V, requires_grad=True)
    made = getattr(np, name)(x)
    assert isinstance(made, pb.Tensor)
    assert not made.requires_grad
    assert made.tolist() == getattr(np, name)(V).tolist()


def test_operators_with_arrays_and_scalars_on_either_side() -> None:
    check_call(lambda x: W + x * np.float64(2.0) - np.float32(1.5) / x, V)
    check_call(lambda x: x @ W + W @ x, V)
    check_call(lambda x: [1.0, 2.0, 3.0] * x, V)
    assert isinstance(np.ones(3) < pb.tensor(V), pb.Tensor)
    mixed = np.float32(2.0) * pb.tensor([1.0], dtype=np.float32, requires_grad=True)
    assert mixed.dtype == np.float32


def test_out_is_a_tensor() -> None:
    def call(x: Any, y: Any) -> Any:
        out = np.zeros_like(x)
        assert np.multiply(x, y, out=out) is out
        np.add(out, x, out)
        return out

    check_call(call, V, W)


@pytest.mark.parametrize("where", [True, np.array([True, False, True])])
def test_out_takes_part_in_broadcasting(where: Any) -> None:
    def call(x: Any, y: Any) -> Any:
        out = np.ones((2, 3)) * x
        np.multiply(x, y[:1], out=out, where=where)
        np.sin(y[0], out=out[:, 1], where=where[1:2] if where is not True else True)
        return out

    check_call(call, V, W)


def test_out_that_is_too_small_is_refused() -> None:
    with pytest.raises(ValueError, match=r"out has shape \(1,\)"):
        np.multiply(pb.tensor(V), pb.tensor(W), out=pb.zeros((1,)))
    with pytest.raises(ValueError, match=r"out has shape \(2, 2\)"):
        np.matmul(pb.ones((2, 2)), pb.ones(2), out=pb.zeros((2, 2)))


def test_out_is_an_array() -> None:
    out = np.zeros(3)
    assert np.sin(pb.tensor(V), out=out) is out
    assert out.tolist() == np.sin(V).tolist()
    with pytest.raises(AutogradError, match=r"numpy.sin.*\n.*pb.asarray"):
        np.sin(pb.tensor(V, requires_grad=True), out=out)


def test_array_plus_equals_tensor() -> None:
    array = np.ones(3)
    array += pb.tensor(V)
    assert array.tolist() == (1 + V).tolist()
    with pytest.raises(AutogradError, match=r"in-place operator \(numpy.add.*\n.*pb.asarray"):
        array += pb.tensor(V, requires_grad=True)
    with pb.no_grad():
        array -= pb.tensor(V, requires_grad=True)
    np.testing.assert_allclose(array, 1)


def test_where_computes_only_what_it_picks() -> None:
    mask = np.array([True, False, True])
    check_call(lambda x: np.sqrt(x, where=mask, out=np.ones_like(x)), V)
    check_call(lambda x, y: np.divide(x, y, where=mask, out=np.zeros_like(x)), V, W)
    x = pb.tensor([4.0, 0.0], requires_grad=True)
    np.log(x, where=x > 0, out=np.zeros_like(x)).sum().backward()
    assert x.grad.tolist() == [0.25, 0.0]


def test_dtype_and_casting() -> None:
    x = pb.tensor(V, requires_grad=True)
    made = np.sin(x, dtype=np.float32, casting="same_kind")
    assert made.dtype == np.float32
    made.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(V), rtol=1e-6)
    with pytest.raises(TypeError):
        np.add(x, x, dtype=np.int64, casting="safe")
    with pytest.raises(TypeError, match="unexpected keyword"):
        np.sin(x, nonsense=1)


def test_generalized_options() -> None:
    check_call(lambda a, b: np.matmul(a, b, axes=[(1, 0), (0, 1), (0, 1)]), A.T, B.T)
    check_call(lambda a, b: np.vecdot(a, b, axis=0), A, B)
    check_call(lambda a, b: np.vecdot(a, b, keepdims=True, axis=-1), A, B)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "subtract", "divide"])
def test_methods(name: str) -> None:
    ufunc = getattr(np, name)
    check_call(lambda x: ufunc.reduce(x), A)
    check_call(lambda x: ufunc.reduce(x, axis=1, keepdims=True), A)
    check_call(lambda x: ufunc.accumulate(x, axis=1), A)
    check_call(lambda x: ufunc.reduceat(x, [0, 2, 1], axis=1), A)
    check_call(lambda x, y: ufunc.outer(x, y), V, W)


def test_reduce_options() -> None:
    check_call(lambda x, i: np.add.reduce(x, axis=None, initial=i, where=A > 0.5), A, np.array(2.0))
    check_call(lambda x: np.add.reduce(x, axis=(0, 1), dtype=np.complex128), A)
    check_call(lambda x, i: np.hypot.reduce(x, axis=1, initial=i), A, np.array(2.0))
    check_call(lambda x: np.add.reduce(x, out=np.zeros_like(x[0])), A)
    check_call(lambda x: np.logaddexp.reduce(x, axis=1), A)
    assert np.logical_and.reduce(pb.tensor(A) > 0).tolist() == [True] * 3
    with pytest.raises(ValueError, match="binary"):
        np.sin.reduce(pb.tensor(V))


def test_folds_with_masks_and_starts() -> None:
    mask = np.array([[True, False, True], [False, True, True]])
    check_call(lambda x: np.logaddexp.reduce(x, axis=1, where=mask), A)
    check_call(lambda x: np.hypot.reduce(x, axis=(0, 1), where=mask), A)
    check_call(lambda x, i: np.subtract.reduce(x, axis=1, initial=i, where=mask), A, np.array(2.0))
    check_call(lambda x, i: np.logaddexp.reduce(x, axis=None, initial=i), A, np.array(2.0))
    check_call(lambda x: np.hypot.reduce(x, axis=None, keepdims=True), A)
    assert np.hypot.reduce(pb.zeros((0, 2))).tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="identity"):
        np.subtract.reduce(pb.tensor(A), where=mask)
    with pytest.raises(ValueError, match="no identity"):
        np.arctan2.reduce(pb.zeros((0, 2)))
    with pytest.raises(ValueError, match="not reorderable"):
        np.subtract.reduce(pb.tensor(A), axis=(0, 1))


@pytest.mark.parametrize("name", ["multiply", "divide", "power", "hypot", "maximum", "logaddexp"])
def test_a_result_may_be_written_over_an_input(name: str) -> None:
    ufunc = getattr(np, name)

    def call(x: Any, y: Any) -> Any:
        z = x + 2.5
        ufunc(z, y, out=z)
        ufunc(y, z[::-1], out=z)
        return z

    check_call(call, V, np.abs(W) + 0.3)


def test_at_writes_each_time_an_element_is_named() -> None:
    def call(ufunc: np.ufunc) -> Any:
        def write(x: Any, y: Any) -> Any:
            target = np.copy(x)
            ufunc.at(target, [0, 2, 0, 0], y)
            return target

        return write

    for ufunc in (np.add, np.subtract, np.multiply, np.maximum, np.power):
        check_call(call(ufunc), V, np.array([0.5, 1.5, 0.25, 1.1]))

    def negated(x: Any) -> Any:
        target = np.copy(x)
        np.negative.at(target, [0, 1, 1])
        return target

    check_call(negated, V)
    array = np.zeros(3)
    np.add.at(array, [0, 0], pb.tensor([1.0, 2.0]))
    assert array.tolist() == [3.0, 0.0, 0.0]
    with pytest.raises(AutogradError, match=r"numpy.add.at"):
        np.add.at(array, [0, 0], pb.tensor([1.0, 2.0], requires_grad=True))


def test_a_function_without_derivative_is_refused_by_name() -> None:
    unknown = np.frompyfunc(lambda a: a * a, 1, 1)
    with pytest.raises(DerivativeMissingError, match=r"no derivative is known.*custom_op"):
        unknown(pb.tensor(V, requires_grad=True))


def test_duals_are_not_lost() -> None:
    with pb.autograd.forward_ad.dual_level():
        dual = pb.autograd.forward_ad.make_dual(pb.tensor(V), pb.tensor(W))
        made = pb.autograd.forward_ad.unpack_dual(np.sin(dual) * 2.0)
        np.testing.assert_allclose(made.tangent.numpy(), 2 * np.cos(V) * W)
        with pytest.raises(AutogradError, match="tangent"):
            np.asarray(dual)
        with pytest.raises(AutogradError):
            np.ones(3).__setitem__(slice(None), dual)


@pytest.mark.parametrize("name", ["floor_divide", "nextafter"])
def test_functions_that_raise_in_the_backward_pass_are_named(name: str) -> None:
    x = pb.tensor(V, requires_grad=True)
    assert status(name).kind == "raises"
    with pytest.raises(DerivativeMissingError, match=name):
        getattr(np, name)(x, 0.5).sum().backward()


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_heaviside_of_complex_numbers_is_a_type_error(dtype: Any) -> None:
    z, x = pb.tensor(np.array([1 + 1j, 2.0], dtype)), pb.tensor([1.0, 0.0])
    for call in (
        lambda: np.heaviside(z, 1.0),
        lambda: np.heaviside(x, z),
        lambda: np.heaviside(z, z),
        lambda: np.heaviside(x, 1j),
        lambda: np.heaviside.outer(z, x),
    ):
        with pytest.raises(TypeError, match="heaviside"):
            call()
    check_call(lambda x: np.heaviside(x, 0.5), np.array([-1.0, 2.0]))


def test_operators_of_other_libraries_come_first() -> None:
    class Other:
        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> str:
            return "other"

    assert np.add(pb.tensor(V), Other(), where=True) == "other"


@pytest.mark.parametrize("name", ["sqrt", "log", "log2", "log10", "arcsin", "arccos", "arctanh"])
def test_emath_turns_complex_where_real_numbers_end(name: str) -> None:
    function = getattr(np.emath, name)
    check_call(function, np.array([0.5, 0.25]))
    check_call(function, np.array([0.5, -1.75]))
    with np.errstate(divide="ignore"):
        assert function(pb.tensor([1])).dtype == function(np.array([1])).dtype


def test_emath_with_two_arguments() -> None:
    check_call(np.emath.power, np.array([0.5, -1.75]), np.array([1.5, 0.5]))
    check_call(np.emath.power, np.array([0.5, 1.75]), np.array(0.3))
    check_call(lambda x: np.emath.power(x, -2), np.array([0.5, 1.75]))
    check_call(lambda x: np.emath.logn(2.0, x), np.array([0.5, -1.75]))


def test_the_clip_method_of_an_array_takes_tensors() -> None:
    check_call(lambda low, high: B.clip(low, high), A - 0.2, A + 0.1)
    check_call(lambda low: B.clip(low), A)


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.maximum])
@pytest.mark.parametrize("indices", [(), ..., None, True, (None, None)])
def test_at_of_a_number(ufunc, indices):
    array = np.array(2.0)
    ufunc.at(array, indices, 3.0)

    def write(x, value):
        x = x * 1.0
        ufunc.at(x, indices, value)
        return x

    x, value = pb.tensor(2.0), pb.tensor(3.0)
    assert write(x, value).item() == array
    forward = pb.func.jacfwd(write, argnums=(0, 1))(x, value)
    reverse = pb.func.jacrev(write, argnums=(0, 1))(x, value)
    assert [t.item() for t in forward] == [t.item() for t in reverse]
