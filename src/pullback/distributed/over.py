"""Derivatives of a sum over partitions: ``value_and_grad_over`` and its kin."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np

from pullback.distributed.cluster import FAN_IN, ClusterRunner
from pullback.distributed.executors import Job, PoolRunner, Runner, SerialRunner
from pullback.distributed.partitions import is_delayed, is_future, partition_list, private_graphs
from pullback.distributed.task import (
    Block,
    BlockResult,
    Payload,
    Program,
    check_parameters,
    combine,
)
from pullback.distributed.tree_sum import block_size
from pullback.errors import AutogradTypeError, AutogradValueError
from pullback.func.arguments import require_function
from pullback.utils import pytree
from pullback.utils.progress import ProgressBar

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

_Function = Callable[..., Any]
_TASKS_PER_WORKER = 4  # so that workers which finish early have something left to do


class StepTiming(NamedTuple):
    """The cost of one call of a `Step`.

    >>> import pullback as pb
    >>> from pullback.distributed import value_and_grad_over
    >>> step = value_and_grad_over(lambda p, x: p * x, [1.0, 2.0])
    >>> _ = step(3.0)
    >>> step.timings[0].tasks
    2
    """

    seconds: float  # from the call to its result
    worker_seconds: float  # all tasks together
    tasks: int


class Step:
    """A function of parameters, computed over all partitions: `value_and_grad_over` and its kin.

    Attributes:
        timings: a `StepTiming` for each call so far.

    >>> import pullback as pb
    >>> from pullback.distributed import value_and_grad_over
    >>> step = value_and_grad_over(lambda p, x: p * x, [1.0, 2.0])
    >>> step(3.0), step
    ((9.0, 3.0), <value_and_grad_over of <lambda>, 2 partitions>)
    """

    def __init__(self, kind: str, func: _Function, partitions: Any, options: dict[str, Any]):
        name = f"{kind}_over"
        require_function(name, func)
        self._name, self._kind, self._func = name, kind, func
        self._partitions = partition_list(name, partitions)
        if is_delayed(self._partitions[0]):
            self._partitions = private_graphs(self._partitions) or self._partitions
        self._runner = _make_runner(name, options["executor"], self._partitions)
        self._has_aux = bool(options.get("has_aux", False))
        self._is_mean = bool(options.get("mean", False))
        self._progress = bool(options["progress"])
        weights = options.get("weights")
        self._program = Program(
            name,
            func,
            kind,
            self._has_aux,
            bool(options["mode"]),
            weights if callable(weights) else None,
        )
        self._weights = None if callable(weights) else _weights(name, weights, self._partitions)
        self.timings: list[StepTiming] = []

    def __call__(self, *arguments: Any) -> Any:
        """Takes the parameters, and what else the function takes after the partition."""
        begin = time.perf_counter()
        if not arguments:
            raise AutogradTypeError(f"{self._name}: the step takes the parameters; got nothing")
        if self._kind == "hvp" and len(arguments) < 2:
            raise AutogradTypeError(
                f"{self._name}: the step takes the parameters and a vector; got only one of them"
            )
        given = check_parameters(self._name, arguments)
        jobs = self._jobs()
        total = combine(self._name, self._kind, self._run(Payload(self._program, given), jobs))
        seconds = time.perf_counter() - begin
        self.timings.append(StepTiming(seconds, total.seconds, len(jobs)))
        return self._returned(total)

    def _jobs(self) -> list[Job]:
        """The tasks of a step: blocks of one size, which are subtrees of the sum."""
        if isinstance(self._runner, ClusterRunner) and self._runner.runs_single:
            size = FAN_IN
        else:
            tasks = _TASKS_PER_WORKER * self._runner.workers()
            size = block_size(len(self._partitions), tasks)
        jobs = []
        for first in range(0, len(self._partitions), size):
            partitions = self._partitions[first : first + size]
            weights = None if self._weights is None else self._weights[first : first + size]
            jobs.append(Job(Block(first, weights), partitions))
        return jobs

    def _run(self, payload: Payload, jobs: list[Job]) -> list[BlockResult]:
        bar = ProgressBar(f"step {len(self.timings) + 1}", len(self._partitions), self._progress)
        found: list[BlockResult | None] = [None] * len(jobs)
        with bar:
            for place, result in self._runner.run(payload, jobs):
                found[place] = result
                bar.update(len(jobs[place].partitions))
        return [result for result in found if result is not None]

    def _returned(self, total: BlockResult) -> Any:
        terms = total.terms
        if self._is_mean:
            if total.weight == 0:
                raise AutogradValueError(f"{self._name}: mean=True, but the weights add up to 0")
            terms = [term / total.weight for term in terms]
        found = pytree.unflatten(total.spec, terms)
        if not self._has_aux:
            return found
        if self._kind == "value_and_grad":
            return (found[0], total.aux), found[1]
        return found, total.aux

    def __repr__(self) -> str:
        func = getattr(self._func, "__qualname__", repr(self._func))
        return f"<{self._name} of {func}, {len(self._partitions)} partitions>"


def _make_runner(name: str, executor: Any, partitions: list[Any]) -> Runner:
    """The runner for an executor that a user gave."""
    first = partitions[0]
    if type(executor).__module__.partition(".")[0] == "distributed":
        return ClusterRunner(name, executor, partitions)
    if is_future(first) or is_delayed(first):
        raise AutogradTypeError(
            f"{name}: the partitions are in the memory of a dask cluster or share tasks, so "
            f"executor must be a dask.distributed Client, not {type(executor).__name__}"
        )
    if executor is None:
        return SerialRunner()
    if isinstance(executor, Executor) or callable(executor):
        return PoolRunner(name, executor)
    raise AutogradTypeError(
        f"{name}: executor must be None, an executor of concurrent.futures, a function that makes "
        f"one, or a dask.distributed Client, not {type(executor).__name__}"
    )


def _weights(name: str, weights: Any, partitions: list[Any]) -> list[float] | None:
    if weights is None:
        return None
    try:
        found = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise AutogradTypeError(
            f"{name}: weights must be real numbers, or a function of a partition; got {weights!r}"
        ) from error
    if found.shape != (len(partitions),):
        raise AutogradValueError(
            f"{name}: weights must be one number for each of the {len(partitions)} partitions, or "
            f"a function of a partition; got shape {found.shape}"
        )
    return found.tolist()  # type: ignore[no-any-return]


def value_and_grad_over(
    loss: _Function,
    partitions: Any,
    *,
    executor: Any = None,
    weights: Sequence[float] | _Function | None = None,
    mean: bool = False,
    has_aux: bool = False,
    mode: bool = True,
    progress: bool = False,
) -> Step:
    """A function of parameters: value and gradient of the sum of ``loss(params, partition)``.

    The sum has the same bits on every executor and any number of workers, because terms are added
    along a tree that depends on the number of partitions only.

    Args:
        loss: takes parameters (an array, a number or a tree of them), a partition, and what else
            the step is called with; returns a number.
        partitions: paths, keys, arrays or other values that `loss` takes; futures and delayed
            objects of dask, whose values it takes; or a dask bag, dataframe or array.
        executor: a ``dask.distributed.Client``; an executor of ``concurrent.futures`` or loky; a
            function that makes one, called again when a process of it has died; None for the
            calling thread.
        weights: a number for each partition, by which its loss is multiplied, or a function that
            takes a partition and returns its weight, for example ``len``.
        mean: divide by the sum of the weights, or by the number of partitions.
        has_aux: `loss` returns ``(value, aux)``; the step returns ``((value, auxes), gradient)``
            with a list of what the partitions returned.
        mode: run `loss` in `numpy_mode`, as ``pb.grad`` does.
        progress: show a progress bar, by tqdm if it is installed.

    >>> import numpy as np
    >>> from pullback.distributed import value_and_grad_over
    >>> rows = [np.array([1.0, 2.0]), np.array([3.0])]
    >>> step = value_and_grad_over(lambda p, x: ((p - x) ** 2).sum(), rows)
    >>> step(2.0)
    (2.0, 0.0)
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as pool:
    ...     value_and_grad_over(lambda p, x: ((p - x) ** 2).sum(), rows, executor=pool)(1.0)
    (5.0, -6.0)
    """
    return Step("value_and_grad", loss, partitions, locals())


def value_over(
    loss: _Function,
    partitions: Any,
    *,
    executor: Any = None,
    weights: Sequence[float] | _Function | None = None,
    mean: bool = False,
    has_aux: bool = False,
    mode: bool = True,
    progress: bool = False,
) -> Step:
    """A function of parameters: the sum of ``loss(params, partition)``. See `value_and_grad_over`.

    >>> import numpy as np
    >>> from pullback.distributed import value_over
    >>> value_over(lambda p, x: ((p - x) ** 2).sum(), [np.array([1.0, 2.0]), np.array([3.0])])(2.0)
    2.0
    """
    return Step("value", loss, partitions, locals())


def grad_over(
    loss: _Function,
    partitions: Any,
    *,
    executor: Any = None,
    weights: Sequence[float] | _Function | None = None,
    mean: bool = False,
    has_aux: bool = False,
    mode: bool = True,
    progress: bool = False,
) -> Step:
    """A function of parameters: the gradient of the sum of ``loss(params, partition)``.

    See `value_and_grad_over`; with `has_aux` the step returns ``(gradient, auxes)``.

    >>> import numpy as np
    >>> from pullback.distributed import grad_over
    >>> grad_over(lambda p, x: ((p - x) ** 2).sum(), [np.array([1.0, 2.0]), np.array([3.0])])(1.0)
    -6.0
    """
    return Step("grad", loss, partitions, locals())


def hvp_over(
    loss: _Function,
    partitions: Any,
    *,
    executor: Any = None,
    weights: Sequence[float] | _Function | None = None,
    mean: bool = False,
    mode: bool = True,
    progress: bool = False,
) -> Step:
    """A function of parameters and a vector: the product of the sum's Hessian with the vector.

    It has the order of arguments of ``hessp`` in ``scipy.optimize.minimize``. See
    `value_and_grad_over`.

    >>> import numpy as np
    >>> from pullback.distributed import hvp_over
    >>> product = hvp_over(lambda p, x: (p**3).sum() * x.sum(), [np.ones(2), np.ones(1)])
    >>> product(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    array([18., 36.])
    """
    return Step("hvp", loss, partitions, locals())


def jacobian_over(
    residuals: _Function,
    partitions: Any,
    *,
    executor: Any = None,
    mode: bool = True,
    progress: bool = False,
) -> Step:
    """A function of parameters: the Jacobians of ``residuals(params, partition)``, stacked.

    Rows stand in the order of the partitions, as ``scipy.optimize.least_squares`` wants them;
    `residuals_over` gives the residuals. See `value_and_grad_over` for the arguments.

    >>> import numpy as np
    >>> from pullback.distributed import jacobian_over
    >>> jacobian_over(lambda p, x: x * p[0] + p[1], [np.ones(1), np.full(2, 2.0)])(np.zeros(2))
    array([[1., 1.],
           [2., 1.],
           [2., 1.]])
    """
    return Step("jacobian", residuals, partitions, locals())


def residuals_over(
    residuals: _Function,
    partitions: Any,
    *,
    executor: Any = None,
    mode: bool = True,
    progress: bool = False,
) -> Step:
    """A function of parameters: the arrays ``residuals(params, partition)``, stacked.

    >>> import numpy as np
    >>> from pullback.distributed import residuals_over
    >>> residuals_over(lambda p, x: x - p, [np.ones(1), np.full(2, 2.0)])(0.5)
    array([0.5, 1.5, 1.5])
    """
    return Step("residuals", residuals, partitions, locals())
