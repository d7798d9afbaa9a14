"""The backward pass in anomaly mode, which checks what each node returns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.debug.anomaly import (
    is_anomaly_check_finite_enabled,
    is_anomaly_check_nan_enabled,
    line_of,
    report_call,
)
from pullback.autograd.engine.graph_task import GraphTask
from pullback.autograd.graph.node import Node
from pullback.errors import NotFiniteError
from pullback.tensor.payload import Payload

__all__ = ["AnomalyTask"]


class AnomalyTask(GraphTask):
    """A pass that raises at the first NaN or infinity, and reports the call behind its node."""

    counts_dependencies = True
    node: Node | None = None  # the one that runs: the parent of nodes that are recorded meanwhile

    def execute(self, node: Node, grad: Any) -> tuple[Any, ...]:
        """Runs one node and checks what it returns."""
        self.node = node
        try:
            results = super().execute(node, grad)
            self._check(node, results)
        except Exception:
            report_call(node)
            raise
        finally:
            self.node = None
        return results

    def _check(self, node: Node, results: tuple[Any, ...]) -> None:
        for place, result in enumerate(results):
            tensor = self.xp.to_tensor(result)
            if tensor is None:
                continue
            if is_anomaly_check_nan_enabled() and _has_nan(tensor._array):
                raise _error(node, "nan", place, tensor.shape)
            if is_anomaly_check_finite_enabled() and _has_inf(tensor._array):
                raise _error(node, "inf", place, tensor.shape)


def _error(node: Node, bad: str, place: int, shape: tuple[int, ...]) -> NotFiniteError:
    line = line_of(node)
    where = "" if line is None else f" It was recorded at {line}."
    return NotFiniteError(
        f"Function '{node.name()}' returned {bad} values in its {place}th output. The shape of "
        f"that gradient is {list(shape)}.{where}"
    )


def _has_nan(array: NDArray[Any] | Payload) -> bool:
    return array.has_nan() if isinstance(array, Payload) else bool(np.isnan(array).any())


def _has_inf(array: NDArray[Any] | Payload) -> bool:
    return not isinstance(array, Payload) and bool(np.isinf(array).any())
