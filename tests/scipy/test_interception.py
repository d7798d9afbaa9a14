"""SciPy's own functions, classes and methods reach the rules, however their names were got."""

from __future__ import annotations

import collections
import functools
import inspect
import math
import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy", reason="pip install scipy runs these tests")

import scipy.interpolate
import scipy.linalg
import scipy.spatial
import scipy.stats
from scipy.linalg import cho_factor

import pullback as pb
from pullback._cpython import CAN_READ_BYTECODE
from pullback.scipy import hooks, registry
from pullback.scipy.hooks import HOOKS, Hook

POSITIVE = np.array([[2.0, 0.3], [0.3, 1.0]])


def needs_grad(value):
    return pb.tensor(value, requires_grad=True)


@pytest.fixture
def declare():
    """Rules that end with the test."""
    for name in pb.scipy.__all__:
        registry.find_rule(f"scipy.{name}.any")
    rules, classes = dict(registry.RULES), dict(registry.CLASSES)
    for name in list(registry.RULES):
        del registry.RULES[name]
    registry.CLASSES.clear()
    yield registry
    registry.RULES.clear()
    registry.RULES.update(rules)
    registry.CLASSES.clear()
    registry.CLASSES.update(classes)


def run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- functions ------------------------------------------------------------------------------------


def test_a_rule_is_found_by_a_name_that_was_imported_before(declare):
    @declare.rule("scipy.linalg.cho_factor", tensors="a")
    def _cho_factor(a, lower=False, overwrite_a=False, check_finite=True):
        return pb.linalg.cholesky(a), lower

    stored = {"f": cho_factor}
    for function in (scipy.linalg.cho_factor, cho_factor, stored["f"], pb.scipy.linalg.cho_factor):
        factor, lower = function(needs_grad(POSITIVE))
        assert factor.requires_grad
        assert lower is False
        factor, _ = function(a=needs_grad(POSITIVE))
        assert factor.requires_grad


def test_a_rule_gets_the_arguments_that_it_names_with_scipys_defaults(declare):
    @declare.rule("scipy.linalg.solve_triangular", tensors="a b")
    def _solve(a, b, lower, trans):
        return b * 2.0, lower, trans

    @declare.rule("scipy.linalg.inv", tensors="a")
    def _inv(a, **options):
        return a * 2.0, options

    b = needs_grad(np.ones(2))
    assert scipy.linalg.solve_triangular(POSITIVE, b)[1:] == (False, 0)
    assert scipy.linalg.solve_triangular(POSITIVE, b, 1, lower=True)[1:] == (True, 1)
    # What says how SciPy computes has no effect on a rule that does not name it.
    assert scipy.linalg.solve_triangular(POSITIVE, b, overwrite_b=True, check_finite=False)
    with pytest.raises(pb.errors.DerivativeMissingError, match=r"solve_triangular.*unit_diagonal="):
        scipy.linalg.solve_triangular(POSITIVE, b, unit_diagonal=True)
    with pytest.raises(TypeError):
        scipy.linalg.solve_triangular(POSITIVE, b, upper=True)
    found = scipy.linalg.inv(needs_grad(POSITIVE), overwrite_a=True)[1]
    assert found["check_finite"] is True
    assert "overwrite_a" not in found


def test_a_rule_is_found_in_another_thread(declare):
    @declare.rule("scipy.linalg.inv", tensors="a")
    def _inv(a):
        return a * 2

    found = []
    thread = threading.Thread(target=lambda: found.append(scipy.linalg.inv(needs_grad(np.eye(2)))))
    thread.start()
    thread.join()
    assert found[0].requires_grad


def test_names_imported_before_and_modules_imported_after_are_caught():
    script = """
from scipy.linalg import inv
import sys
assert not [name for name in sys.modules if name.startswith("pullback")]
import pullback as pb, numpy as np
assert "scipy.signal" not in sys.modules
from scipy.signal import detrend
import scipy.signal
x = pb.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)
for function in (inv, detrend, scipy.signal.lfiltic):
    try:
        function(x, x, x) if function is scipy.signal.lfiltic else function(x)
    except pb.errors.DerivativeMissingError as error:
        print(str(error).partition(":")[0])
    else:
        print("differentiated")
assert "SourceFileLoader" in str(scipy.signal.__spec__.loader), scipy.signal.__spec__
"""
    assert len(run(script).splitlines()) == 3


def test_names_got_in_any_way_differentiate_in_any_place():
    script = Path(__file__).with_name("interception_matrix.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    assert [row for row in rows if not row.endswith("| True")] == []
    assert len(rows) == 75


def test_import_of_pullback_does_not_import_scipy():
    assert "none" in run(
        "import sys, pullback; print([m for m in sys.modules if m.startswith('scipy')] or 'none')"
    )


def test_a_tensor_without_gradient_gives_what_scipy_gives(declare):
    theirs = scipy.linalg.inv(POSITIVE)
    ours = scipy.linalg.inv(pb.tensor(POSITIVE))
    assert type(ours) is np.ndarray
    assert (ours == theirs).all()
    with pb.no_grad():
        assert (scipy.linalg.inv(needs_grad(POSITIVE)) == theirs).all()


def test_values_are_not_written_over():
    x = pb.tensor(POSITIVE)
    w = needs_grad([1.0, 2.0])
    y = x @ w  # saves x
    scipy.linalg.inv(x, overwrite_a=True)
    y.sum().backward()
    assert w.grad.tolist() == POSITIVE.sum(0).tolist()


def test_identity_signature_pickles_and_source_stay():
    assert pickle.loads(pickle.dumps(scipy.linalg.inv)) is scipy.linalg.inv
    assert list(inspect.signature(scipy.linalg.toeplitz).parameters) == ["c", "r"]
    assert "def solve_triangular" in inspect.getsource(scipy.linalg.solve_triangular)
    assert list(inspect.signature(scipy.interpolate.CubicSpline).parameters)[:2] == ["x", "y"]


def test_warnings_of_scipy_name_the_line_of_the_caller():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scipy.stats.pearsonr([1.0, 1.0, 1.0], [1.0, 2.0, 3.0])
    assert [w.filename for w in caught] == [__file__]


def test_interception_can_be_undone():
    code, modules = scipy.linalg.inv.__code__, list(hooks.MODULES)
    hooks.unhook_all()
    try:
        assert scipy.linalg.inv.__code__ is not code
        assert not HOOKS
        assert "<frozen" not in scipy.linalg.inv.__code__.co_filename
    finally:
        for module in modules:
            hooks.hook_module(module)
    assert HOOKS[scipy.linalg.inv].names == ["scipy.linalg.inv"]


def test_the_namespace_has_scipys_own_functions():
    assert pb.scipy.linalg is scipy.linalg
    with pytest.raises(AttributeError, match="nothing"):
        pb.scipy.nothing  # noqa: B018 - asks for it


# --- methods and classes --------------------------------------------------------------------------


def test_a_rule_of_a_method_holds_for_subclasses_and_frozen_distributions(declare):
    @declare.rule("scipy.stats.rv_continuous.logpdf", tensors="x args kwds")
    def _logpdf(self, x, *args, **kwds):
        return sum([x, *args, *kwds.values()]) + len(self.name)

    x = needs_grad([1.0, 2.0])
    assert scipy.stats.norm.logpdf(x, loc=x).tolist() == [6.0, 8.0]
    assert scipy.stats.gamma.logpdf(2.0, x).tolist() == [8.0, 9.0]


def test_a_special_distribution_may_have_a_rule_of_its_own(declare):
    declare.rule("scipy.stats.rv_continuous.cdf", tensors="x")(lambda _, x: x)
    declare.rule("scipy.stats.norm.cdf", tensors="x")(lambda _, x: 2 * x)
    x = needs_grad(1.0)
    assert scipy.stats.gumbel_r.cdf(x).item() == 1.0
    assert scipy.stats.norm.cdf(x).item() == 2.0


@pytest.fixture
def spline_rule(declare):
    @declare.class_rule("scipy.interpolate.CubicSpline", tensors="x y")
    class Spline(scipy.interpolate.CubicSpline):
        def __init__(self, x, y, *args, **kwargs):
            plain = y.detach().numpy()
            super().__init__(x, plain, *args, **kwargs)
            self.y = y

        def __call__(self, x, nu=0, extrapolate=None):
            return self.y.sum() + super().__call__(x, nu, extrapolate)

    return Spline


def test_an_instance_made_from_tensors_belongs_to_the_class_of_the_rule(spline_rule):
    y = needs_grad([0.0, 1.0, 4.0])
    spline = scipy.interpolate.CubicSpline([0.0, 1.0, 2.0], y)
    assert type(spline) is spline_rule
    assert isinstance(spline, scipy.interpolate.CubicSpline)
    assert spline(1.0).item() == 6.0
    assert type(scipy.interpolate.CubicSpline([0.0, 1.0], [0.0, 1.0])) is not spline_rule


def test_a_users_subclass_keeps_its_methods(spline_rule):
    class Mine(scipy.interpolate.CubicSpline):
        def twice(self, x):
            return 2 * self(x)

    spline = Mine([0.0, 1.0, 2.0], needs_grad([0.0, 1.0, 4.0]))
    assert isinstance(spline, Mine)
    assert isinstance(spline, spline_rule)
    assert spline.twice(1.0).item() == 12.0


def test_a_method_without_rule_refuses_an_instance_that_holds_tensors(spline_rule):
    spline = scipy.interpolate.CubicSpline([0.0, 1.0, 2.0], needs_grad([0.0, 1.0, 4.0]))
    with pytest.raises(pb.errors.DerivativeMissingError, match=r"integrate.*'self'"):
        spline.integrate(0.0, 1.0)


def test_compiled_factors_solve_for_tensors_and_behave_alike_on_arrays():
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import SuperLU, factorized, spilu, splu

    matrix, b = csc_array(POSITIVE), needs_grad([1.0, 2.0])
    for factors in (splu(matrix), spilu(matrix)):
        assert isinstance(factors, SuperLU)
        assert factors.shape == (2, 2)
        assert type(factors.solve(np.ones(2))) is np.ndarray
        assert pb.autograd.gradcheck(factors.solve, (b,))
    assert pb.autograd.gradcheck(factorized(matrix), (b,))
    assert type(factorized(matrix)(np.ones(2))) is np.ndarray


def test_a_compiled_object_made_by_a_library_refuses_by_name():
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import splu

    factors = splu(csc_array(POSITIVE))._made
    with pytest.raises(TypeError, match=r"must be numpy\.ndarray, not Tensor"):
        factors.solve(needs_grad([1.0, 2.0]))


def test_sparse_arrays_and_tensors_multiply_both_ways():
    from scipy.sparse import csr_array, csr_matrix

    x = needs_grad([1.0, 2.0])
    for matrix in (csr_array(POSITIVE), csr_matrix(POSITIVE)):
        assert pb.autograd.gradcheck(lambda x, m=matrix: m @ x, (x,))
        assert pb.autograd.gradcheck(lambda x, m=matrix: x @ m, (x,))
        assert type(matrix @ x.detach()) is np.ndarray
    made = csr_array((x, ([0, 1], [1, 0])))
    assert isinstance(made, csr_array)
    assert pb.autograd.gradcheck(lambda x: csr_array((x, ([0, 1], [1, 0]))) @ np.ones(2), (x,))


# --- errors ---------------------------------------------------------------------------------------


def test_errors_name_function_argument_line_and_way_out(declare):
    with pytest.raises(pb.errors.DerivativeMissingError) as caught:
        scipy.linalg.solve_triangular(np.eye(2), needs_grad([1.0, 2.0]))
    line = inspect.currentframe().f_lineno - 1
    for words in ("scipy.linalg.solve_triangular: ", "'b'", f"{__file__}:{line}", "custom_op"):
        assert words in str(caught.value)
    declare.rule("scipy.linalg.toeplitz", tensors="c")(lambda c, r=None: c)
    with pytest.raises(pb.errors.DerivativeMissingError, match=r"by c only.*'r' carries"):
        scipy.linalg.toeplitz([1.0, 2.0], needs_grad([1.0, 2.0]))
    declare.refused("scipy.linalg.hankel", "it has holes")
    with pytest.raises(pb.errors.DerivativeMissingError, match="hankel: it has holes"):
        scipy.linalg.hankel(needs_grad([1.0, 2.0]))
    with pytest.raises(pb.errors.DerivativeMissingError, match=r"interpolate\.PchipInterpolator: "):
        scipy.interpolate.PchipInterpolator([0.0, 1.0], needs_grad([1.0, 2.0]))


def test_a_constant_runs_on_the_values(declare):
    declare.constant("scipy.stats.rankdata", "ranks")
    assert scipy.stats.rankdata(needs_grad([3.0, 1.0])).tolist() == [2.0, 1.0]


# --- vmap -----------------------------------------------------------------------------------------


def test_vmap_calls_a_function_without_rule_once_for_each_sample(declare):
    matrices = np.stack([POSITIVE, 2 * POSITIVE, np.eye(2)])
    found = pb.func.vmap(scipy.linalg.inv)(pb.tensor(matrices))
    np.testing.assert_allclose(found.numpy(), np.linalg.inv(matrices))
    q, r = pb.func.vmap(scipy.linalg.qr)(pb.tensor(matrices))
    np.testing.assert_allclose((q @ r).numpy(), matrices, atol=1e-14)
    from scipy.signal import find_peaks

    with pytest.raises(pb.errors.DataDependentError, match=r"vmap.*find_peaks"):
        pb.func.vmap(lambda v: find_peaks(v)[0])(pb.tensor([[0.0, 1.0, 0.0], [0.0, 1.0, 2.0]]))


# --- callbacks ------------------------------------------------------------------------------------


def test_a_function_that_captures_a_tensor_reaches_the_rule(declare):
    from scipy.optimize import brentq

    declare.rule("scipy.optimize.brentq", tensors="f a b args")(lambda f, a, b: f(b) - a)
    c = needs_grad(2.0)
    assert brentq(lambda x: x * x - c, 0.0, 3.0).item() == 7.0
    assert brentq(lambda x: x * x - 2.0, 0.0, 3.0) == pytest.approx(np.sqrt(2))


class _Slotted:
    __slots__ = ("c",)

    def __init__(self, c):
        self.c = c

    def __call__(self, x):
        return x * x - self.c

    def method(self, x):
        return self(x)


def _cached(c):
    return functools.lru_cache(lambda x: x * x - c)


def _wrapped_often(c):
    function = lambda x: x * x - c  # noqa: E731
    for _ in range(8):
        function = (lambda inner: lambda x: inner(x))(function)
    return function


def _class_attribute(c):
    kind = type("Kind", (), {"c": c, "residual": classmethod(lambda cls, x: x * x - cls.c)})
    return kind.residual


def _queue(c):
    waiting = collections.deque([c])
    return lambda x: x * x - waiting[0]


def _property(c):
    instance = type("Kind", (), {"c": property(lambda _: c)})()
    return lambda x: x * x - instance.c


@pytest.mark.parametrize(
    "make",
    [
        _Slotted,
        lambda c: _Slotted(c).method,
        _cached,
        _wrapped_often,
        _class_attribute,
        _queue,
        _property,
        lambda c: np.vectorize(lambda x: x * x - c),
    ],
)
def test_a_parameter_is_found_wherever_a_callback_keeps_it(make):
    from scipy.optimize import brentq

    found = pb.grad(lambda c: brentq(make(c), 0.0, 3.0))(2.0)
    assert float(found) == pytest.approx(0.5 / np.sqrt(2))
    assert type(brentq(make(2.0), 0.0, 3.0)) is float


def test_a_number_that_scipy_takes_out_of_a_tensor_raises(declare):
    from scipy.integrate import quad, solve_ivp
    from scipy.optimize import brentq, minimize
    from scipy.signal import butter

    c = needs_grad(0.4)
    for name, call in {
        "integrate.quad": lambda: quad(lambda t: t * c, 0, 1),
        "integrate.solve_ivp": lambda: solve_ivp(lambda t, y: -c * y * t, (0, 1), [1.0]),
        "optimize.brentq": lambda: brentq(lambda t: t - c, 0, 1),
        "optimize.minimize": lambda: minimize(lambda x: ((x - c) ** 2).sum(), [0.0]),
        "signal.butter": lambda: butter(3, c),
    }.items():
        with pytest.raises(pb.errors.AutogradError) as caught:
            call()
        line = call.__code__.co_firstlineno
        assert str(caught.value).startswith(f"scipy.{name}: "), caught.value
        assert f"{__file__}:{line}" in str(caught.value)


def test_a_number_that_any_library_takes_out_of_a_tensor_raises():
    import statistics

    x = needs_grad(0.5)
    with pytest.raises(pb.errors.GradientLostError, match=r"statistics\.NormalDist"):
        statistics.NormalDist(x, 1.0)
    assert x.item() == 0.5
    if not CAN_READ_BYTECODE:  # float(x) raises as well
        return
    with pytest.raises(pb.errors.GradientLostError, match=r"math\.sqrt.*test_interception"):
        math.sqrt(x)
    with pytest.raises(pb.errors.AutogradError, match=r"cKDTree.*test_interception"):
        scipy.spatial.cKDTree(needs_grad(POSITIVE))
    with pytest.warns(UserWarning, match="no part of the graph"):
        assert float(x) == 0.5
    assert f"{x:.1f}" == "0.5"


# --- the means ------------------------------------------------------------------------------------


def test_a_function_with_free_variables_and_defaults_can_be_hooked():
    from pullback.scipy.modules import Target

    captured = 3

    def function(a, b=2, *, c=1):
        return a + b + c + captured

    hook = Hook(Target("scipy.x.function", function, None, has_self=False))
    assert function(1) == 7
    assert function(1, b=1, c=5) == 10
    assert function([1][0]) == 7
    with pytest.raises(TypeError, match=r"function\(\) missing 1 required positional argument"):
        function()
    with pytest.raises(TypeError) as caught:
        function("1")
    found = dict(caught.traceback[1].frame.f_locals)  # a debugger reads them, too
    assert (found["captured"], found["args"]) == (3, ("1",))
    hook.undo()
    assert function(1) == 7
    assert not hasattr(function, "__wrapped__")
