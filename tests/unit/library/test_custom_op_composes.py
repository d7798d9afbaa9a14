"""Custom operators go together with everything that dispatches, and cost little."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import timeit
import warnings

import numpy as np
import pytest

import pullback as pb
from pullback.autograd import graph
from pullback.utils.checkpoint import checkpoint


def test_double_backward(cube, leaf):
    x = leaf(1, 2)
    (first,) = pb.autograd.grad(cube(x).sum(), x, create_graph=True)
    (second,) = pb.autograd.grad(first.sum(), x)
    assert (first.tolist(), second.tolist()) == ([3.0, 12.0], [6.0, 12.0])


def test_transforms(cube):
    x = pb.tensor([1.0, 2.0])
    f = lambda t: cube(t).sum()  # noqa: E731 - a function of one line
    assert pb.func.grad(f)(x).tolist() == [3.0, 12.0]
    assert pb.func.jacrev(cube)(x).tolist() == [[3.0, 0.0], [0.0, 12.0]]
    assert pb.func.jacfwd(cube)(x).tolist() == [[3.0, 0.0], [0.0, 12.0]]
    assert pb.func.hessian(f)(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    _, tangent = pb.func.jvp(cube, (x,), (pb.ones(2),))
    assert tangent.tolist() == [3.0, 12.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there is no batching rule
        rows = pb.func.vmap(pb.func.grad(f))(pb.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert rows.tolist() == [[3.0, 12.0], [27.0, 48.0]]


def test_a_backward_behind_a_batching_rule_may_use_numpy(ns):
    rows = np.array([[1.0, 2.0], [3.0, 4.0]])
    fourth = pb.library.custom_op(f"{ns}::fourth", mutates_args=())(_fourth)
    fourth.register_autograd(_fourth_backward, setup_context=_keep_inputs)
    fourth.register_vmap(lambda info, in_dims, x: (fourth(x), in_dims[0]))
    x = pb.tensor(rows, requires_grad=True)
    (got,) = pb.autograd.grad(pb.func.vmap(fourth, in_dims=1)(x).sum(), x)
    np.testing.assert_allclose(got.numpy(), 4 * rows**3)
    got = pb.func.grad(lambda x: pb.func.vmap(fourth)(x).sum())(pb.tensor(rows))
    np.testing.assert_allclose(got.numpy(), 4 * rows**3)


def _fourth(x: pb.Tensor) -> pb.Tensor:
    return pb.tensor(x.detach().numpy() ** 4)


def _keep_inputs(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _fourth_backward(ctx, g):
    (x,) = ctx.saved_tensors
    return pb.tensor(4 * x.detach().numpy() ** 3 * g.numpy())


def test_saved_tensor_hooks_and_anomaly_mode(cube, leaf):
    x, packed = leaf(2), []
    with graph.saved_tensors_hooks(lambda t: packed.append(t.tolist()) or t, lambda t: t):
        y = cube(x)
    y.backward()
    assert packed == [[2.0]]
    assert x.grad.tolist() == [12.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            pb.autograd.detect_anomaly(check_nan=True),
            pytest.raises(RuntimeError, match=r"cubeBackward.*nan"),
        ):
            cube(leaf(np.nan)).backward()


def test_checkpoint(cube, leaf):
    x, calls = leaf(1, 2), []

    def twice(t):
        calls.append(1)
        return cube(cube(t))

    checkpoint(twice, x, use_reentrant=False).sum().backward()
    assert len(calls) == 2
    assert x.grad.tolist() == [9.0, 9.0 * 2.0**8]


def test_inference_mode_and_versions(cube, leaf):
    with pb.inference_mode():
        assert cube(leaf(2)).is_inference()
    x = leaf(2)
    y = cube(x * 1)
    z = x * 1
    y = cube(z)
    z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def _keep_output(ctx, inputs, output):
    ctx.save_for_backward(output)


def _exp(ns, kernel):
    """An operator that saves its result."""
    op = pb.library.custom_op(f"{ns}::exp", kernel, mutates_args=(), schema="(Tensor x) -> Tensor")
    formula = lambda ctx, g: ctx.saved_tensors[0] * g  # noqa: E731 - both rules
    op.register_autograd(formula, setup_context=_keep_output)
    op.register_jvp(formula)
    return op


@pytest.mark.parametrize("is_hooked", [False, True])
def test_what_becomes_of_a_saved_result_is_known_to_its_node(ns, leaf, is_hooked):
    op, x = _exp(ns, lambda x: pb.exp(x)), leaf(0.0, 0.0)

    def result():
        y = op(x)
        if is_hooked:  # then the node knows more of its result than the counter
            y.register_hook(lambda grad: grad * 3)
        return y

    factor = 3.0 if is_hooked else 1.0
    y = result()
    view = y[:1]
    assert y._version == 0
    assert pb.autograd.grad((y.sum() + view.sum()), x)[0].tolist() == [2 * factor, factor]
    y = result()
    view = y[:1]
    with pb.no_grad():
        view.mul_(2)
    with pytest.raises(RuntimeError, match="output 0 of expBackward, is at version 1"):
        y.sum().backward()
    y = result()
    (saved,) = y.grad_fn.saved_tensors
    with pb.no_grad():
        saved.add_(1)
    assert y._version == 1
    with pytest.raises(RuntimeError, match="is at version 1"):
        y.sum().backward()


def test_a_backward_that_writes_to_a_saved_result_is_noticed_by_others(ns, leaf):
    op, x = _exp(ns, lambda x: pb.exp(x)), leaf(0.0)
    other = pb.library.custom_op(
        f"{ns}::square", lambda x: x * x, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    other.register_autograd(lambda ctx, g: 2 * ctx.saved_tensors[0] * g, setup_context=_keep_inputs)

    def write(ctx, grad):
        ctx.saved_tensors[0].mul_(2)
        return grad

    op.register_autograd(write, setup_context=_keep_output)
    y = op(x)
    z = other(y)
    y.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="is at version 1"):
        pb.autograd.grad(z, y)


def test_a_result_that_a_kernel_keeps_is_new_all_the_same(ns, leaf):
    kept = []

    def kernel(x):
        kept.append(pb.exp(x))
        return kept[-1]

    op, x = _exp(ns, kernel), leaf(0.0)
    op(x).backward()
    assert x.grad.tolist() == [1.0]
    y = op(x)
    with pb.no_grad():
        kept[-1].mul_(2)
    with pytest.raises(RuntimeError, match="is at version 1"):
        y.backward()


def test_a_result_that_is_saved_is_checked_and_released(ns, leaf):
    op, x = _exp(ns, lambda x: pb.exp(x)), leaf(0.0)
    y = op(x)
    (saved,) = y.grad_fn.saved_tensors
    assert saved.grad_fn is y.grad_fn
    assert saved.requires_grad
    (first,) = pb.autograd.grad(y, x, create_graph=True)
    assert pb.autograd.grad(first, x, retain_graph=True)[0].tolist() == [1.0]
    y.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()
    z = op(x)
    z.detach().mul_(2)
    with pytest.raises(RuntimeError, match="output 0 of expBackward, is at version 1"):
        z.backward()
    # The saved result has the tangents that it got after it was saved.
    _, slope = pb.func.jvp(pb.func.grad(lambda t: op(t).sum()), (x.detach(),), (pb.ones(1),))
    assert slope.tolist() == [1.0]


def test_gradients_of_a_single_number_and_of_several_arguments(ns):
    op = pb.library.custom_op(
        f"{ns}::scale",
        lambda x, n, y: x * n + y,
        mutates_args=(),
        schema="(Tensor x, int n, Tensor y) -> Tensor",
    )
    wrong = {}
    op.register_autograd(
        lambda ctx, g: wrong.get("result", (g * ctx.n, None, g)),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "n", inputs[1]),
    )
    x, y = (pb.tensor(v, requires_grad=True) for v in (2.0, 3.0))
    op(x, 4, y).backward()
    assert (x.grad.item(), y.grad.item(), x.grad.shape) == (4.0, 1.0, ())
    one = pb.tensor(1.0)
    for result, message in {
        (one, None): r"incorrect number of gradients \(expected 3, got 2\)",
        (one, one, one): "different than None at position 2, for the argument 'n'",
        (one, None, 1.0): r"invalid gradient at index 2, for 'y' .*got float",
    }.items():
        wrong["result"] = result
        with pytest.raises(RuntimeError, match=message):
            op(x, 4, y).backward()
    wrong["result"] = (None, None, one)
    x.grad = None
    op(x, 4, y).backward()
    assert x.grad is None


def test_views_of_what_comes_to_require_grad(cube, leaf):
    base = pb.zeros(2)
    view = base[:1]
    base.copy_(leaf(2, 3))
    assert cube(view).requires_grad


def test_many_threads(cube):
    failed = []

    def work(number):
        for _ in range(50):
            x = pb.tensor([float(number)], requires_grad=True)
            cube(x).backward()
            if x.grad.tolist() != [3.0 * number**2]:
                failed.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_a_kernel_may_differentiate_inside(ns, leaf):
    @pb.library.custom_op(f"{ns}::slope", mutates_args=())
    def slope(x: pb.Tensor) -> pb.Tensor:
        with pb.enable_grad():
            inner = x.detach().requires_grad_()
            (found,) = pb.autograd.grad((inner**3).sum(), inner)
        return found

    slope.register_autograd(
        lambda ctx, g: 6 * ctx.saved_tensors[0] * g,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    x = leaf(2)
    y = slope(x)
    assert y.tolist() == [12.0]
    y.backward()
    assert x.grad.tolist() == [12.0]


def test_a_kernel_may_leave_its_result_undefined(ns, leaf):
    op = pb.library.custom_op(
        f"{ns}::none", lambda x: None, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    op.register_autograd(lambda ctx, g: g)
    assert op(pb.tensor([1.0])) is None
    assert op(leaf(1)) is None


def test_importing_loads_no_generator_and_no_tests():
    program = (
        "import sys, pullback\n"
        "late = ('pullback.codegen', 'pullback.library.checks', 'yaml', 'unittest')\n"
        "assert not [m for m in sys.modules if m.startswith(late)]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_call_costs_little_more_than_an_operator(cube, leaf):
    """Against the recording of an ordinary operator, so that a slow machine slows both."""
    gc.unfreeze()  # old graphs that are garbage: recording is slower while there are any
    gc.collect()
    x = leaf(1, 2) * 1
    plain = x.detach()

    names = {"cube": cube, "fn": cube._fn, "x": x, "plain": plain, "sin": pb.sin}
    clock = time.thread_time  # the machine may be busy with others

    def costs():
        """What a call adds to the function, and a recorded one, in recordings of ``sin``."""
        unit, function, call, record = (
            min(timeit.repeat(statement, globals=names, number=50, repeat=60, timer=clock))
            for statement in ("sin(x)", "fn(plain)", "cube(plain)", "cube(x)")
        )
        return (call - function) / unit, (record - function) / unit

    best = [min(found) for found in zip(*(costs() for _ in range(4)), strict=True)]
    assert best[0] < 1.5
    assert best[1] < 2.5


X, V = np.array([1.0, -2.0, 0.5]), np.array([1.0, 10.0, 100.0])


def test_hessian_product_through_an_operator_that_is_not_recorded(ns):
    @pb.library.custom_op(f"{ns}::square", mutates_args=())
    def square(x: pb.Tensor) -> pb.Tensor:
        return pb.tensor(x.numpy() ** 2)

    square.register_jvp(
        lambda ctx, tangent: 2 * ctx.saved_tensors[0] * tangent,
        setup_context=lambda ctx, inputs, output: ctx.save_for_forward(*inputs),
    )

    def f(x):
        with pb.no_grad():
            y = square(x)
        return (y * x).sum()

    np.testing.assert_allclose(pb.hvp(f)(X, V), 2 * X * V)
    np.testing.assert_allclose(pb.hessian(f)(X), np.diag(2 * X))


def test_hessian_product_through_writes_of_an_operator(ns):
    @pb.library.custom_op(f"{ns}::triple_", mutates_args=("x",))
    def triple_(x: pb.Tensor) -> None:
        x.numpy()[...] *= 3.0

    def f(x, write):
        y = x / (x * x + 1.0)  # the forward formula reads the result, the backward does not
        z = y + 1.0
        write(y.detach())
        return (z * z).sum()

    wanted = pb.hvp(f)(X, lambda _: None, V)
    np.testing.assert_allclose(pb.hvp(f)(X, triple_, V), wanted)
    np.testing.assert_allclose(pb.hessian(f)(X, triple_) @ V, wanted)
