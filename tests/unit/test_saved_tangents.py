"""Tangents of saved values after an in-place write to what they were saved from.

In NumPy mode, under ``allow_mutation_on_saved_tensors`` and under saved-tensor hooks that copy, a
saved value outlasts such a write, and so must its tangents: forward over reverse reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import func
from pullback.autograd import forward_ad
from pullback.autograd.graph import allow_mutation_on_saved_tensors, saved_tensors_hooks
from pullback.library import custom_op
from pullback.sparse import sparse_hessian
from pullback.utils.checkpoint import checkpoint

POINT = np.array([0.5, 0.7])

Function = Callable[[Any], Any]
Program = Callable[[Any, bool], Any]


@custom_op("savedtangents::exp", mutates_args=())
def custom_exp(x: pb.Tensor) -> pb.Tensor:
    """Saves its result."""
    return pb.exp(x)


custom_exp.register_autograd(
    lambda ctx, grad: ctx.saved_tensors[0] * grad,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
)
custom_exp.register_jvp(lambda ctx, tangent: ctx.saved_tensors[0] * tangent)
custom_exp.register_vmap(lambda _, in_dims, x: (custom_exp(x), in_dims[0]))


class Square(pb.autograd.Function):
    """Saves its argument."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * grad

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * tangent


def argument_written(x: Any, writes: bool) -> Any:
    u = x * x
    v = u * u
    if writes:
        u[0] = 1.0
    return v.sum()


def result_written(x: Any, writes: bool) -> Any:
    v = pb.exp(x * x)
    total = v.sum() * 1.0
    if writes:
        v[0] = 1.0
    return total


def base_of_view_written(x: Any, writes: bool) -> Any:
    u = x * x
    part = u[:1]
    total = (part * part).sum() + (u * u * u).sum()
    if writes:
        u *= 3.0
    return total


def view_written(x: Any, writes: bool) -> Any:
    u = x * x
    part = u[:1]
    total = (part * part).sum() + (u * u * u).sum()
    if writes:
        part *= 3.0
    return total


def written_repeatedly(x: Any, writes: bool) -> Any:
    u = x * x
    total = pb.sin(u).sum()
    for _ in range(3):
        if writes:
            u *= x
        else:
            u = u * x
        total = total + (u * u).sum()
    return total


def matrix_written(x: Any, writes: bool) -> Any:
    u = pb.outer(x, x)
    v = u @ u
    if writes:
        u[0, :] = x
    return (v * v).sum()


def written_by_out(x: Any, writes: bool) -> Any:
    u = x * x
    v = u * u
    if writes:
        pb.multiply(x, pb.sin(x), out=u)
    return (v * v).sum()


def argument_of_custom_function_written(x: Any, writes: bool) -> Any:
    u = x * x
    v = Square.apply(u)
    if writes:
        u[0] = 1.0
    return v.sum()


def result_of_custom_operator_written(x: Any, writes: bool) -> Any:
    v = custom_exp(x * x)
    total = v.sum() * 1.0
    if writes:
        v[0] = 1.0
    return total


PROGRAMS = [
    argument_written,
    result_written,
    base_of_view_written,
    view_written,
    written_repeatedly,
    matrix_written,
    written_by_out,
    argument_of_custom_function_written,
    result_of_custom_operator_written,
]

TRANSFORMS: dict[str, Callable[[Function], Function]] = {
    "pb.hessian": lambda f: lambda x: pb.hessian(f)(x),
    "func.hessian": func.hessian,
    "forward over reverse": lambda f: func.jacfwd(func.grad(f)),
    "reverse over reverse": lambda f: func.jacrev(func.grad(f)),
    "forward over forward": lambda f: func.jacfwd(func.jacfwd(f)),
    "reverse over forward": lambda f: func.jacrev(func.jacfwd(f)),
    "third": lambda f: lambda x: func.jacfwd(func.jacfwd(func.grad(f)))(x).sum(0),
    "reverse third": lambda f: lambda x: func.jacrev(func.jacfwd(func.grad(f)))(x).sum(0),
    "mapped": lambda f: lambda x: func.vmap(func.hessian(f))(pb.stack([x, x]))[1],
    "mapped jvp": lambda f: (
        lambda x: func.vmap(lambda v: func.jvp(func.grad(f), (x,), (v,))[1])(pb.eye(2))
    ),
    "linearize": lambda f: lambda x: func.vmap(func.linearize(func.grad(f), x)[1])(pb.eye(2)),
    "functional": lambda f: (
        lambda x: pb.autograd.functional.hessian(
            f, x, vectorize=True, outer_jacobian_strategy="forward-mode"
        )
    ),
    "hvp": lambda f: lambda x: pb.stack([pb.hvp(f)(x, pb.tensor(e)) for e in np.eye(2)]),
    "dual level": lambda f: lambda x: _by_dual_level(f, x),
    "dual level, recorded": lambda f: lambda x: _by_leaf(f, x),
}


def _by_dual_level(f: Function, x: Any) -> Any:
    rows = []
    for direction in np.eye(2):
        with forward_ad.dual_level():
            gradient = func.grad(f)(forward_ad.make_dual(x, pb.tensor(direction)))
            rows.append(forward_ad.unpack_dual(gradient).tangent)
    return pb.stack(rows)


def _by_leaf(f: Function, x: Any) -> Any:
    rows = []
    leaf = x.clone().requires_grad_()
    for direction in np.eye(2):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(leaf, pb.tensor(direction))
            (gradient,) = pb.autograd.grad(f(dual), [leaf])
            rows.append(forward_ad.unpack_dual(gradient).tangent)
    return pb.stack(rows)


def _copying_hooks() -> saved_tensors_hooks:
    return saved_tensors_hooks(lambda tensor: tensor.detach().clone(), lambda copy: copy)


MODES: dict[str, Any] = {
    "differentiable": (pb.differentiable, nullcontext),
    "allow_mutation": (lambda f: f, allow_mutation_on_saved_tensors),
    "hooks": (lambda f: f, _copying_hooks),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_second_derivatives_after_write_to_saved_value(
    program: Program, transform: str, mode: str
) -> None:
    decorate, block = MODES[mode]
    derive = TRANSFORMS[transform]
    x = pb.tensor(POINT)
    expected = derive(lambda z: program(z, False))(x)
    with block():
        found = derive(decorate(lambda z: program(z, True)))(x)
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-12)


def test_hessian_of_written_value_in_numpy_mode() -> None:
    @pb.differentiable
    def f(x: Any) -> Any:
        u = x * x
        v = u * u
        u[0] = 1.0
        return np.sum(v)

    np.testing.assert_allclose(pb.hessian(f)(POINT), np.diag([3.0, 5.88]))
    np.testing.assert_allclose(sparse_hessian(f, POINT).toarray(), np.diag([3.0, 5.88]))


@pytest.mark.parametrize("block", [_copying_hooks, nullcontext])
def test_hooks_keep_tangents_of_custom_operators_results(block: Any) -> None:
    def f(x: Any) -> Any:
        return checkpoint(lambda z: custom_exp(z * z).sum(), x, use_reentrant=False)

    x = pb.tensor(POINT)
    with block():
        found = _by_leaf(f, x)
    expected = np.diag((2 + 4 * POINT**2) * np.exp(POINT**2))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
