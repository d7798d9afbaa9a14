"""The means that rely on CPython's internals, and the fallbacks of other interpreters."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pullback import _cpython
from pullback._cpython import ONE_HOLDER, count_references, get_frame, is_tested

ROOT = Path(__file__).resolve().parents[2]
needs_means = pytest.mark.skipif(not _cpython.IS_TESTED, reason="the fallbacks are in force")

# Tests whose subject is decided by the means: aliases of gradients, views in forward mode, frames.
RELEVANT = [
    "tests/semantics/test_views.py",
    "tests/semantics/test_forward_ad.py",
    "tests/semantics/test_shared_gradients.py",
    "tests/unit/library/test_compiled_backward.py",
    "tests/scipy/test_interception.py",
]

PROGRAM = """
import numpy as np
import pullback as pb
from pullback.autograd import forward_ad

@pb.library.custom_op("plain::twice", mutates_args=())
def twice(x: pb.Tensor, y: pb.Tensor) -> pb.Tensor:
    return pb.tensor(x.detach().numpy() + y.detach().numpy())

kept = []

@twice.register_autograd
def backward(ctx, grad):
    kept.append(grad)
    return grad, grad

def custom():
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    y = pb.tensor([3.0, 4.0], requires_grad=True)
    out = twice(twice(x, y), x * y)
    gx, gy = pb.autograd.grad((out * out).sum(), (x, y))
    gx.mul_(3.0)
    return [gx.tolist(), gy.tolist(), [g.tolist() for g in kept]]

def views():
    x = pb.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with forward_ad.dual_level():
        base = x * 2.0
        early = base[:2]
        base.copy_(forward_ad.make_dual(pb.tensor([1.0, 2.0, 3.0]), pb.tensor([4.0, 5.0, 6.0])))
        return forward_ad.unpack_dual(early * 3.0).tangent.tolist()

def hooks():
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2.0
    seen = []
    y.register_hook(lambda grad: seen.append(grad))
    (y * y).sum().backward()
    seen[0].mul_(0.0)
    return [x.grad.tolist(), seen[0].tolist()]

def saved():
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    y = pb.exp(x)
    z = y * y
    with pb.no_grad():
        y.grad_fn._saved_result.mul_(2.0)
    try:
        z.sum().backward()
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)

@pb.differentiable
def running(values):
    total = np.zeros(len(values))
    for i, value in enumerate(values):
        total[i] = total[i - 1] + np.concatenate([[value], [1.0]]).sum() if i else value
    return (total**2).sum()

def mode():
    x = np.array([1.0, 2.0, 3.0])
    return [pb.grad(running)(x).tolist(), pb.hessian(running)(x).tolist()]

for part in (custom, views, hooks, saved, mode):
    print(part.__name__, part())
"""


def _run(*command: str, plain: bool) -> str:
    environment = {**os.environ, "PULLBACK_PLAIN_PYTHON": "1" if plain else "0"}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize(
    ("name", "version", "abiflags", "variable", "expected"),
    [
        ("cpython", (3, 11), "", "", True),
        ("cpython", (3, 13), "", "0", True),
        ("cpython", (3, 13), "d", "", True),
        ("cpython", (3, 13), "", "1", False),
        ("cpython", (3, 13), "t", "", False),
        ("cpython", (3, 14), "", "", False),
        ("cpython", (4, 0), "", "", False),
        ("pypy", (3, 11), "", "", False),
    ],
)
def test_unknown_interpreters_use_the_fallbacks(name, version, abiflags, variable, expected):
    assert is_tested(name, version, abiflags, variable) is expected


def test_every_supported_version_is_tested():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [c.rpartition(" ")[2] for c in project["classifiers"] if "Python :: 3." in c]
    assert named == [f"{major}.{minor}" for major, minor in _cpython.TESTED_VERSIONS]


class _Slot:
    __slots__ = ("value",)


@needs_means
def test_references_are_counted_as_expected():
    local = object()
    pair = (None, object())
    slot = _Slot()
    slot.value = object()
    counts = [count_references(local), count_references(pair[1]), count_references(slot.value)]
    assert counts == [ONE_HOLDER] * 3
    other = slot.value
    counts = [count_references(slot.value), count_references(other)]
    assert counts == [ONE_HOLDER + 1] * 2


@needs_means
def test_numbers_of_formulas_are_arrays_of_the_same_value():
    def formula(x):
        return (1 - x * 0.1) / 3

    x = np.linspace(0.1, 0.9, 7)
    copy = _cpython.with_array_constants(formula)
    numbers = [c for c in copy.__code__.co_consts if isinstance(c, np.ndarray)]
    assert sorted(map(float, numbers)) == [0.1, 1.0, 3.0]
    assert not any(number.flags.writeable for number in numbers)
    assert np.array_equal(copy(x), formula(x))


def test_formulas_keep_their_numbers_with_the_fallback(monkeypatch):
    monkeypatch.setattr(_cpython, "IS_TESTED", False)

    def formula(x):
        return 1 - x

    assert _cpython.with_array_constants(formula) is formula


def test_frames_of_tracebacks_are_the_interpreters():
    def inner():
        return get_frame(0), _cpython._get_frame_of_traceback(0)

    def outer(depth):
        return get_frame(depth), _cpython._get_frame_of_traceback(depth)

    assert len({id(frame) for frame in inner()}) == 1
    for depth in range(4):
        means, fallback = outer(depth)
        assert means is fallback
    with pytest.raises(ValueError, match="not deep enough"):
        _cpython._get_frame_of_traceback(100_000)


def test_no_other_module_relies_on_the_interpreter():
    means = {"getrefcount", "_getframe", "get_referrers", "f_lasti", "co_code", "dis"}
    found = []
    for path in (ROOT / "src" / "pullback").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = {getattr(node, "attr", None), getattr(node, "id", None)}
            if isinstance(node, ast.Import | ast.ImportFrom):
                names |= {alias.name for alias in node.names} | {getattr(node, "module", None)}
            # The second asks whether the interpreter is tested before it reads bytecode.
            if names & means and path.name not in ("_cpython.py", "interrupts.py"):
                found.append(f"{path.name}:{getattr(node, 'lineno', 0)}")
    assert found == []


def test_the_fallbacks_give_the_same_numbers():
    plain = _run("-c", PROGRAM, plain=True)
    assert plain == _run("-c", PROGRAM, plain=False)
    assert "views [12.0, 15.0]" in plain
    assert "saved True" in plain


def test_views_are_forgotten_with_the_fallback():
    script = """
import pullback as pb
from pullback import _cpython
x = pb.zeros(4, requires_grad=True)
y = x * 1.0
view = y[1:]
assert view in _cpython.find_views(y._counter) or any(v is view for v in _cpython.find_views([]))
del view
assert not _cpython._views
assert _cpython.find_referrers(y) == []
"""
    _run("-c", script, plain=True)


def test_results_in_a_cache_are_found_but_for_the_fallback():
    script = """
import functools
from pullback import _cpython
@functools.lru_cache(maxsize={size})
def f(n):
    return [n]
kept = f(1)
assert any(x is kept for x in _cpython.find_cached(f)) is {is_found}
"""
    _run("-c", script.format(size=None, is_found=_cpython.IS_TESTED), plain=False)
    _run("-c", script.format(size=None, is_found=False), plain=True)


def test_numbers_that_an_array_may_swallow_raise_with_the_fallback():
    script = """
import numpy as np
import pullback as pb
x = pb.tensor(1.5, requires_grad=True)
array = np.zeros(2)
for use in (lambda: array.__setitem__(0, x), lambda: float(x), lambda: array.fill(x)):
    try:
        use()
    except (pb.errors.AutogradError, ValueError) as error:  # NumPy adds an error of its own
        assert "x.item()" in str(error.__cause__ or error), error
    else:
        raise AssertionError("the gradient got lost")
assert x.item() == 1.5 and int(x) == 1 and float(x.detach()) == 1.5
"""
    _run("-c", script, plain=True)


def test_the_suite_passes_with_the_fallbacks():
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not oracle"]
    assert " passed" in _run(*command, *RELEVANT, plain=True)
