"""Tensors with a mask, and reductions that skip masked elements, under PyTorch's names.

>>> import pullback as pb
>>> x = pb.tensor([4.0, 0.0], requires_grad=True)
>>> pb.masked.as_masked_tensor(x, x > 0).sqrt().sum().backward()
>>> x.grad.tolist()  # pb.where(x > 0, pb.sqrt(x), 0.0) gives NaN for the second
[0.25, 0.0]
"""

from __future__ import annotations

from pullback.masked.maskedtensor import (
    MaskedTensor,
    as_masked_tensor,
    is_masked_tensor,
    masked_tensor,
)
from pullback.masked.reductions import (
    amax,
    amin,
    argmax,
    argmin,
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    logsumexp,
    mean,
    median,
    norm,
    normalize,
    prod,
    softmax,
    softmin,
    std,
    sum,
    var,
)

__all__ = [
    "MaskedTensor",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "as_masked_tensor",
    "cumprod",
    "cumsum",
    "is_masked_tensor",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "masked_tensor",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]
