"""Functions of neural networks, with PyTorch's names and argument names (``input``, ``dim``).

The operators themselves have NumPy's argument names; `_spell` translates.

>>> import pullback as pb
>>> from pullback.nn import functional as F
>>> F.softmax(pb.tensor([[0.0, 0.0]]), dim=-1).tolist()
[[0.5, 0.5]]
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
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
from pullback._generated import functions_special as special
from pullback.autograd import no_grad
from pullback.fx.tracer import forbid_in_trace
from pullback.kernels.random import source_of_numbers
from pullback.operators.creation.functions import asarray, ones
from pullback.operators.shape.functions_padding import pad as pad_axes
from pullback.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
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
    "log_softmax",
    "logsigmoid",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "mish",
    "mse_loss",
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
    "unfold",
]

_Function = Callable[..., Any]


def _spell(
    function: _Function,
    *,
    first: tuple[str, ...] = ("input",),
    axis: str = "",
    has_inplace: bool = False,
) -> _Function:
    """A function that also takes PyTorch's argument names.

    Args:
        function: an operator's function, whose first arguments have no names.
        first: the names of these arguments.
        axis: the name of its argument ``axis``.
        has_inplace: whether it takes ``inplace=True``, which writes the result into the input.
    """

    parameters = inspect.signature(function).parameters.values()
    count = sum(parameter.kind is not parameter.KEYWORD_ONLY for parameter in parameters)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if has_inplace and len(args) == count + 1:
            args, kwargs["inplace"] = args[:-1], args[-1]
        if not kwargs:
            return function(*args)
        for name in first[len(args) :]:
            if name in kwargs:
                args = (*args, kwargs.pop(name))
        if axis in kwargs:
            kwargs["axis"] = kwargs.pop(axis)
            if kwargs["axis"] is None:
                raise TypeError(f"{function.__name__}: dim must be an integer, not None")
        if has_inplace and kwargs.pop("inplace", False):
            # The derivative may need the input, so the function gets a copy of it.
            return args[0].copy_(function(args[0].clone(), *args[1:], **kwargs))
        return function(*args, **kwargs)

    return call


adaptive_avg_pool1d = _spell(pool.adaptive_avg_pool1d)
adaptive_avg_pool2d = _spell(pool.adaptive_avg_pool2d)
adaptive_max_pool1d = _spell(pool.adaptive_max_pool1d)
adaptive_max_pool1d_with_indices = _spell(pool.adaptive_max_pool1d_with_indices)
adaptive_max_pool2d = _spell(pool.adaptive_max_pool2d)
adaptive_max_pool2d_with_indices = _spell(pool.adaptive_max_pool2d_with_indices)
avg_pool1d = _spell(pool.avg_pool1d)
avg_pool2d = _spell(pool.avg_pool2d)
batch_norm = _spell(norm.batch_norm)
bilinear = _spell(layers.bilinear, first=("input1", "input2"))
binary_cross_entropy = _spell(loss.binary_cross_entropy)
binary_cross_entropy_with_logits = _spell(loss.binary_cross_entropy_with_logits)
channel_shuffle = _spell(layers.channel_shuffle)
cdist = _spell(distance.cdist, first=("x1", "x2"))
celu = _spell(activation.celu, has_inplace=True)
conv1d = _spell(conv.conv1d)
conv2d = _spell(conv.conv2d)
conv3d = _spell(conv.conv3d)
conv_transpose1d = _spell(conv.conv_transpose1d)
conv_transpose2d = _spell(conv.conv_transpose2d)
conv_transpose3d = _spell(conv.conv_transpose3d)
cosine_embedding_loss = _spell(loss.cosine_embedding_loss, first=("input1", "input2"))
cosine_similarity = _spell(distance.cosine_similarity, axis="dim", first=("x1", "x2"))
cross_entropy = _spell(loss.cross_entropy)
dropout = _spell(layers.dropout, has_inplace=True)
elu = _spell(activation.elu, has_inplace=True)
fold = _spell(conv.fold)
gaussian_nll_loss = _spell(loss.gaussian_nll_loss)
gelu = _spell(activation.gelu)
glu = _spell(activation.glu, axis="dim")
group_norm = _spell(norm.group_norm)
hardshrink = _spell(activation.hardshrink)
hardsigmoid = _spell(activation.hardsigmoid, has_inplace=True)
hardswish = _spell(activation.hardswish, has_inplace=True)
hardtanh = _spell(activation.hardtanh, has_inplace=True)
hinge_embedding_loss = _spell(loss.hinge_embedding_loss)
huber_loss = _spell(loss.huber_loss)
instance_norm = _spell(norm.instance_norm)
kl_div = _spell(loss.kl_div)
l1_loss = _spell(loss.l1_loss)
layer_norm = _spell(norm.layer_norm)
leaky_relu = _spell(activation.leaky_relu, has_inplace=True)
linear = _spell(layers.linear)
log_softmax = _spell(activation.log_softmax, axis="dim")
logsigmoid = _spell(activation.logsigmoid)
margin_ranking_loss = _spell(loss.margin_ranking_loss, first=("input1", "input2"))
max_pool1d = _spell(pool.max_pool1d)
max_pool1d_with_indices = _spell(pool.max_pool1d_with_indices)
max_pool2d = _spell(pool.max_pool2d)
max_pool2d_with_indices = _spell(pool.max_pool2d_with_indices)
mish = _spell(activation.mish, has_inplace=True)
mse_loss = _spell(loss.mse_loss)
nll_loss = _spell(loss.nll_loss)
normalize = _spell(distance.normalize, axis="dim")
one_hot = _spell(layers.one_hot)
pairwise_distance = _spell(distance.pairwise_distance, first=("x1", "x2"))
pdist = _spell(distance.pdist)
pixel_shuffle = _spell(layers.pixel_shuffle)
pixel_unshuffle = _spell(layers.pixel_unshuffle)
poisson_nll_loss = _spell(loss.poisson_nll_loss)
prelu = _spell(activation.prelu)
relu = _spell(activation.relu, has_inplace=True)
relu6 = _spell(activation.relu6, has_inplace=True)
rms_norm = _spell(norm.rms_norm)
rrelu = _spell(activation.rrelu, has_inplace=True)
scaled_dot_product_attention = _spell(
    layers.scaled_dot_product_attention, first=("query", "key", "value")
)
selu = _spell(activation.selu, has_inplace=True)
sigmoid = special.sigmoid
silu = _spell(activation.silu, has_inplace=True)
smooth_l1_loss = _spell(loss.smooth_l1_loss)
soft_margin_loss = _spell(loss.soft_margin_loss)
softmax = _spell(activation.softmax, axis="dim")
softmin = _spell(activation.softmin, axis="dim")
softplus = special.softplus
softshrink = _spell(activation.softshrink)
softsign = _spell(activation.softsign)
tanh = pointwise.tanh
tanhshrink = _spell(activation.tanhshrink)
threshold = _spell(activation.threshold, has_inplace=True)
triplet_margin_loss = _spell(loss.triplet_margin_loss, first=("anchor",))
unfold = _spell(conv.unfold)
celu_ = activation.celu_
elu_ = activation.elu_
hardtanh_ = activation.hardtanh_
leaky_relu_ = activation.leaky_relu_
relu_ = activation.relu_
selu_ = activation.selu_
threshold_ = activation.threshold_


def _channel_dropout(x: Any, p: float, training: bool, name: str, dims: int) -> Any:
    """Zeroes whole channels; an input of `dims` axes has no batch."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{name}: dropout probability has to be between 0 and 1, but got {p}")
    if not training or not p:
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
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or not p:
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
    forbid_in_trace("the noise of gumbel_softmax")
    noise = asarray(-np.log(source_of_numbers(None).exponential(size=logits.shape)))
    soft = activation.softmax((logits + noise.astype(logits.dtype)) / tau, dim)
    if not hard:
        return soft
    best = np.argmax(soft.detach().numpy(), axis=dim, keepdims=True)
    places = np.arange(soft.shape[dim]).reshape(
        [-1 if a == dim % soft.ndim else 1 for a in range(soft.ndim)]
    )
    one_hot_values = asarray((places == best).astype(soft.dtype))
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
