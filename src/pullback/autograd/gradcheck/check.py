"""``gradcheck`` and ``gradgradcheck``: what to check, in which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.autograd.api import grad
from pullback.autograd.gradcheck.directions import (
    check_forward_fast,
    check_no_outputs_fast,
    check_reverse_fast,
)
from pullback.autograd.gradcheck.jacobians import check_forward, check_no_outputs, check_reverse
from pullback.autograd.gradcheck.problem import Options, Problem, as_tuple
from pullback.autograd.gradcheck.properties import (
    check_batched_gradients,
    check_missing_gradients,
    check_missing_tangents,
    check_zero_gradients,
)
from pullback.autograd.view import requires_grad
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.errors import AutogradUsageError, GradcheckError
from pullback.tensor.tensor import Tensor, wrap

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

    Every input that requires grad is changed a little, up and down, and what the outputs change by
    is compared with the derivatives. Use float64 or complex128: the differences of a narrower dtype
    are mostly noise. Inputs are as before afterwards.

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
    if not (check_backward_ad or check_forward_ad):
        raise AutogradUsageError(
            "gradcheck: Expected at least one of check_forward_ad or check_backward_ad to be True"
        )
    if check_batched_grad and not check_backward_ad:
        raise AutogradUsageError(
            "gradcheck: Setting check_batched_grad=True requires check_backward_ad to be True"
        )
    if check_batched_forward_grad and not check_forward_ad:
        raise AutogradUsageError(
            "gradcheck: Setting check_batched_forward_grad=True requires check_forward_ad to be "
            "True"
        )
    options = Options(eps, atol, rtol, nondet_tol, check_grad_dtypes)
    problem = Problem(func, as_tuple(inputs))
    try:
        if not problem.outputs:
            (check_no_outputs_fast if fast_mode else check_no_outputs)(problem, options)
            return True
        if check_backward_ad:
            (check_reverse_fast if fast_mode else check_reverse)(problem, options)
        if check_forward_ad:
            (check_forward_fast if fast_mode else check_forward)(problem, options)
            if check_undefined_grad:
                check_missing_tangents(problem)
        if check_batched_grad:
            check_batched_gradients(problem)
        if check_backward_ad:
            check_zero_gradients(problem)
            if check_undefined_grad:
                check_missing_gradients(problem)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


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
    masked: bool = False,
) -> bool:
    """Compares the second derivatives of a function with finite differences of the first.

    The function that is checked takes the inputs and the output gradients, and returns the input
    gradients. Arguments are as for ``gradcheck``, and besides:

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
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AutogradUsageError(
            "gradgradcheck: Expected at least one of check_fwd_over_rev or check_rev_over_rev to "
            "be True"
        )
    for name, value in (
        ("check_undefined_grad", check_undefined_grad),
        ("check_batched_grad", check_batched_grad),
    ):
        if value and not check_rev_over_rev:
            raise AutogradUsageError(
                f"gradgradcheck: Setting {name}=True requires check_rev_over_rev to be True"
            )
    args = as_tuple(inputs)
    if grad_outputs is None:
        outputs = [y for y in as_tuple(func(*args)) if requires_grad(y)]
        seeds = _random_gradients(outputs, gen_non_contig_grad_outputs)
    else:
        seeds = as_tuple(grad_outputs)
    if not seeds:  # nothing depends on the inputs, so there are no gradients to differentiate
        return True
    return gradcheck(
        _gradient_of(func, args, len(seeds)),
        (*args, *seeds),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def _gradient_of(
    func: Callable[..., Any], args: tuple[Any, ...], seeds: int
) -> Callable[..., tuple[Tensor, ...]]:
    """The function of inputs and output gradients that returns the input gradients."""
    places = [n for n, x in enumerate(args) if isinstance(x, Tensor) and requires_grad(x)]

    def gradient(*values: Any) -> tuple[Tensor, ...]:
        outputs = [y for y in as_tuple(func(*values[:-seeds])) if requires_grad(y)]
        found = grad(
            outputs,
            [values[place] for place in places],
            values[-seeds:],
            create_graph=True,
            allow_unused=True,
        )
        return tuple(g for g in found if g is not None)

    return gradient


def _random_gradients(outputs: list[Tensor], with_gaps: bool) -> tuple[Tensor, ...]:
    """Output gradients in [-1, 1) that require grad; perhaps every other element of more."""
    rng = np.random.default_rng(0)
    made = []
    for output in outputs:
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
