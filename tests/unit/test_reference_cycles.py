"""Derivatives leave nothing behind that only the garbage collector could free."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import func
from pullback.autograd import forward_ad
from pullback.autograd.graph import allow_mutation_on_saved_tensors, saved_tensors_hooks
from pullback.utils.checkpoint import checkpoint

POINT = np.array([0.5, 0.7, 1.1])

Function = Callable[[Any], Any]


def _written_argument(x: Any) -> Any:
    u = x * x
    v = u * u
    u[0] = 1.0
    return (v * pb.exp(v)).sum()


def _written_result(x: Any) -> Any:
    v = pb.exp(x * x)
    total = v.sum() * 1.0
    v[0] = 1.0
    return total


def _recurrence(x: Any) -> Any:
    y = pb.zeros(3)
    y[0] = x[0]
    for i in (1, 2):
        y[i] = y[i - 1] * pb.sin(x[i])
    return (y * y).sum()


def _written_view(x: Any) -> Any:
    u = x * x
    part = u[:2]
    part *= x[:2]
    return (u * u).sum()


def _written_base(x: Any) -> Any:
    u = x * x
    part = u[:2]
    u *= x
    return (part * part).sum()


def _no_write(x: Any) -> Any:
    return (pb.tanh(x) * x).sum()


PROGRAMS = [
    _written_argument,
    _written_result,
    _recurrence,
    _written_view,
    _written_base,
    _no_write,
]


def _leaf() -> Any:
    return pb.tensor(POINT, requires_grad=True)


def _twice_backward(f: Function) -> None:
    x = _leaf()
    (gradient,) = pb.autograd.grad(f(x), [x], create_graph=True)
    pb.autograd.grad(gradient.sum(), [x])


def _backward_of_block(f: Function) -> None:
    x = _leaf()
    with pb.numpy_mode():
        value = f(x)
    value.backward()


def _allow_mutation(f: Function) -> None:
    x = _leaf()
    with allow_mutation_on_saved_tensors():
        f(x).backward()


def _hooks(f: Function) -> None:
    with saved_tensors_hooks(lambda tensor: tensor.detach().clone(), lambda copy: copy):
        func.hessian(f)(pb.tensor(POINT))


def _dual_level(f: Function) -> None:
    x = _leaf()
    with forward_ad.dual_level():
        value = f(forward_ad.make_dual(x, pb.ones(3)))
        (gradient,) = pb.autograd.grad(value, [x])
        forward_ad.unpack_dual(gradient)


DERIVATIVES: dict[str, Callable[[Function], Any]] = {
    "pb.hessian": lambda f: pb.hessian(f)(POINT),
    "func.hessian": lambda f: func.hessian(f)(pb.tensor(POINT)),
    "hvp": lambda f: pb.hvp(f)(POINT, POINT),
    "grad": lambda f: pb.grad(f)(POINT),
    "jvp": lambda f: func.jvp(f, (pb.tensor(POINT),), (pb.ones(3),)),
    "jacfwd": lambda f: func.jacfwd(f)(pb.tensor(POINT)),
    "forward over reverse": lambda f: func.jacfwd(func.grad(f))(pb.tensor(POINT)),
    "reverse over reverse": lambda f: func.jacrev(func.grad(f))(pb.tensor(POINT)),
    "forward over forward": lambda f: func.jacfwd(func.jacfwd(f))(pb.tensor(POINT)),
    "reverse over forward": lambda f: func.jacrev(func.jacfwd(f))(pb.tensor(POINT)),
    "third": lambda f: func.jacfwd(func.jacfwd(func.grad(f)))(pb.tensor(POINT)),
    "linearize": lambda f: func.linearize(f, pb.tensor(POINT))[1](pb.ones(3)),
    "mapped grad": lambda f: func.vmap(func.grad(f))(pb.tensor([POINT, POINT])),
    "mapped hessian": lambda f: func.vmap(func.hessian(f))(pb.tensor([POINT, POINT])),
    "backward": lambda f: f(_leaf()).backward(),
    "twice backward": _twice_backward,
    "block": _backward_of_block,
    "allow_mutation": _allow_mutation,
    "hooks": _hooks,
    "checkpoint": lambda f: checkpoint(f, _leaf(), use_reentrant=False).backward(),
    "dual level": _dual_level,
}


def _garbage_of(run: Callable[[], Any]) -> dict[str, int]:
    """How many objects of each type only the collector frees after a run; caches are filled before.

    Other threads of the process, such as those of an event loop, must not run meanwhile: what they
    leave would count.
    """
    run()
    run()
    was_enabled, interval = gc.isenabled(), sys.getswitchinterval()
    gc.collect()
    gc.disable()
    try:
        sys.setswitchinterval(1.0)  # longer than a run
        time.sleep(0.01)  # a thread that waits now still asks for its turn after 5 ms
        gc.collect()
        run()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        return dict(Counter(type(found).__qualname__ for found in gc.garbage))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        sys.setswitchinterval(interval)
        if was_enabled:
            gc.enable()


def test_cycles_are_counted_by_type() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.own = self

    assert _garbage_of(Cycle)["test_cycles_are_counted_by_type.<locals>.Cycle"] == 1


def test_garbage_of_other_threads_is_not_counted() -> None:
    is_over = threading.Event()

    def leave_cycles() -> None:
        while not is_over.is_set():
            found: list[Any] = []
            found.append(found)
            time.sleep(1e-4)

    thread = threading.Thread(target=leave_cycles)
    thread.start()
    try:
        assert _garbage_of(lambda: [sum(range(10_000)) for _ in range(100)]) == {}  # 20 ms
    finally:
        is_over.set()
        thread.join()


@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__.strip("_"))
def test_derivatives_in_numpy_mode_leave_no_cycle(program: Function, derivative: str) -> None:
    f = program if derivative == "allow_mutation" else pb.differentiable(program)
    assert _garbage_of(lambda: DERIVATIVES[derivative](f)) == {}


@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("program", [_written_view, _written_base, _no_write])
def test_derivatives_leave_no_cycle(program: Function, derivative: str) -> None:
    assert _garbage_of(lambda: DERIVATIVES[derivative](program)) == {}


def test_numpy_mode_without_backward_leaves_no_cycle() -> None:
    for program in PROGRAMS:
        f = pb.differentiable(program)
        assert _garbage_of(lambda f=f: f(_leaf())) == {}  # type: ignore[misc]
