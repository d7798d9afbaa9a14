"""Padding: more elements at the ends of signals, images and volumes."""

from __future__ import annotations

from typing import Any, ClassVar

from pullback.errors import ModuleInputError
from pullback.nn import functional as F  # noqa: N812 - PyTorch's convention
from pullback.nn.module import Module
from pullback.tensor import Tensor

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Pad(Module):
    """Base of paddings: pairs of counts, for the last axis first."""

    axes: ClassVar[int]
    mode: ClassVar[str]
    value: float | None = None

    def __init__(self, padding: Any):
        super().__init__()
        count = 2 * self.axes
        self.padding = (padding,) * count if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != count:
            raise ValueError(
                f"{type(self).__name__}: padding is {padding!r}; give one number or {count}"
            )

    def forward(self, input: Any) -> Tensor:
        """The input with more elements at the ends of its last axes."""
        shape = tuple(input.shape)
        if self.mode != "constant" and len(shape) not in (self.axes + 1, self.axes + 2):
            raise ModuleInputError(
                f"expected {self.axes + 1} dimensions without and {self.axes + 2} with a batch, "
                f"got shape {shape}"
            )
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        """The counts."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: Any, value: float):
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        """The counts and the constant."""
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_Pad):
    mode, value = "constant", 0.0


class _ReflectionPad(_Pad):
    mode = "reflect"


class _ReplicationPad(_Pad):
    mode = "replicate"


class _CircularPad(_Pad):
    mode = "circular"


class ConstantPad1d(_ConstantPad):
    """Puts a constant around signals.

    Args:
        padding: elements added at all ends, or one count for each end, the last axis first;
            negative counts remove elements.
        value: the constant.

    >>> import pullback as pb
    >>> pb.nn.ConstantPad1d(1, 5.0)(pb.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[5.0, 1.0, 2.0, 3.0, 5.0]]
    """

    axes = 1


class ConstantPad2d(_ConstantPad):
    """Puts a constant around images; the arguments are those of `ConstantPad1d`.

    >>> import pullback as pb
    >>> pb.nn.ConstantPad2d(1, 5.0)(pb.ones((1, 1, 3, 4))).shape
    (1, 1, 5, 6)
    """

    axes = 2


class ConstantPad3d(_ConstantPad):
    """Puts a constant around volumes; the arguments are those of `ConstantPad1d`.

    >>> import pullback as pb
    >>> pb.nn.ConstantPad3d(1, 5.0)(pb.ones((1, 1, 3, 4, 5))).shape
    (1, 1, 5, 6, 7)
    """

    axes = 3


class ZeroPad1d(_ZeroPad):
    """Puts zeros around signals.

    Args:
        padding: elements added at all ends, or one count for each end, the last axis first.

    >>> import pullback as pb
    >>> pb.nn.ZeroPad1d(1)(pb.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[0.0, 1.0, 2.0, 3.0, 0.0]]
    """

    axes = 1


class ZeroPad2d(_ZeroPad):
    """Puts zeros around images; the arguments are those of `ZeroPad1d`.

    >>> import pullback as pb
    >>> pb.nn.ZeroPad2d(1)(pb.ones((1, 1, 3, 4))).shape
    (1, 1, 5, 6)
    """

    axes = 2


class ZeroPad3d(_ZeroPad):
    """Puts zeros around volumes; the arguments are those of `ZeroPad1d`.

    >>> import pullback as pb
    >>> pb.nn.ZeroPad3d(1)(pb.ones((1, 1, 3, 4, 5))).shape
    (1, 1, 5, 6, 7)
    """

    axes = 3


class ReflectionPad1d(_ReflectionPad):
    """Continues signals by reflection at their ends.

    Args:
        padding: elements added at all ends, or one count for each end, the last axis first.

    >>> import pullback as pb
    >>> pb.nn.ReflectionPad1d(1)(pb.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[2.0, 1.0, 2.0, 3.0, 2.0]]
    """

    axes = 1


class ReflectionPad2d(_ReflectionPad):
    """Continues images by reflection at their ends; the arguments are those of `ReflectionPad1d`.

    >>> import pullback as pb
    >>> pb.nn.ReflectionPad2d(1)(pb.ones((1, 1, 3, 4))).shape
    (1, 1, 5, 6)
    """

    axes = 2


class ReflectionPad3d(_ReflectionPad):
    """Continues volumes by reflection at their ends; the arguments are those of `ReflectionPad1d`.

    >>> import pullback as pb
    >>> pb.nn.ReflectionPad3d(1)(pb.ones((1, 1, 3, 4, 5))).shape
    (1, 1, 5, 6, 7)
    """

    axes = 3


class ReplicationPad1d(_ReplicationPad):
    """Continues signals by their outermost elements.

    Args:
        padding: elements added at all ends, or one count for each end, the last axis first.

    >>> import pullback as pb
    >>> pb.nn.ReplicationPad1d(1)(pb.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[1.0, 1.0, 2.0, 3.0, 3.0]]
    """

    axes = 1


class ReplicationPad2d(_ReplicationPad):
    """Continues images by their outermost elements; the arguments are those of `ReplicationPad1d`.

    >>> import pullback as pb
    >>> pb.nn.ReplicationPad2d(1)(pb.ones((1, 1, 3, 4))).shape
    (1, 1, 5, 6)
    """

    axes = 2


class ReplicationPad3d(_ReplicationPad):
    """Continues volumes by their outermost elements; the arguments are those of `ReplicationPad1d`.

    >>> import pullback as pb
    >>> pb.nn.ReplicationPad3d(1)(pb.ones((1, 1, 3, 4, 5))).shape
    (1, 1, 5, 6, 7)
    """

    axes = 3


class CircularPad1d(_CircularPad):
    """Continues signals periodically.

    Args:
        padding: elements added at all ends, or one count for each end, the last axis first.

    >>> import pullback as pb
    >>> pb.nn.CircularPad1d(1)(pb.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[3.0, 1.0, 2.0, 3.0, 1.0]]
    """

    axes = 1


class CircularPad2d(_CircularPad):
    """Continues images periodically; the arguments are those of `CircularPad1d`.

    >>> import pullback as pb
    >>> pb.nn.CircularPad2d(1)(pb.ones((1, 1, 3, 4))).shape
    (1, 1, 5, 6)
    """

    axes = 2


class CircularPad3d(_CircularPad):
    """Continues volumes periodically; the arguments are those of `CircularPad1d`.

    >>> import pullback as pb
    >>> pb.nn.CircularPad3d(1)(pb.ones((1, 1, 3, 4, 5))).shape
    (1, 1, 5, 6, 7)
    """

    axes = 3
