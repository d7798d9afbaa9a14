"""numba: derivatives by hand, as loops over numbers: about what the machine can do."""

from __future__ import annotations

import functools

import numba

from benchmarks.peers.base import Peer, Run, UnavailableError
from benchmarks.peers.numpy_peer import NumpyPeer
from benchmarks.workloads import ode
from benchmarks.workloads.base import Problem, Task

for _name in ("_stages", "_forward"):  # called by other functions that it compiles
    setattr(ode, _name, numba.njit(getattr(ode, _name)))


class NumbaPeer(Peer):
    name = "numba"
    xp = NumpyPeer.xp

    def version(self) -> str:
        return numba.__version__

    def prepare(self, task: Task, problem: Problem) -> Run:  # noqa: ARG002 - one way for all
        if problem.loops is None:
            raise UnavailableError("its derivatives are not written out as loops")
        return functools.partial(numba.njit(problem.loops), problem.params, problem.consts)
