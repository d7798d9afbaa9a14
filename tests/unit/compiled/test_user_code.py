"""Functions as users write them: random numbers, generators, objects and arrays as results."""

from __future__ import annotations

import asyncio
import collections
import functools
import random
import warnings

import numpy as np
import pytest

import pullback as pb
from pullback.errors import TraceError, message_of

X = np.array([1.0, 2.0])


class _Model:
    def __init__(self):
        self.rng = np.random.RandomState(3)


MODEL = _Model()
RNG = np.random.default_rng(3)
PYTHON = random.Random(3)

DRAWS = {
    "numpy.random": (lambda x: x * np.random.rand(2), lambda: np.random.seed(3)),
    "random": (lambda x: x * random.random(), lambda: random.seed(3)),
    "a numpy.random.Generator": (
        lambda x: x * RNG.normal(size=2),
        lambda: setattr(RNG.bit_generator, "state", np.random.PCG64(3).state),
    ),
    "a numpy.random.RandomState": (
        lambda x: x + MODEL.rng.uniform(),
        lambda: MODEL.rng.seed(3),
    ),
    "a random.Random": (lambda x: x * PYTHON.gauss(0, 1), lambda: PYTHON.seed(3)),
}


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize("source", DRAWS)
def test_random_numbers_of_python_are_refused_by_name(source, backend):
    function, seed = DRAWS[source]
    compiled = pb.compile(function, backend=backend)
    seed()
    with pytest.warns(UserWarning, match=f"draws random numbers from {source},") as caught:
        found = [compiled(X) for _ in range(3)]
    assert len(caught) == 1
    assert caught[0].filename == __file__
    seed()
    np.testing.assert_array_equal(found, [function(X) for _ in range(3)])
    seed()
    with pytest.raises(TraceError, match=source):
        pb.compile(function, backend=backend, fullgraph=True)(X)


def test_generators_that_are_not_drawn_from_do_not_matter():
    rng = np.random.default_rng(0)
    compiled = pb.compile(lambda x: x * len(str(rng)[:3]), fullgraph=True)
    compiled(X)
    rng.normal()
    np.random.rand()
    compiled(X)
    assert compiled.stats == {"traces": 1, "hits": 1, "eager": 0, "changes": 0}


def test_operators_draw_from_the_stream_beside_generators():
    rng = np.random.default_rng(0)
    state = rng.bit_generator.state

    def step(x):
        return pb.nn.functional.dropout(x, 0.5)

    compiled = pb.compile(step, fullgraph=True)
    np.random.seed(1)
    found = [compiled(pb.ones(9)).tolist() for _ in range(3)]
    np.random.seed(1)
    assert found == [step(pb.ones(9)).tolist() for _ in range(3)]
    assert rng.bit_generator.state == state
    assert compiled.stats["hits"] == 2


class _Pair:
    def __init__(self, first):
        self.first = first


class _Slots:
    __slots__ = ("first",)

    def __init__(self, first):
        self.first = first


def _objects(x):
    made = np.empty(2, object)
    made[:] = x * 2, "text"
    return made


def _steps(x):
    for factor in (1.0, 2.0):
        yield x * factor


async def _later(x):
    return x * 2


HIDDEN = {
    "generator": (_steps, list),
    "map": (lambda x: map(x.__mul__, (1.0, 2.0)), list),
    "coroutine": (_later, asyncio.run),
    "_Pair": (lambda x: _Pair(x * 2), lambda pair: pair.first),
    "function": (lambda x: lambda: x * 2, lambda made: made()),
    "partial": (lambda x: functools.partial(pb.multiply, x), lambda made: made(2.0)),
    "method": (lambda x: (x * 2).sum, lambda made: made()),
    "_Slots": (lambda x: _Slots(x * 2), lambda made: made.first),
    "deque": (lambda x: collections.deque([{"a": x * 2}]), lambda made: made[0]["a"]),
    "dict_values": (lambda x: {"a": x * 2}.values(), lambda made: next(iter(made))),
    "ndarray": (_objects, lambda made: made[0]),
}


@pytest.mark.parametrize("kind", HIDDEN)
def test_results_whose_tensors_are_hidden_are_those_of_the_function(kind):
    function, read = HIDDEN[kind]
    compiled = pb.compile(function)
    with pytest.warns(UserWarning, match=f"it returns a {kind}"):
        first = read(compiled(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(first, read(function(X)))
        np.testing.assert_array_equal(read(compiled(X)), read(function(X)))


@pytest.mark.parametrize("make", [set, bytearray, collections.deque, lambda: _Pair(3)])
def test_new_objects_among_results_are_new_in_each_call(make):
    compiled = pb.compile(lambda x: (x * 2, make()), backend="eager")
    with pytest.warns(UserWarning, match="that is new in each call"):
        first = compiled(X)[1]
    second = compiled(X)[1]
    assert first is not second
    assert compiled(X)[1] is not second


def test_objects_from_outside_among_results_are_the_same_in_each_call():
    held, mode = _Pair(3), frozenset([1])
    compiled = pb.compile(lambda x, own: (x * 2, held, own, mode, range(3)), backend="eager")
    for _ in range(3):
        found = compiled(X, MODEL)
        assert found[1] is held
        assert found[2] is MODEL
    assert compiled.stats["hits"] == 2


@pytest.mark.parametrize("x", [X, pb.tensor(X)], ids=["array", "tensor"])
def test_a_cache_that_the_function_fills_once_is_filled_with_arrays(x):
    cache = {}

    def grid(n):
        if n not in cache:
            cache[n] = np.linspace(0.0, 1.0, n) * pb.ones(n)
        return cache[n]

    compiled = pb.compile(lambda x: x * grid(len(x)), backend="eager")
    for _ in range(4):
        np.testing.assert_array_equal(compiled(x), X * [0.0, 1.0])
    np.testing.assert_array_equal(cache[2], [0.0, 1.0])
    assert compiled.stats["eager"] == 1


def test_slices_are_arguments():
    compiled = pb.compile(lambda x, part: x[part], backend="eager")
    for part in (slice(0, 1), slice(1, 2), slice(None, None, -1), slice(0, 1)):
        np.testing.assert_array_equal(compiled(X, part), X[part])
    assert compiled.stats["traces"] == 3


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize("x", [X, pb.tensor(X)], ids=["array", "tensor"])
def test_arrays_of_numpy_among_results_are_new_in_each_call(x, backend):
    compiled = pb.compile(lambda x: (x * 2, np.zeros(2)), backend=backend)
    for _ in range(3):
        found = compiled(x)[1]
        np.testing.assert_array_equal(found, [0.0, 0.0])
        found[0] = 5.0


def test_an_argument_that_only_the_kernel_takes_is_no_internal_error():
    compiled = pb.compile(lambda x: pb.roll(pb.sin(x), 1.5))
    np.testing.assert_allclose(compiled(X), np.roll(np.sin(X), 1.5))
    assert "opaque: roll.default: arguments of other types" in compiled.explain(X)


def test_a_branch_warns_once_at_the_line_of_the_call():
    compiled = pb.compile(lambda x: x * int(x.sum()))
    with pytest.warns(UserWarning, match="has taken 8 different values") as caught:
        _ = [compiled(X + n) for n in range(12)]
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with pytest.raises(TraceError) as error:
        pb.compile(lambda x: x * int(x.sum()), fullgraph=True)(X)
    assert __file__ in message_of(error.value)
    assert "pb.where" in message_of(error.value)
