"""Programs as scientists write them, compiled and as they are, over calls with other data."""

from __future__ import annotations

import math
import numbers

import numpy as np
import pytest

import pullback as pb

pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")


def _flat(result):
    return [x for part in result for x in _flat(part)] if isinstance(result, tuple) else [result]


def _check(function, arguments, *, backend="llvm", rtol=1e-9, traces=1):
    """Compares three calls with other data; returns the compiled function."""
    compiled = pb.compile(function, backend=backend)
    for seed in (1, 2, 3):
        args = arguments(np.random.default_rng(seed))
        found, expected = (_flat(f(*args)) for f in (compiled, function))
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-12)
    assert compiled.stats["traces"] == traces
    return compiled


def _garch(parameters, returns):
    omega, alpha, beta = parameters
    variance = np.zeros(len(returns))
    variance[0] = np.var(returns)
    for t in range(1, len(returns)):
        variance[t] = omega + alpha * returns[t - 1] ** 2 + beta * variance[t - 1]
    return 0.5 * np.sum(np.log(2 * np.pi * variance) + returns**2 / variance)


def test_gradient_of_a_garch_likelihood():
    # The backward loop carries the array before and after its write: the one in registers has to be
    # read before the one in memory changes.
    _check(pb.value_and_grad(_garch), lambda rng: (rng.uniform(0.1, 0.3, 3), rng.normal(size=30)))


# --- programs that look at types ------------------------------------------------------------------


TYPES = {
    "array": lambda x: isinstance(x, np.ndarray),
    "element": lambda x: isinstance(x[0], float) and isinstance(x[0], np.floating),
    "abstract": lambda x: isinstance(x[0], numbers.Real) and not isinstance(x, numbers.Real),
    "integer": lambda x: isinstance(np.argmax(x), (int, np.integer)),
    "truth": lambda x: isinstance(x[0] > 0, np.bool_),
    "scalar": lambda x: np.isscalar(x[0]) and np.isscalar(x.sum()) and not np.isscalar(x),
    "key": lambda x: {2: True}.get(np.argmax(x), False) and np.argmax(x) in {2, 7},
    "set": lambda x: len({np.argmax(x), 2, np.argmin(x)}) == 2,
    "text": lambda x: f"{np.argmax(x)}.{np.argmin(x)!s}" == "2.0",
    "list": lambda x: len([0.0] * np.argmax(x)) == 2 and np.argmax(x) * "ab" == "abab",
    "rounding": lambda x: (round(x[1]), math.floor(x[1]), math.ceil(x[1])) == (2, 1, 2),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_of_arrays_and_elements(name):
    look = TYPES[name]
    x = np.array([0.5, 1.75, 3.0])
    assert look(x)

    def run(x):
        return 2 * x if look(x) else 0 * x

    np.testing.assert_array_equal(pb.compile(run)(x), 2 * x)
    np.testing.assert_array_equal(pb.compile(run, backend="eager")(x), 2 * x)


def test_floats_as_keys():
    _check(lambda x: x * len(set(np.round(x))), lambda rng: (rng.normal(size=5),), traces=3)


def test_functions_of_python_on_integers():
    # as Python's floats, not in NumPy's half precision
    for dtype in (np.int8, np.int64, np.bool_):
        x = np.array([1, 0], dtype)
        assert pb.compile(lambda x: math.sin(x[0]))(x) == math.sin(1)


# --- programs that write over values that the backward pass needs ---------------------------------


def _soft_clusters(centers, points):
    for _ in range(3):
        distances = ((points[:, None] - centers[None]) ** 2).sum(2)
        weights = np.exp(-distances)
        weights /= weights.sum(1, keepdims=True)
        centers = (weights.T @ points) / weights.sum(0)[:, None]
    return ((points - weights @ centers) ** 2).sum()


def _householder(matrix, _):
    r = matrix.copy()
    for k in range(r.shape[1]):
        x = r[k:, k].copy()
        x[0] += np.sign(x[0]) * np.linalg.norm(x)
        v = x / np.linalg.norm(x)
        r[k:, k:] -= 2 * np.outer(v, v @ r[k:, k:])
    return np.sum(np.log(np.abs(np.diag(r))))


def _shallow_water(h, u):
    h, u = np.copy(h), np.copy(u)
    for _ in range(6):
        hm = 0.5 * (h[1:] + h[:-1]) - 0.02 * (h[1:] * u[1:] - h[:-1] * u[:-1])
        um = 0.5 * (u[1:] + u[:-1]) - 0.02 * (0.5 * u[1:] ** 2 - 0.5 * u[:-1] ** 2 + h[1:] - h[:-1])
        h[1:-1] -= 0.04 * (hm[1:] * um[1:] - hm[:-1] * um[:-1])
        u[1:-1] -= 0.04 * (0.5 * um[1:] ** 2 + hm[1:] - 0.5 * um[:-1] ** 2 - hm[:-1])
        h[0], h[-1], u[0], u[-1] = h[1], h[-2], -u[1], -u[-2]
    return np.sum((h - 1.0) ** 2)


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (_soft_clusters, ((2, 2), (9, 2))),
        (_householder, ((5, 3), (1,))),
        (_shallow_water, ((8,), (8,))),
    ],
)
def test_gradients_where_saved_values_are_written_over(function, shapes, backend):
    gradient = pb.value_and_grad(function, argnums=(0, 1) if function is _shallow_water else 0)
    compiled = _check(
        gradient, lambda rng: tuple(rng.normal(size=s) for s in shapes), backend=backend
    )
    assert compiled.stats["eager"] == 0


def test_second_derivatives_where_saved_values_are_written_over():
    def function(x):
        y = np.exp(x)
        y *= np.sin(y)
        z = y[::-1] * y
        y[:2] = z[1:] ** 2
        y /= 1 + y * y
        return np.sum(y * z[::-1].sum())

    compiled = _check(pb.hessian(function), lambda rng: (rng.normal(size=3),))
    assert compiled.stats["eager"] == 0


# --- buffers inside of vmap -----------------------------------------------------------------------


def _transient(p, _):
    resistance, inductance, capacity = p
    i, v = 0.0, 0.0
    out = np.empty(8)
    for k in range(8):
        i, v = i + 0.05 * (1.0 - resistance * i - v) / inductance, v + 0.05 * i / capacity
        out[k] = v
    return out


def _diffusion(p, start):
    u = np.zeros((4, 6))
    first, turned = u[0], u.T
    u[0] = start
    for t in range(3):
        u[t + 1, 1:-1] = u[t, 1:-1] + p[0] * (u[t, 2:] - 2 * u[t, 1:-1] + u[t, :-2]) + p[1]
        turned[0, t + 1] += p[2] * u[t].sum()
        left, right = np.split(u, 2, axis=1)
        right[t] *= np.sin(p[1]) * left[t, 0]
    return np.sum(u**2) + (first * p[0]).sum()


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize(
    ("transform", "function", "size"),
    [
        (pb.hessian, _garch, 6),
        (pb.jacobian, _transient, 1),
        (pb.hessian, _diffusion, 6),
        (lambda f: pb.func.vmap(f, (0, None)), _diffusion, 6),
    ],
)
def test_transforms_of_functions_that_write_batched_values_to_buffers(
    transform, function, size, backend
):
    def arguments(rng):
        p = rng.uniform(0.1, 0.3, (2, 3) if transform is not pb.hessian else 3)
        p = p[0] if transform is pb.jacobian else p
        return p, rng.normal(size=size)

    compiled = _check(pb.differentiable(transform(function)), arguments, backend=backend)
    assert compiled.stats["eager"] == 0
    args = arguments(np.random.default_rng(0))
    assert backend == "eager" or "no machine code" not in compiled.explain(*args)


# --- Python's numbers -----------------------------------------------------------------------------


def _kepler(eccentricity, mean):
    anomaly = mean
    for _ in range(6):
        residual = anomaly - eccentricity * math.sin(anomaly) - mean
        anomaly = anomaly - residual / (1 - eccentricity * math.cos(anomaly))
    return anomaly


def _black_scholes(spot, volatility):
    d1 = (math.log(spot / 100.0) + 0.5 * volatility**2) / volatility
    d2 = d1 - math.sqrt(volatility**2)
    return spot * math.erf(d1) - 100.0 * math.exp(-0.05) * (1 + math.erf(d2 / math.sqrt(2)))


def _newton_steps(value, _):
    x = value
    while abs(x * x - value) > 1e-6:
        x = 0.5 * (x + value / x)
    return x


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize(
    ("function", "low", "high"),
    [(_kepler, 0.2, 0.5), (_black_scholes, 0.2, 0.5), (_newton_steps, 2.0, 2.2)],
)
def test_functions_of_python_numbers_are_one_trace(function, low, high, backend):
    def arguments(rng):
        first, second = rng.uniform(low, high, 2).tolist()
        return (90.0 + first, second) if function is _black_scholes else (first, second)

    compiled = _check(function, arguments, backend=backend)
    args = arguments(np.random.default_rng(0))
    assert type(compiled(*args)) is float
    assert "opaque:" not in compiled.explain(*args)


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x, y: math.log(x) + y, (-1.0, 1.0)),
        (lambda x, y: math.exp(x) + y, (1000.0, 1.0)),
        (lambda x, y: math.sin(x) + y, (math.inf, 1.0)),
        (lambda x, y: x / y, (1.0, 0.0)),
        (lambda x, y: x**y, (0.0, -1.0)),
        (lambda x, y: x**y, (-2.0, 0.5)),  # a complex number
        (lambda x, y: math.log(x) + y, (math.inf, 1.0)),
        (lambda x, y: math.sqrt(x) / y, (math.nan, 1.0)),
    ],
)
def test_functions_of_python_numbers_at_the_ends_of_their_domain(function, args, backend):
    compiled = pb.compile(function, backend=backend)
    compiled(1.0, 2.0)
    assert compiled(1.5, 2.5) == pytest.approx(function(1.5, 2.5), rel=1e-14)
    try:
        expected = function(*args)
    except ArithmeticError as error:
        with pytest.raises(type(error)):
            compiled(*args)
    except ValueError:
        with pytest.raises(ValueError, match=r"math|expected"):
            compiled(*args)
    else:
        found = compiled(*args)
        assert type(found) is type(expected)
        assert found == pytest.approx(expected, nan_ok=True)


def test_a_range_is_an_index():
    def embedded(table):
        return (table[range(2)] ** 2).sum() + table[range(2), range(1, 3)].sum()

    _check(pb.grad(embedded), lambda rng: (rng.normal(size=(4, 3)),))


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("dtype", ["d", "f", "l", "i", "?", "D", "B"])
@pytest.mark.parametrize(("shape", "axis"), [((9,), 0), ((3, 4), 0), ((2, 3, 4), -2), ((1,), 0)])
def test_running_results_are_numpys_to_the_last_bit(dtype, shape, axis):
    values = np.random.default_rng(4).normal(size=shape) * 3
    special = np.array([-0.0, np.nan, -np.inf, 0.0, 2.0, 2.0, np.inf, np.nan, 1.0])
    given = [values.astype(dtype)]
    if dtype in "df":
        given += [np.resize(special, shape).astype(dtype), np.full(shape, -0.0, dtype)]
    for x in given:
        for function in (np.cumsum, np.cumprod):
            compiled = pb.compile(lambda x, function=function: function(x, axis=axis))
            compiled(x)
            expected = function(x, axis=axis)
            found = compiled(x)
            assert found.dtype == expected.dtype
            assert found.tobytes() == expected.tobytes() or np.isnan(expected).any()
            np.testing.assert_array_equal(found, expected)
        if dtype not in "?D":
            for function in (pb.cummax, pb.cummin):
                compiled = pb.compile(lambda x, function=function: tuple(function(x, axis)))
                compiled(x)
                for ours, theirs in zip(compiled(x), function(pb.asarray(x), axis), strict=True):
                    np.testing.assert_array_equal(ours, theirs.numpy())


def test_derivatives_of_running_results():
    def f(x):
        y = np.cumsum(np.sin(x), axis=1) * np.cumprod(x, axis=0)
        top = np.maximum.accumulate(x.ravel()) - np.minimum.accumulate(x.ravel())
        return (y * y).sum() + (top * np.arange(x.size)).sum()

    x = np.random.default_rng(8).normal(size=(4, 5))
    for function in (pb.grad(f), pb.hessian(f), pb.jacobian(lambda x: np.cumsum(x) ** 2)):
        compiled = pb.compile(function)
        compiled(x)
        np.testing.assert_allclose(compiled(x), function(x), rtol=1e-11, atol=1e-11)
    assert "opaque:" not in pb.compile(f).explain(x)
