"""Dicts, named tuples, keywords and default arguments in calls of machine code."""

from __future__ import annotations

import copy
import gc
import sys
from collections import OrderedDict, namedtuple
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pytest

import pullback as pb

pytest.importorskip("llvmlite")

Pair = namedtuple("Pair", "x y")
X = np.arange(3.0)


@dataclass(frozen=True)
class Frozen:
    """A dataclass without setters."""

    x: Any
    t: float = 0.5


@dataclass(slots=True)
class Slots:
    """A dataclass without a dict."""

    x: Any
    inner: Any = None


@dataclass
class Checked:
    """A dataclass that computes one of its fields."""

    x: Any
    _y: float = 0.0

    def __post_init__(self):
        if self.x is None:
            raise ValueError(self.x)

    @property
    def doubled(self):
        """A computed attribute."""
        return self.x * 2


class State(NamedTuple):
    """A named tuple with types."""

    x: Any
    t: float


def _is_machine_code(compiled):
    return not hasattr(type(compiled).__call__, "__code__")  # a function of Python's otherwise


def vars_of(instance):
    """The fields of a dataclass."""
    return {f.name: getattr(instance, f.name) for f in fields(instance)}


def _same(found, expected):
    assert type(found) is type(expected)
    if is_dataclass(expected):
        found, expected = vars_of(found), vars_of(expected)
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        found, expected = tuple(found.values()), tuple(expected.values())
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            _same(f, e)
    else:
        np.testing.assert_array_equal(found, expected)


PROGRAMS = {
    "dict in": (lambda d: d["a"] * d["b"][0], ({"a": X, "b": [2.0]},)),
    "dict out": (lambda x: {"a": x + 1, "b": (x * 2, None, 3.0), "c": {}}, (X,)),
    "named tuple in": (lambda p: p.x * p.y, (Pair(X, 2.0),)),
    "named tuple out": (lambda x: Pair(x + 1, State(x.sum(), 2.0)), (X,)),
    "training": (
        lambda p, x: {k: v - 0.1 * v.sum() * x[0] for k, v in p.items()},
        ({"w": np.ones((2, 2)), "b": X}, X),
    ),
    "calls": (
        lambda d: {"inverse": Pair(np.linalg.inv(d["m"]), {"l": [d["m"] * 2], "e": ()}), "n": None},
        ({"m": np.eye(2) * 2.0},),
    ),
    "equal results": (
        lambda d: {"a": d["a"] * 1, "b": d["b"] * 1, "c": 2.0},
        ({"a": X, "b": X + 1},),
    ),
    "several outputs": (
        pb.grad(lambda p, x: p["a"].sum() * x + (p["b"] ** 2).sum() + p["c"].sum() * x),
        ({"a": X, "b": np.ones((2, 2)), "c": np.ones(1)}, 2.0),
    ),
    "dataclass": (
        lambda s, d: [Frozen(s.x * s.inner.t, d), Slots(s.inner.x + 1, (Checked(s.x * 1),))],
        (Slots(X, Frozen(X * 2, 3.0)), 0.25),
    ),
    "properties of dataclasses": (lambda c: c.doubled * c._y, (Checked(X, 2.0),)),
    "dataclass behind a call": (
        lambda c: Checked(np.sort(c.x), c._y * 2) if c.x.size else c,
        (Checked(X[::-1].copy(), 2.0),),
    ),
    "integer keys": (lambda d: {1: d[1] * d[2.5], (0, 1): d[1] + 1}, ({1: X, 2.5: 3},)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_containers_are_machine_code(name):
    function, args = PROGRAMS[name]
    compiled = pb.compile(function)
    compiled(*args)
    assert _is_machine_code(compiled)
    for _ in range(3):
        _same(compiled(*args), function(*args))
    assert compiled.stats["traces"] == 1
    assert compiled.stats["hits"] == 3


def test_another_structure_is_another_signature():
    def function(d):
        total = 0.0
        for n, (key, value) in enumerate(d.items()):
            total = total + value * (n + 1) * (1 if key == "a" else 10)
        return total

    compiled = pb.compile(function)
    cases = (
        {"a": X, "b": X + 1},
        {"b": X + 1, "a": X},
        {"a": X},
        {"a": X, "b": X, "c": X},
        {"a": X, "c": X + 2},
        {"".join(["", "a"]): X, str(b"b", "ascii"): X + 5},
        OrderedDict(a=X, b=X + 3),
    )
    for _ in range(2):
        for given in cases:
            np.testing.assert_array_equal(compiled(given), function(given))
    pair = pb.compile(lambda p: p[0] - p[1])
    for given in (Pair(X, 1.0), (X, 1.0), State(X, 3.0), [X, 1.0], Pair(X, 4.0)):
        np.testing.assert_array_equal(pair(given), given[0] - given[1])


def test_copies_of_arguments():
    def function(state, rate):
        copied = copy.deepcopy(state)
        fields_of = asdict(state)
        return replace(state, x=copied.x * rate, t=fields_of["t"] + copy.copy(rate))

    compiled = pb.compile(function)
    state = expected = Frozen(X, 1.0)
    for rate in (0.5, 2.0, 3.0):
        state, expected = compiled(state, rate), function(expected, rate)
        _same(state, expected)
    assert compiled.stats["traces"] == 1
    assert compiled.stats["eager"] == 0


def test_changes_of_dataclasses():
    compiled = pb.compile(lambda s: s.x * s.inner)
    state = Slots(X, 2.0)
    for value in (2.0, 3.0, 2, X, 4.0):
        state.inner = value
        np.testing.assert_array_equal(compiled(state), X * value)
    del state.inner
    with pytest.raises(AttributeError):
        compiled(state)
    state.inner = 5.0
    np.testing.assert_array_equal(compiled(state), X * 5)


def test_keywords_and_defaults():
    def function(x, scale=2.0, *, shift=1.0):
        return x * scale + shift

    compiled = pb.compile(function)
    calls = (
        ((X,), {}),
        ((X, 3.0), {}),
        ((X,), {"scale": 4.0}),
        ((X,), {"shift": 4.0}),
        ((X,), {"scale": 4.0, "shift": 5.0}),
        ((X,), {"shift": 5.0, "scale": 4.0}),
        ((), {"x": X, "shift": 0.5}),
        ((X,), {"sca" + "le": 7.0}),
    )
    for _ in range(3):
        for args, keywords in calls:
            np.testing.assert_array_equal(compiled(*args, **keywords), function(*args, **keywords))
    assert _is_machine_code(compiled)
    with pytest.raises(TypeError):
        compiled(X, other=1.0)
    function.__defaults__ = (5.0,)
    np.testing.assert_array_equal(compiled(X), X * 5 + 1)
    function.__kwdefaults__ = {"shift": -1.0}
    np.testing.assert_array_equal(compiled(X), X * 5 - 1)
    function.__kwdefaults__["shift"] = -2.0
    np.testing.assert_array_equal(compiled(X), X * 5 - 2)


def test_calls_keep_no_references():
    compiled = pb.compile(
        lambda d: {"a": d["a"] + 1, "p": Pair(d["a"], d["b"] * 2.0), "f": Frozen(d["s"].x * 2)}
    )
    given = {"a": X.copy(), "b": 1234.5, "s": Slots(X.copy(), [])}
    for _ in range(3):
        compiled(given)
        compiled(d=given)
    key = next(iter(compiled(given)))

    def counts():
        gc.collect()
        held = given["a"], key, Pair, Frozen, given["s"].x, given["s"]
        return [sys.getrefcount(x) for x in held]

    before, blocks = counts(), sys.getallocatedblocks()
    for _ in range(2000):
        compiled(given)
        compiled(d=given)
    assert counts() == before
    assert sys.getallocatedblocks() - blocks < 200
    made = compiled(given)
    count = sys.getrefcount(made["p"])
    assert count == 2
    assert gc.is_tracked(made["p"])
    assert made["p"]._replace(y=0).y == 0
