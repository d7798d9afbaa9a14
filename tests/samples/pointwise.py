"""Records of element-wise operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.samples.opinfo import Make, OpInfo, Sample, call

__all__ = ["OPS"]


def unary(low: float = -2.0, high: float = 2.0) -> Any:
    """Samples of a function of one array, with elements in a domain."""

    def samples(make: Make) -> Iterator[Sample]:
        for shape in ((), (3,), (2, 3), (0,), (2, 0, 3)):
            yield call(make(*shape, low=low, high=high))

    return samples


def binary(low: float = -2.0, high: float = 2.0, number: float = 1.5) -> Any:
    """Samples of a function of two arrays, broadcasting in every way; scalars too."""

    def samples(make: Make) -> Iterator[Sample]:
        shapes = [((), ()), ((3,), (3,)), ((2, 3), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3))]
        for a, b in [*shapes, ((0,), (1,)), ((2, 0), (2, 1)), ((), (2,))]:
            yield call(make(*a, low=low, high=high), make(*b, low=low, high=high))
        yield call(make(2, 3, low=low, high=high), number)
        yield call(number, make(3, low=low, high=high))

    return samples


def integers(make: Make) -> Iterator[Sample]:
    """Samples of a function of two arrays of integers."""
    yield call(make.ints(2, 3), make.ints(3, low=1))
    yield call(make.ints(2, 1), make.ints(0))
    yield call(make.ints(3), 2)
    yield call(3, make.ints(2, 2))
    yield call(make.ints(3).astype(np.int8), 2)


def truths(make: Make) -> Iterator[Sample]:
    """Samples of a function of two arrays of integers or truth values."""
    yield from integers(make)
    yield call(make.bools(4), make.bools(4))
    yield call(make.bools(2, 1), make.bools(0))


def whole(make: Make) -> Iterator[Sample]:
    """Samples of a function of one array of integers, or of truth values."""
    yield call(make.ints(2, 3))
    yield call(make.bools(3))
    yield call(make.ints(0))


def comparable(make: Make) -> Iterator[Sample]:
    """Samples of a comparison: some elements are equal."""
    yield from truths(make)
    yield call(make(3), make(2, 3))
    yield call(np.array([1.0, 2.0, np.nan]), np.array([1.0, 3.0, np.nan]))


def _powers(make: Make) -> Iterator[Sample]:
    yield from binary(0.3, 2.0)(make)
    for exponent in (-1, 0, 1, 2, 3, 0.5, 2.0, -1.5):
        yield call(make(3, low=0.5), exponent)
    if make.dtype == np.float64:  # float32 and int64 make float64
        yield call(make(2, 3, low=0.5), make.ints(3, low=0, high=4))
        yield call(make.ints(3, low=1, high=4), make(2, 3))


def _float_powers(make: Make) -> Iterator[Sample]:
    if make.dtype == np.float64:  # the result of anything else is float64
        yield from _powers(make)


def _quotients(make: Make) -> Iterator[Sample]:
    for low, high in ((0.7, 1.0), (-1.0, -0.7)):
        yield call(make(2, 3, low=3.1, high=3.4), make(3, low=low, high=high))
        yield call(make(2, 1, low=-3.4, high=-3.1), make(1, 3, low=low, high=high))
    yield call(make(2, 3), 7.5)
    yield call(7.5, make(3, low=1.6, high=2.0))
    yield call(make(), make(low=3.0, high=4.0))
    yield call(make(0), make(1))


def _integer_quotients(make: Make) -> Iterator[Sample]:
    yield from _quotients(make)
    yield call(make.ints(2, 3, low=-9), make.ints(3, low=1))
    yield call(make.ints(3), -2)


def _lerp(make: Make) -> Iterator[Sample]:
    yield call(make(3), make(3), make(3, low=0.1, high=0.4))
    yield call(make(2, 1), make(3), make(low=0.6, high=0.9))
    yield call(make(2, 3), make(3), 0.25)
    yield call(make(3), 2.0, 0.75)
    yield call(make(0), make(1), make())


def _where(make: Make) -> Iterator[Sample]:
    yield call(make.bools(3), make(3), make(3))
    yield call(make.bools(2, 1), make(3), make(2, 3))
    yield call(make.bools(2, 3), make(), make(1, 3))
    yield call(make.bools(3), make(3), 0.5)
    yield call(make.bools(3), 2, make(3))
    yield call(np.array(True), make(2), make(2))
    yield call(make.bools(0), make(0), make(1))


def _clipped(x: Any, min: Any = None, max: Any = None) -> Any:
    """``np.clip``, which knows the names `min` and `max`, or no limit at all, since NumPy 2.1."""
    return np.array(x) if min is None and max is None else np.clip(x, min, max)


def _clip(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3), -0.5, 1)
    yield call(make(2, 3), min=0.0)
    yield call(make(3), max=0.25)
    yield call(make(3))
    yield call(make(4, 3), make(3, low=-1, high=0), make(4, 1, low=0, high=1))
    yield call(make(3), make(), None)
    yield call(make(3), None, make(2, 3))
    yield call(make(2, 3), None, make(3))
    yield call(make(2, 3), make(low=0.5, high=1.0), make(3, low=-1.0, high=0.0))
    yield call(make(), 0.0, make())
    yield call(make(0), -1.0, make(1))


def _nan_to_num(make: Make) -> Iterator[Sample]:
    yield from unary()(make)
    x = make(6)
    x[:3] = np.nan, np.inf, -np.inf
    yield call(x)
    yield call(x, nan=1.5, posinf=7.0, neginf=-7.0)


def _round(make: Make) -> Iterator[Sample]:
    yield from unary()(make)
    yield call(make(3), 1)
    yield call(make(3, low=10.0, high=90.0), decimals=-1)


def _ldexp(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3), make.ints(3, low=-3).astype(np.int32))
    yield call(make(), 3)
    yield call(make(0), make.ints(1).astype(np.int32))


def _astype(make: Make) -> Iterator[Sample]:
    same = np.dtype("complex128") if make.is_complex else make.dtype
    yield call(make(2, 3), same)
    yield call(make(3), same.name)
    yield call(make(), np.result_type(same, np.complex64))
    yield call(make(0), "complex64" if make.is_complex else "float16")


def _angle(make: Make) -> Iterator[Sample]:
    yield from unary()(make)
    yield call(make(3), True)
    yield call(make(2, 3), deg=True)


def _pairs(make: Make) -> Iterator[Sample]:
    yield call(make(3, 2))
    yield call(make(2))
    yield call(make(2, 3).T)
    yield call(make(0, 2))


def _complex_only(make: Make) -> Iterator[Sample]:
    if make.is_complex:
        for shape in ((), (3,), (2, 3)):
            yield call(make(*shape).T)


def both(t: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands as PyTorch tensors, a number in the dtype of the other."""
    dtype = next(v.dtype for v in (x, y) if isinstance(v, t.Tensor))
    return t.as_tensor(x, dtype=dtype), t.as_tensor(y, dtype=dtype)


def plain(name: str, samples: Any, reference: Any) -> OpInfo:
    """The record of an operator without a derivative."""
    return OpInfo(name, samples, reference, differentiable=False)


def smooth(
    name: str,
    low: float = -2.0,
    high: float = 2.0,
    *,
    reference: str | None = None,
    has_complex: bool = True,
) -> OpInfo:
    """The record of a function of one array that NumPy and PyTorch have too."""
    numpy_function = getattr(np, reference or name)
    return OpInfo(
        name,
        unary(low, high),
        numpy_function,
        lambda t, x: getattr(t, name)(x),
        has_complex=has_complex,
        inplace=f"{name}_",
    )


def paired(name: str, samples: Any, reference: Any, inplace: str | None = None) -> OpInfo:
    """The record of a function of two real arrays that PyTorch has too."""
    return OpInfo(
        name,
        samples,
        reference,
        lambda t, x, y: getattr(t, name)(*both(t, x, y)),
        has_complex=False,
        inplace=inplace,
    )


ARITHMETIC = [
    OpInfo("add", binary(), np.add, lambda _, x, y: x + y, inplace="add_"),
    OpInfo("subtract", binary(), np.subtract, lambda _, x, y: x - y, inplace="sub_"),
    OpInfo("multiply", binary(), np.multiply, lambda _, x, y: x * y, inplace="mul_"),
    OpInfo("divide", binary(0.5, 2.0), np.divide, lambda _, x, y: x / y, inplace="div_"),
    OpInfo("negative", unary(), np.negative, lambda t, x: t.neg(x), inplace="neg_"),
    OpInfo("positive", unary(), np.positive, lambda t, x: t.positive(x)),
    OpInfo("reciprocal", unary(0.5), np.reciprocal, lambda _, x: 1 / x, inplace="reciprocal_"),
    plain("floor_divide", _integer_quotients, np.floor_divide),
    paired("remainder", _quotients, np.remainder, "remainder_"),
    paired("fmod", _quotients, np.fmod, "fmod_"),
    plain("divmod", _integer_quotients, np.divmod),
    OpInfo("lerp", _lerp, None, lambda t, x, y, w: t.lerp(*both(t, x, y), w), inplace="lerp_"),
    OpInfo("clone", unary(), np.array, lambda t, x: t.clone(x)),
    OpInfo("astype", _astype, lambda x, dtype: x.astype(dtype)),
]
POWERS = [
    OpInfo(
        "power",
        _powers,
        np.power,
        lambda t, x, y: t.as_tensor(x) ** t.as_tensor(y),
        inplace="pow_",
    ),
    OpInfo("float_power", _float_powers, np.float_power),
    smooth("square"),
    smooth("sqrt", 0.3),
    OpInfo("cbrt", unary(0.3), np.cbrt, has_complex=False, inplace="cbrt_"),
    smooth("exp"),
    smooth("exp2"),
    smooth("expm1"),
    smooth("log", 0.3),
    smooth("log2", 0.3),
    smooth("log10", 0.3),
    smooth("log1p", -0.5),
    paired("logaddexp", binary(), np.logaddexp),
    paired("logaddexp2", binary(), np.logaddexp2),
]
TRIGONOMETRY = [
    smooth("sin"),
    smooth("cos"),
    smooth("tan", -1.2, 1.2),
    smooth("asin", -0.8, 0.8, reference="arcsin"),
    smooth("acos", -0.8, 0.8, reference="arccos"),
    smooth("atan", reference="arctan"),
    paired("atan2", binary(), np.arctan2, "atan2_"),
    paired("hypot", binary(), np.hypot, "hypot_"),
    smooth("sinh"),
    smooth("cosh"),
    smooth("tanh"),
    smooth("asinh", reference="arcsinh"),
    smooth("acosh", 1.2, 3.0, reference="arccosh"),
    smooth("atanh", -0.8, 0.8, reference="arctanh"),
    smooth("deg2rad", has_complex=False),
    smooth("rad2deg", has_complex=False),
    smooth("sinc"),
]
ORDER = [
    smooth("abs"),
    OpInfo(
        "sign",
        unary(0.3),
        np.sign,
        lambda t, x: t.sgn(x) if x.is_complex() else t.sign(x),
        inplace="sign_",
    ),
    paired("copysign", binary(), np.copysign, "copysign_"),
    plain("heaviside", binary(), np.heaviside),
    plain("nextafter", binary(), np.nextafter),
    paired("maximum", binary(), np.maximum),
    paired("minimum", binary(), np.minimum),
    paired("fmax", binary(), np.fmax),
    paired("fmin", binary(), np.fmin),
    OpInfo("clip", _clip, _clipped, has_complex=False, inplace="clamp_"),
    OpInfo("where", _where, np.where, lambda t, c, x, y: t.where(t.as_tensor(c), x, y)),
    OpInfo(
        "nan_to_num",
        _nan_to_num,
        np.nan_to_num,
        lambda t, x, **options: t.nan_to_num(x, **options),
        has_complex=False,
        inplace="nan_to_num_",
    ),
]
PARTS = [
    *(smooth(name, has_complex=False) for name in ("floor", "ceil", "trunc")),
    OpInfo("rint", unary(), np.rint, has_complex=False, inplace="rint_"),
    OpInfo("round", _round, np.round, inplace="round_"),
    OpInfo("modf", unary(), np.modf, has_complex=False),
    OpInfo("frexp", unary(), np.frexp, lambda t, x: t.frexp(x), has_complex=False),
    OpInfo("ldexp", _ldexp, np.ldexp, has_complex=False, inplace="ldexp_"),
]
COMPLEX = [
    OpInfo("conj", unary(), np.conj, lambda t, x: t.conj(x).resolve_conj()),
    OpInfo("real", unary(), np.real, lambda t, x: t.real(x)),
    OpInfo("imag", unary(), np.imag),
    paired("complex", binary(), lambda x, y: x + 1j * y),
    paired("polar", binary(0.5), lambda x, y: x * np.exp(1j * y)),
    OpInfo("angle", _angle, np.angle),
    OpInfo("view_as_real", _complex_only, torch=lambda t, x: t.view_as_real(x)),
    OpInfo("view_as_complex", _pairs, lambda x: x[..., 0] + 1j * x[..., 1], has_complex=False),
]
TESTS = [
    *(
        plain(name, comparable, getattr(np, name))
        for name in (
            *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
            *("logical_and", "logical_or", "logical_xor"),
        )
    ),
    *(plain(name, unary(), getattr(np, name)) for name in ("isnan", "isinf", "isfinite")),
    OpInfo("signbit", unary(), np.signbit, has_complex=False, differentiable=False),
    plain("logical_not", whole, np.logical_not),
    *(
        plain(name, truths, getattr(np, name))
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
    ),
    plain("bitwise_invert", whole, np.bitwise_invert),
    plain("bitwise_left_shift", integers, np.left_shift),
    plain("bitwise_right_shift", integers, np.right_shift),
    plain("gcd", integers, np.gcd),
    plain("lcm", integers, np.lcm),
]
OPS = [*ARITHMETIC, *POWERS, *TRIGONOMETRY, *ORDER, *PARTS, *COMPLEX, *TESTS]
