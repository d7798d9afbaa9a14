"""Effects of the steps of loops: writes to memory, and arrays that steps make themselves."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.errors import CheckpointError
from pullback.utils import pytree

BACKENDS = ["eager", "llvm"] if importlib.util.find_spec("llvmlite") else ["eager"]


def test_a_loop_without_steps_writes_nothing() -> None:
    total, table = pb.zeros(2), np.zeros(2)

    def step(carry: Any, x: Any) -> Any:
        carry += 1
        total[0] += carry[1] + x
        pb.from_numpy(table)[1] += 2.0
        return carry, (carry * 2, carry.sum() > 1)

    start = pb.ones(2)
    last, ys = pb.scan(step, start, np.zeros(0))
    assert [y.shape for y in ys] == [(0, 2), (0,)]
    assert ys[1].dtype == bool
    for array in (last, start):
        np.testing.assert_array_equal(array, [1.0, 1.0])
    for array in (total, table):
        np.testing.assert_array_equal(array, [0.0, 0.0])


def test_a_loop_without_steps_inside_transforms() -> None:
    def last(x: Any) -> Any:
        return pb.scan(lambda c, _: (c * x, c.sum()), x, None, 0)

    functions = [
        lambda x: pb.func.jvp(lambda x: last(x)[0], (x,), (x * 2,)),
        lambda x: pb.func.vmap(last)(pb.stack([x, x])),
        lambda x: pb.func.grad(lambda x: last(x)[0].sum())(x),
    ]
    for function in functions:
        x = pb.asarray([1.0, 2.0, 3.0])
        found, expected = pb.compile(function, backend="eager")(x), function(x)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("differentiate", ["grad", "backward"])
def test_a_tensor_that_a_checkpointed_step_writes_to_has_no_gradient(differentiate: str) -> None:
    x, total = pb.ones(3).requires_grad_(), pb.zeros(3)

    def step(carry: Any, _: Any) -> Any:
        nonlocal total
        carry = pb.sin(x) * carry
        total += carry
        return carry, None

    last, _ = pb.scan(step, x * 2, None, 3, checkpoint="1KB")
    result = last.sum() + total.sum()
    passes = {"grad": lambda: pb.autograd.grad(result, x), "backward": result.backward}
    with pytest.raises(CheckpointError, match="computed inside a step, or written to"):
        passes[differentiate]()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("start", [0, 0.0, 0j, np.float64(0), np.int64(0)])
def test_numbers_made_in_a_function_begin_anew_in_each_call(backend: str, start: Any) -> None:
    def count(x: Any) -> Any:
        n = pb.asarray(start)
        for _ in range(2):
            n += 1
        last, _ = pb.scan(lambda c, _: (c + 1, None), n, None, 2)
        return x * last

    function = pb.compile(count, backend=backend)
    for _ in range(3):
        np.testing.assert_array_equal(function(np.ones(2)), [4, 4])


@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_that_each_trace_of_a_step_makes_anew(backend: str) -> None:
    """The gradients capture arrays of their own, behind the cotangents among the inputs."""

    def total(x: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            return pb.linalg.solve(pb.asarray(np.eye(3) * 3), carry) + x, None

        return pb.scan(step, x, None, 3)[0].sum()

    function = pb.compile(total, backend=backend)
    for _ in range(2):
        x = pb.ones(3).requires_grad_()
        function(x).backward()
        np.testing.assert_allclose(x.grad, np.full(3, 40 / 27))


NUMBERS = {
    "asarray": lambda x, t: pb.asarray(t) * x,
    "asarray of a dtype": lambda x, t: pb.asarray(t, dtype="float32") * x,
    "tensor": lambda x, t: pb.tensor(t) * x,
    "list": lambda x, t: pb.asarray([[t, 1], [2.5, x[0]]]),
    "scan": lambda x, t: pb.scan(lambda c, u: (c + u, c * 2), t, x),
    "fori_loop": lambda x, t: pb.fori_loop(0, 3, lambda _, c: (c[0] * 1.5, c[1] + 1), (t, 0)),
    "while_loop": lambda x, t: pb.while_loop(lambda c: c < 10 + t, lambda c: c * 2, t + 1),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_become_tensors_are_inputs(name: str) -> None:
    """A number as the first carry of a loop, or as data of a tensor, was a guard of its value."""
    function, x = NUMBERS[name], np.array([1.0, 2.0])
    for numbers in ((0.5, 0.75, 1.5), (1, 2, 3)):
        compiled = pb.compile(function, backend="eager")
        for number in numbers:
            found, expected = compiled(x, number), function(x, number)
            for a, b in zip(pytree.flatten(found)[0], pytree.flatten(expected)[0], strict=True):
                np.testing.assert_array_equal(a, b)
        assert compiled.stats["traces"] == 1
        assert compiled.stats["eager"] == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pb.scan(3, 1.0, None, 2), "scan: step is of type int; a function"),
        (lambda: pb.fori_loop(0, 2, None, 1.0), "fori_loop: body is of type NoneType; a function"),
        (lambda: pb.while_loop(True, abs, 1.0), "while_loop: cond is of type bool; a function"),
        (lambda: pb.while_loop(bool, 2.0, 1.0), "while_loop: body is of type float; a function"),
        (
            lambda: pb.scan(lambda c, _: (c, None), 1.0, None, 2, checkpoint=1.5),
            "scan: checkpoint is 1.5; a number of bytes",
        ),
        (
            lambda: pb.fori_loop(0, 2, lambda _, c: c, 1.0, checkpoint=2),
            "fori_loop: checkpoint is 2, but one state takes 8 bytes",
        ),
    ],
)
def test_errors_name_function_and_argument(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()
