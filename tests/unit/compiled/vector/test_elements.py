"""Element-wise machine code against mpmath (units in the last place) and NumPy (special values)."""

from __future__ import annotations

import ctypes
import functools
import warnings

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from llvmlite import ir

from pullback.compiled.llvm.compiler import is_supported, load_code
from pullback.compiled.llvm.instructions import vector_type
from pullback.compiled.llvm.vector.elements import Complex, cast, elementwise, scalar_type
from pullback.compiled.llvm.vector.elements import is_supported as has_function

if not is_supported():
    pytest.skip("machine code is tested on Linux on x86-64 only", allow_module_level=True)

F64, F32, I64, BOOL = np.dtype(float), np.dtype("f4"), np.dtype("i8"), np.dtype(bool)
WORD = ir.IntType(64)


def _load(b, pointer, place, dtype, width):
    """Values at a place of an array; parts of complex numbers stand beside each other."""
    if dtype.kind == "c":
        kind = scalar_type(dtype)
        base = b.bitcast(pointer, kind.as_pointer())
        parts = []
        for part in range(2):
            value = ir.Constant(vector_type(kind, width), ir.Undefined)
            for lane in range(width):
                at = b.add(b.mul(b.add(place, WORD(lane)), WORD(2)), WORD(part))
                one = b.load(b.gep(base, [at]))
                value = one if width == 1 else b.insert_element(value, one, ir.IntType(32)(lane))
            parts.append(value)
        return Complex(*parts)
    kind = ir.IntType(8) if dtype.kind == "b" else scalar_type(dtype)
    at = b.gep(b.bitcast(pointer, kind.as_pointer()), [place])
    value = b.load(b.bitcast(at, vector_type(kind, width).as_pointer()), align=1)
    return (
        b.icmp_unsigned("!=", value, ir.Constant(value.type, None)) if dtype.kind == "b" else value
    )


def _store(b, value, pointer, place, dtype, width):
    if dtype.kind == "c":
        kind = scalar_type(dtype)
        base = b.bitcast(pointer, kind.as_pointer())
        for part in range(2):
            for lane in range(width):
                at = b.add(b.mul(b.add(place, WORD(lane)), WORD(2)), WORD(part))
                one = value[part]
                one = one if width == 1 else b.extract_element(one, ir.IntType(32)(lane))
                b.store(one, b.gep(base, [at]))
        return
    kind = ir.IntType(8) if dtype.kind == "b" else scalar_type(dtype)
    if dtype.kind == "b":
        value = b.zext(value, vector_type(kind, width))
    at = b.gep(b.bitcast(pointer, kind.as_pointer()), [place])
    b.store(value, b.bitcast(at, vector_type(kind, width).as_pointer()), align=1)


@functools.cache
def compiled(name, before, after, width, arity):
    module = ir.Module("test")
    pointer = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [WORD, *[pointer] * (arity + 1)])
    function = ir.Function(module, kind, "run")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    start, body = b.block, b.append_basic_block("body")
    b.branch(body)
    b.position_at_end(body)
    place = b.phi(WORD)
    place.add_incoming(WORD(0), start)
    dtypes = [BOOL if name == "where" and k == 0 else before for k in range(arity)]
    operands = [
        _load(b, p, place, d, width) for p, d in zip(function.args[2:], dtypes, strict=True)
    ]
    if name == "cast":
        value = cast(b, operands[0], before, after, width)
    else:
        value = elementwise(b, name, operands, before, width)
    _store(b, value, function.args[1], place, after, width)
    following = b.add(place, WORD(width))
    place.add_incoming(following, b.block)
    end = b.append_basic_block("end")
    b.cbranch(b.icmp_unsigned("<", following, function.args[0]), body, end)
    b.position_at_end(end)
    b.ret_void()
    engine = load_code(str(module), lambda: str(module))
    call = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (arity + 1))(
        engine.get_function_address("run")
    )

    def run(*arrays):
        _ = engine
        count = -(-arrays[0].size // width) * width
        held = [np.resize(a, count) for a in arrays]
        result = np.empty(count, after)
        call(count, result.ctypes.data, *[a.ctypes.data for a in held])
        return result[: arrays[0].size]

    return run


def apply(name, *arrays, after=None, width=8):
    before = arrays[-1].dtype
    return compiled(name, before, after or before, width, len(arrays))(*arrays)


# --- units in the last place ----------------------------------------------------------------------


def _numbers(low, high, seed, count=400):
    """Evenly, by magnitude, and near the ends."""
    rng = np.random.default_rng(seed)
    even = rng.uniform(low, high, count)
    span = max(abs(low), abs(high))
    sizes = span * 2.0 ** rng.uniform(-60, 0, count)
    signed = np.clip(sizes * rng.choice([-1, 1], count), low, high)
    return np.concatenate([even, signed, [low, high]])


RANGES = {
    "arccos": (-1, 1),
    "arccosh": (1, 1e4),
    "arcsin": (-1, 1),
    "arcsinh": (-1e4, 1e4),
    "arctan": (-50, 50),
    "arctanh": (-1 + 2**-50, 1 - 2**-50),
    "cbrt": (-1e5, 1e5),
    "cos": (-1e6, 1e6),
    "cosh": (-710, 710),
    "erf": (-6.5, 6.5),
    "erfc": (-6, 26),
    "exp": (-745, 709.5),
    "exp2": (-1074, 1023.9),
    "expm1": (-50, 709.5),
    "log": (1e-300, 1e3),
    "log10": (1e-300, 1e3),
    "log1p": (-1 + 2**-50, 1e3),
    "log2": (1e-300, 1e3),
    "sigmoid": (-740, 740),
    "sin": (-1e6, 1e6),
    "sinh": (-710, 710),
    "sqrt": (0, 1e9),
    "tan": (-1e6, 1e6),
    "tanh": (-22, 22),
}
EXTRA_RANGES = {
    "log": (0.5, 2),
    "log2": (0.5, 2),
    "log10": (0.5, 2),
    "sigmoid": (-5, 5),
    "exp": (-1, 1),
    "expm1": (-1, 1),
    "tanh": (-1.5, 1.5),
    "sin": (-4, 4),
    "cos": (-4, 4),
    "tan": (-4, 4),
    "sinh": (-2, 2),
    "cosh": (-2, 2),
    "arccosh": (1, 1.5),
    "erfc": (-1.5, 1.5),
}
TWO = {
    "arctan2": ((-10, 10), (-10, 10)),
    "hypot": ((-1e3, 1e3), (-1e3, 1e3)),
    "logaddexp": ((-30, 30), (-30, 30)),
    "logaddexp2": ((-30, 30), (-30, 30)),
    "power": ((1e-3, 20), (-100, 100)),
}


def _reference(mp, name):
    special = {
        "arccos": mp.acos,
        "arccosh": mp.acosh,
        "arcsin": mp.asin,
        "arcsinh": mp.asinh,
        "arctan": mp.atan,
        "arctan2": mp.atan2,
        "arctanh": mp.atanh,
        "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
        "exp2": lambda x: mp.mpf(2) ** x,
        "expm1": lambda x: mp.exp(x) - 1,
        "log10": lambda x: mp.log(x) / mp.log(10),
        "log1p": lambda x: mp.log(1 + x),
        "log2": lambda x: mp.log(x) / mp.log(2),
        "logaddexp": lambda x, y: mp.log(mp.exp(x) + mp.exp(y)),
        "logaddexp2": lambda x, y: mp.log(mp.mpf(2) ** x + mp.mpf(2) ** y) / mp.log(2),
        "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
        "power": lambda x, y: x**y,
    }
    return special.get(name) or getattr(mp, name)


def _largest_error(name, arrays, dtype):
    """In units in the last place of the correctly rounded results."""
    mp = pytest.importorskip("mpmath").mp
    mp.prec = 400
    function = _reference(mp, name)
    arrays = [a.astype(dtype) for a in arrays]
    got = apply(name, *arrays)
    worst = 0.0
    with np.errstate(all="ignore"):
        for value, *args in zip(got, *arrays, strict=True):
            exact = function(*[mp.mpf(float(a)) for a in args])
            if abs(exact) > np.finfo(dtype).max:
                assert np.isinf(value)
                continue
            unit = np.spacing(np.abs(dtype.type(float(exact))))
            error = abs(mp.mpf(float(value)) - exact) / mp.mpf(float(unit))
            assert error < 4, (name, args, value, float(exact))
            worst = max(worst, float(error))
    return worst


@pytest.mark.parametrize("name", RANGES)
def test_functions_of_one_argument_are_within_one_and_a_half_units(name):
    arrays = [_numbers(*RANGES[name], 1)]
    if name in EXTRA_RANGES:
        arrays.append(_numbers(*EXTRA_RANGES[name], 2))
    if name == "tanh":  # 2**52 <= exp(2 x) / 2, where adding 1/2 rounds
        arrays.append(np.linspace(18.0, 19.1, 500))
    numbers = np.concatenate(arrays)
    assert _largest_error(name, [numbers], F64) < 1.5


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_arguments_are_within_one_and_a_half_units(name):
    arrays = [_numbers(*bounds, seed) for seed, bounds in enumerate(TWO[name])]
    if name == "power":
        arrays[0] = np.abs(arrays[0])
    assert _largest_error(name, arrays, F64) < 1.5


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sin", "sigmoid", "erf"])
def test_float32_is_within_two_units(name):
    low, high = RANGES[name]
    numbers = _numbers(max(low, -80), min(high, 80), 3, 200)
    assert _largest_error(name, [np.abs(numbers) if name == "log" else numbers], F32) < 2


# --- special values -------------------------------------------------------------------------------

TINY = 5e-324
EDGES = [0.0, TINY, 3e-310, 2.3e-308, 1e-20, 0.4, 0.5, 0.9999999999999999, 1.0, 1.0000000000000002]
EDGES += [1.5, 2.0, 2.5, 3.0, 10.0, 700.0, 709.78, 709.79, 710.4, 710.48, 745.1, 745.2, 1023.0]
EDGES += [1024.0, 1075.0, 1e5, 2.0**30, 1e15, 2.0**53, 2.0**54 + 4, 1e22, 1e300]
EDGES += [1.7976931348623157e308, np.inf]
SPECIAL = np.array([*EDGES, *[-x for x in EDGES], np.nan])


def _numpy_function(name):
    if name in ("erf", "erfc"):
        return getattr(pytest.importorskip("scipy.special"), name)
    if name == "sigmoid":  # SciPy's is 0 where exp(-x) overflows
        return lambda x: np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))
    return getattr(np, name)


CANCELLING = ("logaddexp", "logaddexp2")  # where NumPy's results near 0 are off


def _same(got, expected, name, *args):
    """Equal, or two units apart where the expected value is finite and not zero."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.dtype == expected.dtype
    with np.errstate(all="ignore"):
        least = 2 * np.finfo(expected.dtype).eps if name in CANCELLING else 0.0
        bound = np.maximum(2 * np.spacing(np.abs(expected)), least)
        near = np.abs(got - expected) <= bound
    is_exact = (expected == 0) & (name not in CANCELLING) | ~np.isfinite(expected)
    equal = (got == expected) & (np.signbit(got) == np.signbit(expected))
    equal |= np.isnan(got) & np.isnan(expected)
    wrong = ~np.where(is_exact, equal, near)
    details = [tuple(a[wrong][:5] for a in args), got[wrong][:5], expected[wrong][:5]]
    assert not wrong.any(), (name, *details)


ONE = [
    *RANGES,
    "absolute",
    "ceil",
    "floor",
    "negative",
    "reciprocal",
    "rint",
    "sign",
    "square",
    "trunc",
]


@pytest.mark.parametrize("dtype", [F64, F32], ids=str)
@pytest.mark.parametrize("name", ONE)
def test_special_values_of_one_argument(name, dtype):
    with np.errstate(all="ignore"):
        numbers = SPECIAL.astype(dtype)
        expected = _numpy_function(name)(numbers)
    _same(apply(name, numbers), expected, name, numbers)


BOTH = [*TWO, "add", "copysign", "divide", "floor_divide", "fmax", "fmin", "fmod", "heaviside"]
BOTH += ["maximum", "minimum", "multiply", "remainder", "subtract"]


@pytest.mark.parametrize("dtype", [F64, F32], ids=str)
@pytest.mark.parametrize("name", BOTH)
def test_special_values_of_two_arguments(name, dtype):
    with np.errstate(all="ignore"):
        x, y = (a.ravel().astype(dtype) for a in np.meshgrid(SPECIAL, SPECIAL))
        expected = getattr(np, name)(x, y)
    if name in ("maximum", "minimum", "fmax", "fmin"):  # either zero is right
        keep = (x != 0) | (y != 0)
        x, y, expected = x[keep], y[keep], expected[keep]
    _same(apply(name, x, y), expected, name, x, y)


@pytest.mark.parametrize("dtype", [F64, F32], ids=str)
@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "signbit"])
def test_classes_of_numbers(name, dtype):
    with np.errstate(over="ignore"):
        numbers = SPECIAL.astype(dtype)
    np.testing.assert_array_equal(apply(name, numbers, after=BOOL), getattr(np, name)(numbers))


COMPARISONS = ["equal", "greater", "greater_equal", "less", "less_equal", "not_equal"]


@pytest.mark.parametrize("dtype", "?bBhHiIqQfd")
@pytest.mark.parametrize("name", [*COMPARISONS, "logical_and", "logical_or", "logical_xor"])
def test_comparisons_and_logical_functions(name, dtype):
    x, y = _pairs(dtype)
    np.testing.assert_array_equal(apply(name, x, y, after=BOOL), getattr(np, name)(x, y))


# --- other widths and dtypes ----------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 16, 33])
@pytest.mark.parametrize("name", ["exp", "sin", "sqrt", "floor_divide"])
def test_every_width_gives_the_same_bits(name, width):
    numbers = _numbers(0, 700, 4)
    numbers[::17] = 1e12  # through libm, for the sine
    arrays = [numbers, numbers[::-1].copy()] if name == "floor_divide" else [numbers]
    np.testing.assert_array_equal(apply(name, *arrays, width=width), apply(name, *arrays))


def _pairs(dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        values = np.array([False, True])
    elif dtype.kind == "f":
        values = np.array([-np.inf, -1.5, -0.0, 0.0, 2.0, np.inf, np.nan], dtype)
    else:
        info = np.iinfo(dtype)
        values = np.array([info.min, info.max, info.max - 1, 0, 1, 2, 3, 7, 31, 63, 64], dtype)
        if dtype.kind == "i":
            values = np.concatenate([values, np.array([-1, -2, -3, -7, info.min + 1], dtype)])
    return (a.ravel() for a in np.meshgrid(values, values))


INTEGER = ["add", "subtract", "multiply", "floor_divide", "remainder", "fmod", "maximum", "minimum"]
INTEGER += ["left_shift", "right_shift", "bitwise_and", "bitwise_or", "bitwise_xor"]


@pytest.mark.parametrize("dtype", "bBhHiIqQ")
@pytest.mark.parametrize("name", INTEGER)
def test_integers(name, dtype):
    x, y = _pairs(dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
    np.testing.assert_array_equal(apply(name, x, y), expected)


@pytest.mark.parametrize("dtype", "bBhHiIqQ")
@pytest.mark.parametrize("name", ["absolute", "negative", "sign", "square", "invert"])
def test_integers_of_one_argument(name, dtype):
    x, _ = _pairs(dtype)
    np.testing.assert_array_equal(apply(name, x), getattr(np, name)(x))


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "bitwise_xor"])
def test_truth_values(name):
    x, y = _pairs("?")
    np.testing.assert_array_equal(apply(name, x, y), getattr(np, name)(x, y))


def test_where_chooses_elements():
    condition = np.array([True, False, True])
    x, y = np.array([1.0, 2.0, np.nan]), np.array([4.0, -0.0, 6.0])
    np.testing.assert_array_equal(apply("where", condition, x, y), np.where(condition, x, y))


@pytest.mark.parametrize("after", "?bBhHiIqQfdFD")
@pytest.mark.parametrize("before", "?bBhHiIqQfdFD")
def test_casts(before, after):
    before, after = np.dtype(before), np.dtype(after)
    if before.kind in "fc":
        low = 0.0 if after.kind == "u" else -100.7
        values = np.array([0.0, 1.0, 2.5, 99.99, low, 0.3], before)
        if before.kind == "c":
            values = values + np.array([0, 1, 0, 2, 0, 0], before) * 1j
    else:
        values, _ = _pairs(before)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about imaginary parts
        expected = values.astype(after)
    np.testing.assert_array_equal(apply("cast", values, after=after), expected)


COMPLEX_ONE = ["absolute", "conjugate", "negative", "exp", "log", "sqrt", "sin", "tanh", "arcsin"]
SIMPLE = np.array([0.0, -0.0, 1.0, -2.5, 1e-3, np.inf, -np.inf, np.nan, 1e300, 800.0])


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("name", COMPLEX_ONE)
def test_complex_functions(name, width):
    real, imag = (a.ravel() for a in np.meshgrid(SIMPLE, SIMPLE))
    x = np.empty(real.size, complex)
    x.real, x.imag = real, imag
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    got = apply(name, x, after=expected.dtype, width=width)
    _same(got.real, expected.real, name, x)
    _same(got.imag, expected.imag, name, x)


@pytest.mark.parametrize("dtype", "FD")
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_complex_arithmetic(name, dtype):
    rng = np.random.default_rng(5)
    x, y = ((rng.normal(size=60) + 1j * rng.normal(size=60)).astype(dtype) for _ in range(2))
    x[:3], y[2:5] = [np.inf, 0, 3], [0, 1j * np.inf, 0]
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
    got = apply(name, x, y)
    np.testing.assert_allclose(got, expected, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("name", ["equal", "not_equal"])
def test_complex_comparisons(name):
    x = np.array([1 + 2j, 1 + 2j, np.nan, 0j])
    y = np.array([1 + 2j, 1 - 2j, np.nan, -0j])
    np.testing.assert_array_equal(apply(name, x, y, after=BOOL), getattr(np, name)(x, y))


def test_unknown_functions_are_refused():
    assert not has_function("gcd", I64)
    assert not has_function("exp", I64)
    assert not has_function("exp", np.dtype("f2"))
    assert has_function("left_shift", I64)
    assert not has_function("left_shift", F64)
