"""Pullback itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import pullback as pb
import pullback.nn.functional as nn
from benchmarks.harness.revisions import check_source
from benchmarks.peers.base import Run
from benchmarks.peers.namespaces import SHARED, loop
from benchmarks.peers.tensor_peer import TensorPeer
from benchmarks.workloads.base import Array, Problem
from pullback.library import define_op


def conv2d(x: Any, w: Any, b: Any) -> Any:
    return nn.conv2d(x, w, b, padding=1)


def set_row(x: Any, i: int, row: Any) -> Any:
    x[i] = row
    return x


def scan(step: Any, carry: Any, *sequences: Any) -> Any:
    return pb.scan(lambda c, rows: (step(c, *rows), None), carry, sequences)[0]


class PullbackPeer(TensorPeer):
    name = "pullback"
    lib = pb

    def __init__(self) -> None:
        check_source(pb)
        self.xp = SimpleNamespace(
            **{name: getattr(pb, name) for name in SHARED},
            sigmoid=pb.sigmoid,
            relu=nn.relu,
            logsumexp=pb.logsumexp,
            cross_entropy=nn.cross_entropy,
            conv2d=conv2d,
            set_row=set_row,
            copy=pb.clone,
            scan=loop,
            long_scan=scan,
            custom_tanh=self.custom_tanh(),
            formula_tanh=define_op(
                "bench::formula_tanh(Tensor self) -> Tensor",
                kernel=np.tanh,
                derivatives={
                    "self": "grad * (1.0 - conj(result * result))",
                    "result": "auto_element_wise",
                },
                tags=["elementwise"],
            ),
            numpy_sin=np.sin,
        )

    def hvp(self, problem: Problem) -> Run:
        """What is there for it, a tangent through one backward pass."""
        product = pb.hvp(self._function(problem))
        x, v = self.tensor(problem.params[0]), self.tensor(problem.consts[-1])
        return lambda: [product(x, v)]

    def version(self) -> str:
        return pb.__version__

    def tensor(self, array: Array) -> pb.Tensor:
        return pb.tensor(array)

    def storage(self, tensor: pb.Tensor) -> tuple[int, int]:
        array = tensor.detach().numpy()
        while isinstance(array.base, np.ndarray):
            array = array.base
        return array.ctypes.data, array.nbytes
