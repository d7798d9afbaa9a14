"""Modules that resize images or move elements between channels and space."""

from __future__ import annotations

from typing import Any

from pullback.errors import ModuleInputError
from pullback.nn import functional as F  # noqa: N812 - PyTorch's convention
from pullback.nn.module import Module
from pullback.tensor import Tensor

__all__ = [
    "ChannelShuffle",
    "Fold",
    "PixelShuffle",
    "PixelUnshuffle",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


class Upsample(Module):
    """Resizes signals, images or volumes of shape ``(batch, channels, *space)``.

    Args:
        size: lengths of the axes of space.
        scale_factor: factors instead of lengths.
        mode: ``"nearest"``, ``"linear"``, ``"bilinear"``, ``"bicubic"`` or ``"trilinear"``.
        align_corners: whether the outermost elements keep their places; for all but nearest.
        recompute_scale_factor: computes the factor again from the rounded lengths.

    >>> import pullback as pb
    >>> pb.nn.Upsample(scale_factor=2)(pb.tensor([[[1.0, 2.0]]])).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ):
        super().__init__()
        self.size, self.mode, self.align_corners = size, mode, align_corners
        is_number = isinstance(scale_factor, int | float)
        self.scale_factor = float(scale_factor) if is_number else scale_factor
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Any) -> Tensor:
        """The resized input."""
        if len(input.shape) < 3:
            raise ModuleInputError(
                f"expected batch, channels and space, got shape {tuple(input.shape)}"
            )
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        """Size or factor, and mode."""
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` of images by their nearest elements.

    >>> import pullback as pb
    >>> pb.nn.UpsamplingNearest2d(scale_factor=2)(pb.ones((1, 1, 2, 3))).shape
    (1, 1, 4, 6)
    """

    def __init__(self, size: Any = None, scale_factor: Any = None):
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of images, bilinear with aligned corners.

    >>> import pullback as pb
    >>> pb.nn.UpsamplingBilinear2d(size=(3, 3))(pb.ones((1, 1, 2, 2))).shape
    (1, 1, 3, 3)
    """

    def __init__(self, size: Any = None, scale_factor: Any = None):
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PixelShuffle(Module):
    """Moves channels into space: (C * r * r, H, W) to (C, H * r, W * r).

    Args:
        upscale_factor: the factor r.

    >>> import pullback as pb
    >>> pb.nn.PixelShuffle(2)(pb.ones((1, 8, 3, 4))).shape
    (1, 2, 6, 8)
    """

    def __init__(self, upscale_factor: int):
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Any) -> Tensor:
        """The input with fewer channels and larger images."""
        shape, square = tuple(input.shape), self.upscale_factor**2
        if len(shape) < 3 or shape[-3] % square:
            raise ModuleInputError(
                f"expected a multiple of {square} channels before height and width, got shape "
                f"{shape}"
            )
        return F.pixel_shuffle(input, self.upscale_factor)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """The factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Moves space into channels: (C, H * r, W * r) to (C * r * r, H, W).

    Args:
        downscale_factor: the factor r.

    >>> import pullback as pb
    >>> pb.nn.PixelUnshuffle(2)(pb.ones((1, 2, 6, 8))).shape
    (1, 8, 3, 4)
    """

    def __init__(self, downscale_factor: int):
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Any) -> Tensor:
        """The input with more channels and smaller images."""
        shape, factor = tuple(input.shape), self.downscale_factor
        if len(shape) < 3 or shape[-1] % factor or shape[-2] % factor:
            raise ModuleInputError(
                f"expected height and width that are multiples of {factor}, got shape {shape}"
            )
        return F.pixel_unshuffle(input, factor)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """The factor."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Interleaves the channels of `groups` blocks.

    >>> import pullback as pb
    >>> pb.nn.ChannelShuffle(2)(pb.tensor([[[0.0], [1.0], [2.0], [3.0]]])).tolist()
    [[[0.0], [2.0], [1.0], [3.0]]]
    """

    def __init__(self, groups: int):
        super().__init__()
        self.groups = groups

    def forward(self, input: Any) -> Tensor:
        """The input with its channels in another order."""
        shape = tuple(input.shape)
        if len(shape) < 3 or self.groups < 1 or shape[1] % self.groups:
            raise ModuleInputError(
                f"expected a multiple of {self.groups} channels on axis 1, got shape {shape}"
            )
        return F.channel_shuffle(input, self.groups)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """The number of blocks."""
        return f"groups={self.groups}"


class Unfold(Module):
    """The windows of images as columns, of shape ``(batch, channels * kernel, windows)``.

    >>> import pullback as pb
    >>> pb.nn.Unfold(2)(pb.ones((1, 3, 4, 4))).shape
    (1, 12, 9)
    """

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1):
        super().__init__()
        self.kernel_size, self.dilation = kernel_size, dilation
        self.padding, self.stride = padding, stride

    def forward(self, input: Any) -> Tensor:
        """The columns."""
        options = (self.kernel_size, self.dilation, self.padding, self.stride)
        return F.unfold(input, *options)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """The windows."""
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class Fold(Unfold):
    """The sum of windows laid back into images of `output_size`: the transpose of `Unfold`.

    >>> import pullback as pb
    >>> pb.nn.Fold(4, 2)(pb.ones((1, 12, 9))).shape
    (1, 3, 4, 4)
    """

    def __init__(
        self,
        output_size: Any,
        kernel_size: Any,
        dilation: Any = 1,
        padding: Any = 0,
        stride: Any = 1,
    ):
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Any) -> Tensor:
        """The images."""
        options = (self.kernel_size, self.dilation, self.padding, self.stride)
        return F.fold(input, self.output_size, *options)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """The size and the windows."""
        return f"output_size={self.output_size}, {super().extra_repr()}"
