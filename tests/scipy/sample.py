"""Sample: one differentiated SciPy call, and the checks that it must pass.

`tests/scipy/samples/<group>.py` has ``SAMPLES: dict[str, Sample]``, keyed by the line of
`manifest.yaml`:

    from pullback import scipy as sp

    SAMPLES = {
        "inv | a": Sample(sp.linalg.inv, MATRIX),
        "solve | b | assume_a=pos": Sample(
            lambda b: sp.linalg.solve(POSITIVE, b, assume_a="pos"), VECTOR
        ),
    }
"""

from __future__ import annotations

import importlib.metadata
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pullback as pb

__all__ = ["Sample", "check"]

POINTS = 5
SCIPY = tuple(map(int, importlib.metadata.version("scipy").split(".")[:2]))
NUMBERS = (pb.Tensor, np.ndarray, np.generic, float, complex)
Array = NDArray[Any]


@dataclass(frozen=True)
class Sample:
    """A call of one argument, and where and how exactly it is checked."""

    call: Callable[[Any], Any]  # of the differentiated argument; result: numbers, arrays, or nested
    x: Any  # float64 or complex128 start value
    order: int = 2  # of the derivatives that are checked: 1 where the call is not smooth
    spread: float = 0.02  # the points are x plus normal noise of this size
    step: float = 1e-3  # of the differences, relative to 1
    rtol: float = 1e-6  # of derivatives, relative to the largest entry
    value_rtol: float = 1e-10  # of values
    float32: float = 2e-3  # tolerance in single precision; 0: the call has none
    vmap: bool = True
    since: tuple[int, int] = (0, 0)  # first SciPy version that has the option


def check(line: str, sample: Sample) -> None:
    """Checks values, first and second derivatives, single precision and vmap of a sample."""
    generator = np.random.default_rng(zlib.crc32(line.encode()))
    start = np.asarray(sample.x)
    start = start.astype(np.result_type(start, np.float64))
    for point in range(POINTS):
        x = start + sample.spread * _noise(generator, start) if point else start
        direction = _noise(generator, start)
        weights = _check_value(sample, x, generator)
        difference = _difference(lambda at: _flat(sample.call(at)), x, direction, sample.step)
        _check_forward(sample, x, direction, difference)
        gradient = _gradient(sample.call, weights, x)
        _compare("reverse mode", _inner(gradient, direction), weights @ difference, sample.rtol)
    if sample.order >= 2:
        _check_second(sample, x, direction, weights)
    if sample.float32:
        _check_float32(sample, x, weights, gradient)
    if sample.vmap:
        _check_vmap(sample, np.stack([start, x]), weights, gradient)


def _noise(generator: np.random.Generator, like: Array) -> Array:
    noise = generator.standard_normal(like.shape)
    return noise + 1j * generator.standard_normal(like.shape) if like.dtype.kind == "c" else noise


def _leaves(result: Any) -> Iterator[Any]:
    """The floating-point numbers in a result, in order: tensors, arrays and floats."""
    if isinstance(result, Mapping):
        for key in sorted(result):
            yield from _leaves(result[key])
    elif isinstance(result, Sequence) and not isinstance(result, str):
        for item in result:
            yield from _leaves(item)
    elif isinstance(result, NUMBERS) and _dtype(result).kind in "fc":
        yield result


def _dtype(leaf: Any) -> np.dtype[Any]:
    return leaf.dtype if hasattr(leaf, "dtype") else np.dtype(type(leaf))


def _real_parts(result: Any) -> Iterator[Any]:
    for leaf in _leaves(result):
        if _dtype(leaf).kind == "c":
            yield leaf.real
            yield leaf.imag
        else:
            yield leaf


def _flat(result: Any) -> Array:
    """All numbers of a result as one real vector."""
    parts = [
        np.ravel(part.detach().numpy() if isinstance(part, pb.Tensor) else part)
        for part in _real_parts(result)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _flat_tensor(result: Any) -> pb.Tensor:
    return pb.concatenate([pb.reshape(pb.asarray(part), (-1,)) for part in _real_parts(result)])


def _difference(f: Callable[[Array], Array], x: Array, direction: Array, step: float) -> Array:
    """Central difference of fourth order along a direction."""
    near = f(x + step * direction) - f(x - step * direction)
    far = f(x + 2 * step * direction) - f(x - 2 * step * direction)
    return (8 * near - far) / (12 * step)


def _inner(gradient: Array, direction: Array) -> Any:
    return np.sum(gradient.conj() * direction).real


def _compare(what: str, found: Any, expected: Any, rtol: float) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, not {expected.shape}"
    size = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * size, err_msg=what)


def _check_value(sample: Sample, x: Array, generator: np.random.Generator) -> Array:
    """Compares with SciPy's own result; returns random weights for the sum of all outputs."""
    theirs = sample.call(x)
    ours = sample.call(pb.tensor(x, requires_grad=True))
    expected = list(_leaves(theirs))
    found = list(_leaves(ours))
    assert [np.shape(leaf) for leaf in found] == [np.shape(leaf) for leaf in expected]
    assert any(isinstance(leaf, pb.Tensor) and leaf.requires_grad for leaf in found), (
        "no output carries a gradient"
    )
    _compare("value", _flat(ours), _flat(theirs), sample.value_rtol)
    return generator.standard_normal(_flat(theirs).size)


def _check_forward(sample: Sample, x: Array, direction: Array, difference: Array) -> None:
    _, tangent = pb.func.jvp(
        lambda t: _flat_tensor(sample.call(t)), (pb.tensor(x),), (pb.tensor(direction),)
    )
    _compare("forward mode", tangent.numpy(), difference, sample.rtol)


def _weighted(call: Callable[[Any], Any], weights: Array) -> Callable[[pb.Tensor], pb.Tensor]:
    return lambda t: pb.sum(_flat_tensor(call(t)) * weights)


def _gradient(call: Callable[[Any], Any], weights: Array, x: Array) -> Array:
    t = pb.tensor(x, requires_grad=True)
    (gradient,) = pb.autograd.grad(_weighted(call, weights)(t), t)
    assert gradient.dtype == x.dtype, f"gradient of {x.dtype} has dtype {gradient.dtype}"
    return np.asarray(gradient.numpy())


def _check_second(sample: Sample, x: Array, direction: Array, weights: Array) -> None:
    expected = _difference(
        lambda at: _gradient(sample.call, weights, at), x, direction, sample.step
    )
    t = pb.tensor(x, requires_grad=True)
    (gradient,) = pb.autograd.grad(_weighted(sample.call, weights)(t), t, create_graph=True)
    if gradient.requires_grad:
        projected = pb.sum(pb.real(pb.conj(gradient) * direction))
        (found,) = pb.autograd.grad(projected, t, allow_unused=True)
    else:
        found = None  # linear: the gradient does not depend on x
    product = np.zeros_like(x) if found is None else found.numpy()
    _compare("reverse over reverse", _inner(product, direction), _inner(expected, direction), 1e-5)
    if x.dtype.kind != "c":
        _compare("Hessian product", product, expected, 10 * sample.rtol)
    _, tangent = pb.func.jvp(
        pb.func.grad(_weighted(sample.call, weights)), (pb.tensor(x),), (pb.tensor(direction),)
    )
    _compare("forward over reverse", tangent.numpy(), expected, 10 * sample.rtol)


def _check_float32(sample: Sample, x: Array, weights: Array, gradient: Array) -> None:
    single = x.astype(np.complex64 if x.dtype.kind == "c" else np.float32)
    if SCIPY >= (1, 17):  # earlier versions return double precision here and there
        theirs = [np.asarray(leaf).dtype for leaf in _leaves(sample.call(single))]
        ours = list(_leaves(sample.call(pb.tensor(single, requires_grad=True))))
        pairs = [
            (leaf.dtype, dtype)
            for leaf, dtype in zip(ours, theirs, strict=True)
            if isinstance(leaf, pb.Tensor)
        ]
        assert all(found == expected for found, expected in pairs), f"single precision: {pairs}"
    found = _gradient(sample.call, weights.astype(np.float32), single)
    _compare("single precision", found, gradient, sample.float32)


def _check_vmap(sample: Sample, points: Array, weights: Array, gradient: Array) -> None:
    found = pb.func.vmap(pb.func.grad(_weighted(sample.call, weights)))(pb.tensor(points))
    _compare("vmap of the gradient", found.numpy()[-1], gradient, sample.rtol)
