"""Loops in compiled functions: one loop, whose step is traced once."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.fx.loop_call import LoopCall
from pullback.utils import pytree

BACKENDS = ["eager", "llvm"] if importlib.util.find_spec("llvmlite") else ["eager"]
needs_llvm = pytest.mark.skipif(len(BACKENDS) == 1, reason="llvmlite is not installed")


def assert_close(found: Any, expected: Any, rtol: float = 1e-10) -> None:
    left, spec = pytree.flatten(found)
    right, other = pytree.flatten(expected)
    assert spec == other
    for a, b in zip(left, right, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=1e-12)
        assert np.asarray(a).dtype == np.asarray(b).dtype


def loops_of(compiled: Any) -> int:
    return sum(isinstance(n.target, LoopCall) for n in compiled.fx_graphs()[-1].nodes)


def native_of(compiled: Any) -> Any:
    (entry,) = compiled._entries.values()
    return entry.paths[0][0].native


def check(function: Callable[..., Any], *args: Any, is_loop: bool = True) -> None:
    """Compares a compiled function with the function, in the first call and the next."""
    for backend in BACKENDS:
        compiled = pb.compile(function, backend=backend, cache=False)
        for _ in range(2):
            assert_close(compiled(*args), function(*args))
        other = tuple(
            a * 1.1 if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in args
        )
        assert_close(compiled(*other), function(*other))
        assert (loops_of(compiled) > 0) == is_loop, backend


def derivatives(f: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Functions of derivatives of a scalar function of one array."""
    grad = pb.func.grad(f)

    def along(g: Callable[..., Any], x: Any) -> Any:
        return pb.func.jvp(g, (x,), (pb.cos(x),))

    return {
        "value": f,
        "value_and_grad": pb.value_and_grad(f),
        "jvp": lambda x: along(f, pb.asarray(x)),
        "forward over reverse": lambda x: along(grad, pb.asarray(x)),
        "reverse over reverse": pb.grad(lambda x: (grad(x) * pb.sin(x)).sum()),
        "reverse over forward": pb.grad(lambda x: along(f, x)[1]),
        "hessian": pb.hessian(f),
        "jacrev of grad": lambda x: pb.func.jacrev(grad)(pb.asarray(x)),
        "third": pb.grad(lambda x: pb.grad(lambda y: (grad(y) ** 2).sum())(x).sum()),
    }


NAMES = list(derivatives(lambda x: x))
ALL = [pytest.param(n, marks=pytest.mark.slow) if n in NAMES[-2:] else n for n in NAMES]
X = np.array([0.3, -0.7, 1.2])
W = np.random.default_rng(0).normal(size=(3, 3)) * 0.5


def recurrent(w: Any, x: Any, steps: int = 7) -> Any:
    def step(h: Any, u: Any) -> Any:
        h = pb.tanh(w @ h + u * x)
        return h, (h * x).sum()

    last, sums = pb.scan(step, pb.zeros(3), pb.arange(steps * 3.0).reshape(steps, 3) / 9)
    return (last**2).sum() + (sums**3).sum()


@pytest.mark.parametrize("name", ALL)
def test_derivatives_by_captured_tensors(name: str) -> None:
    check(derivatives(lambda x: recurrent(pb.asarray(W), x))[name], X)


@pytest.mark.parametrize("name", ["value_and_grad", "jvp", "hessian"])
def test_derivatives_by_captured_matrix(name: str) -> None:
    check(derivatives(lambda w: recurrent(w, pb.asarray(X)))[name], W)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_by_carry_and_slices(name: str, reverse: bool) -> None:
    def f(x: Any) -> Any:
        def step(c: Any, u: Any) -> Any:
            return {"a": c["a"] * pb.cos(u) + c["b"], "b": c["b"] - u * c["a"]}, (
                c["a"],
                u * c["b"],
            )

        init = {"a": x[0], "b": x[1] * x[2]}
        last, (p, q) = pb.scan(
            step, init, pb.outer(x, pb.asarray([1.0, 2.0])).ravel(), reverse=reverse
        )
        return last["a"] * last["b"] + (p * pb.arange(6.0)).sum() + (q**2).sum()

    check(derivatives(f)[name], X)


@pytest.mark.parametrize("name", ALL)
def test_scan_within_scan(name: str) -> None:
    def f(x: Any) -> Any:
        def outer(c: Any, u: Any) -> Any:
            def inner(d: Any, v: Any) -> Any:
                return pb.sin(d + v * u) * x[0] + c[0], d * v

            last, ys = pb.scan(inner, c[1], x)
            return pb.stack([last, c[0] * 0.5, ys.sum()]), last

        last, ys = pb.scan(outer, x, pb.arange(4.0) * x[2])
        return (last**2).sum() + ys.sum()

    check(derivatives(f)[name], X)


@pytest.mark.parametrize("budget", [None, "100B"])
def test_tangents_of_what_a_scan_within_a_scan_captures(budget: str | None) -> None:
    def f(x: Any) -> Any:
        def outer(c: Any, _: Any) -> Any:
            inner = pb.scan(lambda d, _: (pb.tanh(d * x + 0.1), None), c, None, 3)[0]
            return inner * x, None

        return (pb.scan(outer, x, None, 4, checkpoint=budget)[0] ** 2).sum()

    x = pb.asarray([0.3, -0.5, 0.8])
    with warnings.catch_warnings(action="ignore"):
        expected = pb.func.hessian(f)(x)
    for transform in (pb.func.hessian, lambda f: pb.func.jacfwd(pb.func.grad(f))):
        compiled = pb.compile(transform(f), backend="eager")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_close(compiled(x), expected)
        assert loops_of(compiled) == 4
        assert_close(compiled(x), expected)


def test_captured_tensor_that_requires_grad() -> None:
    w = pb.tensor(2.0, requires_grad=True)

    def f(x: Any) -> Any:
        last, _ = pb.scan(lambda c, u: (c * w + u, None), x, pb.asarray([1.0, 2.0, 3.0]))
        return pb.autograd.grad(last, (w,))[0]

    check(f, np.array(3.0))


def test_two_captured_tensors_of_which_one_is_made_of_the_other() -> None:
    def f(x: Any) -> Any:
        y = pb.exp(x)
        last, _ = pb.scan(lambda c, _: (c * x + y, None), x, None, 5)
        return last.sum()

    check(pb.value_and_grad(f), X)
    check(pb.hessian(f), X)


def test_detach_no_grad_and_custom_functions_in_a_step() -> None:
    class Cube(pb.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x**3

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return ctx.saved_tensors[0] * grad * 7  # not the derivative: it has to be used

    def f(x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            with pb.no_grad():
                still = pb.sin(c) * x
            return c * 0.5 + still + c.detach() * x + Cube.apply(c * x) * 0.1, None

        return pb.scan(step, x, None, 4)[0].sum()

    check(pb.value_and_grad(f), X)


def test_grad_inside_a_step() -> None:
    def f(x: Any) -> Any:
        def potential(q: Any) -> Any:
            return (pb.cos(q) * x).sum()

        def step(s: Any, _: Any) -> Any:
            q, p = s
            p = p - 0.1 * pb.func.grad(potential)(q)
            return (q + 0.1 * p, p), None

        (q, p), _ = pb.scan(step, (x, pb.zeros(3)), None, 6)
        return (q * p).sum()

    check(pb.value_and_grad(f), X)
    check(pb.hessian(f), X)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: pb.func.vmap(f),
        lambda f: pb.func.vmap(pb.func.grad(f)),
        lambda f: pb.grad(lambda x: pb.func.vmap(f)(x).sum()),
        lambda f: pb.func.vmap(pb.func.hessian(f)),
        lambda f: pb.func.vmap(lambda x: pb.func.vmap(lambda s: f(s * x))(pb.asarray([1.0, 2.0]))),
        lambda f: lambda x: pb.func.jvp(pb.func.vmap(f), (pb.asarray(x),), (pb.sin(x),)),
    ],
    ids=["vmap", "vmap grad", "grad vmap", "vmap hessian", "vmap vmap", "jvp vmap"],
)
def test_vmap(transform: Any) -> None:
    rows = np.random.default_rng(1).normal(size=(4, 3))
    check(transform(lambda x: recurrent(pb.asarray(W), x, 3)), rows)


def test_vmap_of_a_gradient_by_what_all_samples_share() -> None:
    rows = np.random.default_rng(1).normal(size=(4, 3))
    w = pb.asarray(W)
    check(lambda x: pb.func.vmap(lambda r: pb.func.grad(lambda v: recurrent(v, r, 3))(w))(x), rows)
    check(
        lambda x: pb.func.grad(
            lambda v: pb.func.vmap(lambda r: recurrent(v, r, 3))(pb.asarray(x)).sum()
        )(w),
        rows,
    )


def test_a_vmap_inside_a_step() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            return pb.func.vmap(lambda a: pb.tanh(w @ (a * x)))(c), None

        w = pb.asarray(W)
        return (pb.scan(step, pb.stack([x, 2 * x]), None, 3)[0] ** 2).sum()

    check(pb.value_and_grad(f), X)


@pytest.mark.parametrize("dtype", ["float32", "complex128", "int64", "bool"])
def test_dtypes_of_the_carry(dtype: str) -> None:
    def f(x: Any) -> Any:
        c = pb.asarray(x).astype(dtype)

        def step(s: Any, u: Any) -> Any:
            c, n, found = s
            return ((c * u).astype(dtype), n + 1, found | (n > 2)), c

        last, ys = pb.scan(step, (c, pb.asarray(0), pb.asarray(False)), pb.asarray([1, 2, 3, 1, 2]))
        return last, ys

    check(f, np.array([1.5, 0.0, 3.0]))


def test_integer_carries_beside_differentiated_ones() -> None:
    def f(x: Any) -> Any:
        def step(s: Any, _: Any) -> Any:
            c, n = s
            return (c * x[n % 3] + n, n + 1), n * c

        (c, _), ys = pb.scan(step, (x.sum(), 0), None, 7)
        return c + ys.sum()

    check(pb.value_and_grad(f), X)
    check(pb.hessian(f), X)


def test_numbers_in_init_take_the_dtype_of_the_first_result() -> None:
    check(lambda x: pb.scan(lambda c, u: (c + u, None), 0, x), X)
    check(lambda x: pb.scan(lambda c, u: (c + u, None), 0, x), X.astype(np.float32))


def test_lengths() -> None:
    for length in (0, 1, 2):
        check(
            lambda x, n=length: pb.scan(lambda c, _: (c * 2, c), x, None, n), X, is_loop=length > 0
        )
    check(lambda x: pb.scan(lambda c, u: (c * u, None), x[0], x[:0]), X, is_loop=False)


def test_in_place_writes_in_a_step() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, u: Any) -> Any:
            c = c.clone()
            c[0] = c[1] * u
            c[1:] += x[:2]
            c *= x
            return c, c[0]

        last, ys = pb.scan(step, x, pb.asarray([1.0, 2.0, 3.0, 4.0]))
        return (last**2).sum() + ys.sum()

    check(pb.value_and_grad(f), X)
    check(pb.hessian(f), X)


def test_steps_that_are_traced_one_by_one() -> None:
    def branch(x: Any) -> Any:
        def step(c: Any, u: Any) -> Any:
            return (c * u if c.sum() > 0 else c - u), None

        return pb.scan(step, x, pb.asarray([1.0, -2.0, 3.0]))[0]

    check(branch, X, is_loop=False)

    def write(x: Any) -> Any:
        def step(c: Any, u: Any) -> Any:
            c += u
            return c, c.sum()

        return pb.scan(step, x * 1.0, pb.asarray([1.0, -2.0]))

    check(write, X, is_loop=False)

    def read(x: Any) -> Any:
        last, _ = pb.scan(lambda c, u: (c * u, None), x, pb.asarray([1.0, -2.0]))
        return last * 2 if float(last.sum()) > 0 else last

    check(read, X, is_loop=False)


def test_a_step_that_computes_otherwise_in_the_backward_pass() -> None:
    calls = []

    def f(x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            calls.append(0)
            return c * (2.0 if len(calls) == 1 else 3.0), None

        calls.clear()
        return pb.scan(step, x, None, 3)[0].sum()

    compiled = pb.compile(pb.value_and_grad(f), backend="eager")
    assert_close(compiled(X), pb.value_and_grad(f)(X))


def test_random_numbers_in_a_step_are_drawn_by_the_function_itself() -> None:
    rng = np.random.default_rng(0)
    draws = [lambda: np.random.normal(size=3), lambda: pb.asarray(rng.normal(size=3))]
    for draw in draws:

        def f(x: Any, draw: Any = draw) -> Any:
            step = lambda c, _: (c * draw(), None)  # noqa: E731
            return pb.scan(step, x, None, 3)[0].sum()

        compiled = pb.compile(pb.value_and_grad(f), backend="eager")
        with pytest.warns(UserWarning, match="draws random numbers from"):
            value, gradient = compiled(X)
        assert not compiled.fx_graphs()
        np.testing.assert_allclose((gradient * X).sum(), value)
        assert compiled(X)[0] != value


def test_errors_are_those_of_the_function() -> None:
    def f(x: Any) -> Any:
        return pb.scan(lambda c, _: (c[:1], None), x, None, 3)

    with pytest.raises(TypeError, match=r"scan: carry is float64\[3\] before a step"):
        pb.compile(f, backend="eager")(X)


def test_numbers_in_init_take_another_dtype_once() -> None:
    def sums(x: Any) -> Any:
        return pb.scan(lambda c, r: ((c[0] + c[1], c[1] + r), None), (0, 0), x)

    for function in (sums, pb.compile(sums)):
        for _ in range(2):
            with pytest.raises(TypeError, match=r"carry\[0\] is int64\[\] before .* float64\[\]"):
                function(pb.asarray(X))


def test_operators_without_machine_code_in_a_step() -> None:
    def f(x: Any) -> Any:
        def step(p: Any, u: Any) -> Any:
            p = pb.linalg.inv(p + u * pb.eye(3))
            return p, pb.linalg.slogdet(p)[1]

        last, ys = pb.scan(step, pb.diag(pb.exp(x)), pb.arange(5.0))
        return last.sum() + ys.sum()

    check(pb.value_and_grad(f), X)


@needs_llvm
def test_a_position_outside_in_a_step_raises() -> None:
    table = np.arange(5.0)
    f = pb.compile(
        lambda n: pb.scan(lambda c, _: (c + 1, pb.asarray(table)[c]), n, None, 3)[1], backend="llvm"
    )
    np.testing.assert_array_equal(f(np.array(1)), [1, 2, 3])
    with pytest.raises(IndexError):
        f(np.array(3))


def test_captured_arrays_are_read_in_each_call() -> None:
    table = np.ones(3)
    for backend in BACKENDS:
        f = pb.compile(
            lambda x: pb.scan(lambda c, _: (c + table, None), x, None, 2)[0], backend=backend
        )
        table[...] = 1.0
        np.testing.assert_allclose(f(X), X + 2)
        table[...] = 5.0
        np.testing.assert_allclose(f(X), X + 10)


def test_data_of_captured_tensors_may_be_replaced() -> None:
    for backend in BACKENDS:
        for needs_grad in (False, True):
            w = pb.tensor(X.copy(), requires_grad=needs_grad)

            def f(x: Any, w: Any = w) -> Any:
                last, _ = pb.scan(lambda c, _: (pb.sin(c) * w, None), x, None, 3)
                return (last.detach() * w.detach()).sum()

            compiled = pb.compile(pb.value_and_grad(f), backend=backend, cache=False)
            for scale in (1.0, 2.0):
                w.data = pb.asarray(X * scale)
                assert_close(compiled(X), pb.value_and_grad(f)(X))


def test_python_numbers_are_inputs() -> None:
    def f(x: Any, h: float) -> Any:
        return pb.scan(lambda c, _: (c + h / 2 * c, None), x, None, 3)[0].sum()

    for backend in BACKENDS:
        compiled = pb.compile(pb.value_and_grad(f), backend=backend, cache=False)
        for h in (0.1, 0.2):
            assert_close(compiled(X, h), pb.value_and_grad(f)(X, h))
        assert compiled.stats["traces"] == 1
        assert loops_of(compiled) == 2


@needs_llvm
def test_time_of_tracing_does_not_depend_on_the_length() -> None:
    sizes = set()
    for length in (10, 1000, 100_000):
        compiled = pb.compile(
            pb.value_and_grad(
                lambda x, n=length: pb.scan(lambda c, _: (pb.sin(c) * x, None), x, None, n)[0].sum()
            ),
            cache=False,
        )
        compiled.graph(X)
        sizes.add(len(compiled.fx_graphs()[-1]))
    assert len(sizes) == 1


@pytest.mark.parametrize("name", ["value_and_grad", "jvp", "hessian"])
def test_fori_loop(name: str) -> None:
    def f(x: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            return c * x[i % 3] + i * 0.5

        return pb.fori_loop(2, 9, body, x).sum()

    check(derivatives(f)[name], X)


def test_fori_loop_whose_index_is_read() -> None:
    check(lambda x: pb.fori_loop(0, 3, lambda i, c: c * 2 if i else c + 1, x), X, is_loop=False)
    narrow = X.astype(np.float32)
    check(lambda x: pb.fori_loop(0, 3, lambda i, c: c * i, x), narrow, is_loop=False)
    check(lambda x: pb.fori_loop(0, 3, lambda i, c: c * i + x[0], 0.0), narrow)


def collatz(n: Any) -> Any:
    def body(c: Any) -> Any:
        n, steps = c
        return pb.where(n % 2 == 0, n // 2, 3 * n + 1), steps + 1

    return pb.while_loop(lambda c: c[0] > 1, body, (n, 0))


def root(x: Any) -> Any:
    """Newton's iteration for the square root of each element, until all have converged."""

    def body(c: Any) -> Any:
        y, _ = c
        new = 0.5 * (y + x / y)
        return new, abs(new - y).max()

    return pb.while_loop(lambda c: c[1] > 1e-12, body, (pb.ones_like(x), pb.asarray(1.0)))[0]


def test_while_loop() -> None:
    check(collatz, np.array(27))
    check(collatz, np.array(1))
    check(lambda x: root(pb.asarray(x)), X**2 + 0.1)
    check(lambda x: pb.func.jvp(root, (pb.asarray(x),), (pb.sin(x),)), X**2 + 0.1)
    twice = lambda x: pb.func.jvp(lambda y: pb.func.jvp(root, (y,), (y,))[1], (x,), (x,))  # noqa: E731
    check(lambda x: twice(pb.asarray(x)), X**2 + 0.1)


def test_while_loop_inside_vmap() -> None:
    check(lambda n: pb.func.vmap(lambda m: collatz(m)[1])(pb.asarray(n)), np.arange(1, 12))
    rows = np.random.default_rng(2).uniform(0.1, 9, size=(4, 3))
    check(lambda x: pb.func.vmap(root)(pb.asarray(x)), rows)
    check(lambda x: pb.func.vmap(lambda r: pb.func.jvp(root, (r,), (r,)))(pb.asarray(x)), rows)
    check(lambda x: pb.func.vmap(lambda s: root(pb.asarray(x) * s))(pb.asarray([1.0, 2.0])), X**2)


def test_while_loop_without_numbers_of_a_dtype() -> None:
    check(lambda x: pb.while_loop(lambda c: c < 100, lambda c: c * 2 + x, 1), np.array(0.5))


def test_while_loop_in_reverse_mode_is_traced_step_by_step() -> None:
    check(pb.value_and_grad(lambda x: root(x).sum()), X**2 + 0.1, is_loop=False)


def test_while_loop_within_scan() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, u: Any) -> Any:
            last = pb.while_loop(lambda d: d.sum() < 50, lambda d: d * 1.5 + u, c + 1.0)
            return last * 0.01 + x, last.sum()

        return pb.scan(step, x, pb.arange(5.0))

    check(f, X**2)
    check(lambda x: pb.func.jvp(lambda y: f(y)[0], (pb.asarray(x),), (pb.sin(x),)), X**2)


@pytest.mark.filterwarnings("ignore:scan. inside a transform")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("budget", ["1KB", "300B", pytest.param("100B", marks=pytest.mark.slow)])
def test_checkpoints(budget: str, reverse: bool) -> None:
    def f(x: Any) -> Any:
        def step(c: Any, u: Any) -> Any:
            c = pb.sin(c * x + u)
            return c, c[0] * u

        last, ys = pb.scan(step, x, pb.arange(29.0) * x[1], reverse=reverse, checkpoint=budget)
        return (last**2).sum() + (ys * pb.arange(29)).sum()

    check(pb.value_and_grad(f), X)
    if budget == "100B":  # a Hessian takes long
        check(pb.hessian(f), X)


@needs_llvm
def test_checkpoints_bound_the_memory_of_machine_code() -> None:
    def gradient(checkpoint: Any) -> Any:
        def f(x: Any) -> Any:
            step = lambda c, _: (pb.sin(c) * x, None)  # noqa: E731
            return pb.scan(step, x, None, 10_000, checkpoint=checkpoint)[0].sum()

        return pb.compile(pb.value_and_grad(f), cache=False)

    wide = np.linspace(0.1, 1.0, 100)
    plain, kept = gradient(None), gradient("200KB")
    assert_close(kept(wide), plain(wide))
    sizes = [sum(step.arena for step in native_of(c)._steps) for c in (plain, kept)]
    assert sizes[0] >= 10_000 * 800
    assert sizes[1] < 5 * 200 * 800


@needs_llvm
def test_large_carries_are_computed_in_place_of_those_before() -> None:
    wide = np.linspace(0.1, 1.0, 1000)

    def f(x: Any, n: int) -> Any:
        def step(state: Any, _: Any) -> Any:
            a, b, c = state
            return (pb.sin(a) + b, a * 0.5, c + pb.roll(a, 1)), None

        a, b, c = pb.scan(step, (x, x * 2.0, x), None, n)[0]
        return pb.exp(a * b)[::-1] * c

    for n in (1, 6, 7):
        compiled = pb.compile(f, cache=False, static_argnums=1)
        assert_close(compiled(wide, n), f(wide, n))
        assert_close(compiled(-wide, n), f(-wide, n))
        assert sum(step.arena for step in native_of(compiled)._steps) <= 9 * wide.nbytes


def test_numpy_code_in_a_step() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, u: Any) -> Any:
            z = np.zeros(3)
            z[0] = c[1] * u
            z[1:] = np.sin(c[:2])
            return z * x, None

        return (pb.scan(step, x, np.array([1.0, 2.0, 3.0]))[0] ** 2).sum()

    check(pb.value_and_grad(f), X)


def network(w: Any, b: Any, x: Any) -> Any:
    last, ys = pb.scan(lambda h, u: (pb.tanh(w @ h + b + u), (h * u).sum()), pb.zeros(3), x)
    return (last**2).sum() + ys.sum()


@pytest.mark.parametrize("backend", BACKENDS)
def test_training_with_a_loop(backend: str) -> None:
    rows = pb.asarray(np.random.default_rng(3).normal(size=(6, 3)))

    def losses(transform: Callable[..., Any]) -> list[float]:
        w, b = pb.tensor(W.copy(), requires_grad=True), pb.tensor(X.copy(), requires_grad=True)

        def train(x: Any) -> Any:
            loss = network(w, b, x)
            loss.backward()
            with pb.no_grad():
                for p in (w, b):
                    p -= 0.1 * p.grad
                    p.grad = None
            return loss.detach()

        step = transform(train)
        return [step(rows).item() for _ in range(4)]

    compiled = []

    def compile_and_keep(train: Callable[..., Any]) -> Any:
        compiled.append(pb.compile(train, backend=backend, cache=False))
        return compiled[0]

    assert_close(losses(compile_and_keep), losses(lambda train: train))
    assert loops_of(compiled[0]) == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_recorded_calls_of_a_loop(backend: str) -> None:
    rows = pb.asarray(np.random.default_rng(3).normal(size=(6, 3)))
    gradients = []
    for function in (network, pb.compile(network, backend=backend, cache=False)):
        w, b = pb.tensor(W, requires_grad=True), pb.tensor(X, requires_grad=True)
        for _ in range(2):
            function(w, b, rows).backward()
        gradients.append((w.grad, b.grad))
    assert_close(gradients[1], gradients[0])
