"""Results of compiled loops that share memory with other tensors, as they do outside of a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from tests.unit.loops.test_compiled_loops import BACKENDS, assert_close, check


def _scanned(step: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        first, captured, xs = x * 1, x * 2, pb.stack([x, x * 3, x, x * 4] * 2)
        last, _ = pb.scan(lambda c, r: (step(c, captured, r), None), first, xs, **options)
        last[1] = 8.0
        return last, first, captured, xs

    return function


def _swapped(x: Any) -> Any:
    first, second = x * 1, x * 2
    (a, b), _ = pb.scan(lambda c, _: ((c[1], c[0]), None), (first, second), None, 3)
    a += 1
    return a, b, first, second


def _twins(x: Any) -> Any:
    def step(c: Any, _: Any) -> Any:
        new = c[0] * 2
        return (new, new), None

    (a, b), _ = pb.scan(step, (x, x * 2), None, 3)
    a += 1
    return a, b


def _unchanged(x: Any) -> Any:
    first = x * 1
    last = pb.fori_loop(0, 3, lambda _, c: c, first)
    last[1] = 8.0
    return last, first


def _no_step(x: Any) -> Any:
    first = x * 1
    last = pb.while_loop(lambda c: c.sum() < 3, lambda c: c * 2, first)
    last[1] = 8.0
    return last, first


def _passed_through(x: Any) -> Any:
    first = x * 1
    state = (pb.asarray(0), first)
    _, last = pb.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1]), state)
    last[1] = 8.0
    return last, first


def _swapped_while(x: Any) -> Any:
    first, second = x * 1, x * 2
    state = (pb.asarray(0), first, second)
    _, a, b = pb.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[2], s[1]), state)
    second[0] = 5.0
    return a, b, first, second


def _captured_while(x: Any) -> Any:
    first, captured = x * 1, x * 2
    last = pb.while_loop(lambda c: c.sum() < 7, lambda _: captured[::-1], first)
    last[0] = 5.0
    return last, first, captured


def _twins_while(x: Any) -> Any:
    def body(s: Any) -> Any:
        new = s[1] * 2
        return s[0] + 1, new, new[::-1]

    _, a, b = pb.while_loop(lambda s: s[0] < 3, body, (pb.asarray(0), x * 1, x * 2))
    a[0] = 5.0
    return a, b


def _broadcast(x: Any) -> Any:
    def step(c: Any, _: Any) -> Any:
        return (c[0] + 1, pb.broadcast_to(c[0], (2, 3))), None

    (_, rows), _ = pb.scan(step, (x * 1, pb.stack([x, x])), None, 3)
    rows[0] += 1.5
    return (rows * 1,)


def _inner(x: Any) -> Any:
    first, captured = x * 1, x * 2

    def outer(c: Any, _: Any) -> Any:
        return pb.fori_loop(0, 3, lambda _, s: (s[1], s[0]), c), None

    (a, b), _ = pb.scan(outer, (first, captured), None, 3)
    b[0] = 5.0
    return a, b, first, captured


SHARED = {
    "unchanged": _scanned(lambda c, k, r: c),
    "captured": _scanned(lambda c, k, r: k),
    "slice": _scanned(lambda c, k, r: r),
    "view": _scanned(lambda c, k, r: c[::-1]),
    "view of captured": _scanned(lambda c, k, r: k[::-1]),
    "swapped": _swapped,
    "twins": _twins,
    "fori_loop": _unchanged,
    "while_loop": _passed_through,
    "no step": _no_step,
    "swapped in while_loop": _swapped_while,
    "captured in while_loop": _captured_while,
    "twins in while_loop": _twins_while,
    "broadcast": _broadcast,
    "loop inside": _inner,
}


@pytest.mark.filterwarnings("ignore:.*called as it is")
@pytest.mark.parametrize("name", SHARED)
def test_results_share_memory_as_they_do_outside(name):
    function, x = SHARED[name], np.array([1.0, 2.0, 3.0])

    def total(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: sum(pb.sum(part**2 * (n + 1)) for n, part in enumerate(f(x)))

    for backend in BACKENDS:
        compiled = pb.compile(function, backend=backend, cache=False)
        for _ in range(2):
            assert_close(compiled(pb.asarray(x)), function(pb.asarray(x)))
            found = pb.grad(total(compiled))(pb.asarray(x))
            assert_close(found, pb.grad(total(function))(pb.asarray(x)))


STEPS = {
    "captured": lambda c, k, r: k,
    "slice": lambda c, k, r: r,
    "view": lambda c, k, r: c[::-1],
    "view of captured": lambda c, k, r: k[::-1],
}


@pytest.mark.filterwarnings("ignore:scan. inside a transform")
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("reverse", [False, True])
def test_results_of_chunks_share_memory_as_they_do_outside(name, reverse):
    x = np.array([1.0, 2.0, 3.0])
    function = _scanned(STEPS[name], reverse=reverse, checkpoint=30)
    for transformed in (function, lambda x: pb.func.vmap(function)(pb.stack([x, x * 2]))):
        for backend in BACKENDS:
            compiled = pb.compile(transformed, backend=backend, cache=False)
            assert_close(compiled(pb.asarray(x)), transformed(pb.asarray(x)))


def test_results_that_are_older_carries_are_one_loop():
    def fibonacci(x):
        (a, b), _ = pb.scan(lambda c, _: ((c[1], c[0] + c[1]), None), (x, x * 2), None, 4)
        a = a * 1
        a += 1
        return a * b

    check(fibonacci, np.array([1.0, 2.0]))
    check(lambda x: pb.scan(lambda c, r: (r, c), x[0] * 0, x), np.ones((3, 2)))
    check(lambda x: pb.fori_loop(0, 3, lambda _, c: (c[0], c[1] * c[0]), (x, x)), np.ones(2))
