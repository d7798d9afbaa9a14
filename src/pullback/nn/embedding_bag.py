"""`EmbeddingBag`: sums, means or maxima of vectors of a table."""

from __future__ import annotations

from typing import Any

from pullback.errors import ModuleInputError
from pullback.nn import functional as F  # noqa: N812 - PyTorch's convention
from pullback.nn.linear import Embedding
from pullback.operators.creation.functions import asarray
from pullback.tensor import Tensor

__all__ = ["EmbeddingBag"]


class EmbeddingBag(Embedding):
    """Sums, means or maxima of the vectors at bags of integers.

    Args:
        num_embeddings: number of vectors.
        embedding_dim: their length.
        max_norm: longer vectors are shortened, in place, when they are looked up.
        norm_type: the order of the norm of `max_norm`.
        scale_grad_by_freq: refused; PyTorch's option of sparse gradients.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        sparse: refused; PyTorch's option of sparse gradients.
        _weight: the vectors, instead of random ones.
        include_last_offset: whether the last offset is the end of the last bag.
        padding_idx: a vector that is left out of the bags, without a gradient.
        device: ignored; all data is in the machine's memory.
        dtype: of the parameters, float64 by default.

    >>> import numpy as np, pullback as pb
    >>> bag = pb.nn.EmbeddingBag(10, 3)
    >>> bag(np.array([1, 2, 4, 5, 4]), np.array([0, 2])).shape
    (2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ):
        if mode not in ("sum", "mean", "max"):
            raise ValueError(f"EmbeddingBag: mode must be 'sum', 'mean' or 'max', not {mode!r}")
        options = (max_norm, norm_type, scale_grad_by_freq, sparse, device, dtype)
        super().__init__(num_embeddings, embedding_dim, padding_idx, *options)
        self.mode, self.include_last_offset = mode, include_last_offset
        if _weight is not None:
            self.load_state_dict({"weight": _weight})

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Tensor:
        """One vector for each bag: a row of `input`, or what begins at an offset.

        Args:
            input: integers, of shape (bags, numbers), or in a row with `offsets`.
            offsets: where each bag begins.
            per_sample_weights: factors of the vectors, for ``mode="sum"``.
        """
        dims = 2 if offsets is None else 1
        if len(input.shape) != dims:
            raise ModuleInputError(
                f"expected {dims} dimension(s) {'without' if dims == 2 else 'with'} offsets, got "
                f"shape {tuple(input.shape)}"
            )
        self.require_rows(input)
        return F.embedding_bag(
            input,
            self.weight,
            None if offsets is None else asarray(offsets),
            self.max_norm,
            self.norm_type,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        """Sizes and options."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        text += f", max_norm={self.max_norm}" if self.max_norm is not None else ""
        text += f", mode={self.mode!r}"
        return text + (f", padding_idx={self.padding_idx}" if self.padding_idx is not None else "")
