"""Pooling: the largest elements or the means of windows."""

from __future__ import annotations

from typing import Any, ClassVar

from pullback.nn import functional as F  # noqa: N812 - PyTorch's convention
from pullback.nn.module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


class _MaxPool(Module):
    axes: ClassVar[int]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ):
        super().__init__()
        self.kernel_size, self.padding, self.dilation = kernel_size, padding, dilation
        self.stride = kernel_size if stride is None else stride
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Any) -> Any:
        """The largest elements of the windows, and their places if they are wanted."""
        return getattr(F, f"max_pool{self.axes}d")(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )

    def extra_repr(self) -> str:
        """The windows."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest elements of windows of signals.

    Args:
        kernel_size: length of the window.
        stride: step of the window; by default its length.
        padding: elements added at both ends, never the largest.
        dilation: distance of the window's elements.
        return_indices: returns the places too.
        ceil_mode: keeps a window that is not full at the end.

    >>> import pullback as pb
    >>> pb.nn.MaxPool1d(2)(pb.tensor([[1.0, 3.0, 2.0, 0.0]])).tolist()
    [[3.0, 2.0]]
    """

    axes = 1


class MaxPool2d(_MaxPool):
    """The largest elements of windows of images; the arguments are those of `MaxPool1d`.

    >>> import pullback as pb
    >>> pb.nn.MaxPool2d(2)(pb.ones((1, 3, 8, 8))).shape
    (1, 3, 4, 4)
    """

    axes = 2


class MaxPool3d(_MaxPool):
    """The largest elements of windows of volumes; the arguments are those of `MaxPool1d`.

    >>> import pullback as pb
    >>> pb.nn.MaxPool3d(2)(pb.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 2, 2, 2)
    """

    axes = 3


class _MaxUnpool(Module):
    axes: ClassVar[int]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0):
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        """The image that was pooled, with zeros where no largest element was."""
        options = (self.kernel_size, self.stride, self.padding, output_size)
        return getattr(F, f"max_unpool{self.axes}d")(input, indices, *options)

    def extra_repr(self) -> str:
        """The windows."""
        values = (self.kernel_size, self.stride, self.padding)
        printed = [v if isinstance(v, tuple) else (v,) * self.axes for v in values]
        return "kernel_size={}, stride={}, padding={}".format(*printed)


class MaxUnpool1d(_MaxUnpool):
    """The inverse of `MaxPool1d` with indices; the windows are those of the pooling.

    >>> import pullback as pb
    >>> pool = pb.nn.MaxPool1d(2, return_indices=True)
    >>> pb.nn.MaxUnpool1d(2)(*pool(pb.tensor([[[1.0, 3.0]]]))).tolist()
    [[[0.0, 3.0]]]
    """

    axes = 1


class MaxUnpool2d(_MaxUnpool):
    """The inverse of `MaxPool2d` with indices; the windows are those of the pooling.

    >>> import pullback as pb
    >>> pb.nn.MaxUnpool2d(2)(*pb.nn.MaxPool2d(2, return_indices=True)(pb.ones((1, 3, 4, 4)))).shape
    (1, 3, 4, 4)
    """

    axes = 2


class MaxUnpool3d(_MaxUnpool):
    """The inverse of `MaxPool3d` with indices; the windows are those of the pooling.

    >>> import pullback as pb
    >>> pooled = pb.nn.MaxPool3d(2, return_indices=True)(pb.ones((1, 1, 2, 2, 2)))
    >>> pb.nn.MaxUnpool3d(2)(*pooled).shape
    (1, 1, 2, 2, 2)
    """

    axes = 3


class _LPPool(Module):
    axes: ClassVar[int]

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ):
        super().__init__()
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode

    def forward(self, input: Any) -> Any:
        """The norms of the windows."""
        options = (float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)
        return getattr(F, f"lp_pool{self.axes}d")(input, *options)

    def extra_repr(self) -> str:
        """The norm and the windows."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """The norms of windows of signals.

    Args:
        norm_type: the order of the norm.
        kernel_size: length of the window.
        stride: step of the window; by default its length.
        ceil_mode: keeps a window that is not full at the end.

    >>> import pullback as pb
    >>> pb.nn.LPPool1d(2, 2)(pb.tensor([[[3.0, 4.0]]])).tolist()
    [[[5.0]]]
    """

    axes = 1


class LPPool2d(_LPPool):
    """The norms of windows of images; the arguments are those of `LPPool1d`.

    >>> import pullback as pb
    >>> pb.nn.LPPool2d(2, 2)(pb.ones((1, 1, 2, 2))).item()
    2.0
    """

    axes = 2


class LPPool3d(_LPPool):
    """The norms of windows of volumes; the arguments are those of `LPPool1d`.

    >>> import pullback as pb
    >>> pb.nn.LPPool3d(1, 2)(pb.ones((1, 1, 2, 2, 2))).item()
    8.0
    """

    axes = 3


class _AvgPool(Module):
    axes: ClassVar[int]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ):
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Any) -> Any:
        """The means of the windows."""
        return getattr(F, f"avg_pool{self.axes}d")(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    def extra_repr(self) -> str:
        """The windows."""
        printed = {"kernel_size": self.kernel_size, "stride": self.stride, "padding": self.padding}
        if self.axes == 1:
            printed = {k: (v,) if isinstance(v, int) else v for k, v in printed.items()}
        return ", ".join(f"{name}={value}" for name, value in printed.items())


class AvgPool1d(_AvgPool):
    """The means of windows of signals.

    Args:
        kernel_size: length of the window.
        stride: step of the window; by default its length.
        padding: zeros added at both ends.
        ceil_mode: keeps a window that is not full at the end.
        count_include_pad: counts the zeros that were added.

    >>> import pullback as pb
    >>> pb.nn.AvgPool1d(2)(pb.tensor([[1.0, 3.0, 2.0, 0.0]])).tolist()
    [[2.0, 1.0]]
    """

    axes = 1


class _AvgPoolDivided(_AvgPool):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ):
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def forward(self, input: Any) -> Any:
        """The means of the windows."""
        return getattr(F, f"avg_pool{self.axes}d")(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPoolDivided):
    """The means of windows of images; the arguments are those of `AvgPool1d`.

    Args:
        divisor_override: divides by this number instead of the window's size.

    >>> import pullback as pb
    >>> pb.nn.AvgPool2d(2)(pb.ones((1, 3, 8, 8))).shape
    (1, 3, 4, 4)
    """

    axes = 2


class AvgPool3d(_AvgPoolDivided):
    """The means of windows of volumes; the arguments are those of `AvgPool2d`.

    >>> import pullback as pb
    >>> pb.nn.AvgPool3d(2)(pb.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 2, 2, 2)
    """

    axes = 3


class _Adaptive(Module):
    function: ClassVar[str]

    def __init__(self, output_size: Any):
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Any) -> Any:
        """One number for each cell."""
        return getattr(F, self.function)(input, self.output_size)

    def extra_repr(self) -> str:
        """The number of cells."""
        return f"output_size={self.output_size}"


class _AdaptiveMax(_Adaptive):
    def __init__(self, output_size: Any, return_indices: bool = False):
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Any) -> Any:
        """The largest elements of the cells, and their places if they are wanted."""
        return getattr(F, self.function)(input, self.output_size, self.return_indices)


class AdaptiveAvgPool1d(_Adaptive):
    """The means of signals divided into `output_size` cells.

    >>> import pullback as pb
    >>> pb.nn.AdaptiveAvgPool1d(2)(pb.tensor([[1.0, 3.0, 2.0, 0.0]])).tolist()
    [[2.0, 1.0]]
    """

    function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_Adaptive):
    """The means of images divided into `output_size` cells.

    >>> import pullback as pb
    >>> pb.nn.AdaptiveAvgPool2d(1)(pb.ones((1, 3, 8, 8))).shape
    (1, 3, 1, 1)
    """

    function = "adaptive_avg_pool2d"


class AdaptiveMaxPool1d(_AdaptiveMax):
    """The largest elements of signals divided into `output_size` cells.

    >>> import pullback as pb
    >>> pb.nn.AdaptiveMaxPool1d(2)(pb.tensor([[1.0, 3.0, 2.0, 0.0]])).tolist()
    [[3.0, 2.0]]
    """

    function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMax):
    """The largest elements of images divided into `output_size` cells.

    >>> import pullback as pb
    >>> pb.nn.AdaptiveMaxPool2d(2)(pb.ones((1, 3, 8, 8))).shape
    (1, 3, 2, 2)
    """

    function = "adaptive_max_pool2d"


class AdaptiveAvgPool3d(_Adaptive):
    """The means of volumes divided into `output_size` cells.

    >>> import pullback as pb
    >>> pb.nn.AdaptiveAvgPool3d(1)(pb.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 1, 1, 1)
    """

    function = "adaptive_avg_pool3d"


class AdaptiveMaxPool3d(_AdaptiveMax):
    """The largest elements of volumes divided into `output_size` cells.

    >>> import pullback as pb
    >>> pb.nn.AdaptiveMaxPool3d(2)(pb.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 2, 2, 2)
    """

    function = "adaptive_max_pool3d"
