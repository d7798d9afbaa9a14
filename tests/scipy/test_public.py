"""Every public name of SciPy on tensors that require grad: right gradients, or errors by name."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("scipy", reason="pip install scipy runs these tests")

import pullback as pb
from pullback.interop.scipy_special import load_functions
from pullback.scipy import defaults, registry
from pullback.scipy.hooks import HOOKS

ROOT = Path(__file__).resolve().parents[2]


def tables() -> dict[str, Any]:
    """The calls of `scripts/scipy_matrix.py`."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return importlib.import_module("scipy_calls").TABLES  # type: ignore[no-any-return]
    finally:
        sys.path.remove(str(ROOT / "scripts"))


TABLES = tables()

V, W, P = (
    np.array([0.3, 0.9, 1.4, 2.2]),
    np.array([1.2, 0.7, 1.9, 1.1]),
    np.array([0.4, 0.3, 0.2, 0.1]),
)
SPACES = [f"scipy.{name}" for name in pb.scipy.__all__] + [
    "scipy.cluster.hierarchy",
    "scipy.cluster.vq",
    "scipy.linalg.interpolative",
    "scipy.signal.windows",
    "scipy.sparse.csgraph",
    "scipy.sparse.linalg",
    "scipy.spatial.distance",
    "scipy.spatial.transform",
    "scipy.stats.contingency",
    "scipy.stats.mstats",
    "scipy.stats.qmc",
]


def is_page_of_this_scipy() -> bool:
    """Whether docs/scipy.md was written with the SciPy that is installed."""
    page = (ROOT / "docs" / "scipy.md").read_text(encoding="utf-8")
    return f"SciPy {importlib.metadata.version('scipy')})" in page


def tensor(value: Any) -> pb.Tensor:
    return pb.tensor(value, requires_grad=True)


def public(space: str) -> dict[str, Any]:
    module = importlib.import_module(space)
    names = getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"]
    return {name: getattr(module, name) for name in sorted(names)}


def required(function: Any) -> int:
    """The number of arguments that a call must have."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return 1
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [p for p in parameters if p.kind in kinds]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    needed = len([p for p in places if p.default is p.empty])
    return max(needed, 1) if places or takes_any else 0


MAKE_OTHERS = ("scipy.signal.dlti", "scipy.signal.lti", "scipy.sparse.linalg.LinearOperator")


@pytest.fixture(scope="module", autouse=True)
def table():
    """Registers the operators once, so that no test leaves them behind."""
    load_functions()


# --- functions without derivative ---------------------------------------------------------------


def complaints(name: str, value: Any) -> list[str]:
    """What is wrong with the error of a call on tensors that require grad."""
    count = required(value)
    if not count:
        return []
    x = tensor(V)
    line = 0
    try:
        line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
        found = value(*[x] * count)
    except pb.errors.DerivativeMissingError as error:
        text = str(error)
        wanted = (f"{name}: ", f"{__file__}:{line})", "carr", "'")
        return [f"{name}: no {w!r} in: {text[:200]}" for w in wanted if w not in text]
    except Exception as error:
        return [f"{name}: {type(error).__name__} {str(error)[:100]}"]
    return [f"{name} gives {str(found)[:80]}"]


@pytest.mark.parametrize("space", SPACES)
def test_functions_and_classes_without_rule_refuse_by_name(space):
    problems, seen = [], 0
    for name, value in public(space).items():
        full = f"{space}.{name}"
        target = value.__init__ if isinstance(value, type) else value
        hook = HOOKS.get(target) if isinstance(target, types.FunctionType) else None
        if hook is None or any(map(registry.find_rule, (full, *hook.names))):
            continue
        if inspect.isabstract(value) or full in MAKE_OTHERS:
            continue
        named = full if isinstance(value, type) else hook.names[0]
        seen += 1
        problems += complaints(named, value)
    assert problems == []
    # compiled functions only, and rules for all functions
    assert seen or space in ("scipy.sparse.csgraph", "scipy.spatial.distance")


def test_classes_that_make_instances_of_others_refuse_by_name():
    from scipy.signal import dlti, lti
    from scipy.sparse.linalg import LinearOperator

    for kind in (lti, dlti):
        with pytest.raises(
            pb.errors.DerivativeMissingError, match=r"signal\.TransferFunction.*test_p"
        ):
            kind([1.0], tensor(V))
    with pytest.raises(pb.errors.DerivativeMissingError, match=r"linalg\.LinearOperator.*'matvec'"):
        LinearOperator((2, 2), tensor(V))


def test_compiled_functions_do_not_take_tensors_that_require_grad():
    """Their code cannot be replaced, but they take arrays, and so the conversion raises."""
    taken, seen = [], 0
    for space in SPACES:
        for name, value in public(space).items():
            kind = type(value).__name__
            if kind not in ("builtin_function_or_method", "cython_function_or_method"):
                continue
            if not required(value) or name in ("seterr", "geterr"):
                continue
            seen += 1
            x = tensor(np.eye(4))
            for count in (required(value), 2, 3):
                try:
                    found = value(*[x] * count)
                except Exception:
                    continue
                taken.append(f"{space}.{name} gives {found}")
    assert taken == []
    assert seen > 20


# --- functions that are recorded ------------------------------------------------------------------

MORE_CALLS: dict[str, Any] = {
    "signal.closest_STFT_dual_window": lambda f, v: f(v, 2)[0],
    "signal.freqresp": lambda f, v, w: f((v, w), [0.5, 1.0])[1],
    "signal.invres": lambda f, v: f(v, [-1.0, -2.0, -3.0, -4.0], [0.5])[0],
    "signal.invresz": lambda f, v: f(v, [-0.1, -0.2, -0.3, -0.4], [0.5])[0],
    "signal.kaiser_atten": lambda f, v: f(7, v),
    "signal.lombscargle": lambda f, v, w: f(v, w, [0.7, 1.3]),
    "signal.sweep_poly": lambda f, v: f(v, [0.2, 1.0]),
    "sparse.kronsum": lambda f, a: f(a, np.eye(2)).toarray(),
    "sparse.linalg.matrix_power": lambda f, a: f(a, 3),
    "spatial.distance_matrix": lambda f, a: f(a, a + 5.0),
    "spatial.minkowski_distance": lambda f, v, w: f(v, w),
    "spatial.minkowski_distance_p": lambda f, v, w: f(v, w),
    "spatial.procrustes": lambda f, a: f(a, np.eye(4) + 0.1 * np.arange(16).reshape(4, 4) ** 0.5)[
        2
    ],
    **{
        f"spatial.distance.{name}": lambda f, v, w: f(v, w)
        for name in ("braycurtis", "canberra", "chebyshev", "cityblock", "euclidean", "minkowski")
    },
    "spatial.distance.sqeuclidean": lambda f, v, w: f(v, w),
    "spatial.distance.jensenshannon": lambda f, v, w: f(v, w),
    "spatial.distance.seuclidean": lambda f, v, w: f(v, w, [1.0, 2.0, 3.0, 4.0]),
    "special.assoc_laguerre": lambda f, v: f(v, 3, 0.5),
    **{
        f"special.{name}": lambda f, v: f(2, v)
        for name in (
            *(f"{letters}vp" for letters in ("h1", "h2", "i", "j", "k", "y")),
            *(f"spherical_{letter}n" for letter in "ijky"),
        )
    },
    "special.lambertw": lambda f, v: f(v),
    "special.softplus": lambda f, v: f(v),
    "stats.obrientransform": lambda f, v: f(v),
    "stats.pointbiserialr": lambda f, v: f([0, 1, 1, 0], v).statistic,
    "stats.trim1": lambda f, v: f(v, 0.3),
    "stats.contingency.expected_freq": lambda f, a: f(a * a),
    "stats.contingency.margins": lambda f, a: f(a),
}
INPUTS = {"v": V, "w": W, "a": np.diag(W) + 0.1 * np.outer(V, V)}
RECORDED = [f"{space}.{name}" for space, text in defaults.RECORDED.items() for name in text.split()]


def calls_of(name: str) -> tuple[Any, Any, list[Any]]:
    """The function, code that calls it, and the arrays that the code takes."""
    space, _, short = name.rpartition(".")
    function = getattr(importlib.import_module(f"scipy.{space}"), short, None)
    if name in MORE_CALLS:
        code = MORE_CALLS[name]
        return function, code, [INPUTS[p] for p in list(inspect.signature(code).parameters)[1:]]
    code, inputs = TABLES[space][short]
    return function, code, list(inputs)


def leaves(result: Any) -> list[Any]:
    """The numbers with a derivative in a result."""
    if isinstance(result, pb.Tensor | np.ndarray | np.generic | float | complex):
        return [result] if pb.asarray(result).dtype.kind in "fc" else []
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, list | tuple):
        return [leaf for item in result for leaf in leaves(item)]
    shown = getattr(result, "__dict__", {}) if not callable(result) else {}
    return [leaf for key, item in shown.items() if key[0] != "_" for leaf in leaves(item)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_functions_have_right_gradients(name):
    function, code, inputs = calls_of(name)
    if function is None:
        pytest.skip("this SciPy does not have it")
    random = np.random.default_rng(5)
    ways = [random.normal(size=a.shape) if a.dtype.kind in "fc" else None for a in inputs]
    weights = [random.normal(size=np.shape(leaf)) for leaf in leaves(code(function, *inputs))]

    def total(distance: float) -> float:
        moved = [
            a if way is None else a + distance * way for a, way in zip(inputs, ways, strict=True)
        ]
        found = leaves(code(function, *moved))
        return sum(float(np.real(np.sum(a * w))) for a, w in zip(found, weights, strict=True))

    given = [pb.tensor(a, requires_grad=w is not None) for a, w in zip(inputs, ways, strict=True)]
    if not is_page_of_this_scipy():  # other versions may take arrays out of tensors, and raise
        try:
            code(function, *given)
        except pb.errors.DerivativeMissingError:
            pytest.skip("the code of this SciPy is refused")
    parts = [
        pb.real((leaf * w).sum()) if leaf.dtype.kind == "c" else (leaf * w).sum()
        for leaf, w in zip(leaves(code(function, *given)), weights, strict=True)
        if isinstance(leaf, pb.Tensor) and leaf.requires_grad
    ]
    assert parts, "no result carries a gradient"
    moving = [(x, way) for x, way in zip(given, ways, strict=True) if way is not None]
    grads = pb.autograd.grad(sum(parts), [x for x, _ in moving], allow_unused=True)
    slope = sum(
        float(np.real(np.conj(g.numpy()) * way).sum())
        for g, (_, way) in zip(grads, moving, strict=True)
        if g is not None
    )
    wide, narrow = ((total(h) - total(-h)) / (2 * h) for h in (2e-4, 1e-4))
    assert slope == pytest.approx((4 * narrow - wide) / 3, rel=2e-5, abs=1e-6)


# --- functions whose results are constant ---------------------------------------------------------


def test_constants_are_scipys_values_and_do_not_move():
    """Where a call is known: the same values for tensors, and for values that differ slightly."""
    known = 0
    for spaces in defaults.CONSTANT.values():
        for space, text in spaces.items():
            for short in text.split():
                function = getattr(importlib.import_module(f"scipy.{space}"), short, None)
                rule = registry.find_rule(f"scipy.{space}.{short}")
                if function is None or rule is None or rule.kind != "constant":
                    continue
                if short not in TABLES.get(space, {}):
                    continue
                known += 1
                code, inputs = TABLES[space][short]
                expected = leaves(code(function, *inputs))
                moved = [a * (1 + 1e-9) if a.dtype.kind == "f" else a for a in inputs]
                given = [pb.tensor(a, requires_grad=a.dtype.kind in "fc") for a in inputs]
                for found in (leaves(code(function, *moved)), leaves(code(function, *given))):
                    for ours, theirs in zip(found, expected, strict=True):
                        assert not isinstance(ours, pb.Tensor), short
                        np.testing.assert_allclose(ours, theirs, 1e-12, 1e-12, err_msg=short)
    assert known > 25


def test_every_declared_name_exists():
    names = [*RECORDED]
    for table in (defaults.CONSTANT, defaults.REFUSED):
        for spaces in table.values():
            names += [f"{space}.{n}" for space, text in spaces.items() for n in text.split()]
    assert len(names) == len(set(names))
    since_1_15 = {"stats.chatterjeexi", "stats.spearmanrho", "stats.quantile", "special.softplus"}
    for name in set(names) - since_1_15:
        space, _, short = name.rpartition(".")
        assert hasattr(importlib.import_module(f"scipy.{space}"), short)


def test_a_rule_names_arguments_of_scipys_function():
    """One without a default must be in SciPy's signature, in every SciPy that is supported."""
    checked = 0
    for space in SPACES:
        importlib.import_module(space)
        registry.find_rule(f"{space}.any")
    for hook in HOOKS.values():
        for name in hook.names:
            rule = registry.RULES.get(name.removesuffix(".__init__"))
            if rule is None or rule.kind != "rule":
                continue
            code = rule.apply.__init__ if isinstance(rule.apply, type) else rule.apply
            theirs = inspect.signature(hook.kept).parameters.values()
            if any(p.kind is p.VAR_POSITIONAL for p in theirs):
                continue
            ours = list(inspect.signature(code).parameters.values())
            if any(p.kind is p.VAR_POSITIONAL for p in ours):
                continue
            given = {p.name for p in theirs if type(p.default) is not object}
            is_method = "self" in given
            asked = {p.name for p in ours[is_method:] if p.default is p.empty} - {"options"}
            unnamed = {p.name for p in ours if p.kind is p.VAR_KEYWORD}
            assert asked - unnamed <= given, name
            checked += 1
    assert checked > 200


# --- the page ------------------------------------------------------------------------------------


def test_the_page_is_up_to_date():
    if not is_page_of_this_scipy():
        pytest.skip("the page was written with another SciPy")
    script = str(ROOT / "scripts" / "scipy_table.py")
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_vectors_of_eigh_have_the_signs_of_scipy():
    a = np.diag([1.0, 2.0, 4.0]) + 0.1
    for driver in ("ev", "evd", "evr", "evx"):
        values, vectors = importlib.import_module("scipy.linalg").eigh(a, driver=driver)
        ours = pb.scipy.linalg.eigh(pb.tensor(a, requires_grad=True), driver=driver)
        np.testing.assert_allclose(ours[0].detach().numpy(), values, rtol=1e-13)
        np.testing.assert_allclose(ours[1].detach().numpy(), vectors, rtol=1e-12, atol=1e-14)
