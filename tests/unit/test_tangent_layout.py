"""Tangents lie in memory as their tensors do, so that writes to views reach both or neither."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pullback as pb
from pullback.autograd import forward_ad as fw

SHAPE = (3, 2)


def array(layout: str, start: float) -> np.ndarray:
    values = start + np.arange(6.0).reshape(SHAPE)
    if layout == "columns":
        return np.asfortranarray(values)
    if layout == "gaps":
        return np.repeat(values, 2, axis=1)[:, ::2]
    if layout == "repeated":
        return np.broadcast_to(values[0], SHAPE)
    return values


def copied_or_not(x: pb.Tensor) -> tuple[pb.Tensor, ...]:
    y = pb.reshape(x, (6,))  # a view or a copy, as the memory of x has it
    y.mul_(5.0)
    return x, y


def of_a_sum(x: pb.Tensor) -> tuple[pb.Tensor, ...]:
    return copied_or_not(x + pb.ones(SHAPE))


def of_a_sum_with_columns(x: pb.Tensor) -> tuple[pb.Tensor, ...]:
    return copied_or_not(pb.from_numpy(np.ones(SHAPE, order="F")) + x)


def of_a_transposed_product(x: pb.Tensor) -> tuple[pb.Tensor, ...]:
    x = x * 2
    return copied_or_not(x.T)[1], x


def written_into_columns(x: pb.Tensor) -> tuple[pb.Tensor, ...]:
    whole = pb.from_numpy(np.ones(SHAPE, order="F"))
    part = pb.reshape(whole.T, (6,))
    part.mul_(pb.reshape(x, (6,)))
    return whole, part


def two_views(x: pb.Tensor) -> tuple[pb.Tensor, ...]:
    x = x * 1
    first, second = pb.reshape(x, SHAPE), pb.reshape(x, (6,))
    first[0] = 7.0
    second[3] = x[1, 0] * 2
    return x, first, second


PROGRAMS = [of_a_sum, of_a_sum_with_columns, of_a_transposed_product]
PROGRAMS += [written_into_columns, two_views, lambda x: copied_or_not(x * 1)]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("of_tangent", ["rows", "columns", "gaps", "repeated"])
@pytest.mark.parametrize("of_primal", ["rows", "columns", "gaps"])
def test_writes_through_reshaped_tensors_reach_tangents_as_they_reach_values(
    of_primal: str, of_tangent: str, program: Callable[[pb.Tensor], tuple[pb.Tensor, ...]]
) -> None:
    x, t = array(of_primal, 1.0), array(of_tangent, 10.0)
    moved = np.empty_like(x)  # in the layout of x
    moved[...] = x + t
    expected = [
        there.numpy() - here.numpy()
        for here, there in zip(
            program(pb.from_numpy(x.copy("K"))), program(pb.from_numpy(moved)), strict=True
        )
    ]
    tangent = pb.from_numpy(t)
    before = tangent.tolist()
    with fw.dual_level():
        outputs = program(fw.make_dual(pb.from_numpy(x), tangent))
        found = [fw.unpack_dual(output).tangent.numpy() for output in outputs]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other)
    assert tangent.tolist() == before


def test_a_tangent_in_the_layout_of_its_primal_is_the_one_that_was_given() -> None:
    x, t = pb.from_numpy(array("columns", 1.0)), pb.from_numpy(array("columns", 2.0))
    with fw.dual_level():
        assert fw.unpack_dual(fw.make_dual(x, t)).tangent is t


def test_jvp_of_a_write_to_a_view_of_columns() -> None:
    def program(x: pb.Tensor) -> pb.Tensor:
        x = x * 1
        pb.reshape(x, (6,)).mul_(3.0)
        return x

    x, t = pb.from_numpy(array("rows", 1.0)), pb.from_numpy(array("columns", 2.0))
    assert pb.func.jvp(program, (x,), (t,))[1].tolist() == (3 * t).tolist()


@pytest.mark.parametrize("layout", ["rows", "columns", "gaps"])
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p is not written_into_columns])
def test_jacobians_by_columns_and_by_rows_agree_on_writes_to_views(
    program: Callable[[pb.Tensor], tuple[pb.Tensor, ...]], layout: str
) -> None:
    x = pb.from_numpy(array(layout, 1.0))
    for place in range(2):
        by_columns, by_rows = (
            jacobian(lambda a: program(a)[place])(x)  # noqa: B023 - called at once
            for jacobian in (pb.func.jacfwd, pb.func.jacrev)
        )
        np.testing.assert_allclose(by_columns.numpy(), by_rows.numpy())


def test_samples_of_tangents_lie_one_after_the_other() -> None:
    first = pb.tensor([[1.0, 2.0], [3.0, 4.0]])

    def program(last: pb.Tensor) -> pb.Tensor:
        # Zeros are joined to the tangents, all in one place, and NumPy would put samples between.
        whole = pb.concatenate([first, last], axis=0)
        pb.reshape(whole, (-1,)).mul_(3.0)
        return whole

    last = pb.tensor([[5.0, 6.0]])
    expected = pb.func.jacrev(program)(last).tolist()
    assert pb.func.jacfwd(program)(last).tolist() == expected

    def recorded(scale: pb.Tensor) -> pb.Tensor:  # the general way, by tangents with a history
        push = pb.func.vmap(lambda t: pb.func.jvp(program, (last,), (t * scale,))[1])
        return push(pb.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]))

    found = recorded(pb.tensor(1.0, requires_grad=True))
    assert pb.moveaxis(found, 0, -1).detach().reshape((3, 2, 1, 2)).tolist() == expected
