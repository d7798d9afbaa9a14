"""Distances between vectors as modules."""

from __future__ import annotations

from typing import Any

from pullback.nn import functional as F  # noqa: N812 - PyTorch's convention
from pullback.nn.module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along an axis.

    >>> import pullback as pb
    >>> round(pb.nn.CosineSimilarity()(pb.ones((1, 2)), pb.ones((1, 2))).item(), 6)
    1.0
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8):
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Any, x2: Any) -> Any:
        """The cosines."""
        return F.cosine_similarity(x1, x2, dim=self.dim, eps=self.eps)


class PairwiseDistance(Module):
    """The norm of the difference of vectors along the last axis.

    >>> import pullback as pb
    >>> round(pb.nn.PairwiseDistance()(pb.zeros((1, 2)), pb.tensor([[3.0, 4.0]])).item(), 5)
    5.0
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False):
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Any, x2: Any) -> Any:
        """The distances."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
