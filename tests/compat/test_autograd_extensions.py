"""HIPS autograd's ways to look inside and to extend: traces, primitives, vector spaces, types."""

from __future__ import annotations

import warnings

import numpy as onp
import pytest

import pullback as pb
import pullback.compat.autograd as ag
import pullback.compat.autograd.numpy as np
from pullback.compat.autograd import builtins, core, grad
from pullback.compat.autograd.extend import Box, VSpace, defjvp, defvjp, primitive, vspace
from pullback.compat.autograd.misc import const_graph, flatten, full_graph
from pullback.compat.autograd.misc.fixed_points import fixed_point
from pullback.compat.autograd.test_util import check_grads
from pullback.compat.autograd.tracer import Node, getval, isbox, trace
from pullback.compat.autograd.util import quick_grad_check, subvals, toposort
from pullback.errors import AutogradTypeError, DerivativeMissingError

X = onp.array([0.3, -0.7, 1.1])


@pytest.fixture(autouse=True)
def same_directions():
    onp.random.seed(0)


# --- builtins and values --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (X, np.ndarray, True),
        (X, list, False),
        (2.0, float, True),
        (2.0, (int, str), False),
        (1 + 2j, complex, True),
        ([2.0], builtins.list, True),
        ((2.0,), builtins.tuple, True),
        ({"a": 2.0}, builtins.dict, True),
        ({"a": 2.0}, dict, True),
        ([], list, True),
    ],
)
@pytest.mark.filterwarnings("ignore:Output seems independent")
def test_isinstance_asks_the_value(value, kind, expected):
    seen = []
    grad(lambda x: seen.append(builtins.isinstance(x, kind)) or 1.0)(value)
    assert seen == [expected] == [builtins.isinstance(value, kind)]


def test_type_is_that_of_the_value():
    seen = []
    grad(lambda x: seen.append(builtins.type(x)) or np.sum(x))(X)
    assert seen == [onp.ndarray]


def test_containers_are_ordinary_ones():
    x = 2.0
    made = (builtins.tuple((x, x)), builtins.list([x]), builtins.dict({"a": x}, b=x))
    assert [type(part) for part in made] == [tuple, list, dict]
    assert grad(lambda x: builtins.tuple((x, x**2))[1])(3.0) == 6.0
    assert ag.tuple is builtins.tuple
    assert ag.isinstance is builtins.isinstance


def test_getval_and_isbox():
    seen = []
    grad(lambda x: seen.extend([isbox(x), getval(x), isbox(getval(x))]) or x**2)(3.0)
    assert seen == [True, 3.0, False]
    assert getval(X) is X


@pytest.mark.parametrize("returned", [True, onp.True_])
@pytest.mark.filterwarnings("ignore:Output seems independent")
def test_a_bool_has_no_gradient(returned):
    with pytest.raises(AutogradTypeError, match="returned a bool"):
        grad(lambda x: returned)(1.0)


# --- NumPy's functions ----------------------------------------------------------------------------


def test_numpy_functions_that_take_more():
    check_grads(lambda a, b: np.append(a, b, axis=0), (0, 1))([[1.0, 2.0]], [[3.0, 4.0]])
    check_grads(lambda a, b: np.append(a, b), (0, 1))([[1.0, 2.0]], [3.0])
    check_grads(lambda a: np.row_stack([a, a**2]))(X)
    check_grads(lambda a: np.make_diagonal(a, axis1=-1, axis2=-2))(onp.outer(X, X))
    check_grads(lambda a: np.where(condition=X > 0, x=a, y=a**2))(X)
    assert np.where(True, [1], [2]) == [1]
    with pytest.raises(ValueError, match="make_diagonal takes offset=0"):
        np.make_diagonal(X)


@pytest.mark.parametrize("name", ["max", "min", "amax", "amin"])
@pytest.mark.parametrize("options", [{}, {"axis": 0}, {"axis": -1, "keepdims": True}])
def test_largest_of_complex_numbers(name, options):
    z = onp.array([[1.5 + 2j, 1 - 1j, 0.5], [2 + 1j, -1j, 2.5 + 0.5j]])
    function = getattr(np, name)
    check_grads(lambda z: function(z, **options))(z)
    with pb.no_grad():
        found = function(pb.tensor(z), **options)
    onp.testing.assert_allclose(found.numpy(), getattr(onp, name)(z, **options))


def test_integer_types_take_tensors():
    assert grad(lambda x: x[np.int64(x[0])] * 2.0)(onp.array([1.0, 5.0])).tolist() == [0.0, 2.0]
    assert isinstance(onp.int32(3), np.int32)
    assert onp.zeros(2, dtype=np.int64).dtype == onp.int64


# --- primitives -----------------------------------------------------------------------------------


def test_a_primitive_of_containers():
    @primitive
    def swap(pair, scale):
        return {"first": pair[1] * scale, "second": pair[0]}

    def maker(ans, pair, scale):
        return lambda g: (g["second"], g["first"] * scale)

    def by_scale(ans, pair, scale):
        return lambda g: np.sum(g["first"] * pair[1])

    defvjp(swap, maker, by_scale)
    defjvp(
        swap,
        lambda g, ans, pair, scale: {"first": g[1] * scale, "second": g[0]},
        lambda g, ans, pair, scale: {"first": pair[1] * g, "second": 0.0 * pair[0]},
    )
    check_grads(
        lambda pair, scale: (
            swap(pair, scale)["first"] ** 2 + np.sum(swap(pair, scale)["second"] ** 3)
        ),
        (0, 1),
    )((X, 2 * X), 1.5)


def test_a_primitive_is_a_method():
    class Scale:
        factor = 3.0

        @primitive
        def __call__(self, x):
            return self.factor * x

    defvjp(Scale.__call__, lambda ans, self, x: lambda g: self.factor * g, argnums=(1,))
    assert grad(Scale())(2.0) == 3.0


def test_a_wrong_structure_of_a_gradient_raises():
    first = primitive(lambda pair: pair[0] * 2.0)
    defvjp(first, lambda ans, pair: lambda g: [g])
    with pytest.raises(ValueError, match="gradient by argument 0"):
        grad(lambda a: first((a, a)))(1.0)


def test_rules_can_be_removed_and_end_with_their_primitive():
    double = primitive(lambda x: 2 * x)
    defvjp(double, lambda ans, x: lambda g: 2 * g)
    assert double in core.primitive_vjps
    rule = core.primitive_vjps.pop(double)
    with pytest.raises(NotImplementedError, match="VJP of <lambda> not defined"):
        grad(double)(1.0)
    core.primitive_vjps[double] = rule
    assert grad(double)(1.0) == 2.0
    assert core.primitive_vjps.pop(onp.sin, None) is None


def test_deprecated_rules():
    product = primitive(lambda x, y: x * y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        product.defgrad(lambda ans, x, y: lambda g: g * y)
        product.defvjp(lambda g, ans, vs, gvs, x, y: g * x, argnum=1)
        quick_grad_check(lambda x, y: x**2 + y, 1.0, (2.0,))
    assert len(caught) == 3
    assert grad(product, (0, 1))(2.0, 3.0) == (3.0, 2.0)
    constant = primitive(lambda x: 0 * x)
    with pytest.warns(UserWarning, match="defvjp_is_zero"):
        constant.defvjp_is_zero()
    assert grad(constant)(2.0) == 0.0


# --- core -----------------------------------------------------------------------------------------


def test_core_products_take_function_and_argument():
    vjp, value = core.make_vjp(lambda x: x**2, 3.0)
    assert (vjp(1.0), value) == (6.0, 9.0)
    assert core.make_jvp(lambda x: x**2, 3.0)(2.0) == (9.0, 12.0)


def test_names_of_derivatives():
    def foo(x, y):
        return x * y

    assert grad.__name__ == "grad"
    assert grad(foo, 1).__name__ == "grad_of_foo_wrt_argnum_1"
    assert grad(foo, 1).__doc__.startswith("    grad of function foo with")


@pytest.mark.parametrize(
    "value", [X, 2.0, 1j * X, [1.0, X], (1.0, {"a": X}), onp.float32(1.0), onp.zeros((0, 2))]
)
def test_spaces(value):
    space = vspace(value)
    x, y = space.randn(), space.randn()
    basis = list(space.standard_basis())
    assert len(basis) == space.size
    assert space == vspace(space.add(x, y)) == vspace(space.scalar_mul(x, 2.0)) == vspace(x)
    total = sum(space.inner_prod(e, x) * space.inner_prod(e, y) for e in basis)
    onp.testing.assert_allclose(total, space.inner_prod(x, y), rtol=1e-6)
    assert space.inner_prod(space.zeros(), x) == 0
    if space.size and space.size < 6 and getattr(space, "dtype", None) != onp.float32:
        check_grads(space.add, (0, 1))(x, y)
        check_grads(space.scalar_mul, (0, 1))(x, 0.7)
        check_grads(space.inner_prod, (0, 1))(x, y)
        check_grads(space.covector)(x)


def test_a_value_without_space():
    with pytest.raises(TypeError, match="Can't find vector space for value 3 of type int"):
        vspace(3)


class Polynomial:
    """A polynomial as a dictionary of coefficients by power."""

    def __init__(self, coefficients):
        self.coefficients = coefficients

    @primitive
    def __call__(self, x):
        return sum((c * x**p for p, c in self.coefficients.items()), 0.0)

    def __add__(self, other):
        return vspace(self).add(self, other)

    def __mul__(self, factor):
        return vspace(self).scalar_mul(self, factor)


class PolynomialBox(Box, Polynomial):
    pass


class PolynomialSpace(VSpace):
    def zeros(self):
        return Polynomial({})

    def _add(self, f, g):
        powers = {**f.coefficients, **g.coefficients}
        at = [h.coefficients.get for h in (f, g)]
        return Polynomial({p: at[0](p, 0.0) + at[1](p, 0.0) for p in powers})

    def _scalar_mul(self, f, a):
        return Polynomial({p: a * c for p, c in f.coefficients.items()})

    def _inner_prod(self, f, g):
        return sum(c * g.coefficients.get(p, 0.0) for p, c in f.coefficients.items())


PolynomialBox.register(Polynomial)
PolynomialSpace.register(Polynomial)
defvjp(
    Polynomial.__call__,
    lambda ans, f, x: lambda g: Polynomial({p: g * x**p for p in range(4)}),
)


def test_a_type_of_the_user():
    f = Polynomial({0: 1.0, 2: -0.5})

    def loss(f):
        return (f(2.0) - 3.0) ** 2 + (f * 2.0 + f)(1.0)

    slope = grad(loss)(f).coefficients
    for power in range(3):
        step = 1e-6

        def moved(h, power=power):
            return loss(Polynomial({**f.coefficients, power: f.coefficients.get(power, 0) + h}))

        onp.testing.assert_allclose(
            slope[power], (moved(step) - moved(-step)) / (2 * step), rtol=1e-6
        )
    value, again = ag.value_and_grad(loss)(f)
    assert value == loss(f)
    assert again.coefficients == slope  # the cells are empty after a pass
    both = grad(lambda f, x: loss(f) * x**2, (0, 1))(f, 3.0)
    assert both[1] == pytest.approx(6 * loss(f))
    assert both[0].coefficients[2] == pytest.approx(9 * slope[2])


def test_what_a_type_of_the_user_cannot():
    f = Polynomial({0: 1.0})
    with pytest.raises(AutogradTypeError, match="no forward mode"):
        ag.deriv(lambda f: f(1.0))(f)
    with pytest.raises(AutogradTypeError, match="returned a Polynomial"):
        ag.make_vjp(lambda f: f + f)(f)
    with pytest.raises(AutogradTypeError, match="derivatives of derivatives"):
        grad(lambda f: grad(lambda g: g(1.0) ** 2)(f)(1.0))(f)


# --- traces ---------------------------------------------------------------------------------------


class Names(Node):
    def __init__(self, value, fun, args, kwargs, parent_argnums, parents):
        self.parents, self.name, self.value = parents, fun.__name__, value
        assert len(parent_argnums) == len(parents)
        args = subvals(args, zip(parent_argnums, [p.value for p in parents], strict=True))
        onp.testing.assert_allclose(fun(*args, **kwargs), value)  # an operation can be repeated

    def initialize_root(self, x):
        self.parents, self.name, self.value = (), "root", x


def test_a_trace_has_the_operations():
    value, node = trace(Names.new_root(X), lambda x: np.sum(np.sin(x) * X) + 1.0, X)
    assert value == pytest.approx(onp.sum(onp.sin(X) * X) + 1)
    assert [n.name for n in toposort(node)] == ["add", "sum", "mul", "sin", "root"]
    _, node = trace(Names.new_root(2.0), grad(lambda x: np.sin(x) * 2.0), 2.0)
    assert "cos" in [n.name for n in toposort(node)]
    with pytest.warns(UserWarning, match="independent"):
        assert trace(Names.new_root(X), lambda x: 1.0, X) == (1.0, None)


def test_a_constant_graph_repeats_operations():
    calls = []

    @primitive
    def process(value, name):
        calls.append(name)
        return value * 3.0

    defvjp(process, lambda ans, value, name: lambda g: process(g, "backward"))

    def program(x, y):
        calls.append("program")
        pair = np.concatenate([x, process(y, "y")])
        return np.sum(pair**2) + grad(lambda z: process(z, "z") ** 2)(x[0])

    fast = const_graph(program)
    for scale in (1.0, 2.0, -0.5):
        assert fast(scale * X, X) == pytest.approx(program(scale * X, X))
    assert calls.count("program") == 4  # three times itself, once recorded
    fixed = const_graph(lambda a, x, b=0.0: a * x + b, 2.0, b=1.0)
    assert [fixed(1.0), fixed(3.0)] == [3.0, 7.0]
    check_grads(const_graph(lambda x: np.sum(np.sin(x) ** 2)))(X)
    with (
        pytest.raises(ValueError, match="independent of input"),
        pytest.warns(UserWarning, match="independent"),
    ):
        const_graph(lambda x: 1.0)(X)


def test_a_full_graph():
    fun, args, kwargs, parents = full_graph(lambda x, y: np.dot(x, y) * 2.0, X, X).recipe
    assert fun.__name__ == "mul"
    onp.testing.assert_allclose(fun(*args, **kwargs), 2 * X @ X)
    assert len(parents) == 1


# --- misc, SciPy ----------------------------------------------------------------------------------


def _distance(x, y):
    return np.sum(np.abs(flatten(x)[0] - flatten(y)[0]))


def test_fixed_points():
    def root(a):
        return fixed_point(lambda a: lambda x: 0.5 * (x + a / x), a, 1.0, _distance, 1e-13)

    assert root(2.0) == pytest.approx(2**0.5)
    assert grad(root)(2.0) == pytest.approx(0.5 * 2**-0.5)
    assert grad(grad(root))(2.0) == pytest.approx(-0.25 * 2**-1.5)

    def pair(a):
        step = lambda a: lambda x: (np.cos(x[1]) * a["s"], 0.5 * np.sin(x[0]) + a["t"])  # noqa: E731
        return fixed_point(step, a, (0.1, 0.1), _distance, 1e-13)

    check_grads(lambda a: pair(a)[0] * pair(a)[1], order=1)({"s": 0.5, "t": 0.2})


def test_odeint():
    pytest.importorskip("scipy")
    from pullback.compat.autograd.scipy.integrate import odeint

    def decay(y, t, rate, shift):
        return -rate * y + shift * t

    times = onp.linspace(0.1, 0.5, 4)
    run = lambda y0, t, args: odeint(decay, y0, t, args, rtol=1e-10, atol=1e-10)  # noqa: E731
    check_grads(run, (0, 1, 2), modes=["rev"], order=1)(X, times, (1.3, 0.4))


def test_square_root_of_an_indefinite_matrix():
    scipy = pytest.importorskip("scipy.linalg")
    a = onp.array([[0.5, 0.7, 1.1], [0.7, -0.2, 0.3], [1.1, 0.3, -0.5]])
    assert onp.linalg.eigvalsh(a)[0] < 0
    check_grads(lambda a: scipy.sqrtm(a + a.T))(a)
    for name, more in (("logm", ()), ("fractional_matrix_power", (0.5,))):
        with pytest.raises(DerivativeMissingError, match=f"{name}: A has an eigenvalue on the neg"):
            grad(lambda a, name=name, more=more: np.sum(np.abs(getattr(scipy, name)(a, *more))))(a)
