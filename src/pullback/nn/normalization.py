"""Normalization layers."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ModuleInputError
from pullback.nn import functional as F  # noqa: N812 - PyTorch's convention
from pullback.nn import init
from pullback.nn.linear import new_parameter
from pullback.nn.module import Module
from pullback.operators.creation.functions import ones, zeros
from pullback.tensor import Tensor

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LocalResponseNorm",
    "RMSNorm",
]


def _scale_and_shift(module: Module, shape: Any, affine: bool, bias: bool, dtype: Any) -> None:
    """Registers ``weight``, ones, and ``bias``, zeros, or their names without values."""
    for name, wanted in (("weight", affine), ("bias", affine and bias)):
        if wanted:
            setattr(module, name, new_parameter(shape, dtype))
        else:
            module.register_parameter(name, None)


def _reset(module: Any) -> None:
    if module.weight is not None:
        init.ones_(module.weight)
    if module.bias is not None:
        init.zeros_(module.bias)


class _BatchNorm(Module):
    """Base of batch normalizations."""

    dims: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,  # noqa: ARG002 - PyTorch's argument
        dtype: Any = None,
        *,
        bias: bool = True,
    ):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        _scale_and_shift(self, (num_features,), affine, bias, dtype)
        kind = np.float64 if dtype is None else dtype
        tracked = track_running_stats
        mean, var = zeros(num_features, dtype=kind), ones(num_features, dtype=kind)
        self.register_buffer("running_mean", mean if tracked else None)
        self.register_buffer("running_var", var if tracked else None)
        self.register_buffer("num_batches_tracked", zeros((), dtype=np.int64) if tracked else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forgets the means and variances of earlier batches."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Sets scale and shift to one and zero, and forgets earlier batches."""
        self.reset_running_stats()
        _reset(self)

    def forward(self, input: Any) -> Tensor:
        """The input, with mean 0 and variance 1 in each channel, scaled and shifted."""
        shape = tuple(input.shape)
        if len(shape) not in self.dims:
            wanted = " or ".join(map(str, self.dims))
            raise ModuleInputError(f"expected {wanted}D input (got {len(shape)}D input)")
        if shape[1] != self.num_features:
            raise ModuleInputError(
                f"expected {self.num_features} channels, got {shape[1]} (shape {shape})"
            )
        momentum: Any = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / self.num_batches_tracked.astype(self.running_mean.dtype)
        uses_batch = self.training or self.running_mean is None
        tracked = not self.training or self.track_running_stats
        return F.batch_norm(  # type: ignore[no-any-return]
            input,
            self.running_mean if tracked else None,
            self.running_var if tracked else None,
            self.weight,
            self.bias,
            uses_batch,
            momentum,
            self.eps,
        )

    def extra_repr(self) -> str:
        """Options."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(_BatchNorm):
    """Normalizes each channel over a batch of shape (batch, channels) or (batch, channels, length).

    In evaluation mode the running means and variances take the place of the batch's.

    Args:
        num_features: number of channels.
        eps: added to the variance.
        momentum: share of the new batch in the running values; None averages over all batches.
        affine: whether there are a scale and a shift.
        track_running_stats: whether there are running values.
        device: ignored; all data is in the machine's memory.
        dtype: of the parameters, float64 by default.
        bias: whether there is a shift.

    >>> import pullback as pb
    >>> y = pb.nn.BatchNorm1d(1)(pb.tensor([[1.0], [3.0]]))
    >>> [round(v, 4) for v in y.reshape(-1).tolist()]
    [-1.0, 1.0]
    """

    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalizes each channel over a batch of images; the arguments are those of `BatchNorm1d`.

    >>> import pullback as pb
    >>> pb.nn.BatchNorm2d(3)(pb.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalizes each channel over a batch of volumes; the arguments are those of `BatchNorm1d`.

    >>> import pullback as pb
    >>> pb.nn.BatchNorm3d(3)(pb.ones((2, 3, 2, 4, 4))).shape
    (2, 3, 2, 4, 4)
    """

    dims = (5,)


class _InstanceNorm(_BatchNorm):
    """Base of instance normalizations; inputs may have no batch."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ):
        options = (eps, momentum, affine, track_running_stats, device, dtype)
        super().__init__(num_features, *options, bias=bias)

    def forward(self, input: Any) -> Tensor:
        """The input, with mean 0 and variance 1 in each channel of each sample."""
        shape = tuple(input.shape)
        if len(shape) not in self.dims:
            wanted = " or ".join(map(str, self.dims))
            raise ModuleInputError(f"expected {wanted}D input (got {len(shape)}D input)")
        has_batch = len(shape) == max(self.dims)
        channels = shape[1 if has_batch else 0]
        if channels != self.num_features:
            if self.affine:
                raise ModuleInputError(
                    f"expected {self.num_features} channels, got {channels} (shape {shape})"
                )
            warnings.warn(
                f"{type(self).__name__}: the input of shape {shape} has {channels} channels and "
                f"num_features is {self.num_features}, which only affine=True uses",
                stacklevel=3,
            )
        result = F.instance_norm(
            input if has_batch else input[None],
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result if has_batch else result[0]  # type: ignore[no-any-return]


class InstanceNorm1d(_InstanceNorm):
    """Normalizes each channel of each signal, of shape (batch, channels, length) or without batch.

    Args:
        num_features: number of channels.
        eps: added to the variance.
        momentum: share of the new batch in the running values.
        affine: whether there are a scale and a shift.
        track_running_stats: whether there are running values, which evaluation mode then uses.
        device: ignored; all data is in the machine's memory.
        dtype: of the parameters, float64 by default.
        bias: whether there is a shift, with `affine`.

    >>> import pullback as pb
    >>> y = pb.nn.InstanceNorm1d(1)(pb.tensor([[[1.0, 3.0]]]))
    >>> [round(v, 4) for v in y.reshape(-1).tolist()]
    [-1.0, 1.0]
    """

    dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalizes each channel of each image; the arguments are those of `InstanceNorm1d`.

    >>> import pullback as pb
    >>> pb.nn.InstanceNorm2d(3)(pb.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalizes each channel of each volume; the arguments are those of `InstanceNorm1d`.

    >>> import pullback as pb
    >>> pb.nn.InstanceNorm3d(3)(pb.ones((2, 3, 2, 4, 4))).shape
    (2, 3, 2, 4, 4)
    """

    dims = (4, 5)


def _lengths(normalized_shape: Any) -> tuple[int, ...]:
    is_number = isinstance(normalized_shape, int)
    return (normalized_shape,) if is_number else tuple(normalized_shape)


def _require_lengths(input: Any, lengths: tuple[int, ...]) -> None:
    shape = tuple(input.shape)
    if shape[len(shape) - len(lengths) :] != lengths:
        raise ModuleInputError(f"expected last dimensions {lengths}, got shape {shape}")


class LayerNorm(Module):
    """Normalizes the last axes of each sample.

    Args:
        normalized_shape: lengths of these axes; a number for one of them.
        eps: added to the variance.
        elementwise_affine: whether there are a scale and a shift for each element.
        bias: whether there is a shift.
        device: ignored; all data is in the machine's memory.
        dtype: of the parameters, float64 by default.

    >>> import pullback as pb
    >>> y = pb.nn.LayerNorm(2)(pb.tensor([1.0, 3.0]))
    >>> [round(v, 4) for v in y.tolist()]
    [-1.0, 1.0]
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,  # noqa: ARG002 - PyTorch's argument
        dtype: Any = None,
    ):
        super().__init__()
        self.normalized_shape = _lengths(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        _scale_and_shift(self, self.normalized_shape, elementwise_affine, bias, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets scale and shift to one and zero."""
        _reset(self)

    def forward(self, input: Any) -> Tensor:
        """The input, normalized along its last axes."""
        _require_lengths(input, self.normalized_shape)
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """Options."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides the last axes of each sample by the root of their mean square.

    Args:
        normalized_shape: lengths of these axes; a number for one of them.
        eps: added to the mean square; by default the rounding unit of the input's dtype.
        elementwise_affine: whether there is a scale for each element.
        device: ignored; all data is in the machine's memory.
        dtype: of the parameters, float64 by default.

    >>> import pullback as pb
    >>> y = pb.nn.RMSNorm(2)(pb.tensor([1.0, 7.0]))
    >>> [round(v, 4) for v in y.tolist()]
    [0.2, 1.4]
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,  # noqa: ARG002 - PyTorch's argument
        dtype: Any = None,
    ):
        super().__init__()
        self.normalized_shape = _lengths(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        if elementwise_affine:
            self.weight = new_parameter(self.normalized_shape, dtype)
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the scale to one."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Any) -> Tensor:
        """The input, with mean square 1 along its last axes."""
        _require_lengths(x, self.normalized_shape)
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """Options."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(Module):
    """Normalizes groups of channels of each sample.

    Args:
        num_groups: number of groups.
        num_channels: number of channels, a multiple of it.
        eps: added to the variance.
        affine: whether there are a scale and a shift for each channel.
        device: ignored; all data is in the machine's memory.
        dtype: of the parameters, float64 by default.
        bias: whether there is a shift.

    >>> import pullback as pb
    >>> pb.nn.GroupNorm(2, 4)(pb.ones((3, 4, 5))).shape
    (3, 4, 5)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,  # noqa: ARG002 - PyTorch's argument
        dtype: Any = None,
        *,
        bias: bool = True,
    ):
        super().__init__()
        if num_channels % num_groups:
            raise ValueError("num_channels must be divisible by num_groups")
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        _scale_and_shift(self, (num_channels,), affine, bias, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets scale and shift to one and zero."""
        _reset(self)

    def forward(self, input: Any) -> Tensor:
        """The input, normalized in each group of channels."""
        if len(input.shape) < 2 or input.shape[1] != self.num_channels:
            raise ModuleInputError(
                f"expected {self.num_channels} channels, got shape {tuple(input.shape)}"
            )
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """Options."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """Divides each element by the mean square of its neighbours among the channels.

    Args:
        size: number of channels that count as neighbours.
        alpha: factor of the mean square.
        beta: exponent.
        k: added to it.

    >>> import pullback as pb
    >>> pb.nn.LocalResponseNorm(2)(pb.ones((1, 4, 2, 2))).shape
    (1, 4, 2, 2)
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Any) -> Tensor:
        """The normalized input."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Options."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
