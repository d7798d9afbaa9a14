"""Derivatives of sums over many partitions of data, on any executor.

`value_and_grad_over` and its kin differentiate ``loss(params, partition)`` for every partition,
where an executor of ``concurrent.futures`` or a dask cluster runs it, and add the results in a
fixed order: the bits of a sum depend neither on the number of workers nor on the executor.
"""

from __future__ import annotations

from pullback.distributed.over import (
    Step,
    StepTiming,
    grad_over,
    hvp_over,
    jacobian_over,
    residuals_over,
    value_and_grad_over,
    value_over,
)

__all__ = [
    "Step",
    "StepTiming",
    "grad_over",
    "hvp_over",
    "jacobian_over",
    "residuals_over",
    "value_and_grad_over",
    "value_over",
]
