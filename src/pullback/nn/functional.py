"""Functions of neural networks, with PyTorch's names and argument names (``input``, ``dim``).

The operators themselves have NumPy's argument names; `spell` translates.

>>> import pullback as pb
>>> from pullback.nn import functional as F
>>> F.softmax(pb.tensor([[0.0, 0.0]]), dim=-1).tolist()
[[0.5, 0.5]]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback._generated import functions_nn_activation as activation
from pullback._generated import functions_nn_conv as conv
from pullback._generated import functions_nn_distance as distance
from pullback._generated import functions_nn_layers as layers
from pullback._generated import functions_nn_loss as loss
from pullback._generated import functions_nn_norm as norm
from pullback._generated import functions_nn_pool as pool
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_reduction as reduction
from pullback._generated import functions_special as special
from pullback.autograd import no_grad
from pullback.nn.dtype_rules import require_kind
from pullback.nn.functional_losses import (
    local_response_norm,
    multi_margin_loss,
    multilabel_soft_margin_loss,
    triplet_margin_with_distance_loss,
)
from pullback.nn.functional_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from pullback.nn.spelling import spell
from pullback.operators.creation.functions import asarray, ones
from pullback.operators.shape.functions_padding import pad as pad_axes
from pullback.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cdist",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
]


def _complex_l1_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    sizes = abs(input - target)
    if reduction == "none":
        return sizes
    return sizes.sum() if reduction == "sum" else sizes.mean()


batch_norm = spell(
    norm.batch_norm, kinds="f", tensors=("running_mean", "running_var", "weight", "bias")
)
bilinear = spell(
    layers.bilinear, first=("input1", "input2"), kinds="fci", tensors=("weight", "bias")
)
binary_cross_entropy = spell(loss.binary_cross_entropy, kinds="f", tensors=("target",))
binary_cross_entropy_with_logits = spell(
    loss.binary_cross_entropy_with_logits,
    kinds="f",
    each="f",
    mode="target",
    tensors=("target", "pos_weight"),
)
channel_shuffle = spell(layers.channel_shuffle)
cdist = spell(distance.cdist, first=("x1", "x2"))
celu = spell(activation.celu, has_inplace=True, kinds="f")
conv1d = spell(conv.conv1d, kinds="fci", tensors=("weight", "bias"))
conv2d = spell(conv.conv2d, kinds="fci", tensors=("weight", "bias"))
conv3d = spell(conv.conv3d, kinds="fci", tensors=("weight", "bias"))
conv_transpose1d = spell(conv.conv_transpose1d, kinds="fci", tensors=("weight", "bias"))
conv_transpose2d = spell(conv.conv_transpose2d, kinds="fci", tensors=("weight", "bias"))
conv_transpose3d = spell(conv.conv_transpose3d, kinds="fci", tensors=("weight", "bias"))
cosine_embedding_loss = spell(
    loss.cosine_embedding_loss, first=("input1", "input2"), kinds="f", mode="common"
)
cosine_similarity = spell(
    distance.cosine_similarity, axis="dim", first=("x1", "x2"), kinds="f", mode="common"
)
cross_entropy = spell(loss.cross_entropy, kinds="f", tensors=("weight",))
elu = spell(activation.elu, has_inplace=True, kinds="f")
fold = spell(conv.fold, kinds="fcb")
gaussian_nll_loss = spell(
    loss.gaussian_nll_loss, kinds="f", mode="common", each="if", tensors=("target",)
)
gelu = spell(activation.gelu, kinds="f")
glu = spell(activation.glu, axis="dim", kinds="f")
group_norm = spell(norm.group_norm, kinds="f", tensors=("weight", "bias"))
hardshrink = spell(activation.hardshrink, kinds="f")
hardsigmoid = spell(activation.hardsigmoid, has_inplace=True, kinds="f")
hardswish = spell(activation.hardswish, has_inplace=True, kinds="f")
hardtanh = spell(activation.hardtanh, has_inplace=True, kinds="fi", keeps_integers=True)
hinge_embedding_loss = spell(loss.hinge_embedding_loss, kinds="f")
huber_loss = spell(
    loss.huber_loss, kinds="f", mode="input", each="bif", tensors=("target",), is_elementwise=True
)
instance_norm = spell(norm.instance_norm, kinds="f", tensors=("weight", "bias"))
kl_div = spell(loss.kl_div, kinds="f", mode="common", each="f", tensors=("target",))
l1_loss = spell(
    loss.l1_loss,
    kinds="fci",
    mode="common",
    each="ifc",
    tensors=("target",),
    is_elementwise=True,
    complex_form=_complex_l1_loss,
)
layer_norm = spell(norm.layer_norm, kinds="f", tensors=("weight", "bias"))
leaky_relu = spell(activation.leaky_relu, has_inplace=True, kinds="f")
linear = spell(layers.linear, kinds="fci", tensors=("weight", "bias"))
log_softmax = spell(activation.log_softmax, axis="dim", kinds="f")
logsigmoid = spell(activation.logsigmoid, kinds="f")
margin_ranking_loss = spell(
    loss.margin_ranking_loss,
    first=("input1", "input2"),
    kinds="fi",
    mode="common",
    each="if",
    tensors=("target",),
)
mish = spell(activation.mish, has_inplace=True, kinds="f")
mse_loss = spell(loss.mse_loss, kinds="f", mode="common", tensors=("target",), is_elementwise=True)
nll_loss = spell(loss.nll_loss, kinds="f", tensors=("weight",))
normalize = spell(distance.normalize, axis="dim", kinds="fc")
one_hot = spell(layers.one_hot)
pairwise_distance = spell(
    distance.pairwise_distance, first=("x1", "x2"), kinds="fc", mode="common", each="ifc"
)
pdist = spell(distance.pdist, kinds="f")
pixel_shuffle = spell(layers.pixel_shuffle)
pixel_unshuffle = spell(layers.pixel_unshuffle)
poisson_nll_loss = spell(loss.poisson_nll_loss, kinds="fcib", mode="float")
prelu = spell(activation.prelu, kinds="f", tensors=("weight",))
relu = spell(activation.relu, has_inplace=True, kinds="fi")
relu6 = spell(activation.relu6, has_inplace=True, kinds="fi")
rms_norm = spell(norm.rms_norm, kinds="fc", mode="input", tensors=("weight",))
rrelu = spell(activation.rrelu, has_inplace=True, kinds="f")
scaled_dot_product_attention = spell(
    layers.scaled_dot_product_attention, first=("query", "key", "value"), kinds="f"
)
selu = spell(activation.selu, has_inplace=True, kinds="f")
sigmoid = spell(special.sigmoid, kinds="fcib", mode="float")
silu = spell(
    activation.silu, has_inplace=True, kinds="fc", complex_form=lambda x: x * special.sigmoid(x)
)
smooth_l1_loss = spell(
    loss.smooth_l1_loss, kinds="f", mode="common", tensors=("target",), is_elementwise=True
)
soft_margin_loss = spell(
    loss.soft_margin_loss, kinds="f", mode="input", each="bif", tensors=("target",)
)
softmax = spell(activation.softmax, axis="dim", kinds="f")
softmin = spell(activation.softmin, axis="dim", kinds="f")
softplus = spell(special.softplus, kinds="f")
softshrink = spell(activation.softshrink, kinds="f")
softsign = spell(activation.softsign, kinds="fci", complex_form=lambda x: x / (1 + abs(x)))
tanh = spell(pointwise.tanh, kinds="fcib", mode="float")
tanhshrink = spell(activation.tanhshrink, kinds="fci")
threshold = spell(activation.threshold, has_inplace=True, kinds="fi", keeps_integers=True)
triplet_margin_loss = spell(
    loss.triplet_margin_loss,
    first=("anchor",),
    kinds="fc",
    mode="common",
    each="ifc",
    tensors=("positive", "negative"),
)
unfold = spell(conv.unfold, kinds="fcb")
celu_ = activation.celu_
elu_ = activation.elu_
hardtanh_ = activation.hardtanh_
leaky_relu_ = activation.leaky_relu_
relu_ = activation.relu_
selu_ = activation.selu_
threshold_ = activation.threshold_


def _drops(name: str, x: Any, p: float, training: bool) -> bool:
    """Whether there is anything to drop; raises for other than probabilities and floats."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{name}: p is {p}; a probability is expected, between 0 and 1")
    if not training or not p:
        return False
    require_kind(name, "input", x.dtype)
    return True


def dropout(
    input: Any,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Any = None,
) -> Tensor:
    """Zeroes elements with probability p while training, and enlarges the others to make up for it.

    >>> import pullback as pb
    >>> dropout(pb.tensor([-1.0, 0.0, 2.0]), training=False).tolist()
    [-1.0, 0.0, 2.0]
    """
    if not _drops("dropout", input, p, training):
        return asarray(input)
    return _result(input, layers.dropout(input, p, generator=generator), inplace)


def _channel_dropout(x: Any, p: float, training: bool, name: str, dims: int) -> Any:
    """Zeroes whole channels; an input of `dims` axes has no batch."""
    if not _drops(name, x, p, training):
        return x
    lead = x.shape[: 1 if x.ndim == dims else 2]
    return x * layers.dropout(ones(lead + (1,) * (x.ndim - len(lead)), dtype=x.dtype), p)


def _result(x: Any, made: Any, inplace: bool) -> Tensor:
    result: Tensor = x.copy_(made) if inplace and made is not x else made
    return result


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of signals of shape (batch, channels, length) or without batch.

    >>> import pullback as pb
    >>> dropout1d(pb.ones((2, 3, 4)), training=False).sum().item()
    24.0
    """
    return _result(input, _channel_dropout(input, p, training, "dropout1d", 2), inplace)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of images of shape (batch, channels, height, width).

    >>> import pullback as pb
    >>> dropout2d(pb.ones((2, 3, 4, 4)), p=1.0).sum().item()
    0.0
    """
    return _result(input, _channel_dropout(input, p, training, "dropout2d", 0), inplace)


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of volumes of shape (batch, channels, depth, height, width).

    >>> import pullback as pb
    >>> dropout3d(pb.ones((2, 3, 1, 4, 4)), p=1.0).sum().item()
    0.0
    """
    return _result(input, _channel_dropout(input, p, training, "dropout3d", 0), inplace)


_SELU_FLOOR = -1.7580993408473766  # the value of selu at minus infinity


def _alpha(x: Any, p: float, training: bool, shape: tuple[int, ...]) -> Any:
    """Dropout for selu: dropped elements get its smallest value, and mean and variance stay."""
    if not _drops("alpha_dropout", x, p, training):
        return x
    if p == 1.0:
        return x * 0.0
    kept = layers.dropout(ones(shape, dtype=x.dtype), p) > 0
    scale = ((1 - p) * (1 + p * _SELU_FLOOR**2)) ** -0.5
    shift = -scale * p * _SELU_FLOOR
    dropped = asarray(_SELU_FLOOR * scale + shift, dtype=x.dtype)
    return pointwise._where(kept, x * scale + shift, dropped)


def alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean and variance of the outputs of selu.

    >>> import pullback as pb
    >>> alpha_dropout(pb.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """
    return _result(input, _alpha(input, p, training, input.shape), inplace)


def feature_alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels.

    >>> import pullback as pb
    >>> feature_alpha_dropout(pb.ones((1, 2, 3))).sum().item()
    6.0
    """
    shape = input.shape[:2] + (1,) * (input.ndim - 2)
    return _result(input, _alpha(input, p, training, shape), inplace)


def gumbel_softmax(
    logits: Any,
    tau: float = 1,
    hard: bool = False,
    eps: float = 1e-10,  # noqa: ARG001 - PyTorch's argument
    dim: int = -1,
) -> Tensor:
    """Samples of a categorical distribution that can be differentiated by its logits.

    Args:
        logits: logarithms of probabilities, up to a constant.
        tau: the temperature.
        hard: gives one-hot vectors, with the gradient of the soft samples.
        eps: not used, as in PyTorch.
        dim: the axis of the categories.

    >>> import pullback as pb
    >>> gumbel_softmax(pb.zeros((2, 3)), hard=True).sum(axis=-1).tolist()
    [1.0, 1.0]
    """
    require_kind("gumbel_softmax", "logits", logits.dtype)
    drawn = layers._uniform_like(ones(logits.shape), 0.0, 1.0)
    # Minus the logarithm of exponentially distributed numbers, as NumPy makes them.
    noise = -pointwise.log(-pointwise.log1p(-drawn))
    soft = activation.softmax((logits + noise.astype(logits.dtype)) / tau, dim)
    if not hard:
        return soft
    best = reduction.argmax(soft.detach(), dim, keepdims=True)
    places = np.arange(soft.shape[dim]).reshape(
        [-1 if a == dim % soft.ndim else 1 for a in range(soft.ndim)]
    )
    one_hot_values = (best == places).astype(soft.dtype)
    return one_hot_values - soft.detach() + soft


def _shorten(weight: Any, input: Any, max_norm: float | None, norm_type: float) -> None:
    """Bounds the norms of the rows that are looked up, in place."""
    if max_norm is None:
        return
    with no_grad():
        rows = np.unique(asarray(input).detach().numpy())
        picked = weight.detach().numpy()[rows]
        norms = np.linalg.norm(picked, norm_type, axis=1, keepdims=True)
        weight[rows] = picked * np.where(norms > max_norm, max_norm / (norms + 1e-7), 1.0)


def _refuse_sparse(name: str, scale_grad_by_freq: bool, sparse: bool) -> None:
    if sparse or scale_grad_by_freq:
        raise NotImplementedError(f"{name}: sparse and scale_grad_by_freq are not supported")


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of a matrix at given numbers; the arguments are those of `Embedding`.

    >>> import numpy as np, pullback as pb
    >>> embedding(np.array([1, 0]), pb.tensor([[1.0], [2.0]])).tolist()
    [[2.0], [1.0]]
    """
    _refuse_sparse("embedding", scale_grad_by_freq, sparse)
    _shorten(weight, input, max_norm, norm_type)
    return layers.embedding(input, weight, padding_idx)


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of rows of a matrix; the arguments are those of `EmbeddingBag`.

    >>> import numpy as np, pullback as pb
    >>> embedding_bag(np.array([[1, 0]]), pb.tensor([[1.0], [2.0]]), mode="sum").tolist()
    [[3.0]]
    """
    _refuse_sparse("embedding_bag", scale_grad_by_freq, sparse)
    require_kind("embedding_bag", "weight", weight.dtype)
    _shorten(weight, input, max_norm, norm_type)
    return layers.embedding_bag(
        input, weight, offsets, mode, per_sample_weights, include_last_offset, padding_idx
    )


def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resizes signals, images or volumes of shape ``(batch, channels, *space)``.

    Args:
        input: the tensor.
        size: new lengths of the axes of space.
        scale_factor: factors instead of lengths.
        mode: ``"nearest"``, ``"nearest-exact"``, ``"area"``, ``"linear"``, ``"bilinear"``,
            ``"bicubic"`` or ``"trilinear"``.
        align_corners: whether the outermost elements keep their places.
        recompute_scale_factor: computes the factor again from the rounded lengths.
        antialias: refused.

    >>> import pullback as pb
    >>> interpolate(pb.tensor([[[1.0, 3.0]]]), 3, mode="linear", align_corners=True).tolist()
    [[[1.0, 2.0, 3.0]]]
    """
    if antialias:
        raise NotImplementedError("interpolate: antialias=True is not supported")
    if input.dtype != np.uint8 or not mode.startswith("nearest"):
        require_kind("interpolate", "input", input.dtype)
    return pool.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor)


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(
    input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Adds elements at the ends of the last axes.

    Args:
        input: the tensor.
        pad: pairs of counts, before and after, for the last axis, the one before it, and so on;
            negative counts remove elements.
        mode: ``"constant"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        value: the constant.

    >>> import pullback as pb
    >>> pad(pb.tensor([1.0, 2.0]), (1, 1), value=5.0).tolist()
    [5.0, 1.0, 2.0, 5.0]
    """
    if mode not in _PAD_MODES:
        raise NotImplementedError(f"pad: unrecognised padding mode {mode!r}")
    if mode in ("reflect", "replicate"):
        require_kind("pad", "input", input.dtype, "fci")
    if len(pad) % 2 or len(pad) // 2 > input.ndim:
        raise ValueError(
            f"pad: needs a pair of counts for each of at most {input.ndim} axes, not {tuple(pad)}"
        )
    widths = [(0, 0)] * (input.ndim - len(pad) // 2)
    widths += [(pad[i], pad[i + 1]) for i in reversed(range(0, len(pad), 2))]
    grown = [(max(0, a), max(0, b)) for a, b in widths]
    for (a, b), n in zip(widths, input.shape, strict=True):
        most = {"reflect": n - 1, "circular": n}.get(mode, max(a, b))
        if n + a + b < 0 or max(a, b) > max(most, 0):
            raise ValueError(
                f"pad: the counts {(a, b)} do not fit an axis of length {n} in mode {mode!r} "
                f"(shape {tuple(input.shape)} given)"
            )
    options = {"constant_values": 0.0 if value is None else value} if mode == "constant" else {}
    if mode == "reflect":  # elements that are removed at one end are reflected at the other
        reflected: Tensor = _crop(pad_axes(input, grown, mode=mode), widths)
        return reflected
    return pad_axes(_crop(input, widths), grown, mode=_PAD_MODES[mode], **options)


def _crop(x: Any, widths: Sequence[tuple[int, int]]) -> Any:
    """Removes as many elements at the ends of each axis as its negative counts say."""
    pairs = zip(widths, x.shape, strict=True)
    return x[tuple(slice(max(0, -a), n - max(0, -b)) for (a, b), n in pairs)]
