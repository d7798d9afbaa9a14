"""Custom operators go together with everything that dispatches, and cost little."""

from __future__ import annotations

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
    x = leaf(1, 2) * 1
    plain = x.detach()

    def best(statement):
        names = {"cube": cube, "fn": cube._fn, "x": x, "plain": plain, "sin": pb.sin}
        clock = time.process_time  # the machine may be busy with others
        return min(timeit.repeat(statement, globals=names, number=300, repeat=30, timer=clock))

    unit = best("sin(x)")
    assert best("cube(plain)") - best("fn(plain)") < 3 * unit
    assert best("cube(x)") - best("fn(plain)") < 6 * unit
