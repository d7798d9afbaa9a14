"""Initial values of parameters, under PyTorch's names; each function fills its tensor in place.

Without a generator the numbers come from NumPy's global state (``numpy.random.seed``).
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.autograd import no_grad
from pullback.kernels.random import source_of_numbers
from pullback.operators.creation.functions import asarray
from pullback.tensor import Tensor

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_LINEAR = (
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "sigmoid",
)


def _fill(tensor: Tensor, values: Any) -> Tensor:
    with no_grad():
        return tensor.copy_(asarray(np.asarray(values).astype(tensor.dtype)))


def _normal(generator: Any, mean: float, std: float, shape: tuple[int, ...]) -> NDArray[Any]:
    return np.asarray(source_of_numbers(generator).normal(mean, std, shape))


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a nonlinearity wants its input's weights enlarged.

    Args:
        nonlinearity: ``"relu"``, ``"leaky_relu"``, ``"tanh"``, ``"selu"`` or a linear function.
        param: the negative slope of ``"leaky_relu"``.

    >>> round(calculate_gain("relu"), 4)
    1.4142
    """
    if nonlinearity in _LINEAR:
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, int | float):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fills with numbers that are uniform between `a` and `b`.

    >>> import pullback as pb
    >>> x = uniform_(pb.empty(100), 2.0, 3.0, generator=0)
    >>> bool((x >= 2).all() and (x <= 3).all())
    True
    """
    return _fill(tensor, source_of_numbers(generator).uniform(a, b, tensor.shape))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fills with normally distributed numbers.

    >>> import pullback as pb
    >>> abs(normal_(pb.empty(10_000), 5.0, generator=0).mean().item() - 5) < 0.1
    True
    """
    return _fill(tensor, _normal(generator, mean, std, tensor.shape))


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Fills with normally distributed numbers, drawn again until they lie between `a` and `b`.

    >>> import pullback as pb
    >>> bool((abs(trunc_normal_(pb.empty(1000), generator=0)) <= 2).all())
    True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_; the distribution of "
            "values may be incorrect.",
            stacklevel=2,
        )
    values = _normal(generator, mean, std, tensor.shape).ravel()
    source = None if generator is None else np.random.default_rng(generator)
    outside = (values < a) | (values > b)
    for _ in range(100):
        if not outside.any():
            break
        values[outside] = _normal(source, mean, std, (int(outside.sum()),))
        outside = (values < a) | (values > b)
    return _fill(tensor, np.clip(values, a, b).reshape(tensor.shape))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills with one value.

    >>> import pullback as pb
    >>> constant_(pb.empty(2), 3.0).tolist()
    [3.0, 3.0]
    """
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fills with ones.

    >>> import pullback as pb
    >>> ones_(pb.empty(2)).tolist()
    [1.0, 1.0]
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fills with zeros.

    >>> import pullback as pb
    >>> zeros_(pb.empty(2)).tolist()
    [0.0, 0.0]
    """
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fills a matrix with the identity.

    >>> import pullback as pb
    >>> eye_(pb.empty((2, 2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return _fill(tensor, np.eye(tensor.shape[0], tensor.shape[1]))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fills the weights of a convolution so that it keeps as many channels as it can.

    >>> import pullback as pb
    >>> dirac_(pb.empty((1, 1, 3))).tolist()
    [[[0.0, 1.0, 0.0]]]
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    values = np.zeros(tensor.shape)
    middle = tuple(n // 2 for n in tensor.shape[2:])
    of_group = tensor.shape[0] // groups
    for group in range(groups):
        for channel in range(min(of_group, tensor.shape[1])):
            values[(group * of_group + channel, channel, *middle)] = 1
    return _fill(tensor, values)


def _fans(tensor: Tensor) -> tuple[int, int]:
    """The numbers of inputs and outputs of one element of a layer's weights."""
    if tensor.ndim < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fills uniformly so that variances stay the same forward and backward (Glorot).

    >>> import pullback as pb
    >>> bool((abs(xavier_uniform_(pb.empty((3, 3)))) <= 1).all())
    True
    """
    bound = gain * math.sqrt(2.0 / sum(_fans(tensor))) * math.sqrt(3.0)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fills normally so that variances stay the same forward and backward (Glorot).

    >>> import pullback as pb
    >>> xavier_normal_(pb.empty((3, 3))).shape
    (3, 3)
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan = _fans(tensor)[mode.lower() == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fills uniformly so that variances stay the same through a relu (He).

    Args:
        tensor: the weights.
        a: the negative slope of the relu.
        mode: ``"fan_in"`` for the forward, ``"fan_out"`` for the backward pass.
        nonlinearity: see `calculate_gain`.
        generator: source of the random numbers.

    >>> import pullback as pb
    >>> kaiming_uniform_(pb.empty((3, 3))).shape
    (3, 3)
    """
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fills normally so that variances stay the same through a relu (He).

    The arguments are those of `kaiming_uniform_`.

    >>> import pullback as pb
    >>> kaiming_normal_(pb.empty((3, 3)), nonlinearity="relu").shape
    (3, 3)
    """
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fills with a random orthogonal matrix; axes after the first count as one.

    >>> import numpy as np, pullback as pb
    >>> q = orthogonal_(pb.empty((3, 3))).numpy()
    >>> np.allclose(q @ q.T, np.eye(3))
    True
    """
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if not tensor.size:
        return tensor
    rows, columns = tensor.shape[0], tensor.size // tensor.shape[0]
    flat = _normal(generator, 0, 1, (rows, columns))
    q, r = np.linalg.qr(flat.T if rows < columns else flat)
    q = q * np.sign(np.diag(r))
    return _fill(tensor, gain * (q.T if rows < columns else q).reshape(tensor.shape))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fills a matrix with normally distributed numbers, and a share of each column with zeros.

    >>> import pullback as pb
    >>> (sparse_(pb.empty((4, 2)), 0.5) == 0).sum().item()
    4
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    source = np.random if generator is None else np.random.default_rng(generator)
    values = _normal(source if generator is not None else None, 0, std, tensor.shape)
    for column in range(columns):
        values[source.permutation(rows)[: math.ceil(sparsity * rows)], column] = 0
    return _fill(tensor, values)
