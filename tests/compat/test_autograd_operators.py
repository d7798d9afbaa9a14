"""HIPS autograd's operators: recorded numbers, and the library itself where it is installed."""

from __future__ import annotations

import numpy as onp
import pytest

import pullback as pb
import pullback.compat.autograd as ours
import pullback.compat.autograd.numpy as np
from pullback.compat.autograd.test_util import check_grads, combo_check
from pullback.errors import AutogradTypeError, DerivativeMissingError

try:
    import autograd as theirs
except ImportError:
    theirs = None

A = onp.array([0.3, -0.7, 1.1])
Z = onp.array([1.0 + 2.0j, -0.5j, 0.3])
M = onp.array([[2.0, 0.3], [0.1, 1.5]])

# name → (operator, function of the namespace, arguments after the function, arguments)
CASES = {
    "grad": ("grad", lambda n: lambda x: n.sum(n.sin(x) * x**2), (), (A,)),
    "grad float": ("grad", lambda n: n.tanh, (), (0.4,)),
    "grad tuple": ("grad", lambda n: lambda x, y: n.sum(x * y), ((0, 1),), (A, 2 * A)),
    "grad second": ("grad", lambda n: lambda x, y: n.dot(x, n.exp(y)), (1,), (A, 2 * A)),
    "grad tree": (
        "grad",
        lambda n: lambda p: p["a"] * p["b"][1],
        (),
        ({"a": 2.0, "b": [1.0, 5.0]},),
    ),
    "grad size 1": ("grad", lambda n: lambda x: x**2, (), (onp.ones(1),)),
    "grad float32": ("grad", lambda n: lambda x: n.sum(x**2), (), (A.astype(onp.float32),)),
    "grad complex": ("grad", lambda n: lambda z: n.sum(n.real(z**3) + n.abs(z)), (), (Z,)),
    "grad conj": ("grad", lambda n: lambda z: n.real(n.sum(n.conj(z) * z * 1j * z)), (), (Z,)),
    "grad fft": ("grad", lambda n: lambda x: n.sum(n.abs(n.fft.fft(x)) ** 4), (), (A,)),
    "grad linalg": (
        "grad",
        lambda n: lambda m: n.linalg.slogdet(m)[1] + n.linalg.inv(m)[0, 1],
        (),
        (M,),
    ),
    "elementwise": ("elementwise_grad", lambda n: n.arctan, (), (A,)),
    "jacobian": ("jacobian", lambda n: lambda x: n.outer(x, n.cos(x)), (), (A,)),
    "jacobian complex": ("jacobian", lambda n: lambda z: n.imag(z * z), (), (Z,)),
    "hessian": ("hessian", lambda n: lambda x: n.prod(x) + n.sum(x**3), (), (A,)),
    "holomorphic": ("holomorphic_grad", lambda n: n.sin, (), (1 + 2j,)),
    "deriv": ("deriv", lambda n: lambda x: n.sin(x) * x, (), (A,)),
    "deriv complex": ("deriv", lambda n: lambda z: z**2, (), (1 + 2j,)),
    "value_and_grad": ("value_and_grad", lambda n: lambda x: n.sum(x**2), (), (A,)),
    "grad_and_aux": ("grad_and_aux", lambda n: lambda x: (n.sum(x**2), x[0] * 3), (), (A,)),
    "hvp": ("hessian_vector_product", lambda n: lambda x: n.sum(x**4), (), (A, 2 * A)),
    "vjp product": ("vector_jacobian_product", lambda n: lambda x: n.exp(x), (), (A, 2 * A)),
}


@pytest.fixture(autouse=True)
def same_directions():
    """Finite differences are tried along the same random directions in every run."""
    onp.random.seed(0)


def _same(a, b):
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            _same(a[key], b[key])
    elif isinstance(a, tuple | list):
        assert type(a) is type(b)
        for x, y in zip(a, b, strict=True):
            _same(x, y)
    else:
        assert not isinstance(a, pb.Tensor)
        assert onp.shape(a) == onp.shape(b)
        assert onp.result_type(a) == onp.result_type(b)
        onp.testing.assert_allclose(a, b, rtol=1e-6 if onp.result_type(a) == "f4" else 1e-12)


@pytest.mark.skipif(theirs is None, reason="HIPS autograd is not installed")
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_hips_autograd(case):
    name, make, options, args = CASES[case]
    anp = __import__("autograd.numpy", fromlist=["numpy"])
    _same(
        getattr(ours, name)(make(np), *options)(*args),
        getattr(theirs, name)(make(anp), *options)(*args),
    )


@pytest.mark.skipif(theirs is None, reason="HIPS autograd is not installed")
def test_every_public_name_of_hips_autograd_is_here():
    builtins = {"dict", "list", "tuple", "isinstance", "type"}
    found = {n for n in vars(theirs) if not n.startswith("_") and callable(vars(theirs)[n])}
    assert found - builtins <= set(ours.__all__)


def test_recorded_numbers():
    # Computed with HIPS autograd 1.9.1.
    assert ours.grad(lambda z: np.real(z**2) + np.abs(z))(1 + 2j) == pytest.approx(
        2.447213595499958 + 3.1055728090000843j
    )
    assert ours.holomorphic_grad(np.sin)(1 + 2j) == pytest.approx(
        2.0327230070196656 - 3.0518977991518j
    )
    assert ours.deriv(lambda z: z**2)(1 + 2j) == pytest.approx(-2 + 6j)
    assert ours.make_vjp(lambda z: z * z)(1 + 2j)[0](1j) == pytest.approx(-4 + 2j)
    assert ours.make_jvp(lambda z: z * z)(1 + 2j)(1j) == pytest.approx((-3 + 4j, -4 + 2j))
    assert ours.jacobian(lambda z: np.real(z * z))(onp.array([1 + 2j, 3j])).tolist() == [
        [2 + 4j, 0],
        [0, 6j],
    ]


def test_operators_nest_and_compose_with_each_other():
    f = lambda x: np.sin(x) * x  # noqa: E731
    x = 0.7
    exact = 2 * onp.cos(x) - x * onp.sin(x)
    assert ours.grad(ours.grad(f))(x) == pytest.approx(exact)
    assert ours.deriv(ours.grad(f))(x) == pytest.approx(exact)
    assert ours.grad(ours.deriv(f))(x) == pytest.approx(exact)
    hvp, gradient = ours.make_hvp(lambda v: np.sum(v**3))(A)
    onp.testing.assert_allclose(hvp(2 * A), 12 * A**2)
    onp.testing.assert_allclose(gradient, 3 * A**2)
    onp.testing.assert_allclose(ours.make_ggnvp(lambda v: v**2)(A)(A), 4 * A**3)


def test_results_that_do_not_depend_on_the_argument_give_zeros_and_a_warning():
    with pytest.warns(UserWarning, match="Output seems independent of input"):
        assert ours.grad(lambda x: 3.0)(A).tolist() == [0, 0, 0]
    with pytest.warns(UserWarning, match="independent"):
        assert ours.jacobian(lambda x: onp.ones(2))(A).tolist() == [[0, 0, 0]] * 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ours.grad(lambda x: x**2)(3), "Can't differentiate w.r.t. 3"),
        (lambda: ours.grad(lambda x: np.sum(x))(onp.array([1, 2])), "of dtype int64"),
        (lambda: ours.grad(lambda x: x)(A), "only applies to real scalar-output"),
        (lambda: ours.grad(lambda x: x * 1j)(1.0), "only applies to real scalar-output"),
        (lambda: ours.elementwise_grad(lambda x: x * 1j)(A), "only applies to real-output"),
        (lambda: ours.jacobian(lambda x: x * 1j)(A), "only applies to real-output"),
        (lambda: ours.grad(lambda x: None)(1.0), "returned nothing"),
        (lambda: ours.grad(np.sin, 1.0)(1.0), "argnum must be a position"),
    ],
)
@pytest.mark.filterwarnings("ignore:Output seems independent")
def test_refusals_are_type_errors_that_name_the_cause(call, words):
    with pytest.raises(AutogradTypeError, match=words):
        call()


def test_checkpoint_keeps_derivatives_of_both_modes_and_orders():
    runs = []

    def f(x, y, scale=1.0):
        runs.append(1)
        return np.sum(np.sin(x) * y) * scale

    kept = ours.checkpoint(f)
    for argnum in (0, 1):
        expected = ours.grad(f, argnum)(A, 2 * A, scale=3.0)
        onp.testing.assert_allclose(ours.grad(kept, argnum)(A, 2 * A, scale=3.0), expected)
    runs.clear()
    ours.grad(kept)(A, 2 * A)
    assert len(runs) == 2
    check_grads(kept, (0, 1))(A, 2 * A)


def test_check_grads_finds_wrong_rules():
    wrong = ours.extend.primitive(lambda x: x**2)
    ours.extend.defvjp(wrong, lambda ans, x: lambda g: 3 * g * x)
    ours.extend.defjvp(wrong, lambda g, ans, x: 3 * g * x)
    for mode in ("fwd", "rev"):
        with pytest.raises(AssertionError, match="Derivative"):
            check_grads(wrong, modes=[mode], order=1)(2.0)
    combo_check(lambda z, n: z**n)([1 + 1j, 2.0], [2, 3])
    check_grads(lambda z: np.abs(z) * z)(Z)


def test_a_primitive_of_two_arguments_differentiates_in_both_modes_and_twice():
    @ours.primitive
    def weighted(x, y, power=2):
        assert isinstance(x, onp.ndarray)
        return x**power * y

    with pytest.raises(DerivativeMissingError, match="VJP of weighted not defined"):
        ours.grad(lambda x: np.sum(weighted(x, A)))(A)
    ours.extend.defvjp(
        weighted,
        lambda ans, x, y, power=2: lambda g: g * power * x ** (power - 1) * y,
        lambda ans, x, y, power=2: lambda g: g * x**power,
    )
    ours.extend.defjvp(
        weighted,
        lambda g, ans, x, y, power=2: g * power * x ** (power - 1) * y,
        lambda g, ans, x, y, power=2: g * x**power,
    )
    assert isinstance(weighted(A, A), onp.ndarray)
    check_grads(weighted, (0, 1))(A, 2 * A)
    check_grads(lambda x: weighted(x, 2 * x, power=3))(A)
    with pytest.raises(AutogradTypeError, match="by keyword"):
        ours.grad(lambda p: np.sum(weighted(A, A, power=p)))(2.0)


def test_complex_rules_have_the_conjugated_convention():
    square = ours.primitive(lambda z: z**2)
    ours.extend.defvjp(square, lambda ans, z: lambda g: g * 2 * z)
    ours.extend.defjvp(square, lambda g, ans, z: g * 2 * z)
    check_grads(square)(Z)
    assert ours.grad(lambda z: np.real(square(z)))(1 + 2j) == pytest.approx(2 + 4j)


def test_rules_of_a_first_derivative_get_plain_arrays():
    seen = []
    twice = ours.primitive(lambda x: 2 * x)
    ours.extend.defvjp(twice, lambda ans, x: lambda g: (seen.append(type(x)), 2 * g)[1])
    ours.grad(lambda x: np.sum(twice(x)))(A)
    assert seen == [onp.ndarray]


def test_other_forms_of_rules():
    pair = ours.primitive(lambda x, y: (x + y, x * y))
    ours.extend.defvjp_argnum(
        pair,
        lambda argnum, ans, args, kwargs: lambda g: g[0] + g[1] * args[1 - argnum],
    )
    ours.extend.defjvp_argnum(pair, lambda argnum, g, ans, args, kwargs: (g, g * args[1 - argnum]))
    check_grads(lambda x, y: pair(x, y)[0] * pair(x, y)[1], (0, 1))(A, 2 * A)
    double = ours.primitive(lambda x: 2 * x)
    ours.extend.def_linear(double)
    assert ours.deriv(double)(3.0) == 2
    ours.extend.defjvp(double, "same")
    assert ours.deriv(double)(3.0) == 2
    ours.extend.defvjp(double, None)
    assert ours.grad(double)(3.0) == 0
    first = ours.primitive(lambda x, y: x)
    ours.extend.defvjp(first, lambda ans, x, y: lambda g: g, argnums=[0])
    with pytest.raises(NotImplementedError, match="wrt argnum 1 not defined"):
        ours.grad(first, 1)(1.0, 2.0)
    with pytest.raises(AutogradTypeError, match="have their derivatives already"):
        ours.extend.defvjp(np.sin, None)


# --- the namespace -------------------------------------------------------------------------------


def test_arrays_stay_arrays():
    assert type(np.zeros(3)) is onp.ndarray
    assert np.sin is onp.sin
    assert type(np.array([1.0, 2.0])) is onp.ndarray
    assert type(np.sum([1.0, 2.0])) is onp.float64
    assert np.pi == onp.pi
    assert np.float32 is onp.float32
    assert np.linalg.norm(A) == onp.linalg.norm(A)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.array([x[0], x[1] * x[2], 3.0]),
        lambda x: np.array([[x[0], 1.0], [x[1], x[2]]]),
        lambda x: np.array([x, 2 * x]),
        lambda x: np.concatenate([x, 2 * x]),
        lambda x: np.stack([x, A]),
        lambda x: np.vstack([x, A]),
        lambda x: np.r_[x, 1.0, 2 * x],
        lambda x: np.c_[x, A],
        lambda x: np.sum([x[0], x[1]]) * x,
        lambda x: np.mean([x[0], x[1]]) * x,
        lambda x: np.full(2, x[0]),
        lambda x: np.where(x > 0, x**2, -x),
        lambda x: np.einsum("i,j->ij", x, x),
        lambda x: np.append(x, x[0]),
        lambda x: np.linalg.norm([x[0], x[1]]) * x,
    ],
)
def test_traced_values_pass_through_creation_and_joining(f):
    check_grads(f, order=1)(A)


def test_tensordot_with_a_number_differentiates():
    assert ours.grad(lambda x: np.tensordot(x, 10.0, 0))(2.0) == 10
    assert ours.grad(lambda x: np.tensordot(10.0, x, 0))(2.0) == 10


def test_random_numbers_are_arrays_and_refuse_gradients():
    assert isinstance(np.random.randn(2), onp.ndarray)
    assert isinstance(np.random.RandomState(0).randn(2), onp.ndarray)
    with pytest.raises(DerivativeMissingError, match=r"numpy\.random\.normal"):
        ours.grad(lambda x: np.random.normal(x))(1.0)


def test_star_imports_and_submodules():
    names: dict[str, object] = {}
    exec("from pullback.compat.autograd.numpy import *", names)
    assert names["sin"] is onp.sin
    exec("from pullback.compat.autograd.numpy.linalg import inv, solve", names)
    exec("import pullback.compat.autograd.numpy.random as npr", names)
    with pytest.raises(AttributeError):
        np.no_such_function  # noqa: B018 - asks for it
