"""Convolutions."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from pullback.errors import ModuleInputError
from pullback.nn import functional as F  # noqa: N812 - PyTorch's convention
from pullback.nn import init
from pullback.nn.linear import new_parameter
from pullback.nn.module import Module
from pullback.tensor import Tensor

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
]

_MODES = ("zeros", "reflect", "replicate", "circular")


def _repeat(value: Any, count: int) -> tuple[int, ...]:
    """An option that is one number for all axes, or one for each, as a tuple."""
    return (value,) * count if isinstance(value, int) else tuple(value)


class _Conv(Module):
    """Base of convolutions over one, two and three axes."""

    axes: ClassVar[int]
    is_transposed: ClassVar[bool] = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,  # noqa: ARG002 - PyTorch's argument
        dtype: Any = None,
    ):
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name} must be divisible by groups")
        if padding_mode not in _MODES:
            raise ValueError(f"padding_mode must be one of {_MODES}, but got {padding_mode!r}")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = _repeat(kernel_size, self.axes)
        self.stride = _repeat(stride, self.axes)
        self.dilation = _repeat(dilation, self.axes)
        self.padding_mode = padding_mode
        self.padding = self._read_padding(padding)
        first, second = (out_channels, in_channels)[:: -1 if self.is_transposed else 1]
        shape = (first, second // groups, *self.kernel_size)
        self.weight = new_parameter(shape, dtype)
        if bias:
            self.bias = new_parameter((out_channels,), dtype)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _read_padding(self, padding: Any) -> Any:
        if not isinstance(padding, str):
            return _repeat(padding, self.axes)
        if padding not in ("same", "valid"):
            raise ValueError(
                f"Invalid padding string {padding!r}, should be one of 'valid', 'same'"
            )
        if padding == "same" and any(step != 1 for step in self.stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
        return padding

    def reset_parameters(self) -> None:
        """Draws new parameters."""
        fan_in = math.prod(self.weight.shape[1:])
        bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def _widths(self) -> list[tuple[int, int]]:
        """Elements to add before and after each axis."""
        if self.padding == "valid":
            return [(0, 0)] * self.axes
        if self.padding == "same":
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            return [(total // 2, total - total // 2) for total in totals]
        return [(count, count) for count in self.padding]

    def forward(self, input: Any) -> Tensor:
        """The convolution of an input with or without batch."""
        self._require_channels(input)
        widths = self._widths()
        padding: Any = tuple(before for before, _ in widths)
        if self.padding_mode != "zeros" or any(a != b for a, b in widths):
            mode = "constant" if self.padding_mode == "zeros" else self.padding_mode
            flat = [count for pair in reversed(widths) for count in pair]
            input, padding = F.pad(input, flat, mode=mode), 0
        convolve = getattr(F, f"conv{self.axes}d")
        return convolve(  # type: ignore[no-any-return]
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def _require_channels(self, input: Any) -> None:
        shape = tuple(input.shape)
        if len(shape) not in (self.axes + 1, self.axes + 2):
            raise ModuleInputError(
                f"expected {self.axes + 1} dimensions without and {self.axes + 2} with a batch, "
                f"got shape {shape}"
            )
        if shape[-self.axes - 1] != self.in_channels:
            raise ModuleInputError(
                f"expected {self.in_channels} channels, got {shape[-self.axes - 1]} (shape {shape})"
            )

    def extra_repr(self) -> str:
        """Sizes, and the options that are not the defaults."""
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        if self.padding != (0,) * self.axes:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self.axes:
            text += f", dilation={self.dilation}"
        extra = getattr(self, "output_padding", (0,) * self.axes)
        text += f", output_padding={extra}" if extra != (0,) * self.axes else ""
        text += f", groups={self.groups}" if self.groups != 1 else ""
        text += ", bias=False" if self.bias is None else ""
        return text + (
            f", padding_mode={self.padding_mode}" if self.padding_mode != "zeros" else ""
        )


class Conv1d(_Conv):
    """Convolution of signals of shape (batch, channels, length).

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: length of the kernel.
        stride: step of the kernel.
        padding: elements added at both ends, or ``"same"`` or ``"valid"``.
        dilation: distance of the kernel's elements.
        groups: blocks of channels that do not mix.
        bias: whether there is a bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        device: ignored; all data is in the machine's memory.
        dtype: of the parameters, float64 by default.

    >>> import pullback as pb
    >>> pb.nn.Conv1d(2, 3, 5, padding=2)(pb.ones((1, 2, 10))).shape
    (1, 3, 10)
    """

    axes = 1


class Conv2d(_Conv):
    """Convolution of images of shape (batch, channels, height, width).

    The arguments are those of `Conv1d`, each a number or a pair.

    >>> import pullback as pb
    >>> pb.nn.Conv2d(1, 4, 3, padding="same")(pb.ones((2, 1, 8, 8))).shape
    (2, 4, 8, 8)
    """

    axes = 2


class Conv3d(_Conv):
    """Convolution of volumes of shape (batch, channels, depth, height, width).

    The arguments are those of `Conv1d`, each a number or three.

    >>> import pullback as pb
    >>> pb.nn.Conv3d(1, 2, 3)(pb.ones((1, 1, 5, 5, 5))).shape
    (1, 2, 3, 3, 3)
    """

    axes = 3


class _ConvTranspose(_Conv):
    """Base of transposed convolutions over one, two and three axes."""

    is_transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ):
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}, but got '
                f"{padding_mode!r}"
            )
        if isinstance(padding, str):
            raise TypeError(f"{type(self).__name__}: padding is {padding!r}; give numbers")
        options = (stride, padding, dilation, groups, bias, padding_mode, device, dtype)
        super().__init__(in_channels, out_channels, kernel_size, *options)
        self.output_padding = _repeat(output_padding, self.axes)

    def forward(self, input: Any, output_size: Any = None) -> Tensor:
        """The transposed convolution; `output_size` chooses one of the sizes that fit a stride."""
        self._require_channels(input)
        extra = self.output_padding
        if output_size is not None:
            extra = self._output_padding(tuple(input.shape[-self.axes :]), tuple(output_size))
        convolve = getattr(F, f"conv_transpose{self.axes}d")
        options = (self.stride, self.padding, extra, self.groups, self.dilation)
        return convolve(input, self.weight, self.bias, *options)  # type: ignore[no-any-return]

    def _output_padding(self, space: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
        smallest = tuple(
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                space, self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        )
        extra = tuple(w - n for w, n in zip(wanted[-self.axes :], smallest, strict=True))
        if len(wanted) < self.axes or any(
            not 0 <= e < s for e, s in zip(extra, self.stride, strict=True)
        ):
            largest = tuple(n + s - 1 for n, s in zip(smallest, self.stride, strict=True))
            raise ModuleInputError(
                f"expected an output_size between {smallest} and {largest} for an input of size "
                f"{space}, got {wanted}"
            )
        return extra


class ConvTranspose1d(_ConvTranspose):
    """The transpose of `Conv1d`, which maps few elements to many.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: length of the kernel.
        stride: distance of two elements of the input in the output.
        padding: elements removed at both ends.
        output_padding: elements added at the end.
        groups: blocks of channels that do not mix.
        bias: whether there is a bias.
        dilation: distance of the kernel's elements.
        padding_mode: ``"zeros"``.
        device: ignored; all data is in the machine's memory.
        dtype: of the parameters, float64 by default.

    >>> import pullback as pb
    >>> pb.nn.ConvTranspose1d(2, 3, 4, stride=2, padding=1)(pb.ones((1, 2, 10))).shape
    (1, 3, 20)
    """

    axes = 1


class ConvTranspose2d(_ConvTranspose):
    """The transpose of `Conv2d`; the arguments are those of `ConvTranspose1d`.

    >>> import pullback as pb
    >>> up = pb.nn.ConvTranspose2d(1, 2, 3, stride=2, padding=1)
    >>> up(pb.ones((1, 1, 4, 4)), output_size=(8, 8)).shape
    (1, 2, 8, 8)
    """

    axes = 2


class ConvTranspose3d(_ConvTranspose):
    """The transpose of `Conv3d`; the arguments are those of `ConvTranspose1d`.

    >>> import pullback as pb
    >>> pb.nn.ConvTranspose3d(1, 2, 2, stride=2)(pb.ones((1, 1, 2, 2, 2))).shape
    (1, 2, 4, 4, 4)
    """

    axes = 3
