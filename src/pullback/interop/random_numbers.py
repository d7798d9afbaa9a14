"""Random numbers whose parameters are tensors: ``rng.normal(mu, sigma)`` in `numpy_mode`.

A distribution is reparameterised where that is exact: numbers without parameters are drawn from the
same stream as NumPy's, and the result is computed from them by recorded operations. Other
distributions raise if a parameter carries a gradient.

``Generator`` and ``RandomState`` are compiled classes, whose methods convert tensors to numbers. So
``np.random.default_rng`` and the two classes give user code objects of subclasses in the mode. An
object that was made outside of it keeps its methods; ``np.random.default_rng(rng.bit_generator)``
makes one of the same stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback._generated import functions_pointwise as pointwise
from pullback.interop.arguments import as_tensor, holds_gradient, plain, refusal, tensors_in, words

__all__ = ["CLASSES", "DISTRIBUTIONS", "REFUSED", "default_rng", "module_function"]

_Draw = Callable[..., Any]  # the name of a distribution, its parameters, size=


def _size(size: Any, *parameters: Any) -> Any:
    """The shape of a result: as given, else that of the parameters together."""
    if size is not None:
        return size
    return np.broadcast_shapes(*(np.shape(plain(value)) for value in parameters))


def _with_scale(name: str) -> Callable[..., Any]:
    """A distribution whose numbers are those of ``loc=0, scale=1``, scaled and shifted."""

    def distribution(draw: _Draw, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        _check_scale(name, scale)
        return loc + scale * as_tensor(draw(name, 0.0, 1.0, size=_size(size, loc, scale)))

    return distribution


def _check_scale(name: str, *values: Any) -> None:
    for value in values:
        if np.any(np.signbit(np.asarray(plain(value)))):
            raise ValueError(f"{name}: scale < 0")


def _uniform(draw: _Draw, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
    return low + (high - low) * as_tensor(draw("uniform", 0.0, 1.0, size=_size(size, low, high)))


def _exponential(draw: _Draw, scale: Any = 1.0, size: Any = None) -> Any:
    _check_scale("exponential", scale)
    return scale * as_tensor(draw("standard_exponential", size=_size(size, scale)))


def _rayleigh(draw: _Draw, scale: Any = 1.0, size: Any = None) -> Any:
    _check_scale("rayleigh", scale)
    return scale * as_tensor(draw("rayleigh", 1.0, size=_size(size, scale)))


def _lognormal(draw: _Draw, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None) -> Any:
    _check_scale("lognormal", sigma)
    drawn = as_tensor(draw("normal", 0.0, 1.0, size=_size(size, mean, sigma)))
    return pointwise.exp(mean + sigma * drawn)


def _weibull(draw: _Draw, a: Any, size: Any = None) -> Any:
    _check_scale("weibull", a)
    return as_tensor(draw("standard_exponential", size=_size(size, a))) ** (1.0 / a)


def _pareto(draw: _Draw, a: Any, size: Any = None) -> Any:
    _check_scale("pareto", a)
    return pointwise.expm1(as_tensor(draw("standard_exponential", size=_size(size, a))) / a)


def _gamma(draw: _Draw, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
    if holds_gradient(shape):
        raise _refusal("gamma", "the argument shape")
    _check_scale("gamma", scale)
    return scale * as_tensor(draw("standard_gamma", plain(shape), size=_size(size, shape, scale)))


def _multivariate_normal(
    draw: _Draw, mean: Any, cov: Any, size: Any = None, *args: Any, **kwargs: Any
) -> Any:
    if holds_gradient([cov]):
        raise _refusal("multivariate_normal", "the argument cov")
    zeros = np.zeros_like(plain(mean))
    return mean + as_tensor(draw("multivariate_normal", zeros, plain(cov), size, *args, **kwargs))


DISTRIBUTIONS: dict[str, Callable[..., Any]] = {
    **{name: _with_scale(name) for name in ("normal", "gumbel", "laplace", "logistic")},
    "exponential": _exponential,
    "gamma": _gamma,
    "lognormal": _lognormal,
    "multivariate_normal": _multivariate_normal,
    "pareto": _pareto,
    "rayleigh": _rayleigh,
    "uniform": _uniform,
    "weibull": _weibull,
}
# Those whose numbers do not follow from numbers without parameters by one formula.
REFUSED = words(
    """
    beta binomial chisquare choice dirichlet f geometric hypergeometric integers logseries
    multinomial multivariate_hypergeometric negative_binomial noncentral_chisquare noncentral_f
    permutation permuted poisson power randint shuffle standard_gamma standard_t triangular
    vonmises wald zipf
    """
)


def _refusal(name: str, what: str = "an argument") -> Exception:
    return refusal(
        f"numpy.random: {name}",
        f"its numbers are no differentiable function of {what} here",
        "Use a distribution of location and scale, write the density with scipy.stats, or pass "
        "x.detach().",
    )


def _called(name: str, draw: _Draw, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A draw with a tensor among the parameters."""
    if not holds_gradient([args, kwargs]):
        return draw(name, *plain(list(args)), **plain(kwargs))
    family = DISTRIBUTIONS.get(name)
    if family is None:
        raise _refusal(name)
    return family(draw, *args, **kwargs)


def _method(name: str, original: Any) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if next(tensors_in([args, kwargs]), None) is None:
            return original(self, *args, **kwargs)

        def draw(name: str, *args: Any, **kwargs: Any) -> Any:
            return getattr(type(self).__mro__[1], name)(self, *args, **kwargs)

        return _called(name, draw, args, kwargs)

    method.__name__, method.__doc__ = name, original.__doc__
    return method


class _Alike(type):
    """The class of the subclasses: ``isinstance(rng, np.random.Generator)`` holds."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.__mro__[1])


def _subclass(kind: type) -> type:
    names = [*DISTRIBUTIONS, *REFUSED]
    body = {name: _method(name, getattr(kind, name)) for name in names if hasattr(kind, name)}
    return _Alike(kind.__name__, (kind,), {"__module__": kind.__module__, **body})


CLASSES = {name: _subclass(getattr(np.random, name)) for name in ("Generator", "RandomState")}


def default_rng(original: Callable[..., Any]) -> Callable[..., Any]:
    """``numpy.random.default_rng`` for user code in the mode."""

    def call(seed: Any = None) -> Any:
        found = original(plain(seed))
        return found if found is seed else CLASSES["Generator"](found.bit_generator)

    return call


def module_function(name: str, original: Any) -> Callable[..., Any]:
    """Our function for ``numpy.random.normal`` and its kin, which draw from the global state."""
    state = original.__self__

    def draw(name: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(state, name)(*args, **kwargs)

    return lambda *args, **kwargs: _called(name, draw, args, kwargs)
