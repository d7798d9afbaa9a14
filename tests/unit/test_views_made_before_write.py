"""Views that were made before their base became dual by an in-place write.

An operator finds the tangent of such a view by the flag PLAIN_VIEW. Everything else that reads a
tensor, above all a transform that takes or returns it, has to look at the base as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import func
from pullback.autograd import forward_ad
from pullback.errors import AutogradError
from pullback.library import custom_op
from pullback.utils.checkpoint import checkpoint

POINT = np.array([0.5, 0.7, 1.1])

Function = Callable[[Any], Any]


@custom_op("earlyviews::cube", mutates_args=())
def custom_cube(x: pb.Tensor) -> pb.Tensor:
    """Saves its argument."""
    return x**3


custom_cube.register_autograd(
    lambda ctx, grad: 3 * ctx.saved_tensors[0] ** 2 * grad,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)
custom_cube.register_jvp(lambda ctx, tangent: 3 * ctx.saved_tensors[0] ** 2 * tangent)
custom_cube.register_vmap(lambda _, in_dims, x: (custom_cube(x), in_dims[0]))


class Cube(pb.autograd.Function):
    """Saves its argument."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * grad

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * tangent


def _fill(x: Any, y: Any) -> Any:
    """What is written: as many copies of the argument as the base has room for."""
    return pb.broadcast_to(y if x.shape[-1] == 3 else pb.reshape(y, (3, 1)), x.shape)


VIEWS: dict[str, tuple[Callable[[], Any], Function]] = {
    "slice": (lambda: pb.zeros(3), lambda x: x[:2]),
    "element": (lambda: pb.zeros(3), lambda x: x[1]),
    "transposed": (lambda: pb.zeros((3, 1)), lambda x: x.T),
    "diagonal": (lambda: pb.zeros((3, 3)), pb.diagonal),
    "real": (lambda: pb.zeros(3, dtype=complex), pb.real),
    "view of view": (lambda: pb.zeros((1, 3)), lambda x: x.T[1:][:, 0]),
    "strided": (lambda: pb.zeros(3), lambda x: x.as_strided((2,), (1,), 1)),
    "split": (lambda: pb.zeros(3), lambda x: pb.split(x, [1])[1]),
    "unbind": (lambda: pb.zeros(3), lambda x: pb.unbind(x)[1]),
    "expanded": (lambda: pb.zeros(3), lambda x: pb.broadcast_to(x, (2, 3))),
}

WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "copy_": lambda x, y: x.copy_(_fill(x, y)),
    "setitem": lambda x, y: x.__setitem__(..., _fill(x, y)),
    "add_": lambda x, y: x.add_(_fill(x, y)),
    "out": lambda x, y: pb.multiply(_fill(x, y), 1.0, out=x),
    "another view": lambda x, y: x[...].copy_(_fill(x, y)),
}


def _total(v: Any) -> Any:
    return (v * v * v).sum()


def _ones(v: Any) -> Any:
    return pb.ones(v.shape)


READERS: dict[str, Function] = {
    "operator": _total,
    "nothing": lambda v: v,
    "grad": lambda v: func.grad(_total)(v),
    "grad, captured": lambda v: func.grad(lambda s: _total(v * s))(pb.tensor(1.3)),
    "vjp": lambda v: func.vjp(_total, v)[1](pb.ones(()))[0],
    "vjp, cotangent": lambda v: func.vjp(pb.sin, _ones(v))[1](v)[0],
    "jvp": lambda v: func.jvp(_total, (v,), (_ones(v),))[1],
    "jvp, tangent": lambda v: func.jvp(_total, (_ones(v),), (v,))[1],
    "hessian": lambda v: func.hessian(_total)(v),
    "pb.hessian": lambda v: pb.hessian(_total)(v),
    "hvp": lambda v: pb.hvp(_total)(v, _ones(v)),
    "hvp, vector": lambda v: pb.hvp(_total)(_ones(v), v),
    "linearize": lambda v: func.linearize(_total, v)[1](_ones(v)),
    "linearize, tangent": lambda v: func.linearize(_total, _ones(v))[1](v),
    "jacfwd": lambda v: func.jacfwd(_total)(v),
    "jacrev": lambda v: func.jacrev(_total)(v),
    "aux": lambda v: func.grad(lambda s: (s * s, v), has_aux=True)(pb.tensor(1.0))[1],
    "returned by jvp": lambda v: func.jvp(lambda s: (s, v), (v,), (_ones(v),))[0][1],
    "flag first": lambda v: (v.requires_grad, v.grad_fn, _total(v))[-1],
    "first in no_grad": lambda v: _in_no_grad(v) + _total(v),
    "custom function": lambda v: Cube.apply(v),
    "custom operator": lambda v: custom_cube(v),
    "joined": lambda v: pb.stack([v, v]),
    "map": lambda v: func.vmap(lambda s: _total(v * s))(pb.tensor([1.0, 2.0])),
}


def _in_no_grad(v: Any) -> Any:
    with pb.no_grad():
        return 0 * _total(v.detach() * 2) + 0 * _total(v)


def _by_jvp(f: Function, x: Any) -> Any:
    return pb.stack([func.jvp(f, (x,), (pb.tensor(e),))[1] for e in np.eye(3)], -1)


def _by_dual_level(f: Function, x: Any) -> Any:
    columns = []
    for direction in np.eye(3):
        with forward_ad.dual_level():
            result = f(forward_ad.make_dual(x, pb.tensor(direction)))
            tangent = forward_ad.unpack_dual(result).tangent
            columns.append(pb.zeros(result.shape) if tangent is None else tangent.detach())
    return pb.stack(columns, -1)


DERIVATIVES: dict[str, Callable[[Function, Any], Any]] = {
    "jvp": _by_jvp,
    "jacfwd": lambda f, x: func.jacfwd(f)(x),
    "dual level": _by_dual_level,
    "dual level, recorded": lambda f, x: _by_dual_level(f, x.clone().requires_grad_()),
    "map": lambda f, x: func.vmap(func.jacfwd(f))(pb.stack([x, x]))[1],
}


def _check(view: str, write: str, reader: str, derivative: str) -> None:
    """Compares a view that is made before the write with one that is made after it."""
    make, take = VIEWS[view]
    read, derive = READERS[reader], DERIVATIVES[derivative]

    def after(y: Any) -> Any:
        x = make()
        WRITES[write](x, y)
        return read(take(x))

    def before(y: Any) -> Any:
        x = make()
        v = take(x)
        WRITES[write](x, y)
        return read(v)

    expected = derive(after, pb.tensor(POINT)).numpy()
    found = derive(before, pb.tensor(POINT)).numpy()
    assert np.any(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("reader", READERS)
def test_reader_finds_tangent_of_view_made_before_write(reader: str, derivative: str) -> None:
    _check("slice", "copy_", reader, derivative)


@pytest.mark.parametrize("reader", ["nothing", "grad", "jvp"])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("view", VIEWS)
def test_view_made_before_write_has_tangent(view: str, write: str, reader: str) -> None:
    _check(view, write, reader, "dual level, recorded")
    _check(view, write, reader, "jacfwd")


def test_checkpoint_of_view_made_before_write() -> None:
    def slope(y: Any) -> Any:
        x = pb.zeros(3)
        v = x[:2]
        x.copy_(y)
        return checkpoint(_total, v, use_reentrant=False)

    found = _by_dual_level(slope, pb.tensor(POINT, requires_grad=True)).numpy()
    np.testing.assert_allclose(found, [3 * POINT[0] ** 2, 3 * POINT[1] ** 2, 0.0])


def test_first_reader_in_no_grad_keeps_history_of_tangent() -> None:
    def slope(y: Any) -> Any:
        def f(z: Any) -> Any:
            x = pb.zeros(3)
            v = x[:2]
            x.copy_(z)
            with pb.no_grad():
                _ = v * 2
            return _total(v)

        return func.jvp(f, (y,), (pb.ones(3),))[1]

    found = func.jacrev(slope)(pb.tensor(POINT)).numpy()
    np.testing.assert_allclose(found, [6 * POINT[0], 6 * POINT[1], 0.0])


@pytest.mark.parametrize("convert", [np.asarray, np.array, lambda v: v.numpy()])
@pytest.mark.parametrize("is_early", [False, True])
def test_tensor_with_tangent_cannot_become_array(convert: Function, is_early: bool) -> None:
    def f(y: Any) -> Any:
        x = pb.zeros(3)
        v = x[:2]
        x.copy_(y)
        return pb.asarray(convert(v if is_early else x * 1)).sum()

    with pytest.raises(AutogradError, match="tangent"):
        func.jacfwd(f)(pb.tensor(POINT))
