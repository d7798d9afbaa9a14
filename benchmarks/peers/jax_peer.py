"""JAX, compiled: the function and its derivative are one program."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.harness.threads import threads
from benchmarks.peers.base import Peer, Run, StackedRows, UnavailableError
from benchmarks.peers.namespaces import numpy_like
from benchmarks.workloads.base import LEARNING_RATE, Problem, Task


def conv2d(x: Any, w: Any, b: Any) -> Any:
    numbers = ("NCHW", "OIHW", "NCHW")
    y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)
    return y + b[:, None, None]


def set_row(x: Any, i: int, row: Any) -> Any:
    return x.at[i].set(row)


def scan(step: Any, carry: Any, *sequences: Any) -> Any:
    carry = tuple(jnp.asarray(c) for c in carry)
    return lax.scan(lambda c, rows: (step(c, *rows), None), carry, sequences)[0]


def repeat(step: Any, x: Any, count: int) -> Any:
    """What `step`, called so many times, makes of x."""
    return lax.scan(lambda c, _: (step(c), None), x, None, count)[0]


def iterates(step: Any, x: Any, count: int) -> Any:
    """The results of `step`, called so many times one after the other, stacked."""

    def both(carry: Any, _: Any) -> Any:
        following = step(carry)
        return following, following

    return lax.scan(both, x, None, count)[1]


@jax.custom_vjp
def custom_tanh(x: Any) -> Any:
    return jnp.tanh(x)


def _forward(x: Any) -> Any:
    y = jnp.tanh(x)
    return y, y


def _backward(y: Any, grad: Any) -> Any:
    return (grad * (1.0 - y * y),)


custom_tanh.defvjp(_forward, _backward)


def namespace() -> SimpleNamespace:
    return numpy_like(
        jnp,
        conv2d=conv2d,
        set_row=set_row,
        scan=scan,
        repeat=repeat,
        iterates=iterates,
        sigmoid=jax.nn.sigmoid,
        relu=jax.nn.relu,
        logsumexp=jax.nn.logsumexp,
        custom_tanh=custom_tanh,
    )


class JaxPeer(Peer):
    name = "jax.jit"

    def __init__(self) -> None:
        jax.config.update("jax_enable_x64", True)
        if threads() == 1:  # on one processor, handing work to another thread costs up to 8 µs
            jax.config.update("jax_cpu_enable_async_dispatch", False)
        self.xp = namespace()

    def version(self) -> str:
        return jax.__version__

    def _compiled(self, function: Any, problem: Problem) -> Run:
        """Constants are arguments: otherwise the compiler would compute with them in advance."""
        compiled = jax.jit(function)
        params = tuple(jnp.asarray(p) for p in problem.params)
        consts = tuple(jnp.asarray(c) for c in problem.consts)
        return lambda: jax.block_until_ready(compiled(params, consts))

    def grad(self, problem: Problem) -> Run:
        fn, xp = problem.fn, self.xp
        gradient = jax.value_and_grad(lambda params, consts: fn(xp, params, consts))
        return self._compiled(gradient, problem)

    def train(self, problem: Problem) -> Run:
        fn, xp = problem.fn, self.xp
        gradient = jax.value_and_grad(lambda params, consts: fn(xp, params, consts))

        @jax.jit
        def step(params: Any, consts: Any) -> Any:
            loss, grads = gradient(params, consts)
            updated = tuple(p - LEARNING_RATE * g for p, g in zip(params, grads, strict=True))
            return loss, updated

        state = tuple(jnp.asarray(p) for p in problem.params)
        consts = tuple(jnp.asarray(c) for c in problem.consts)

        def run() -> Any:
            nonlocal state
            loss, state = jax.block_until_ready(step(state, consts))
            return loss, state

        return run

    def rows(self, problem: Problem) -> Run:
        return self._compiled(self._row_function(problem), problem)

    def row_loop(self, problem: Problem) -> Run:
        observe = jax.jit(self._row_function(problem))
        items = [
            (tuple(jnp.asarray(p[i]) for p in problem.params), tuple(c[i] for c in problem.consts))
            for i in range(len(problem.params[0]))
        ]

        def run() -> Any:
            results = [observe(params, consts) for params, consts in items]
            jax.block_until_ready(results)
            return [values for values, _ in results], [rows for _, rows in results]

        return run

    def _row_function(self, problem: Problem) -> Any:
        fn, xp = problem.fn, self.xp

        def function(params: Any, consts: Any) -> Any:
            outputs, pull = jax.vjp(lambda p: fn(xp, p, consts), params)
            rows = []
            for i in range(len(outputs)):
                seeds = tuple(jnp.full_like(y, float(i == j)) for j, y in enumerate(outputs))
                rows.append(pull(seeds)[0])
            return outputs, rows

        return function

    def _matrix(self, transform: Any, problem: Problem) -> Run:
        fn, xp = problem.fn, self.xp
        matrix = transform(lambda x, consts: fn(xp, (x,), consts))
        return self._compiled(lambda params, consts: matrix(params[0], consts), problem)

    def jacobian(self, problem: Problem) -> Run:
        return self._matrix(jax.jacfwd, problem)

    def hessian(self, problem: Problem) -> Run:
        return self._matrix(jax.hessian, problem)

    def jvp(self, problem: Problem) -> Run:
        fn, xp = problem.fn, self.xp

        def push(params: Any, consts: Any) -> Any:
            return jax.jvp(lambda x: fn(xp, (x,), consts), params, (consts[-1],))

        return self._compiled(push, problem)

    def jvp_grad(self, problem: Problem) -> Run:
        return self.hvp(problem)  # the same in this library

    def double_backward(self, problem: Problem) -> Run:
        fn, xp = problem.fn, self.xp

        def product(params: Any, consts: Any) -> Any:
            gradient = jax.grad(lambda x: fn(xp, (x,), consts))
            return jax.vjp(gradient, params[0])[1](consts[-1])

        return self._compiled(product, problem)

    def hvp(self, problem: Problem) -> Run:
        fn, xp = problem.fn, self.xp

        def product(params: Any, consts: Any) -> Any:
            gradient = jax.grad(lambda x: fn(xp, (x,), consts))
            return jax.jvp(gradient, params, (consts[-1],))[1]

        return self._compiled(product, problem)

    def arrays(self, result: Any) -> list[Any]:
        return [np.asarray(leaf) for leaf in jax.tree.leaves(result)]


class IdiomaticJaxPeer(JaxPeer):
    """JAX where a problem has a form that its users would write: a scan, or vectorised by hand."""

    name = "jax.idiom"

    def prepare(self, task: Task, problem: Problem) -> Run:
        if task == "row_loop":
            compiled = self.rows(problem)
            return lambda: StackedRows(*compiled())
        if problem.idiom is None:
            raise UnavailableError("the same as jax.jit")
        return super().prepare(task, replace(problem, fn=problem.idiom))

    def arrays(self, result: Any) -> list[Any]:
        if isinstance(result, StackedRows):
            result = result.by_observation()
        return super().arrays(result)
