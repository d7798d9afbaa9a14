"""Parametrizations of weights: `weight_norm` and `spectral_norm`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback._generated.functions_pointwise import maximum
from pullback._generated.functions_products import matmul, vecdot
from pullback._generated.functions_reduction import sum
from pullback._generated.functions_shape import matrix_transpose, moveaxis, reshape
from pullback.autograd import no_grad
from pullback.nn.module import Module
from pullback.nn.utils.parametrize import register_parametrization
from pullback.operators.creation.functions import asarray
from pullback.tensor import Tensor

__all__ = [
    "norm_except",
    "power_iteration",
    "rows_axis",
    "spectral_norm",
    "unit_vector",
    "weight_matrix",
    "weight_norm",
]


def norm_except(weight: Any, dim: int | None) -> Any:
    """The norm over all axes but one, which keeps its place; of all elements for None and -1.

    >>> import pullback as pb
    >>> norm_except(pb.tensor([[3.0, 4.0], [0.0, 1.0]]), 0).tolist()
    [[5.0], [1.0]]
    """
    if dim is None or dim == -1:
        return sum(weight * weight) ** 0.5
    axes = tuple(axis for axis in range(weight.ndim) if axis != dim % weight.ndim)
    return sum(weight * weight, axes, keepdims=True) ** 0.5


class _WeightNorm(Module):
    """A weight from norms and directions."""

    def __init__(self, dim: int | None):
        super().__init__()
        self.dim = dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        return weight_v * (weight_g / norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Any, Any]:
        """The norms, and the weight as it is."""
        return norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Separates norm and direction of a weight: ``original0`` and ``original1``.

    Args:
        module: the module.
        name: the parameter.
        dim: the axis with one norm for each index; None takes one norm for all elements.

    >>> import pullback as pb
    >>> layer = weight_norm(pb.nn.Linear(20, 40))
    >>> layer.parametrizations.weight.original0.shape
    (40, 1)
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


def rows_axis(module: Module) -> int:
    """The axis of a module's weight that counts outputs.

    >>> import pullback as pb
    >>> rows_axis(pb.nn.Linear(1, 2)), rows_axis(pb.nn.ConvTranspose1d(1, 2, 3))
    (0, 1)
    """
    return int(getattr(type(module), "is_transposed", False))


def weight_matrix(weight: Any, dim: int) -> Any:
    """A weight as a matrix whose rows are those of one axis."""
    front = moveaxis(weight, dim, 0)
    return reshape(front, (front.shape[0], -1))


def _normalize(vector: Any, eps: float) -> Any:
    return vector / maximum(sum(vector * vector) ** 0.5, eps)


def unit_vector(length: int, dtype: Any, eps: float) -> Tensor:
    """A random vector of norm 1.

    >>> unit_vector(3, float, 1e-12).shape
    (3,)
    """
    drawn = np.random.normal(size=length).astype(dtype)
    return asarray(drawn / max(float(np.linalg.norm(drawn)), eps))


def power_iteration(matrix: Any, u: Tensor, v: Tensor, count: int, eps: float) -> None:
    """Moves two vectors, in place, towards the first pair of singular vectors of a matrix."""
    with no_grad():
        for _ in range(count):
            u.copy_(_normalize(matmul(matrix, v), eps))
            v.copy_(_normalize(matmul(matrix_transpose(matrix), u), eps))


class _SpectralNorm(Module):
    """Divides a weight by its largest singular value, which power iterations estimate."""

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float):
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"spectral_norm: dim is {dim}, but the weight of shape {weight.shape} has "
                f"{weight.ndim} axes"
            )
        if n_power_iterations < 1:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got {n_power_iterations}"
            )
        self.dim, self.n_power_iterations, self.eps = dim % weight.ndim, n_power_iterations, eps
        if weight.ndim > 1:
            matrix = weight_matrix(weight.detach(), self.dim)
            self.register_buffer("_u", unit_vector(matrix.shape[0], matrix.dtype, eps))
            self.register_buffer("_v", unit_vector(matrix.shape[1], matrix.dtype, eps))
            power_iteration(matrix, self._u, self._v, 15, eps)

    def forward(self, weight: Any) -> Any:
        if weight.ndim == 1:
            return _normalize(weight, self.eps)
        matrix = weight_matrix(weight, self.dim)
        if self.training:
            power_iteration(matrix.detach(), self._u, self._v, self.n_power_iterations, self.eps)
        # Copies: the next read writes to the buffers.
        u, v = self._u.clone(), self._v.clone()
        return weight / vecdot(u, matmul(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself, which is scaled when it is read."""
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divides a weight by its largest singular value.

    Args:
        module: the module.
        name: the parameter.
        n_power_iterations: steps of the power iteration for each read while training.
        eps: smallest norm that is divided by.
        dim: the axis of the rows; by default that of the outputs.

    >>> import numpy as np, pullback as pb
    >>> layer = spectral_norm(pb.nn.Linear(20, 40), n_power_iterations=50)
    >>> round(float(np.linalg.norm(layer.weight.detach().numpy(), 2)), 2)
    1.0
    """
    dim = rows_axis(module) if dim is None else dim
    made = _SpectralNorm(getattr(module, name), n_power_iterations, dim, eps)
    return register_parametrization(module, name, made)
