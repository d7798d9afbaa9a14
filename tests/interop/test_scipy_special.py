"""SciPy's special functions on tensors: values, derivatives, refusals, and the page of them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback.autograd import forward_ad
from pullback.errors import AutogradError, DerivativeMissingError

from .scipy_parameters import PARAMETERS
from .scipy_points import POINTS

special = pytest.importorskip("scipy.special", reason="pip install scipy runs these tests")

from pullback._generated.scipy_special import (  # noqa: E402 - needs SciPy
    functions_scipy_special as functions,
)
from pullback.interop.scipy_status import (  # noqa: E402 - needs SciPy
    by_functions,
    special_functions,
    special_status,
)

ROOT = Path(__file__).resolve().parents[2]
UFUNCS = {**special_functions(), **by_functions()}
# How exactly SciPy's own values follow their derivative; two functions of it are computed roughly.
ROUGH = {"itairy": 3e-3, "ncfdtrinc": 1e-2}
# Functions whose values older versions of SciPy compute wrongly, or to six digits only.
SCIPY = tuple(map(int, importlib.metadata.version("scipy").split(".")[:2]))
WRONG_BEFORE = {"log_wright_bessel": (1, 15), "ncfdtr": (1, 15), "ncfdtri": (1, 15)}
# Where an argument equals the last one, their second derivatives say that they are not known.
GAPS = {"elliprd", "elliprj"}
# Arguments of functions whose derivative is known for real numbers only.
ONLY_REAL = {"airye": [0.6], "ive": [1, 0.6], "jve": [1, 0.6], "psi": [0.6], "yve": [1, 0.6]}

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:non-integer arg n is deprecated"),
]


def _skip_wrong_values(name):
    since = WRONG_BEFORE.get(name, SCIPY)
    if since > SCIPY:
        pytest.skip(f"SciPy before {since[0]}.{since[1]} computes {name} wrongly")


def _outputs(results):
    """The outputs of a function as real tensors or arrays."""
    parts = []
    for result in results if isinstance(results, tuple) else (results,):
        parts += [result.real, result.imag] if result.dtype.kind == "c" else [result]
    return parts


def _difference(function, x, step):
    """The derivative of a function of one array, whose outputs are a list, from 8 values."""
    factors = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    pairs = [(function(x + k * step), function(x - k * step), f) for k, f in factors.items()]
    parts = [[f * (a - b) for a, b in zip(up, down, strict=True)] for up, down, f in pairs]
    return [sum(terms) / step for terms in zip(*parts, strict=True)]


def _differentiable(name):
    return [
        (place, np.array(values, float))
        for place, values in enumerate(POINTS[name])
        if _arguments(name)[place] in special_status(UFUNCS[name]).differentiable
    ]


def _arguments(name):
    """The names of the arguments of a function, in order."""
    return list(inspect.signature(getattr(functions, f"special_{name}")).parameters)


def _tensors(name):
    return [pb.tensor(np.array(values)) for values in POINTS[name]]


def _gradients(name, place, x, **options):
    """The gradient of each output by one argument, and the argument."""
    leaf = pb.tensor(x, requires_grad=True)
    arguments = _tensors(name)
    arguments[place] = leaf
    outputs = _outputs(UFUNCS[name](*arguments))
    return leaf, [
        pb.autograd.grad(output.sum(), leaf, retain_graph=True, **options)[0] for output in outputs
    ]


def test_every_function_with_derivatives_has_points():
    able = {name for name, ufunc in UFUNCS.items() if any((special_status(ufunc) or [()])[0])}
    as_in_numpy = {"cbrt", "exp2", "expm1", "log1p", "round"}
    assert able - {"jn", "digamma"} - as_in_numpy == set(POINTS)  # two are second names


@pytest.mark.parametrize("name", POINTS)
def test_first_derivatives_are_those_of_the_values(name):
    assert _differentiable(name)
    _skip_wrong_values(name)
    for place, x in _differentiable(name):

        def values(moved, place=place):
            arguments = [np.array(v) for v in POINTS[name]]
            arguments[place] = moved
            return _outputs(UFUNCS[name](*arguments))

        step = 3e-3 * np.maximum(1, abs(x))
        expected = _difference(values, x, step)
        _, found = _gradients(name, place, x)
        rough = ROUGH.get(name, 1e-6)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=rough, atol=rough / 100)


@pytest.mark.parametrize("name", POINTS)
def test_second_derivatives_are_those_of_the_first(name):
    _skip_wrong_values(name)
    for place, x in _differentiable(name):
        leaf, first = _gradients(name, place, x, create_graph=True)
        step = 3e-3 * np.maximum(1, abs(x))

        def slopes(moved, place=place):
            return [slope.numpy() for slope in _gradients(name, place, moved)[1]]

        if name in ("smirnov", "smirnovi"):
            with pytest.raises(DerivativeMissingError, match=r"smirnov in d, taken twice"):
                pb.autograd.grad(first[0].sum(), leaf)
            continue
        expected = _difference(slopes, x, step)
        rough = ROUGH.get(name, 1e-5)
        for slope, theirs in zip(first, expected, strict=True):
            if not slope.requires_grad:
                assert (theirs == 0).all() or abs(theirs).max() < 1e-8
                continue
            ours = pb.autograd.grad(slope.sum(), leaf, retain_graph=True)[0].numpy()
            known = np.isfinite(ours) if name in GAPS else np.full(ours.shape, True)
            np.testing.assert_allclose(ours[known], theirs[known], rtol=rough, atol=rough / 10)


@pytest.mark.parametrize("name", POINTS)
def test_tangents_are_what_gradients_are(name):
    for place, x in _differentiable(name):
        _, expected = _gradients(name, place, x)
        with forward_ad.dual_level():
            arguments = _tensors(name)
            arguments[place] = forward_ad.make_dual(pb.tensor(x), pb.ones_like(pb.tensor(x)))
            results = UFUNCS[name](*arguments)
            results = results if isinstance(results, tuple) else (results,)
            tangents = [forward_ad.unpack_dual(result).tangent for result in results]
            for ours, theirs in zip(_outputs(tuple(tangents)), expected, strict=True):
                np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", POINTS)
def test_other_arguments_refuse_gradients_by_name(name):
    status = special_status(UFUNCS[name])
    for place, argument in enumerate(_arguments(name)):
        values = np.array(POINTS[name][place])
        if argument not in status.refused or values.dtype.kind != "f":
            continue
        arguments = _tensors(name)
        arguments[place] = pb.tensor(values, requires_grad=True)
        missing = rf"scipy\.special\.{name} in {argument}\b"
        results = UFUNCS[name](*arguments)
        with pytest.raises(DerivativeMissingError, match=missing):
            _outputs(results)[0].sum().backward()
        with forward_ad.dual_level():
            arguments[place] = forward_ad.make_dual(pb.tensor(values), pb.tensor(values))
            with pytest.raises(DerivativeMissingError, match=missing):
                UFUNCS[name](*arguments)


@pytest.mark.filterwarnings("ignore:.*sph_harm. is deprecated:DeprecationWarning")  # SciPy 1.15
@pytest.mark.parametrize("name", special_functions())
def test_no_function_loses_a_gradient(name):
    ufunc = UFUNCS[name]
    x = pb.tensor([0.5], requires_grad=True)
    if special_status(ufunc) is None:
        with pytest.raises(DerivativeMissingError, match=rf"scipy\.special\.{name}: no derivative"):
            ufunc(*[x] * ufunc.nin)
        assert isinstance(ufunc(*[x.detach()] * ufunc.nin), pb.Tensor)
        return
    try:
        results = ufunc(*[x] * ufunc.nin)
    except TypeError:  # whole numbers are wanted
        results = ufunc(*[1] * (ufunc.nin - 1), x)
    results = results if isinstance(results, tuple) else (results,)
    assert all(result.requires_grad for result in results)


@pytest.mark.parametrize("name", [name for name in POINTS if "D" in "".join(UFUNCS[name].types)])
def test_derivatives_at_complex_numbers(name):
    places = [place for place, _ in _differentiable(name)]
    loops = [loop.split("->")[0] for loop in UFUNCS[name].types]
    for place in places:
        if not any(loop[place] == "D" for loop in loops) or name in ONLY_REAL:
            continue
        z = np.array([0.6 + 0.4j])

        def values(moved, place=place):
            arguments = [np.array(v[1:2]) for v in POINTS[name]]
            arguments[place] = moved
            results = UFUNCS[name](*arguments)
            return list(results) if isinstance(results, tuple) else [results]

        leaf = pb.tensor(z, requires_grad=True)
        expected = _difference(values, z, 3e-3)
        for output, slope in zip(values(leaf), expected, strict=True):
            (ours,) = pb.autograd.grad(output.real.sum(), leaf, retain_graph=True)
            np.testing.assert_allclose(ours.numpy(), slope.conj(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ONLY_REAL)
def test_complex_numbers_are_refused_where_the_derivative_is_for_real_ones(name):
    *orders, x = ONLY_REAL[name]
    z = pb.tensor([x + 0.3j], requires_grad=True)
    results = UFUNCS[name](*orders, z)
    with pytest.raises(DerivativeMissingError, match=rf"scipy\.special\.{name} of complex"):
        _outputs(results)[0].sum().backward()


def test_values_and_types_are_scipys():
    x = np.array([0.3, 1.7, np.nan])
    for array in (x, x.astype(np.float32), np.array([1, 2]), np.zeros((0, 3))):
        tensor = pb.tensor(array)
        for name in ("gammaln", "erf", "j0", "expit", "round"):
            theirs, ours = UFUNCS[name](array), UFUNCS[name](tensor)
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours.numpy(), theirs)
    assert special.jv(2, pb.tensor(x.astype(np.float32))).dtype == np.float32


def test_options_and_methods_of_universal_functions():
    x = pb.tensor([0.5, 1.5], requires_grad=True)
    picked = special.gammaln(x, where=np.array([True, False]))
    (grad,) = pb.autograd.grad(picked.sum(), x)
    np.testing.assert_allclose(grad.numpy(), [special.psi(0.5), 0.0])
    out = pb.zeros(2)
    assert special.erf(x, out=out) is out
    assert out.requires_grad
    assert special.xlogy.outer(x, x).shape == (2, 2)
    with pytest.raises(AutogradError, match="erf"):
        special.erf(x, out=np.zeros(2))


def test_functions_work_inside_vmap():
    x = pb.tensor([[0.5, 1.5], [2.5, 3.5]])
    slopes = pb.func.vmap(pb.func.grad(lambda row: special.kv(1.5, row).sum()))(x)
    np.testing.assert_allclose(slopes.numpy(), special.kvp(1.5, x.numpy()))


def test_functions_made_of_hidden_ones():
    x = pb.tensor([0.5, 1.5], requires_grad=True)
    (grad,) = pb.autograd.grad(special.lambertw(x).real.sum(), x)
    w = special.lambertw(x.detach().numpy()).real
    np.testing.assert_allclose(grad.numpy(), w / (x.detach().numpy() * (1 + w)))
    (grad,) = pb.autograd.grad(special.zeta(2.0, x).sum(), x)
    np.testing.assert_allclose(grad.numpy(), -2 * special.zeta(3.0, [0.5, 1.5]))
    with pb.numpy_mode():
        (grad,) = pb.autograd.grad(special.spherical_jn(2, x).sum(), x)
    np.testing.assert_allclose(grad.numpy(), special.spherical_jn(2, [0.5, 1.5], derivative=True))


def test_the_table_is_loaded_when_it_is_first_needed():
    script = """
import sys
import pullback as pb
import numpy as np
assert "scipy" not in sys.modules
import scipy.special
x = pb.tensor([0.5], requires_grad=True)
np.sin(x)
assert "pullback._generated.scipy_special" not in sys.modules
scipy.special.erf(x).backward()
assert "pullback._generated.scipy_special.register" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_page_is_up_to_date():
    path = ROOT / "scripts" / "scipy_special.py"
    spec = importlib.util.spec_from_file_location("scipy_special_page", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = module.PAGE.read_text(encoding="utf-8")
    version = importlib.metadata.version("scipy")
    if f"SciPy {'.'.join(version.split('.')[:2])})" not in text:
        pytest.skip("the page was written with another SciPy")
    assert module.page() == text


def test_no_gradient_passes_by_arguments_that_refuse_one():
    x = pb.tensor([0.5, 1.5], requires_grad=True)
    y = special.betainc(1.5, 2.5, x)
    assert y.grad_fn(None) == (None, None, None)


@pytest.mark.parametrize("name", ["betainc", "jv", "zeta", "hyp1f1"])
def test_checks_with_missing_gradients_pass(name):
    first = {"betainc": (1.5, 2.5), "jv": (2.0,), "zeta": (2.5,), "hyp1f1": (1.5, 2.5)}[name]
    x = pb.tensor([0.3, 0.7], requires_grad=True)
    assert pb.autograd.gradcheck(lambda x: getattr(special, name)(*first, x), (x,))


POLYNOMIALS = [
    "chebyt",
    "chebyu",
    "chebyc",
    "chebys",
    "legendre",
    "sh_chebyt",
    "sh_chebyu",
    "sh_legendre",
]


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_of_low_degree_have_all_derivatives(name):
    x = pb.tensor([-1.0, -0.6, 0.3, 1.0], requires_grad=True)
    for degree, bends in ((0, False), (1, False), (2, True)):
        y = getattr(special, f"eval_{name}")(degree, x)
        (slope,) = pb.autograd.grad(y.sum(), x, create_graph=True)
        (bend,) = pb.autograd.grad((slope * pb.tensor([1.0, 2.0, 3.0, 4.0])).sum(), x)
        assert np.all(np.isfinite(slope.detach().numpy()))
        assert np.all(np.isfinite(bend.numpy()))
        assert bool((bend != 0).any()) == bends
        assert degree > 0 or not slope.detach().numpy().any()


@pytest.mark.parametrize(
    ("name", "slope"),
    [("sici", 1), ("shichi", 1), ("itj0y0", 1), ("iti0k0", 1), ("it2j0y0", 0), ("it2i0k0", 0)],
)
def test_an_infinite_slope_of_an_output_that_is_not_used_does_not_matter(name, slope):
    leaf = pb.tensor(0.0, requires_grad=True)
    outputs = getattr(special, name)(leaf)
    (ours,) = pb.autograd.grad(outputs[0], leaf, retain_graph=True)
    assert ours.item() == slope
    (other,) = pb.autograd.grad(outputs[1], leaf)
    assert not np.isfinite(other.item())


@pytest.mark.parametrize(
    ("call", "points"),
    [
        (lambda s: special.voigt_profile(10.0, s, 5.0), [1e-8, 1e-4, 0.02, 0.5, 3.0]),
        (lambda m: special.elliprd(m, 0.5, 0.3), [0.3, 0.3 + 1e-15, 0.3 + 1e-11, 0.3 + 1e-5]),
        (lambda m: special.elliprd(m, 0.3 + 1e-7, 0.3), [0.3, 0.3 + 1e-12]),
        (lambda y: special.kolmogorov(y), [-1.0, 0.0, 0.01, 0.2, 0.9, 1.5]),
        (lambda lmbda: special.boxcox(0.0, lmbda), [0.5, 2.0]),
        (lambda p: special.chndtrinc(0.3, 1.5, p), [0.1, 0.5, 0.9]),
    ],
)
def test_slopes_near_singular_points(call, points):
    x = np.array(points)
    leaf = pb.tensor(x, requires_grad=True)
    (slope,) = pb.autograd.grad(call(leaf).sum(), leaf)
    step = 1e-3 * np.maximum(np.abs(x), 1e-2) * (x > 1e-6)
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = (call(x + step) - call(x - step)) / (2 * step)
    np.testing.assert_allclose(slope.numpy(), np.where(step == 0, 0, expected), 1e-3, 1e-7)


@pytest.mark.filterwarnings("ignore:floating point number truncated")
@pytest.mark.parametrize("name", ["kn", "yn", "expn", "pdtri", "bdtr", "bdtri", "nbdtr", "nbdtri"])
def test_orders_that_scipy_cuts_to_whole_numbers(name: str) -> None:
    function = getattr(special, name)
    whole = (2.0, 5.0)[: function.nin - 1]
    grads = []
    for orders in (whole, [n + 0.7 for n in whole]):
        x = pb.tensor(0.4, requires_grad=True)
        function(*orders, x).backward()
        grads.append(x.grad.item())
    assert grads[0] == grads[1] != 0


@pytest.mark.parametrize("name", sorted({row[0] for row in PARAMETERS}))
def test_derivatives_by_parameters(name):
    """First derivatives to 1e-8 and second ones to 1e-6, against mpmath."""
    for place, arguments, first, second in (row[1:] for row in PARAMETERS if row[0] == name):

        def value(parameter, place=place, arguments=arguments):
            given = [*arguments[:place], parameter, *arguments[place + 1 :]]
            return getattr(special, name)(*given)

        at = pb.tensor(arguments[place])
        slope, bend = (
            f(at).item() for f in (pb.func.grad(value), pb.func.grad(pb.func.grad(value)))
        )
        floor = 1e-3 * abs(float(value(arguments[place])))
        assert abs(slope - first) <= 1e-8 * max(abs(first), floor), (arguments, slope, first)
        scale = max(abs(second), abs(first), floor)
        assert abs(bend - second) <= 1e-6 * scale, (arguments, bend, second)
        _, tangent = pb.func.jvp(value, (at,), (pb.tensor(1.0),))
        assert tangent.item() == pytest.approx(slope, rel=1e-13)


@pytest.mark.parametrize(
    "name", ["jv", "yv", "iv", "kv", "jve", "kve", "hankel1", "hankel2e", "hyp0f1"]
)
def test_derivatives_by_a_parameter_of_a_complex_function(name):
    function = getattr(special, name)
    z, v, step = 1.0 + 0.7j, 1.3, 1e-5
    expected = (function(v + step, z) - function(v - step, z)) / (2 * step)
    real, imag = (
        pb.grad(lambda v: function(v, z).real)(v),
        pb.grad(lambda v: function(v, z).imag)(v),
    )
    np.testing.assert_allclose([real, imag], [expected.real, expected.imag], rtol=1e-7)
