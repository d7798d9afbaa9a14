"""Activation functions as modules."""

from __future__ import annotations

from typing import Any, ClassVar

from pullback.errors import ModuleInputError
from pullback.nn import functional as F  # noqa: N812 - PyTorch's convention
from pullback.nn import init
from pullback.nn.linear import new_parameter
from pullback.nn.module import Module
from pullback.nn.options import read_options

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _Activation(Module):
    """An activation function with options, each an attribute."""

    function: ClassVar[str]  # the name in ``nn.functional``
    options: ClassVar[dict[str, Any]] = {}  # the names and defaults, in order

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()
        for name, value in read_options(type(self).__name__, self.options, args, kwargs).items():
            setattr(self, name, value)

    def forward(self, input: Any) -> Any:
        """The function of each element, or along an axis."""
        values = {name: getattr(self, name) for name in self.options}
        if not values.get("inplace", True):
            del values["inplace"]
        return getattr(F, self.function)(input, **values)

    def extra_repr(self) -> str:
        """The options, without ``inplace=False``."""
        pairs = ((name, getattr(self, name)) for name in self.options)
        printed = [(name, value) for name, value in pairs if value is not False]
        return ", ".join(f"{n}={v!r}" if n != "lambd" else f"{v!r}" for n, v in printed)


class CELU(_Activation):
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``.

    >>> import pullback as pb
    >>> pb.nn.CELU()(pb.tensor(1.0)).item()
    1.0
    """

    function = "celu"
    options: ClassVar[dict[str, Any]] = {"alpha": 1.0, "inplace": False}


class ELU(_Activation):
    """``x`` above zero, ``alpha * (exp(x) - 1)`` below.

    >>> import pullback as pb
    >>> pb.nn.ELU()(pb.tensor(1.0)).item()
    1.0
    """

    function = "elu"
    options: ClassVar[dict[str, Any]] = {"alpha": 1.0, "inplace": False}


class GELU(_Activation):
    """``x`` times the normal distribution function; `approximate` may be ``"tanh"``.

    >>> import pullback as pb
    >>> pb.nn.GELU()(pb.tensor(0.0)).item()
    0.0
    """

    function = "gelu"
    options: ClassVar[dict[str, Any]] = {"approximate": "none"}


class GLU(_Activation):
    """The first half along `dim` times the sigmoid of the second half.

    >>> import pullback as pb
    >>> pb.nn.GLU()(pb.ones(4)).shape
    (2,)
    """

    function = "glu"
    options: ClassVar[dict[str, Any]] = {"dim": -1}


class Hardshrink(_Activation):
    """``x``, or zero between ``-lambd`` and ``lambd``.

    >>> import pullback as pb
    >>> pb.nn.Hardshrink()(pb.tensor(0.25)).item()
    0.0
    """

    function = "hardshrink"
    options: ClassVar[dict[str, Any]] = {"lambd": 0.5}


class Hardsigmoid(_Activation):
    """A piecewise linear sigmoid.

    >>> import pullback as pb
    >>> pb.nn.Hardsigmoid()(pb.tensor(3.0)).item()
    1.0
    """

    function = "hardsigmoid"
    options: ClassVar[dict[str, Any]] = {"inplace": False}


class Hardswish(_Activation):
    """``x`` times `Hardsigmoid`.

    >>> import pullback as pb
    >>> pb.nn.Hardswish()(pb.tensor(3.0)).item()
    3.0
    """

    function = "hardswish"
    options: ClassVar[dict[str, Any]] = {"inplace": False}


class Hardtanh(_Activation):
    """``x``, bounded by `min_val` and `max_val`.

    >>> import pullback as pb
    >>> pb.nn.Hardtanh()(pb.tensor(3.0)).item()
    1.0
    """

    function = "hardtanh"
    options: ClassVar[dict[str, Any]] = {"min_val": -1.0, "max_val": 1.0, "inplace": False}


class LeakyReLU(_Activation):
    """``x`` above zero, `negative_slope` times ``x`` below.

    >>> import pullback as pb
    >>> pb.nn.LeakyReLU()(pb.tensor(-1.0)).item()
    -0.01
    """

    function = "leaky_relu"
    options: ClassVar[dict[str, Any]] = {"negative_slope": 0.01, "inplace": False}


class LogSigmoid(_Activation):
    """The logarithm of the sigmoid.

    >>> import pullback as pb
    >>> round(pb.nn.LogSigmoid()(pb.tensor(0.0)).item(), 4)
    -0.6931
    """

    function = "logsigmoid"


class LogSoftmax(_Activation):
    """The logarithm of `Softmax`.

    >>> import pullback as pb
    >>> pb.nn.LogSoftmax(dim=0)(pb.tensor([0.0])).tolist()
    [0.0]
    """

    function = "log_softmax"
    options: ClassVar[dict[str, Any]] = {"dim": None}


class Mish(_Activation):
    """``x * tanh(softplus(x))``.

    >>> import pullback as pb
    >>> pb.nn.Mish()(pb.tensor(0.0)).item()
    0.0
    """

    function = "mish"
    options: ClassVar[dict[str, Any]] = {"inplace": False}


class ReLU(_Activation):
    """``x`` above zero, zero below.

    >>> import pullback as pb
    >>> pb.nn.ReLU()(pb.tensor(-1.0)).item()
    0.0
    """

    function = "relu"
    options: ClassVar[dict[str, Any]] = {"inplace": False}


class ReLU6(_Activation):
    """`ReLU`, at most 6.

    >>> import pullback as pb
    >>> pb.nn.ReLU6()(pb.tensor(9.0)).item()
    6.0
    """

    function = "relu6"
    options: ClassVar[dict[str, Any]] = {"inplace": False}


class RReLU(_Activation):
    """`LeakyReLU` with a random slope while training.

    >>> import pullback as pb
    >>> pb.nn.RReLU()(pb.tensor(1.0)).item()
    1.0
    """

    function = "rrelu"
    options: ClassVar[dict[str, Any]] = {"lower": 1.0 / 8, "upper": 1.0 / 3, "inplace": False}

    def forward(self, input: Any) -> Any:
        """The function of each element, with random slopes while training."""
        return F.rrelu(input, self.lower, self.upper, self.training, inplace=self.inplace)


class SELU(_Activation):
    """`ELU`, scaled so that mean and variance are kept through many layers.

    >>> import pullback as pb
    >>> pb.nn.SELU()(pb.tensor(0.0)).item()
    0.0
    """

    function = "selu"
    options: ClassVar[dict[str, Any]] = {"inplace": False}


class SiLU(_Activation):
    """``x * sigmoid(x)``.

    >>> import pullback as pb
    >>> pb.nn.SiLU()(pb.tensor(0.0)).item()
    0.0
    """

    function = "silu"
    options: ClassVar[dict[str, Any]] = {"inplace": False}


class Sigmoid(_Activation):
    """The logistic function.

    >>> import pullback as pb
    >>> pb.nn.Sigmoid()(pb.tensor(0.0)).item()
    0.5
    """

    function = "sigmoid"


class Softmax(_Activation):
    """Exponentials, divided by their sum along `dim`.

    >>> import pullback as pb
    >>> pb.nn.Softmax(dim=0)(pb.zeros(2)).tolist()
    [0.5, 0.5]
    """

    function = "softmax"
    options: ClassVar[dict[str, Any]] = {"dim": None}


class Softmin(_Activation):
    """`Softmax` of the negative input.

    >>> import pullback as pb
    >>> pb.nn.Softmin(dim=0)(pb.zeros(2)).tolist()
    [0.5, 0.5]
    """

    function = "softmin"
    options: ClassVar[dict[str, Any]] = {"dim": None}


class Softplus(_Activation):
    """``log(1 + exp(beta * x)) / beta``, linear beyond `threshold`.

    >>> import pullback as pb
    >>> pb.nn.Softplus()(pb.tensor(100.0)).item()
    100.0
    """

    function = "softplus"
    options: ClassVar[dict[str, Any]] = {"beta": 1.0, "threshold": 20.0}


class Softshrink(_Activation):
    """``x`` moved towards zero by `lambd`.

    >>> import pullback as pb
    >>> pb.nn.Softshrink()(pb.tensor(1.0)).item()
    0.5
    """

    function = "softshrink"
    options: ClassVar[dict[str, Any]] = {"lambd": 0.5}


class Softsign(_Activation):
    """``x / (1 + abs(x))``.

    >>> import pullback as pb
    >>> pb.nn.Softsign()(pb.tensor(1.0)).item()
    0.5
    """

    function = "softsign"


class Tanh(_Activation):
    """The hyperbolic tangent.

    >>> import pullback as pb
    >>> pb.nn.Tanh()(pb.tensor(0.0)).item()
    0.0
    """

    function = "tanh"


class Tanhshrink(_Activation):
    """``x - tanh(x)``.

    >>> import pullback as pb
    >>> pb.nn.Tanhshrink()(pb.tensor(0.0)).item()
    0.0
    """

    function = "tanhshrink"


class Threshold(Module):
    """``x`` above `threshold`, `value` below.

    >>> import pullback as pb
    >>> pb.nn.Threshold(0.5, 9.0)(pb.tensor([0.0, 1.0])).tolist()
    [9.0, 1.0]
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False):
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Any) -> Any:
        """The function of each element."""
        return F.threshold(input, self.threshold, self.value, inplace=self.inplace)

    def extra_repr(self) -> str:
        """Options."""
        return f"threshold={self.threshold}, value={self.value}"


class PReLU(Module):
    """`LeakyReLU` with slopes that are parameters, one or one for each channel.

    >>> import pullback as pb
    >>> pb.nn.PReLU()(pb.tensor([-4.0])).tolist()
    [-1.0]
    """

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: Any = None,  # noqa: ARG002 - PyTorch's argument
        dtype: Any = None,
    ):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = new_parameter((num_parameters,), dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the slopes to their first value."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Any) -> Any:
        """The function of each element."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The number of slopes."""
        return f"num_parameters={self.num_parameters}"


class Softmax2d(Module):
    """The softmax over the channels of images of shape (batch, channels, height, width).

    >>> import pullback as pb
    >>> pb.nn.Softmax2d()(pb.zeros((1, 2, 1, 1))).reshape(-1).tolist()
    [0.5, 0.5]
    """

    def forward(self, input: Any) -> Any:
        """The softmax over the third axis from the end."""
        if len(input.shape) not in (3, 4):
            raise ModuleInputError(f"expected 3 or 4 dimensions, got shape {tuple(input.shape)}")
        return F.softmax(input, dim=-3)
