"""Losses as modules."""

from __future__ import annotations

from typing import Any, ClassVar

from pullback.nn import functional as F  # noqa: N812 - PyTorch's convention
from pullback.nn.module import Module
from pullback.nn.options import read_options
from pullback.tensor import Tensor

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]

_REDUCTIONS = ("mean", "sum", "none")


class _Loss(Module):
    """A loss with options, each an attribute; tensors among them are buffers.

    `reduction` is ``"mean"``, ``"sum"`` or ``"none"``.
    """

    function: ClassVar[str]  # the name in ``nn.functional``
    options: ClassVar[dict[str, Any]] = {}  # the names and defaults, in order

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()
        name = type(self).__name__
        for option, value in read_options(name, self.options, args, kwargs).items():
            if option in ("weight", "pos_weight"):
                self.register_buffer(option, value)
            else:
                setattr(self, option, value)
        allowed = (*_REDUCTIONS, "batchmean") if name == "KLDivLoss" else _REDUCTIONS
        if self.reduction not in allowed:
            raise ValueError(f"{self.reduction} is not a valid value for reduction")

    def forward(self, *inputs: Any) -> Tensor:
        """The loss of an input and its target."""
        values = {option: getattr(self, option) for option in self.options}
        return getattr(F, self.function)(*inputs, **values)  # type: ignore[no-any-return]


class L1Loss(_Loss):
    """The mean absolute difference.

    >>> import pullback as pb
    >>> abs(pb.nn.L1Loss()(pb.tensor([1.0]), pb.tensor([3.0])).item())
    2.0
    """

    function = "l1_loss"
    options: ClassVar[dict[str, Any]] = {"reduction": "mean"}


class MSELoss(_Loss):
    """The mean squared difference.

    >>> import pullback as pb
    >>> abs(pb.nn.MSELoss()(pb.tensor([1.0]), pb.tensor([3.0])).item())
    4.0
    """

    function = "mse_loss"
    options: ClassVar[dict[str, Any]] = {"reduction": "mean"}


class HuberLoss(_Loss):
    """Squared for small, linear for large differences.

    >>> import pullback as pb
    >>> abs(pb.nn.HuberLoss()(pb.tensor([1.0]), pb.tensor([3.0])).item())
    1.5
    """

    function = "huber_loss"
    options: ClassVar[dict[str, Any]] = {"reduction": "mean", "delta": 1.0}


class SmoothL1Loss(_Loss):
    """Squared for small, linear for large differences, with slope 1.

    >>> import pullback as pb
    >>> abs(pb.nn.SmoothL1Loss()(pb.tensor([1.0]), pb.tensor([3.0])).item())
    1.5
    """

    function = "smooth_l1_loss"
    options: ClassVar[dict[str, Any]] = {"reduction": "mean", "beta": 1.0}


class BCELoss(_Loss):
    """The cross entropy of probabilities and targets between 0 and 1.

    >>> import pullback as pb
    >>> abs(pb.nn.BCELoss()(pb.tensor([1.0]), pb.tensor([1.0])).item())
    0.0
    """

    function = "binary_cross_entropy"
    options: ClassVar[dict[str, Any]] = {"weight": None, "reduction": "mean"}


class BCEWithLogitsLoss(_Loss):
    """`BCELoss` of the sigmoid of the input.

    >>> import pullback as pb
    >>> abs(pb.nn.BCEWithLogitsLoss()(pb.tensor([1000.0]), pb.tensor([1.0])).item())
    0.0
    """

    function = "binary_cross_entropy_with_logits"
    options: ClassVar[dict[str, Any]] = {"weight": None, "reduction": "mean", "pos_weight": None}


class CrossEntropyLoss(_Loss):
    """The cross entropy of logits and classes, or probabilities of classes.

    >>> import numpy as np, pullback as pb
    >>> abs(pb.nn.CrossEntropyLoss()(pb.tensor([[100.0, 0.0]]), np.array([0])).item())
    0.0
    """

    function = "cross_entropy"
    options: ClassVar[dict[str, Any]] = {
        "weight": None,
        "ignore_index": -100,
        "reduction": "mean",
        "label_smoothing": 0.0,
    }


class NLLLoss(_Loss):
    """Minus the log-probabilities of the right classes.

    >>> import numpy as np, pullback as pb
    >>> abs(pb.nn.NLLLoss()(pb.tensor([[-2.0, 0.0]]), np.array([0])).item())
    2.0
    """

    function = "nll_loss"
    options: ClassVar[dict[str, Any]] = {"weight": None, "ignore_index": -100, "reduction": "mean"}


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence; the input is a logarithm.

    >>> import pullback as pb
    >>> abs(pb.nn.KLDivLoss()(pb.tensor([0.0]), pb.tensor([1.0])).item())
    0.0
    """

    function = "kl_div"
    options: ClassVar[dict[str, Any]] = {"reduction": "mean", "log_target": False}


class PoissonNLLLoss(_Loss):
    """Minus the log-likelihood of Poisson counts.

    >>> import pullback as pb
    >>> abs(pb.nn.PoissonNLLLoss()(pb.tensor([0.0]), pb.tensor([3.0])).item())
    1.0
    """

    function = "poisson_nll_loss"
    options: ClassVar[dict[str, Any]] = {
        "log_input": True,
        "full": False,
        "eps": 1e-8,
        "reduction": "mean",
    }


class GaussianNLLLoss(_Loss):
    """Minus the log-likelihood of normal targets with given variances.

    >>> import pullback as pb
    >>> abs(pb.nn.GaussianNLLLoss()(pb.tensor([1.0]), pb.tensor([3.0]), pb.tensor([1.0])).item())
    2.0
    """

    function = "gaussian_nll_loss"
    options: ClassVar[dict[str, Any]] = {"full": False, "eps": 1e-6, "reduction": "mean"}


class HingeEmbeddingLoss(_Loss):
    """``x`` for targets 1, ``max(0, margin - x)`` for targets -1.

    >>> import pullback as pb
    >>> abs(pb.nn.HingeEmbeddingLoss()(pb.tensor([0.25]), pb.tensor([-1.0])).item())
    0.75
    """

    function = "hinge_embedding_loss"
    options: ClassVar[dict[str, Any]] = {"margin": 1.0, "reduction": "mean"}


class MarginRankingLoss(_Loss):
    """``max(0, -target * (x1 - x2) + margin)``.

    >>> import pullback as pb
    >>> abs(pb.nn.MarginRankingLoss()(pb.tensor([1.0]), pb.tensor([3.0]), pb.tensor([1.0])).item())
    2.0
    """

    function = "margin_ranking_loss"
    options: ClassVar[dict[str, Any]] = {"margin": 0.0, "reduction": "mean"}


class CosineEmbeddingLoss(_Loss):
    """``1 - cos`` of pairs with target 1, ``max(0, cos - margin)`` with target -1.

    >>> import pullback as pb
    >>> x = pb.ones((1, 2))
    >>> round(pb.nn.CosineEmbeddingLoss()(x, x, pb.tensor([-1.0])).item(), 6)
    1.0
    """

    function = "cosine_embedding_loss"
    options: ClassVar[dict[str, Any]] = {"margin": 0.0, "reduction": "mean"}


class TripletMarginLoss(_Loss):
    """The lead of the positive example over the negative one that is missing to `margin`.

    >>> import pullback as pb
    >>> x = pb.zeros((1, 2))
    >>> pb.nn.TripletMarginLoss()(x, x, x + 9.0).item()
    0.0
    """

    function = "triplet_margin_loss"
    options: ClassVar[dict[str, Any]] = {
        "margin": 1.0,
        "p": 2.0,
        "eps": 1e-6,
        "swap": False,
        "reduction": "mean",
    }


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * x))``.

    >>> import pullback as pb
    >>> abs(pb.nn.SoftMarginLoss()(pb.tensor([1000.0]), pb.tensor([1.0])).item())
    0.0
    """

    function = "soft_margin_loss"
    options: ClassVar[dict[str, Any]] = {"reduction": "mean"}


class MultiMarginLoss(_Loss):
    """The mean over classes of ``max(0, margin - x[target] + x) ** p``.

    >>> import numpy as np, pullback as pb
    >>> pb.nn.MultiMarginLoss()(pb.tensor([[3.0, 1.0]]), np.array([1])).item()
    1.5
    """

    function = "multi_margin_loss"
    options: ClassVar[dict[str, Any]] = {
        "p": 1,
        "margin": 1.0,
        "weight": None,
        "reduction": "mean",
    }


class MultiLabelSoftMarginLoss(_Loss):
    """The mean over classes of `BCEWithLogitsLoss`.

    >>> import pullback as pb
    >>> round(pb.nn.MultiLabelSoftMarginLoss()(pb.zeros((1, 2)), pb.ones((1, 2))).item(), 6)
    0.693147
    """

    function = "multilabel_soft_margin_loss"
    options: ClassVar[dict[str, Any]] = {"weight": None, "reduction": "mean"}


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with a given distance function.

    >>> import pullback as pb
    >>> x = pb.zeros((1, 2))
    >>> pb.nn.TripletMarginWithDistanceLoss()(x, x, x + 9.0).item()
    0.0
    """

    function = "triplet_margin_with_distance_loss"
    options: ClassVar[dict[str, Any]] = {
        "distance_function": None,
        "margin": 1.0,
        "swap": False,
        "reduction": "mean",
    }
