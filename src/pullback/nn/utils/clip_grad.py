"""Bounds for gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from pullback._generated import functions_shape as shapes
from pullback._generated.functions_linalg import linalg_vector_norm as vector_norm
from pullback.autograd import no_grad
from pullback.errors import NotFiniteError
from pullback.fx.traced_number import TracedNumber
from pullback.fx.tracer import current_tracer
from pullback.operators.creation.functions import asarray
from pullback.tensor import Tensor

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _listed(tensors: Any) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _bound(value: Any) -> Any:
    """A bound as a float; that of a traced program may be another one in each call."""
    return value if isinstance(value, TracedNumber) else float(value)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,  # noqa: ARG001 - PyTorch's argument
) -> Tensor:
    """The norm of several tensors as if they were one vector.

    >>> import pullback as pb
    >>> get_total_norm([pb.tensor([3.0]), pb.tensor([4.0])]).item()
    5.0
    """
    found = [tensor.detach() for tensor in _listed(tensors) if tensor.size]
    total: Any = 0.0
    if found and current_tracer() is not None:
        norms = [vector_norm(tensor, ord=norm_type) for tensor in found]
        total = vector_norm(shapes.stack(norms), ord=norm_type)
    elif found:
        lengths = [float(np.linalg.norm(t.numpy().ravel(), norm_type)) for t in found]
        total = float(np.linalg.norm(lengths, norm_type))
    if error_if_nonfinite and not np.isfinite(total):
        raise NotFiniteError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            f"so it cannot be clipped. Look for the first NaN with "
            f"pullback.autograd.detect_anomaly(), or set error_if_nonfinite=False."
        )
    return asarray(total)


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,  # noqa: ARG001 - PyTorch's argument
) -> None:
    """Shortens gradients whose total norm is known to `max_norm`.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0], requires_grad=True)
    >>> x.grad = pb.tensor([8.0])
    >>> clip_grads_with_norm_(x, 4.0, pb.tensor(8.0))
    >>> round(x.grad.item(), 5)
    4.0
    """
    factor: Any = _bound(max_norm) / (total_norm + 1e-6)
    if current_tracer() is not None:
        factor = np.minimum(factor, 1.0)
    else:
        factor = math.nan if math.isnan(factor.item()) else min(1.0, factor.item())
    with no_grad():
        for parameter in _listed(parameters):
            if parameter.grad is not None:
                parameter.grad.mul_(factor)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Shortens the gradients, as one vector, to `max_norm`; returns their norm before.

    Args:
        parameters: tensors with gradients.
        max_norm: the largest norm.
        norm_type: its order; ``inf`` for the largest element.
        error_if_nonfinite: raises if the norm is NaN or infinite.
        foreach: ignored; PyTorch's choice of a loop.

    >>> import pullback as pb
    >>> x = pb.tensor([3.0, 4.0], requires_grad=True)
    >>> (x**2).sum().backward()
    >>> clip_grad_norm_([x], 5.0).item(), [round(g, 5) for g in x.grad.tolist()]
    (10.0, [3.0, 4.0])
    """
    found = _listed(parameters)
    grads = [parameter.grad for parameter in found if parameter.grad is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(found, max_norm, total, foreach)
    return total


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor],
    clip_value: float,
    foreach: bool | None = None,  # noqa: ARG001 - PyTorch's argument
) -> None:
    """Bounds each element of the gradients by ``-clip_value`` and `clip_value`.

    >>> import pullback as pb
    >>> x = pb.tensor([3.0, -4.0], requires_grad=True)
    >>> (x**2).sum().backward()
    >>> clip_grad_value_([x], 7.0)
    >>> x.grad.tolist()
    [6.0, -7.0]
    """
    bound = _bound(clip_value)
    with no_grad():
        for parameter in _listed(parameters):
            if parameter.grad is not None:
                parameter.grad.clip_(-bound, bound)
