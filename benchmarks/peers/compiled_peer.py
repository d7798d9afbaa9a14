"""Pullback, compiled: the function and its derivative are one graph."""

from __future__ import annotations

import time
from typing import Any

import llvmlite  # noqa: F401 - what the backend needs

import pullback as pb
from benchmarks.peers.base import Peer, Run, StackedRows
from benchmarks.peers.pullback_peer import PullbackPeer
from benchmarks.workloads.base import LEARNING_RATE, Problem, Task


class CompiledPeer(Peer):
    name = "pullback.compile"
    backend = "llvm"

    def __init__(self) -> None:
        self.xp = PullbackPeer().xp
        self._compiled_last: Any = None

    def version(self) -> str:
        return pb.__version__

    def _compiled(self, function: Any, problem: Problem) -> Run:
        compiled = pb.compile(function, backend=self.backend)
        params = tuple(pb.tensor(p) for p in problem.params)
        consts = tuple(pb.tensor(c) for c in problem.consts)
        self._compiled_last = compiled
        return lambda: compiled(params, consts)

    def first_call(self, task: Task, problem: Problem, backend: str) -> tuple[float, int]:
        """Seconds of a first call, and the operators of its graph."""
        self.backend = backend
        run = self.prepare(task, problem)
        start = time.process_time()  # of one thread: without what else the machine does
        run()
        seconds = time.process_time() - start
        nodes = [node for graph in self._compiled_last.fx_graphs() for node in graph.nodes]
        return seconds, sum(node.op == "call_function" for node in nodes)

    def _gradient(self, problem: Problem) -> Any:
        fn, xp = problem.fn, self.xp

        def value_and_gradient(params: Any, consts: Any) -> Any:
            leaves = tuple(p.detach().requires_grad_() for p in params)
            value = fn(xp, leaves, consts)
            return value.detach(), pb.autograd.grad(value, leaves)

        return value_and_gradient

    def grad(self, problem: Problem) -> Run:
        return self._compiled(self._gradient(problem), problem)

    def train(self, problem: Problem) -> Run:
        gradient = self._gradient(problem)

        def step(params: Any, consts: Any) -> Any:
            loss, grads = gradient(params, consts)
            updated = tuple(p - LEARNING_RATE * g for p, g in zip(params, grads, strict=True))
            return loss, updated

        compiled = pb.compile(step, backend=self.backend)
        state = tuple(pb.tensor(p) for p in problem.params)
        consts = tuple(pb.tensor(c) for c in problem.consts)
        self._compiled_last = compiled

        def run() -> Any:
            nonlocal state
            loss, state = compiled(state, consts)
            return loss, state

        return run

    def rows(self, problem: Problem) -> Run:
        fn, xp = problem.fn, self.xp

        def values_and_rows(params: Any, consts: Any) -> Any:
            leaves = tuple(p.detach().requires_grad_() for p in params)
            outputs = fn(xp, leaves, consts)
            ones = pb.ones(len(params[0]))
            rows = [pb.autograd.grad(y, leaves, ones, retain_graph=True) for y in outputs]
            return tuple(y.detach() for y in outputs), rows

        return self._compiled(values_and_rows, problem)

    def row_loop(self, problem: Problem) -> Run:
        """One program with the loop over the observations in it; its results are stacked."""
        fn, xp = problem.fn, self.xp

        def observe(params: Any, consts: Any) -> Any:
            leaves = tuple(p.detach().requires_grad_() for p in params)
            outputs = fn(xp, leaves, consts)
            rows = [pb.autograd.grad(y, leaves, retain_graph=True) for y in outputs]
            return [y.detach() for y in outputs], rows

        def loop(params: Any, consts: Any) -> Any:
            found = [
                observe(tuple(p[i] for p in params), tuple(c[i] for c in consts))
                for i in range(len(params[0]))
            ]
            outputs = [pb.stack([y[k] for y, _ in found]) for k in range(2)]
            rows = [
                [pb.stack([r[k][j] for _, r in found]) for j in range(len(params))]
                for k in range(2)
            ]
            return outputs, rows

        compiled = self._compiled(loop, problem)
        return lambda: StackedRows(*compiled())

    def arrays(self, result: Any) -> list[Any]:
        if isinstance(result, StackedRows):
            result = result.by_observation()
        return super().arrays(result)

    def jvp(self, problem: Problem) -> Run:
        fn, xp = problem.fn, self.xp

        def push(params: Any, consts: Any) -> Any:
            return pb.func.jvp(lambda x: fn(xp, (x,), consts), params, (consts[-1],))

        return self._compiled(push, problem)

    def _matrix(self, transform: Any, problem: Problem) -> Run:
        fn, xp = problem.fn, self.xp
        matrix = transform(lambda x, consts: fn(xp, (x,), consts))
        return self._compiled(lambda params, consts: matrix(params[0], consts), problem)

    def jacobian(self, problem: Problem) -> Run:
        return self._matrix(pb.func.jacfwd, problem)

    def hessian(self, problem: Problem) -> Run:
        return self._matrix(pb.func.hessian, problem)

    def hvp(self, problem: Problem) -> Run:
        fn, xp = problem.fn, self.xp

        def product(params: Any, consts: Any) -> Any:
            slope = pb.func.grad(lambda x: fn(xp, (x,), consts))
            return [pb.func.jvp(slope, params, (consts[-1],))[1]]

        return self._compiled(product, problem)
