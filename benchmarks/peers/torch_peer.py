"""PyTorch, as it comes and through its compiler."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as nn

from benchmarks.harness.threads import threads
from benchmarks.peers.base import UnavailableError
from benchmarks.peers.namespaces import SHARED, loop
from benchmarks.peers.tensor_peer import TensorPeer
from benchmarks.workloads.base import Array, Problem

SAME = {name: getattr(torch, name) for name in SHARED if name != "cross"}


def conv2d(x: Any, w: Any, b: Any) -> Any:
    return nn.conv2d(x, w, b, padding=1)


def set_row(x: Any, i: int, row: Any) -> Any:
    x[i] = row
    return x


class TorchPeer(TensorPeer):
    name = "torch"
    lib = torch

    def __init__(self) -> None:
        torch.set_num_threads(threads())
        custom_tanh = self.custom_tanh()
        self.xp = SimpleNamespace(
            **SAME,
            cross=torch.linalg.cross,
            sigmoid=torch.sigmoid,
            relu=torch.relu,
            logsumexp=torch.logsumexp,
            cross_entropy=nn.cross_entropy,
            conv2d=conv2d,
            set_row=set_row,
            copy=torch.clone,
            scan=loop,
            long_scan=loop,
            custom_tanh=custom_tanh,
            formula_tanh=custom_tanh,
            numpy_sin=torch.sin,  # np.sin refuses tensors that require grad
        )

    def version(self) -> str:
        return torch.__version__

    def tensor(self, array: Array) -> torch.Tensor:
        return torch.tensor(array)

    def storage(self, tensor: torch.Tensor) -> tuple[int, int]:
        storage = tensor.untyped_storage()
        return storage.data_ptr(), storage.nbytes()


class CompiledTorchPeer(TorchPeer):
    name = "torch.compile"

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        torch._dynamo.reset()
        return torch.compile(function, dynamic=False)

    def ability(self, name: str) -> Callable[[Problem], Any]:
        if name in ("hvp", "functional_hvp"):
            raise UnavailableError("compiled functions have no second backward pass")
        if name == "saved_bytes":
            raise UnavailableError("compiled functions do not show what they save")
        return super().ability(name)
