"""Element-wise functions under PyTorch's names."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

import pullback as pb
from pullback._generated import functions_nn_activation as activation
from pullback._generated import functions_pointwise as operators
from pullback._generated import functions_special as specials
from pullback.compat.torch.spelling import spell
from pullback.compat.torch.tensor import convert_array, values_of

__all__ = [
    "SAME",
    "add",
    "addcdiv",
    "addcmul",
    "allclose",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "div",
    "divide",
    "equal",
    "floor_divide",
    "frac",
    "isclose",
    "isneginf",
    "isposinf",
    "isreal",
    "log_softmax",
    "mvlgamma",
    "nan_to_num",
    "pow",
    "round",
    "rsqrt",
    "rsub",
    "sgn",
    "softmax",
    "sub",
    "subtract",
    "true_divide",
    "where",
]

# PyTorch's name -> ours, of functions whose arguments have the same places.
SAME = {
    name: name
    for name in (
        "abs absolute acos acosh angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh "
        "asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or "
        "bitwise_right_shift bitwise_xor ceil clone conj copysign cos cosh deg2rad digamma erf "
        "erfc erfinv exp exp2 expm1 float_power floor fmax fmin fmod frexp gcd greater "
        "greater_equal heaviside hypot i0 imag isfinite isinf isnan lcm ldexp lerp less "
        "less_equal lgamma log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not "
        "logical_or logical_xor logit maximum minimum multiply negative nextafter not_equal "
        "positive rad2deg real reciprocal remainder sigmoid sign signbit sin sinc sinh sqrt "
        "square tan tanh trunc view_as_complex view_as_real xlogy"
    ).split()
} | {
    "mul": "multiply",
    "neg": "negative",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "fix": "trunc",
    "conj_physical": "conj",
    "resolve_conj": "positive",
    "resolve_neg": "positive",
}
for _name, _own in SAME.items():
    globals()[_name] = spell(getattr(pb, _own))
float_power = spell(pb.float_power, first=("input", "exponent"))
heaviside = spell(pb.heaviside, first=("input", "values"))
_ACTIVATIONS = ["celu", "hardshrink", "prelu", "relu", "rrelu", "selu", "threshold"]
for _name in _ACTIVATIONS:
    globals()[_name] = spell(getattr(activation, _name), first=("input",))
polygamma = specials.polygamma
__all__ += [*SAME, *_ACTIVATIONS, "polygamma"]


def _scaled(other: Any, alpha: Any) -> Any:
    return other if alpha == 1 else other * alpha


def add(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """``input + alpha * other``."""
    return operators.add(input, _scaled(other, alpha), out=out)


def sub(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """``input - alpha * other``."""
    return operators.subtract(input, _scaled(other, alpha), out=out)


subtract = sub


def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """``other - alpha * input``."""
    return operators.subtract(other, _scaled(input, alpha))


def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None) -> Any:
    """``input / other``, or rounded down (``"floor"``) or towards zero (``"trunc"``).

    >>> import pullback.compat.torch as torch
    >>> torch.div(torch.tensor([-7]), 2, rounding_mode="trunc").tolist()
    [-3]
    """
    if rounding_mode is None:
        return operators.divide(input, other, out=out)
    if rounding_mode not in ("floor", "trunc"):
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"{rounding_mode!r}"
        )
    kinds = {getattr(v, "dtype", None) or np.asarray(v).dtype for v in (input, other)}
    kinds = {kind.kind for kind in kinds}
    if not kinds <= set("biu"):
        return getattr(operators, rounding_mode)(operators.divide(input, other), out=out)
    if rounding_mode == "floor":
        return operators.floor_divide(input, other, out=out)
    return pb.astype(operators.trunc(operators.divide(input, other)), np.int64)


divide = true_divide = div


def floor_divide(input: Any, other: Any, *, out: Any = None) -> Any:
    """``input / other`` rounded down."""
    return operators.floor_divide(input, other, out=out)


def pow(input: Any, exponent: Any, *, out: Any = None) -> Any:
    """``input ** exponent``."""
    return operators.power(input, exponent, out=out)


def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """``input + value * tensor1 * tensor2``."""
    return input + _scaled(tensor1 * tensor2, value)


def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """``input + value * tensor1 / tensor2``."""
    return input + _scaled(tensor1 / tensor2, value)


def clamp(input: Any, min: Any = None, max: Any = None, *, out: Any = None) -> Any:
    """Elements limited to ``min`` and ``max``."""
    return operators.clip(input, min, max, out=out)


clip = clamp


def clamp_min(input: Any, min: Any) -> Any:
    """Elements, at least `min`."""
    return operators.clip(input, min)


def clamp_max(input: Any, max: Any) -> Any:
    """Elements, at most `max`."""
    return operators.clip(input, None, max)


def rsqrt(input: Any) -> Any:
    """``1 / sqrt(input)``."""
    return operators.reciprocal(operators.sqrt(input))


def frac(input: Any) -> Any:
    """The part after the point."""
    return input - operators.trunc(input)


def sgn(input: Any) -> Any:
    """The sign; of complex numbers, the number of absolute value 1 in their direction."""
    return operators._sgn(input) if input.dtype.kind == "c" else operators.sign(input)


def round(input: Any, *, decimals: int = 0, out: Any = None) -> Any:
    """Elements rounded to a number of decimals."""
    return operators.round(input, decimals, out=out)


def nan_to_num(
    input: Any, nan: Any = 0.0, posinf: Any = None, neginf: Any = None, *, out: Any = None
) -> Any:
    """Elements with NaN and infinities replaced."""
    return operators.nan_to_num(input, nan=nan or 0.0, posinf=posinf, neginf=neginf, out=out)


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """Elements of `input` where the condition holds, else of `other`; alone, its true places."""
    return pb.where(condition) if input is None else pb.where(condition, input, other)


def isclose(
    input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Any:
    """Whether elements are equal up to tolerances."""
    one, two = values_of(input.detach()), values_of(other.detach())
    return convert_array(np.asarray(np.isclose(one, two, rtol, atol, equal_nan)))


def allclose(
    input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> builtins.bool:
    """Whether all elements are equal up to tolerances.

    >>> import pullback.compat.torch as torch
    >>> torch.allclose(torch.ones(2), torch.ones(2) + 1e-9)
    True
    """
    one, two = values_of(input.detach()), values_of(other.detach())
    return np.allclose(one, two, rtol, atol, equal_nan)


def equal(input: Any, other: Any) -> builtins.bool:
    """Whether two tensors have the same shape and elements; `eq` compares element by element."""
    return np.array_equal(values_of(input), values_of(other))


def isposinf(input: Any) -> Any:
    """Whether elements are positive infinity."""
    return input == np.inf


def isneginf(input: Any) -> Any:
    """Whether elements are negative infinity."""
    return input == -np.inf


def isreal(input: Any) -> Any:
    """Whether elements have no imaginary part."""
    return pb.imag(input) == 0 if input.dtype.kind == "c" else pb.ones_like(input, dtype=bool)


def mvlgamma(input: Any, p: int) -> Any:
    """The logarithm of the multivariate gamma function."""
    terms = [pb.lgamma(input - j / 2) for j in range(p)]
    return sum(terms[1:], terms[0]) + p * (p - 1) / 4 * np.log(np.pi).item()


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Exponentials divided by their sum along an axis."""
    return activation.softmax(input if dtype is None else pb.astype(input, dtype), dim)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The logarithm of `softmax`."""
    return activation.log_softmax(input if dtype is None else pb.astype(input, dtype), dim)
