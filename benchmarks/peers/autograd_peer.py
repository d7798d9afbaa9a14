"""HIPS autograd: NumPy's functions, wrapped."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd import hessian, jacobian, make_hvp, make_vjp, value_and_grad
from autograd.extend import defvjp, primitive
from autograd.scipy.special import logsumexp

from benchmarks.peers.base import Peer, Run, UnavailableError
from benchmarks.peers.namespaces import numpy_like
from benchmarks.workloads.base import LEARNING_RATE, Problem

try:
    from autograd.scipy.signal import convolve
except ImportError:  # no SciPy
    convolve = None


def conv2d(x: Any, w: Any, b: Any) -> Any:
    if convolve is None:
        raise UnavailableError("convolution needs SciPy")
    padded = anp.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "constant")
    turned = anp.transpose(w, (1, 0, 2, 3))[:, :, ::-1, ::-1]
    y = convolve(padded, turned, axes=([2, 3], [2, 3]), dot_axes=([1], [0]), mode="valid")
    return y + anp.reshape(b, (-1, 1, 1))


custom_tanh = primitive(np.tanh)
defvjp(custom_tanh, lambda y, x: lambda g: g * (1.0 - y * y))  # noqa: ARG005


class AutogradPeer(Peer):
    name = "autograd"
    xp = numpy_like(anp, conv2d=conv2d, logsumexp=logsumexp, custom_tanh=custom_tanh)

    def version(self) -> str:
        return version("autograd")

    def _gradient(self, problem: Problem) -> Any:
        """Value and gradients; a single parameter is not put into a tuple, which has a price."""
        fn, xp, consts = problem.fn, self.xp, problem.consts
        if len(problem.params) == 1:
            return value_and_grad(lambda x: fn(xp, (x,), consts))
        places = tuple(range(len(problem.params)))
        return value_and_grad(lambda *params: fn(xp, params, consts), places)

    def grad(self, problem: Problem) -> Run:
        gradient, params = self._gradient(problem), problem.params
        return lambda: gradient(*params)

    def forward(self, problem: Problem) -> Run:
        function, x = self._of_one(problem), problem.params[0]
        return lambda: make_vjp(function)(x)

    def train(self, problem: Problem) -> Run:
        gradient, params = self._gradient(problem), [p.copy() for p in problem.params]

        def run() -> Any:
            loss, grads = gradient(*params)
            for p, g in zip(params, grads, strict=True):
                p -= LEARNING_RATE * g
            return loss, params

        return run

    def rows(self, problem: Problem) -> Run:
        fn, xp, params, consts = problem.fn, self.xp, problem.params, problem.consts
        return lambda: _rows(fn, xp, params, consts)

    def row_loop(self, problem: Problem) -> Run:
        fn, xp = problem.fn, self.xp
        items = [
            (tuple(p[i] for p in problem.params), tuple(c[i] for c in problem.consts))
            for i in range(len(problem.params[0]))
        ]

        def run() -> Any:
            results = [_rows(fn, xp, params, consts) for params, consts in items]
            return [values for values, _ in results], [rows for _, rows in results]

        return run

    def _of_one(self, problem: Problem) -> Any:
        fn, xp, consts = problem.fn, self.xp, problem.consts
        return lambda x: fn(xp, (x,), consts)

    def jacobian(self, problem: Problem) -> Run:
        matrix, x = jacobian(self._of_one(problem)), problem.params[0]
        return lambda: matrix(x)

    def hessian(self, problem: Problem) -> Run:
        matrix, x = hessian(self._of_one(problem)), problem.params[0]
        return lambda: matrix(x)

    def hvp(self, problem: Problem) -> Run:
        product, x = make_hvp(self._of_one(problem)), problem.params[0]
        v = problem.consts[-1]
        return lambda: product(x)[0](v)


def _rows(fn: Any, xp: Any, params: Any, consts: Any) -> Any:
    def stacked(params: Any) -> Any:
        return anp.stack(list(fn(xp, params, consts)), axis=0)

    pull, outputs = make_vjp(stacked)(params)
    seeds = np.zeros_like(outputs)
    rows = []
    for i in range(len(outputs)):
        seeds[i] = 1.0
        rows.append(pull(seeds))
        seeds[i] = 0.0
    return [outputs[i] for i in range(len(outputs))], rows
