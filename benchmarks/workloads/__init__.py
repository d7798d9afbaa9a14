"""All workloads, in the order of the table."""

from __future__ import annotations

from benchmarks.workloads import (
    bundle,
    calls,
    conv,
    deep,
    elementwise,
    gmm,
    inplace,
    logistic,
    lstm,
    mlp,
    ode,
    pose,
    scalar,
)
from benchmarks.workloads.base import Workload

_MODULES = (
    elementwise,
    scalar,
    mlp,
    gmm,
    bundle,
    lstm,
    ode,
    pose,
    logistic,
    conv,
    inplace,
    deep,
    calls,
)

WORKLOADS: dict[str, Workload] = {w.name: w for m in _MODULES for w in m.WORKLOADS}
