"""Random numbers with tensors as parameters in `numpy_mode`: NumPy's stream, and gradients."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.errors import DerivativeMissingError, PullbackError
from pullback.interop.random_numbers import DISTRIBUTIONS, REFUSED

A, B = np.array([0.4, 1.3, 2.2]), np.array([1.5, 2.5, 3.5])
# The parameters of each; the first that is listed is differentiated by.
CALLS: dict[str, Any] = {
    **dict.fromkeys(["normal", "gumbel", "laplace", "logistic", "lognormal"], (A, B)),
    "uniform": (A, B),
    "exponential": (A,),
    "rayleigh": (A,),
    "weibull": (B,),
    "pareto": (B,),
    "gamma": (B, A),
    "multivariate_normal": (A, np.diag(B)),
}
CONSTANT = {("gamma", 0), ("multivariate_normal", 1)}
SOURCES = {
    "default_rng": lambda: np.random.default_rng(3),
    "Generator": lambda: np.random.Generator(np.random.PCG64(3)),
    "RandomState": lambda: np.random.RandomState(3),
    "module": lambda: (np.random.seed(3), np.random)[1],
}


def test_every_distribution_is_tested() -> None:
    assert set(CALLS) == set(DISTRIBUTIONS)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", CALLS)
def test_draws_are_numpys_and_have_gradients(name: str, source: str) -> None:
    parameters = CALLS[name]

    def draw(*given: Any) -> Any:
        rng = SOURCES[source]()
        first = getattr(rng, name)(*given)
        return first, rng.normal(size=2)  # the stream goes on as NumPy's

    expected, after = draw(*parameters)
    for place in range(len(parameters)):
        if (name, place) in CONSTANT:
            continue

        def total(x: Any, place: int = place) -> Any:
            given = [x if i == place else value for i, value in enumerate(parameters)]
            drawn, later = draw(*given)
            np.testing.assert_allclose(np.asarray(drawn.detach()), expected, rtol=1e-12)
            np.testing.assert_array_equal(np.asarray(later), after)
            return (drawn * np.arange(1.0, 4.0)).sum()

        slopes = pb.grad(total)(parameters[place])
        for i in range(3):
            up, down = (parameters[place].copy() for _ in range(2))
            up[i] += 1e-6
            down[i] -= 1e-6
            ends = [
                (draw(*(end if k == place else v for k, v in enumerate(parameters)))[0] * [1, 2, 3])
                for end in (up, down)
            ]
            assert slopes[i] == pytest.approx((ends[0] - ends[1]).sum() / 2e-6, rel=1e-5, abs=1e-8)


def test_a_single_parameter_and_a_size() -> None:
    def f(sigma: Any) -> Any:
        rng = np.random.default_rng(0)
        return (rng.normal(0.0, sigma, size=(2, 3)) ** 2).sum() + rng.exponential(sigma)

    rng = np.random.default_rng(0)
    z, e = rng.normal(size=(2, 3)), rng.exponential()
    assert pb.grad(f)(0.7) == pytest.approx(2 * 0.7 * (z**2).sum() + e)


@pytest.mark.parametrize("name", ["poisson", "beta", "standard_t", "choice", "gamma"])
def test_other_distributions_are_refused_by_name(name: str) -> None:
    x = pb.tensor(A, requires_grad=True)
    arguments = {"beta": (x, 1.0), "choice": (3, None, True, x)}.get(name, (x,))
    with pb.numpy_mode():
        rng = np.random.default_rng(0)
        with pytest.raises(DerivativeMissingError, match=f"numpy.random: {name}"):
            getattr(rng, name)(*arguments)
        if name == "poisson":
            assert rng.poisson(pb.tensor(A)).shape == (3,)  # without a gradient
    assert name in REFUSED or name in DISTRIBUTIONS


def test_a_generator_made_outside_raises_and_can_be_used_again() -> None:
    outside = np.random.default_rng(0)
    expected = np.random.default_rng(0).normal(A, 1.0)
    with pytest.raises(PullbackError, match=r"default_rng\(rng.bit_generator\)"):
        pb.grad(lambda x: outside.normal(x, 1.0).sum())(A)

    def again(x: Any) -> Any:
        return (np.random.default_rng(outside.bit_generator).normal(x, 1.0) * expected).sum()

    np.testing.assert_allclose(pb.grad(again)(A), expected)


def test_generators_are_instances_and_pickled_as_numpys() -> None:
    plain = np.random.default_rng(1)
    with pb.numpy_mode():
        made = np.random.default_rng(1)
        assert isinstance(made, np.random.Generator)
        assert isinstance(plain, np.random.Generator)
        assert np.random.default_rng(plain) is plain
        copy = pickle.loads(pickle.dumps(made))
    assert isinstance(made, np.random.Generator)
    assert copy.normal() == made.normal() == plain.normal()
    with pytest.raises(ValueError, match="scale < 0"), pb.numpy_mode():
        made.normal(pb.tensor(A), -1.0)
