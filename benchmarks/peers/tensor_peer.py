"""PyTorch and Pullback: one text for both, because their autograd has the same names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.peers.base import Peer, Run, flatten
from benchmarks.workloads.base import LEARNING_RATE, Array, Problem


class TensorPeer(Peer):
    """`lib` is the library: ``torch``, or ``pullback``."""

    lib: Any

    def tensor(self, array: Array) -> Any:
        """A tensor with memory of its own."""
        raise NotImplementedError

    def storage(self, tensor: Any) -> tuple[int, int]:
        """Where the memory of a tensor begins, and its whole size in bytes."""
        raise NotImplementedError

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """For a peer that is a compiler."""
        return function

    def _function(self, problem: Problem) -> Callable[..., Any]:
        """The problem's function of its parameters alone."""
        consts = tuple(self.tensor(c) for c in problem.consts)
        return self._with_consts(problem, consts)

    def _with_consts(self, problem: Problem, consts: tuple[Any, ...]) -> Callable[..., Any]:
        fn, xp = problem.fn, self.xp
        return lambda *params: fn(xp, params, consts)

    def _leaves(self, problem: Problem) -> tuple[Any, ...]:
        return tuple(self.tensor(p).requires_grad_() for p in problem.params)

    def arrays(self, result: Any) -> list[Array]:
        return [np.array(leaf.detach().numpy()) for leaf in flatten(result)]

    def grad(self, problem: Problem) -> Run:
        function, params = self.compile(self._function(problem)), self._leaves(problem)

        def run() -> Any:
            for p in params:
                p.grad = None
            loss = function(*params)
            loss.backward()
            return loss, [p.grad for p in params]

        return run

    def forward(self, problem: Problem) -> Run:
        function, params = self._function(problem), self._leaves(problem)
        return lambda: function(*params)

    def train(self, problem: Problem) -> Run:
        function, params = self.compile(self._function(problem)), self._leaves(problem)
        no_grad = self.lib.no_grad

        def run() -> Any:
            for p in params:
                p.grad = None
            loss = function(*params)
            loss.backward()
            with no_grad():
                for p in params:
                    p -= LEARNING_RATE * p.grad
            return loss, params

        return run

    def rows(self, problem: Problem) -> Run:
        function, params, grad = (
            self.compile(self._function(problem)),
            self._leaves(problem),
            self.lib.autograd.grad,
        )
        ones = self.tensor(np.ones(len(problem.params[0])))

        def run() -> Any:
            outputs = function(*params)
            last = outputs[-1]
            return outputs, [grad(y, params, ones, retain_graph=y is not last) for y in outputs]

        return run

    def row_loop(self, problem: Problem) -> Run:
        grad = self.lib.autograd.grad
        consts = zip(*(map(self.tensor, c) for c in problem.consts), strict=True)
        leaves = ([self.tensor(row).requires_grad_() for row in p] for p in problem.params)
        items = list(zip(zip(*leaves, strict=True), consts, strict=True))
        fn, xp = problem.fn, self.xp
        observe = self.compile(lambda params, consts: fn(xp, params, consts))

        def run() -> Any:
            values, rows = [], []
            for params, constants in items:
                x, y = observe(params, constants)
                values.append((x, y))
                rows.append((grad(x, params, retain_graph=True), grad(y, params)))
            return values, rows

        return run

    def jacobian(self, problem: Problem) -> Run:
        return self._matrix(problem, "jacfwd")

    def hessian(self, problem: Problem) -> Run:
        return self._matrix(problem, "hessian")

    def _matrix(self, problem: Problem, transform: str) -> Run:
        matrix = self.compile(getattr(self.lib.func, transform)(self._function(problem)))
        x = self.tensor(problem.params[0])
        return lambda: matrix(x)

    def jvp(self, problem: Problem) -> Run:
        return self._push(self._function(problem), problem)

    def jvp_grad(self, problem: Problem) -> Run:
        push = self._push(self.lib.func.grad(self._function(problem)), problem)
        return lambda: push()[1]

    def _push(self, function: Callable[..., Any], problem: Problem) -> Run:
        jvp, x = self.lib.func.jvp, self.tensor(problem.params[0])
        v, pushed = self.tensor(problem.consts[-1]), self.compile(function)
        return lambda: jvp(pushed, (x,), (v,))

    def hvp(self, problem: Problem) -> Run:
        """Two backward passes, for a library without anything quicker."""
        return self.double_backward(problem)

    def double_backward(self, problem: Problem) -> Run:
        function, (x,) = self._function(problem), self._leaves(problem)
        v, grad = self.tensor(problem.consts[-1]), self.lib.autograd.grad

        def run() -> Any:
            (g,) = grad(function(x), x, create_graph=True)
            return grad(g, x, v)

        return run

    def functional_hvp(self, problem: Problem) -> Run:
        product, function = self.lib.autograd.functional.hvp, self._function(problem)
        x, v = self.tensor(problem.params[0]), self.tensor(problem.consts[-1])
        return lambda: product(function, x, v)

    def saved_bytes(self, problem: Problem) -> int:
        consts, params = tuple(map(self.tensor, problem.consts)), self._leaves(problem)
        inputs = {self.storage(t)[0] for t in (*params, *consts)}
        function = self._with_consts(problem, consts)
        with self._watch_saved() as saved:
            loss = function(*params)
            total = sum(size for start, size in saved.items() if start not in inputs)
        del loss
        return total

    @contextmanager
    def _watch_saved(self) -> Iterator[dict[int, int]]:
        saved: dict[int, int] = {}

        def pack(tensor: Any) -> Any:
            start, size = self.storage(tensor)
            saved[start] = size
            return tensor

        with self.lib.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            yield saved

    def custom_tanh(self) -> Callable[[Any], Any]:
        """An operator of the user's own."""
        lib = self.lib

        @lib.library.custom_op("bench::tanh", mutates_args=(), schema="(Tensor x) -> Tensor")
        def operator(x: Any) -> Any:
            return lib.tanh(x)

        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG001
            ctx.save_for_backward(output)

        def backward(ctx: Any, grad: Any) -> Any:
            (y,) = ctx.saved_tensors
            return grad * (1.0 - y * y)

        operator.register_autograd(backward, setup_context=setup_context)
        operator.register_fake(lib.empty_like)  # for the compiler
        return operator
