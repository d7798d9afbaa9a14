"""Dropout: random zeros while training."""

from __future__ import annotations

from typing import Any, ClassVar

from pullback.nn import functional as F  # noqa: N812 - PyTorch's convention
from pullback.nn.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class Dropout(Module):
    """Zeroes elements with probability `p` while training, and enlarges the others to make up.

    Args:
        p: the probability.
        inplace: writes into the input.

    >>> import pullback as pb
    >>> pb.nn.Dropout(0.5).eval()(pb.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    function: ClassVar[str] = "dropout"

    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Any) -> Any:
        """The input, while training with zeros."""
        function = getattr(F, self.function)
        return function(input, p=self.p, training=self.training, inplace=self.inplace)

    def extra_repr(self) -> str:
        """Options."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout1d(Dropout):
    """`Dropout` of whole channels of signals.

    >>> import pullback as pb
    >>> pb.nn.Dropout1d(1.0)(pb.ones((2, 3, 4))).sum().item()
    0.0
    """

    function = "dropout1d"


class Dropout2d(Dropout):
    """`Dropout` of whole channels of images.

    >>> import pullback as pb
    >>> pb.nn.Dropout2d(1.0)(pb.ones((2, 3, 4, 4))).sum().item()
    0.0
    """

    function = "dropout2d"


class Dropout3d(Dropout):
    """`Dropout` of whole channels of volumes.

    >>> import pullback as pb
    >>> pb.nn.Dropout3d(1.0)(pb.ones((2, 3, 4, 4, 4))).sum().item()
    0.0
    """

    function = "dropout3d"


class AlphaDropout(Dropout):
    """`Dropout` that keeps mean and variance of the outputs of `SELU`.

    >>> import pullback as pb
    >>> pb.nn.AlphaDropout(0.5).eval()(pb.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    function = "alpha_dropout"


class FeatureAlphaDropout(Dropout):
    """`AlphaDropout` of whole channels.

    >>> import pullback as pb
    >>> pb.nn.FeatureAlphaDropout(0.5).eval()(pb.ones((1, 3, 1))).sum().item()
    3.0
    """

    function = "feature_alpha_dropout"
