"""Machine code of element-wise operators: values are NumPy's for every dtype and layout."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest

import pullback as pb
from pullback.compiled import function as compiled_function
from pullback.errors import MissingPackageError

pytest.importorskip("llvmlite")

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, np.inf, -np.inf, np.nan, 1e-310, 1e300, 700.0]
PUBLIC = {"div": "divide", "mul": "multiply", "neg": "negative", "sub": "subtract", "pow": "power"}
PUBLIC |= {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater"}
PUBLIC |= {"ge": "greater_equal", "atan2": "arctan2"}
ONE = {"abs", "clone", "neg", "reciprocal", "sqrt", "square", "cos", "cosh", "exp", "expm1", "log"}
ONE |= {"log1p", "sin", "sinh", "tan", "tanh"}
ARITHMETIC = {"abs", "add", "broadcast_to", "clone", "div", "eq", "ge", "gt", "le", "logical_and"}
ARITHMETIC |= {"logical_not", "logical_or", "lt", "maximum", "minimum", "mul", "ne", "neg"}
ARITHMETIC |= {"reciprocal", "sqrt", "square", "sub", "where"}
LIBRARY = {"atan2", "cos", "cosh", "exp", "expm1", "log", "log1p", "pow", "sin", "sinh", "tan"}
LIBRARY |= {"tanh"}
TRUTH = {"eq", "ge", "gt", "le", "lt", "ne"}
LOGICAL = {"logical_and", "logical_not", "logical_or"}


def _program(name):
    if name == "where":
        return lambda a, b: pb.where(a > b, a * 1.0, b) + 1.0
    if name == "broadcast_to":
        return lambda a, b: pb.broadcast_to(a[0] * 1.0, a.shape) + b
    function = (lambda x: x.clone()) if name == "clone" else getattr(pb, PUBLIC.get(name, name))
    if name in TRUTH:
        return lambda a, b: (function(a, b), pb.where(function(a, b), a, b) * 1.0)
    if name == "logical_not":
        return lambda a, b: (pb.logical_not(a > b), a * 2.0)
    if name in LOGICAL:
        return lambda a, b: (function(a > b, a < 1.0), a * 2.0)
    if name in ONE:
        return lambda a, b: function(a) * 1.0 - b
    return lambda a, b: function(a, b) * 1.0 + a


def _compare(program, *args, ulps=0):
    compiled = pb.compile(program, backend="llvm")
    with np.errstate(all="ignore"):
        expected = program(*[pb.asarray(a) if isinstance(a, np.ndarray) else a for a in args])
        compiled(*args)
        found = compiled(*args)
    pairs = zip(pb.utils.pytree.leaves(found), pb.utils.pytree.leaves(expected), strict=True)
    for ours, theirs in pairs:
        ours, theirs = np.asarray(ours), theirs.numpy()
        assert ours.dtype == theirs.dtype or not ours.ndim
        assert ours.shape == theirs.shape
        if ulps and theirs.dtype.kind == "f":
            eps = np.finfo(theirs.dtype).eps
            np.testing.assert_allclose(ours, theirs, rtol=ulps * eps, atol=0)
        else:
            np.testing.assert_array_equal(ours, theirs)
    return compiled


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", sorted(ARITHMETIC))
def test_arithmetic_is_numpys_to_the_last_bit(name, dtype):
    first, second = (grid.reshape(-1) for grid in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        first, second = first.astype(dtype), second.astype(dtype)
    compiled = _compare(_program(name), first, second)
    assert "segment0" in compiled.llvm_ir(first, second)
    assert "opaque" not in compiled.graph(first, second)  # no kernel is called


@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_functions_of_the_c_library_agree_with_numpy(name):
    program = _program(name)
    values = np.array(SPECIAL)
    for shift in range(0, len(values), 4):
        _compare(program, values, np.roll(values, shift), ulps=4)
    compiled = _compare(program, values, values, ulps=4)
    assert "opaque" not in compiled.graph(values, values)
    assert "segment0" in compiled.llvm_ir(values, values)


def _poly(a, b):
    return a * b + 0.5 * (a - b) / (1.0 + b * b), -a


LAYOUTS = {
    "c_and_fortran": lambda a: (a, np.asfortranarray(a + 1)),
    "fortran_both": lambda a: (np.asfortranarray(a), np.asfortranarray(a + 1)),
    "negative": lambda a: (a[::-1, ::-1], a[:, ::-1] + 1),
    "gaps": lambda a: (a[::2, 1:], a[:2, :3]),
    "row": lambda a: (a, a[1]),
    "column": lambda a: (a, a[:, :1]),
    "outer": lambda a: (a[:, :1], a[:1]),
    "broadcast": lambda a: (np.broadcast_to(a[0], a.shape), a),
    "scalar_array": lambda a: (a, np.array(2.0)),
    "both_scalar": lambda a: (np.array(3.0), np.array(2.0)),
    "empty": lambda a: (a[:0], a[:0]),
    "single": lambda a: (a[:1, :1], a),
    "transposed": lambda a: (a.T, a.T + 1),
    "three": lambda a: (a.reshape(2, 2, 3), a.reshape(2, 2, 3)[:, :1]),
    "unaligned": lambda a: (np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(float), a.ravel()),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name):
    first, second = LAYOUTS[name](np.arange(12.0).reshape(3 if name != "gaps" else 4, -1) / 7)
    if name == "gaps":
        second = second[:, :2]
    _compare(_poly, first, second)


def test_numbers_are_operands():
    def program(x, rate, n):
        return (x * rate - n) * 2.0 + rate

    for dtype in ("float64", "float32"):
        compiled = pb.compile(program, backend="llvm")
        x = np.linspace(0, 1, 5).astype(dtype)
        for rate, n in ((0.1, 3), (0.7, -2), (1e-3, 9)):
            found = compiled(x, rate, n)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, program(pb.asarray(x), rate, n).numpy())
        assert compiled.stats["traces"] == 1


def test_results_that_are_used_twice_and_guards_leave_the_loop():
    def program(x):
        y = x * 2.0 + 1.0
        z = y * y - x
        return (z, y) if z.sum() > 0 else (y - 1.0, z)

    compiled = pb.compile(program, backend="llvm")
    for x in (np.ones(4), -np.ones(4) * 0.1, np.ones(4) * 3):
        for ours, theirs in zip(compiled(x), program(pb.asarray(x)), strict=True):
            np.testing.assert_array_equal(ours, theirs.numpy())


def test_equal_results_have_memory_of_their_own():
    compiled = pb.compile(lambda x: (x * 2.0 + 1.0, x * 2.0 + 1.0), backend="llvm")
    for _ in range(2):
        first, second = compiled(np.ones(3))
        first[:] = 0.0
        assert second.tolist() == [3.0] * 3


def test_integers_and_complex_numbers_stay_with_numpy():
    for values in (np.arange(5), np.arange(5) * 1j, np.arange(5) > 2, np.float16([1.5, 2.5])):
        compiled = pb.compile(lambda x: x * x + x, backend="llvm")
        compiled(values)
        np.testing.assert_array_equal(compiled(values), values * values + values)


def test_programs_with_writes_run_as_kernels():
    def program(x):
        z = pb.zeros_like(x)
        z += x * 2.0
        z[0] = 5.0
        return z * x + 1.0

    compiled = pb.compile(program, backend="llvm")
    x = np.arange(4.0)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(x), program(pb.asarray(x)).numpy())


def test_code_is_freed_with_its_function():
    for n in range(3):
        compiled = pb.compile(lambda x: x * 2.0 + 1.0, backend="llvm")
        assert compiled(np.ones(3 + n)).tolist() == [3.0] * (3 + n)
        assert compiled(np.ones(3 + n)).tolist() == [3.0] * (3 + n)
        del compiled
        gc.collect()


def test_without_llvmlite_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"pip install pullback\[compile\]"):
        pb.compile(pb.sin, backend="llvm")


@pytest.mark.parametrize("has_llvmlite", [True, False])
def test_an_untested_platform_uses_kernels_with_one_warning(monkeypatch, has_llvmlite):
    monkeypatch.setattr(compiled_function, "is_supported", lambda: False)
    compiled_function._warn_untested.cache_clear()
    if not has_llvmlite:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.warns(UserWarning, match="not been tested on this platform"):
        compiled = pb.compile(lambda x: x * 2.0 + 1.0, backend="llvm")
    pb.compile(pb.sin, backend="llvm")  # no second warning, which would be an error
    x = np.ones(3)
    assert compiled(x).tolist() == [3.0] * 3
    assert compiled.llvm_ir(x) == ""


def test_values_between_calls_of_kernels_are_freed_after_their_last_use():
    def chain(x):
        for _ in range(6):
            x = pb.cumsum(pb.sin(x) * 1e-3)
        return x

    compiled = pb.compile(chain, cache=False)
    x = np.linspace(0.0, 1.0, 20_000)
    np.testing.assert_allclose(compiled(x), chain(pb.asarray(x)).numpy(), rtol=1e-12)
    compiled(x)
    assert "6 opaque" in compiled.explain(x)
    assert traced_peak(compiled, x) < 4 * x.nbytes  # 12 values are computed


def traced_peak(function, *args):
    """The most memory of arrays that a call holds at once."""
    tracemalloc.start()
    try:
        function(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("program", "most"),
    [
        (lambda x: (np.sort(x) * np.arange(len(x))).sum(), 3),
        (lambda x: (np.sort(x) * np.sort(np.sin(x))).sum(), 5),
        (lambda x: (x[np.argsort(x)] ** 3).sum(), 4),
        (lambda x: (np.abs(np.fft.rfft(x)) ** 2).sum(), 3),
        (lambda x: np.quantile(x, 0.3) + np.quantile(np.sin(x), 0.8), 5),
    ],
)
def test_values_around_calls_of_kernels_are_computed_late_and_freed_early(program, most):
    x = np.random.default_rng(0).normal(size=20_000)
    gradient = pb.value_and_grad(program)
    compiled = pb.compile(gradient, cache=False)
    for arrays in (x, x[::-1] * 0.5):
        for found, expected in zip(compiled(arrays), gradient(arrays), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-8)
    assert traced_peak(compiled, x) < (most + 0.3) * x.nbytes
