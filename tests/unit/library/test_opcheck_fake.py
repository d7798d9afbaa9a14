"""Rules 16.6 and 16.7: fake kernels, and recordings that are replayed."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.library import custom_op, opcheck

TESTS = ["test_faketensor", "test_aot_dispatch"]


def square(ns, fake, kernel=None, backward=None, setup=None, schema="(Tensor x) -> Tensor"):
    op = custom_op(
        f"{ns}::f",
        kernel or (lambda x: pb.asarray(x.numpy() ** 2)),
        mutates_args=(),
        schema=schema,
    )
    op.register_autograd(
        backward or (lambda ctx, g: 2 * ctx.saved_tensors[0] * g),
        setup_context=setup or (lambda ctx, inputs, output: ctx.save_for_backward(*inputs)),
    )
    if fake is not None:
        op.register_fake(fake)
    return op


def matrix():
    return pb.tensor([[0.5, 2.0, 1.0], [1.0, 3.0, 2.0]], requires_grad=True)


def checked(op, x=None, test="test_faketensor"):
    args = (matrix() if x is None else x,)
    return str(opcheck(op, args, tests=TESTS, raise_exception=False)[test])


WRONG_FAKES = {
    "shape": (lambda x: pb.empty_like(x[:1]), "Shapes (1, 3) and (2, 3) are not equal"),
    "dtype": (lambda x: pb.empty_like(x, dtype="float32"), "Dtypes float32 and float64 are not"),
    "layout": (lambda x: x.new_empty(x.shape[::-1]).T, "Stride mismatch"),
    "alias": (lambda x: x[...], "mismatch in aliasing"),
    "itself": (lambda x: x, "mismatch in aliasing"),
    "device": (lambda x: pb.zeros(x.shape), "on device 'cpu', not 'meta'"),
    "reads values": (lambda x: pb.empty_like(x) if x.sum() > 0 else x, "reads values"),
    "missing": (None, "There was no fake impl registered"),
}


@pytest.mark.parametrize("name", WRONG_FAKES)
def test_wrong_fake_kernels_are_found(ns, name):
    """Rule 16.6."""
    fake, words = WRONG_FAKES[name]
    assert words in checked(square(ns, fake))


def test_a_right_fake_kernel_passes(ns):
    """Rule 16.6."""
    op = square(ns, lambda x: pb.empty_like(x))
    assert opcheck(op, (matrix(),), tests=TESTS)


def test_the_number_of_returns(ns, lib):
    """Rule 16.6."""
    lib.define("f(Tensor x) -> Tensor[]")
    lib.impl("f", lambda x: [x + 1, x + 2], "CPU")
    lib.impl("f", lambda x: [x + 1], "Meta")
    report = opcheck(lib.operator("f"), (pb.tensor([1.0]),), tests=TESTS, raise_exception=False)
    assert "mismatch in number of returns" in str(report["test_faketensor"])


def test_requires_grad_recorded_below_autograd(lib):
    """Rule 16.6."""

    class Double(pb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", Double.apply, "CPU")
    lib.impl("f", lambda x: pb.empty_like(x.detach()), "Meta")
    with pb.dispatch.set_autograd_fallback_mode("nothing"):
        report = opcheck(lib.operator("f"), (matrix(),), tests=TESTS, raise_exception=False)
    assert "mismatched requires_grad-ness" in str(report["test_faketensor"])


def test_a_size_that_depends_on_the_data(ns):
    """Rule 16.6."""

    def positive(x):
        return pb.asarray(x.numpy()[x.numpy() > 1])

    def honest(x):
        return pb.empty((pb.library.get_ctx().new_dynamic_size(),), dtype=x.dtype, device="meta")

    x = pb.tensor([0.5, 2.0])
    wrong = square(ns, lambda x: pb.empty_like(x), positive)
    assert "Shapes (2,) and (1,) are not equal" in checked(wrong, x)
    report = opcheck(square(ns, honest, positive), (x,), tests="test_faketensor")
    assert report.rows[0].result == "skipped"


def counter():
    calls = [0.0]

    def count(value):
        calls[0] += 1
        return value * calls[0]

    return count


def test_a_kernel_that_depends_on_a_counter(ns):
    """Rule 16.7."""
    count = counter()
    op = square(ns, lambda x: pb.empty_like(x), lambda x: pb.asarray(count(x.numpy())))
    assert "Outputs of the operator are different in eager-mode" in checked(op, None, TESTS[1])


def test_a_backward_that_depends_on_a_counter(ns):
    """Rule 16.7."""
    count = counter()
    op = square(ns, lambda x: pb.empty_like(x), backward=lambda ctx, g: count(g))
    assert "Gradients of the operator are different" in checked(op, None, TESTS[1])


def test_a_backward_that_reads_values(ns):
    """Rule 16.7."""
    op = square(
        ns,
        lambda x: pb.empty_like(x),
        backward=lambda ctx, g: g * pb.asarray(2 * ctx.saved_tensors[0].numpy()),
    )
    assert "cannot be recorded without data" in checked(op, None, TESTS[1])


def test_no_fake_and_no_formula(ns):
    """Rule 16.7."""
    assert "cannot be recorded without data" in checked(square(ns, None), None, TESTS[1])
    op = custom_op(f"{ns}::g", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_fake(lambda x: pb.empty_like(x))
    assert "no autograd formula was registered" in checked(op, None, TESTS[1])


def test_undeclared_writes_are_for_test_schema_only(ns):
    """Rule 16.8."""

    def kernel(x):
        values = x.numpy() ** 2
        x.numpy()[...] = np.nan
        return pb.asarray(values)

    report = opcheck(
        square(ns, lambda x: pb.empty_like(x), kernel),
        (pb.tensor([1.0, 2.0]),),
        tests=["test_schema", *TESTS],
        raise_exception=False,
    )
    assert [row.test for row in report.failures] == ["test_schema"]
