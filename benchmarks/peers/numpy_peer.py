"""NumPy with derivatives written by hand: about the least that arrays can cost.

Its namespace runs the workloads forward only, for checks by finite differences.
"""

from __future__ import annotations

import functools

import numpy as np

from benchmarks.peers.base import Peer, Run, UnavailableError
from benchmarks.peers.namespaces import numpy_like
from benchmarks.workloads.base import Array, Problem, Task
from benchmarks.workloads.conv import windows


def conv2d(x: Array, w: Array, b: Array) -> Array:
    y = np.tensordot(windows(x), w, axes=((1, 4, 5), (1, 2, 3))) + b
    return np.moveaxis(y, 3, 1)


class NumpyPeer(Peer):
    name = "numpy"
    xp = numpy_like(np, conv2d=conv2d)

    def version(self) -> str:
        return np.__version__

    def prepare(self, task: Task, problem: Problem) -> Run:  # noqa: ARG002 - one road for all
        if problem.hand is None:
            raise UnavailableError("its derivatives are not written out by hand")
        params = tuple(p.copy() for p in problem.params)  # training writes to them
        return functools.partial(problem.hand, params, problem.consts)
