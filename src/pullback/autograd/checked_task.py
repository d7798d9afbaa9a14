"""The backward pass in anomaly mode: every node's result is looked at."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.autograd.anomaly import is_anomaly_check_nan_enabled, report_call
from pullback.autograd.engine import GraphTask
from pullback.autograd.node import Node
from pullback.errors import AutogradError
from pullback.tensor.payload import Payload

__all__ = ["CheckedTask"]


class CheckedTask(GraphTask):
    """A pass that says which forward operation failed, and stops at the first NaN."""

    def _execute(self, node: Node, grad: Any) -> tuple[Any, ...]:
        try:
            results = super()._execute(node, grad)
            if is_anomaly_check_nan_enabled():
                self._check_nan(node, results)
        except Exception:
            report_call(node)
            raise
        return results

    def _check_nan(self, node: Node, results: tuple[Any, ...]) -> None:
        for place, result in enumerate(results):
            tensor = self.xp.to_tensor(result)
            if tensor is not None and _has_nan(tensor._array):
                raise AutogradError(
                    f"Function '{node.name()}' returned nan values in its {place}th output."
                )


def _has_nan(array: Any) -> bool:
    return array.has_nan() if isinstance(array, Payload) else bool(np.isnan(array).any())
