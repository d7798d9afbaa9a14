"""MyGrad: tensors over NumPy arrays. A backward pass always clears the graph."""

from __future__ import annotations

from typing import Any

import mygrad as mg
import numpy as np
from mygrad.nnet.activations import relu, sigmoid
from mygrad.nnet.layers import conv_nd
from mygrad.nnet.losses import softmax_crossentropy

from benchmarks.peers.base import Peer, Run, flatten
from benchmarks.peers.namespaces import numpy_like
from benchmarks.workloads.base import LEARNING_RATE, Array, Problem


def conv2d(x: Any, w: Any, b: Any) -> Any:
    return conv_nd(x, w, stride=1, padding=1) + b.reshape((-1, 1, 1))


def copy(x: Any) -> Any:
    return +x  # a tensor's own copy() is not part of the graph


def logsumexp(x: Any, axis: int) -> Any:
    top = x.data.max(axis=axis, keepdims=True)
    return mg.log(mg.sum(mg.exp(x - top), axis=axis)) + top.squeeze(axis)


def cross(x: Any, y: Any) -> Any:
    after, before = [1, 2, 0], [2, 0, 1]
    return x[..., after] * y[..., before] - x[..., before] * y[..., after]


class MygradPeer(Peer):
    name = "mygrad"
    xp = numpy_like(
        mg,
        copy=copy,
        cross=cross,
        relu=relu,
        sigmoid=sigmoid,
        logsumexp=logsumexp,
        cross_entropy=softmax_crossentropy,
        conv2d=conv2d,
        numpy_sin=np.sin,
    )

    def version(self) -> str:
        return mg.__version__

    def arrays(self, result: Any) -> list[Array]:
        leaves = flatten(result)
        return [np.array(t.data if isinstance(t, mg.Tensor) else t) for t in leaves]

    def grad(self, problem: Problem) -> Run:
        fn, xp, consts = problem.fn, self.xp, problem.consts
        params = [mg.tensor(p) for p in problem.params]

        def run() -> Any:
            loss = fn(xp, params, consts)
            loss.backward()
            return loss, [p.grad for p in params]

        return run

    def forward(self, problem: Problem) -> Run:
        fn, xp, consts = problem.fn, self.xp, problem.consts
        params = [mg.tensor(p) for p in problem.params]
        return lambda: fn(xp, params, consts)

    def train(self, problem: Problem) -> Run:
        fn, xp, consts = problem.fn, self.xp, problem.consts
        params = [mg.tensor(p) for p in problem.params]

        def run() -> Any:
            loss = fn(xp, params, consts)
            loss.backward()
            for p in params:
                p.data[...] -= LEARNING_RATE * p.grad
            return loss, params

        return run

    def rows(self, problem: Problem) -> Run:
        fn, xp, consts = problem.fn, self.xp, problem.consts
        params = [mg.tensor(p) for p in problem.params]
        return lambda: _rows(fn, xp, params, consts)

    def row_loop(self, problem: Problem) -> Run:
        fn, xp = problem.fn, self.xp
        items = [
            ([mg.tensor(p[i]) for p in problem.params], tuple(c[i] for c in problem.consts))
            for i in range(len(problem.params[0]))
        ]

        def run() -> Any:
            results = [_rows(fn, xp, params, consts) for params, consts in items]
            return [values for values, _ in results], [rows for _, rows in results]

        return run


def _rows(fn: Any, xp: Any, params: Any, consts: Any) -> Any:
    """The forward pass is repeated for each output, because the graph is gone after the first."""
    values, rows = [], []
    for i in range(2):
        output = fn(xp, params, consts)[i]
        output.sum().backward()
        values.append(output)
        rows.append([p.grad for p in params])
    return values, rows
