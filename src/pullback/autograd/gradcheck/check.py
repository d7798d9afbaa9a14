"""``gradcheck`` and ``gradgradcheck``: what to check, in which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback._lazy import lazy_module
from pullback.autograd.api import grad
from pullback.autograd.graph.views import requires_grad
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.errors import AutogradUsageError, GradcheckError
from pullback.tensor.tensor import Tensor, wrap

if TYPE_CHECKING:
    from pullback.autograd.gradcheck import directions, jacobians, properties
    from pullback.autograd.gradcheck import problem as problems
else:
    directions = lazy_module("pullback.autograd.gradcheck.directions")
    jacobians = lazy_module("pullback.autograd.gradcheck.jacobians")
    problems = lazy_module("pullback.autograd.gradcheck.problem")
    properties = lazy_module("pullback.autograd.gradcheck.properties")

__all__ = ["gradcheck", "gradgradcheck"]


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | tuple[Any, ...] | list[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,  # noqa: ARG001 - concerns sparse layouts, which there are not
) -> bool:
    """Compares the derivatives of a function with finite differences; True, or an error.

    Every element of every input that requires grad is changed a little, up and down. Use float64
    or complex128: the differences of a narrower dtype are mostly noise.

    Args:
        func: takes the inputs; returns a tensor or a tuple of tensors.
        inputs: a tensor, or all arguments of `func`, tensors or not.
        eps: how much an element is changed by.
        atol: how far a derivative may be off.
        rtol: how far it may be off as a fraction of the numerical one.
        raise_exception: if false, return False instead of raising ``GradcheckError``.
        nondet_tol: how far two equal backward passes may be apart.
        check_undefined_grad: check that missing output gradients count as zero.
        check_grad_dtypes: check that gradients have the dtypes of their inputs.
        check_batched_grad: check backward passes for a batch of gradients, too.
        check_batched_forward_grad: check forward mode for a batch of tangents, too.
        check_forward_ad: check forward mode.
        check_backward_ad: check backward passes.
        fast_mode: compare in one random direction instead of every element; much faster.
        masked: accepted for PyTorch's sake, and ignored.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> gradcheck(pb.sin, x)
    True
    """
    kinds = _Kinds(check_backward_ad, check_forward_ad, check_undefined_grad)
    kinds.batched, kinds.batched_forward = check_batched_grad, check_batched_forward_grad
    options = problems.Options(eps, atol, rtol, nondet_tol, check_grad_dtypes, fast_mode)
    return _run(func, problems.as_tuple(inputs), options, kinds, raise_exception)


class _Kinds:
    """Selection of derivatives to check, and whether in batches and with some missing."""

    def __init__(self, backward: bool, forward: bool, missing: bool):
        self.backward = backward
        self.forward = forward
        self.missing = missing
        self.batched = False
        self.batched_forward = False

    def check(self) -> None:
        """Refuses switches that contradict each other."""
        _require(
            self.backward or self.forward,
            "Expected at least one of check_forward_ad or check_backward_ad to be True",
        )
        _require(
            self.backward or not self.batched,
            "Setting check_batched_grad=True requires check_backward_ad to be True",
        )
        _require(
            self.forward or not self.batched_forward,
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True",
        )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AutogradUsageError(f"gradcheck: {message}")


def _run(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    options: problems.Options,
    kinds: _Kinds,
    raise_exception: bool,
) -> bool:
    kinds.check()
    problem = problems.Problem(func, args)
    try:
        _check(problem, options, kinds)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(problem: problems.Problem, options: problems.Options, kinds: _Kinds) -> None:
    """Runs the selected checks; values first, because their messages are the most specific."""
    fast = options.fast_mode
    if not problem.outputs:
        (directions.check_no_outputs_fast if fast else jacobians.check_no_outputs)(problem, options)
        return
    if kinds.backward:
        (directions.check_reverse_fast if fast else jacobians.check_reverse)(problem, options)
    if kinds.forward:
        (directions.check_forward_fast if fast else jacobians.check_forward)(problem, options)
        if kinds.missing:
            properties.check_missing_tangents(problem)
    if kinds.batched_forward:
        properties.check_batched_tangents(problem)
    if kinds.batched:
        properties.check_batched_gradients(problem)
    if kinds.backward:
        properties.check_zero_gradients(problem)
        if kinds.missing:
            properties.check_missing_gradients(problem)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | tuple[Any, ...] | list[Any],
    grad_outputs: Tensor | tuple[Any, ...] | list[Any] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,  # noqa: ARG001 - concerns sparse layouts, which there are not
) -> bool:
    """Compares the second derivatives of a function with finite differences of the first.

    What is checked takes the inputs and the output gradients, and returns the input gradients.
    Arguments are as for ``gradcheck``, and besides:

    Args:
        grad_outputs: the output gradients; random numbers that require grad unless given.
        gen_non_contig_grad_outputs: make these random ones with gaps in memory.
        check_fwd_over_rev: check forward mode through the backward pass.
        check_rev_over_rev: check a backward pass through the backward pass.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> gradgradcheck(pb.sin, x)
    True
    """
    _require(
        check_fwd_over_rev or check_rev_over_rev,
        "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True",
    )
    _require(
        check_rev_over_rev or not (check_undefined_grad or check_batched_grad),
        "Setting check_undefined_grad=True or check_batched_grad=True requires "
        "check_rev_over_rev to be True",
    )
    kinds = _Kinds(check_rev_over_rev, check_fwd_over_rev, check_undefined_grad)
    kinds.batched = check_batched_grad
    options = problems.Options(eps, atol, rtol, nondet_tol, check_grad_dtypes, fast_mode)
    args = problems.as_tuple(inputs)
    seeds = problems.as_tuple(() if grad_outputs is None else grad_outputs)
    if grad_outputs is None:
        seeds = _random_gradients(func, args, gen_non_contig_grad_outputs)
    if not seeds:  # nothing depends on the inputs, so there are no gradients to differentiate
        return True
    function = _gradient_of(func, args, len(seeds))
    return _run(function, (*args, *seeds), options, kinds, raise_exception)


def _gradient_of(
    func: Callable[..., Any], args: tuple[Any, ...], seeds: int
) -> Callable[..., tuple[Tensor, ...]]:
    """The function of inputs and output gradients that returns the input gradients."""
    places = [n for n, x in enumerate(args) if isinstance(x, Tensor) and requires_grad(x)]

    def gradient(*values: Any) -> tuple[Tensor, ...]:
        for place in places:  # forward mode is tested with inputs that do not require grad
            if not requires_grad(values[place]):
                values[place].requires_grad = True
        outputs = [y for y in problems.as_tuple(func(*values[:-seeds])) if requires_grad(y)]
        found = grad(
            outputs,
            [values[place] for place in places],
            values[-seeds:],
            create_graph=True,
            allow_unused=True,
        )
        return tuple(g for g in found if g is not None)

    return gradient


def _random_gradients(
    func: Callable[..., Any], args: tuple[Any, ...], with_gaps: bool
) -> tuple[Tensor, ...]:
    """Output gradients in [-1, 1) that require grad; perhaps every other element of more."""
    rng = np.random.default_rng(0)
    made = []
    for output in filter(requires_grad, problems.as_tuple(func(*args))):
        shape = output.shape
        if with_gaps and output.ndim:
            shape = (*shape[:-1], 2 * shape[-1])
        drawn = rng.uniform(-1.0, 1.0, shape).astype(output.dtype)
        if output.dtype.kind == "c":
            drawn = drawn + 1j * rng.uniform(-1.0, 1.0, shape)
        tensor = wrap(drawn[..., ::2] if shape != output.shape else np.asarray(drawn))
        tensor._flags |= REQUIRES_GRAD
        made.append(tensor)
    return tuple(made)
