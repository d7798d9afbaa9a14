"""Side effects of Python in compiled functions: each happens once in a call, as in the function."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import random
import threading
import types
import warnings

import numpy as np
import pytest

import pullback as pb

CALLS = 12
X = np.array([1.0, 2.0])


class Counting(pb.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = pb.nn.Parameter(pb.ones(2))

    def forward(self, x):
        if not hasattr(self, "calls"):
            self.calls = 0
        self.calls += 1
        return (x * self.weight).sum() * self.calls


class Slotted:
    __slots__ = ("calls",)


class World:
    """Functions of `x` with a side effect; `refuses` has those that are called as they are."""

    def __init__(self):
        self.w = pb.tensor([3.0, 4.0], requires_grad=True)
        self.held = types.SimpleNamespace(seen=None)

    def attribute_that_is_new(self):
        def f(x):
            self.held.calls = getattr(self.held, "calls", 0) + 1
            return x * self.held.calls

        return f, lambda: self.held.calls

    def attribute_of_a_module_that_is_new(self):
        net = Counting()
        return net, lambda: net.calls

    def attribute_of_a_function(self):
        def f(x):
            f.calls = getattr(f, "calls", 0) + 1
            return x * f.calls

        return f, lambda: f.calls

    def slot(self):
        held = Slotted()

        def f(x):
            held.calls = getattr(held, "calls", 0) + 1
            return x * held.calls

        return f, lambda: held.calls

    def name(self):
        calls = 0

        def f(x):
            nonlocal calls
            calls += 1
            return x * calls

        return f, lambda: calls

    def numbers_in_a_list(self):
        seen = []

        def f(x):
            seen.append((x * self.w).sum().item())
            return x * len(seen)

        return f, lambda: list(seen)

    def dict(self):
        counts = {}

        def f(x):
            counts["calls"] = counts.get("calls", 0) + 1
            return x * counts["calls"]

        return f, lambda: dict(counts)

    def deque(self):
        seen = collections.deque(maxlen=3)

        def f(x):
            seen.append(seen[-1] + 1 if seen else 0)
            return x * seen[-1]

        return f, lambda: list(seen)

    def set(self):
        seen = set()

        def f(x):
            seen.add(len(seen))
            return x * len(seen)

        return f, lambda: set(seen)

    def array(self):
        total = np.zeros(2)

        def f(x):
            total[0] += 1
            return x * total[0]

        return f, total.copy

    def tensor_in_a_list_refuses(self):
        seen = []

        def f(x):
            seen.append((x * self.w).sum())
            return x * len(seen)

        return f, lambda: [value.item() for value in seen]

    def tensor_in_an_attribute_refuses(self):
        def f(x):
            self.held.last = (x * self.w).sum()
            return x

        return f, lambda: self.held.last.item()

    def tensor_in_a_name_refuses(self):
        best = None

        def f(x):
            nonlocal best
            value = (x * self.w).sum().detach()
            best = value if best is None else pb.minimum(best, value)
            return best * 2

        return f, lambda: best.item()

    def parameter_that_is_replaced_refuses(self):
        def f(x):
            loss = ((x * self.w) ** 2).sum()
            (grad,) = pb.autograd.grad(loss, self.w)
            self.w = (self.w - 0.01 * grad).detach().requires_grad_()
            return loss

        return f, lambda: self.w.tolist()

    def number_in_an_attribute_refuses(self):
        def f(x):
            self.held.seen = x.sum() * 2
            return x

        return f, lambda: self.held.seen.item()

    def iterator_refuses(self):
        batches = iter([np.full(2, float(n)) for n in range(3 * CALLS)])
        return (lambda x: x * next(batches)), lambda: next(batches)

    def counter_refuses(self):
        numbers = itertools.count()
        return (lambda x: x * next(numbers)), lambda: next(numbers)

    def generator_refuses(self):
        def numbers():
            yield from range(3 * CALLS)

        taken = numbers()
        return (lambda x: x * next(taken)), lambda: next(taken)

    def numpy_random_refuses(self):
        np.random.seed(0)
        return (lambda x: x * np.random.rand()), np.random.rand

    def numpy_random_beside_an_operator_refuses(self):
        np.random.seed(0)
        drop = pb.nn.functional.dropout
        return (lambda x: drop(x, 0.5) * np.random.rand()), np.random.rand

    def numpy_generator_refuses(self):
        rng = np.random.default_rng(0)
        return (lambda x: x * rng.random()), rng.random

    def random_refuses(self):
        random.seed(0)
        return (lambda x: x * (1 if random.random() < 0.5 else 3)), random.random


NAMES = [name for name in vars(World) if not name.startswith("_")]


def _run(name, compiles):
    function, observe = getattr(World(), name)()
    call = compiles(function)
    found = []
    for number in range(CALLS):
        found += [call(pb.asarray(X + number)), observe()]
    return found, call


@pytest.mark.parametrize("name", NAMES)
def test_side_effects_happen_once_in_a_call(name):
    expected, _ = _run(name, lambda function: function)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found, call = _run(name, lambda function: pb.compile(function, backend="eager"))
    for ours, theirs in zip(found, expected, strict=True):
        if isinstance(theirs, pb.Tensor | np.ndarray):
            np.testing.assert_allclose(pb.asarray(ours).detach(), pb.asarray(theirs).detach())
        else:
            assert ours == theirs
    assert len(caught) == 1
    assert "It is called as it is" in str(caught[0].message)
    if name.endswith("refuses"):
        assert call.stats["eager"] == CALLS


EFFECTS = [name for name in NAMES if not name.endswith("refuses")]


@pytest.mark.parametrize("name", EFFECTS)
def test_side_effects_before_a_refusal_happen_once(name):
    function, observe = getattr(World(), name)()
    expected, watch = getattr(World(), name)()
    optimizer = pb.optim.SGD([pb.tensor(1.0, requires_grad=True)])

    def refused(x):
        result = function(x)
        optimizer.param_groups[0]["lr"] *= 0.5
        return result

    with pytest.warns(UserWarning, match="'param_groups' of an optimizer"):
        found = pb.compile(refused, backend="eager")(pb.asarray(X))
    np.testing.assert_allclose(found.detach(), expected(pb.asarray(X)).detach())
    np.testing.assert_equal(observe(), watch())


def test_attributes_that_are_made_once_need_one_more_trace():
    held = types.SimpleNamespace()

    @pb.compile(backend="eager")
    def f(x):
        if not hasattr(held, "scale"):
            held.scale = 3.0
        return x * held.scale

    for number in range(5):
        np.testing.assert_allclose(f(X + number), 3 * (X + number))
    assert f.stats["traces"] == 2
    assert f.stats["hits"] == 3


def test_generators_that_only_operators_draw_from_stay_compiled():
    rng, other = np.random.default_rng(0), np.random.default_rng(0)
    drop = pb.nn.functional.dropout
    f = pb.compile(lambda x: drop(x, 0.5, generator=rng), fullgraph=True, backend="eager")
    x = pb.ones(50)
    for _ in range(3):
        np.testing.assert_array_equal(f(x), drop(x, 0.5, generator=other))
    assert f.stats["hits"] == 2


def test_other_files_and_generators_that_are_not_drawn_from_do_not_matter(tmp_path):
    rng = np.random.default_rng(0)
    with (tmp_path / "log.txt").open("w") as log:

        @pb.compile(fullgraph=True, backend="eager")
        def f(x, is_noisy=False):
            print("traced", file=log)
            return x + rng.random() if is_noisy else x * 2

        for _ in range(3):
            f(X)
            rng.random()
    assert f.stats["traces"] == 1
    assert (tmp_path / "log.txt").read_text() == "traced\n"


def _changing_constant(x):
    k = np.arange(3)
    first = x * k
    k += 1
    second = x * k
    k -= 1
    return first, second, x * k


def _counts(x):
    counts = np.zeros(3, int)
    total = 0
    for i in range(4):
        counts[i % 3] += 1
        total = total + x * counts
    return total


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize("function", [_changing_constant, _counts])
def test_arrays_that_numpy_makes_and_writes_are_constants(function, backend):
    compiled = pb.compile(function, backend=backend, fullgraph=True)
    for number in range(3):
        x = np.arange(3.0) + number
        np.testing.assert_array_equal(compiled(x), function(x))
    assert compiled.stats["hits"] == 2


def _writes_itself(x, w):
    w[1] += 1
    return x * w


def _writes_view(x, w):
    w.view()[1] += 1
    return x * w


def _writes_unread(x, w):
    w[1] += 1
    return x * 2


def _writes_unread_view(x, w):
    w.view()[1] += 1
    return x * 2


def _writes_constant(x, w):
    y = x * w
    w[1] = 7
    return y


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize("dtype", [int, float])
@pytest.mark.parametrize(
    "function",
    [_writes_itself, _writes_view, _writes_unread, _writes_unread_view, _writes_constant],
)
@pytest.mark.filterwarnings("ignore:compile")
def test_writes_to_a_captured_array_that_the_caller_resets(function, dtype, backend):
    w, other = np.ones(3, dtype), np.ones(3, dtype)
    compiled = pb.compile(lambda x: function(x, w), backend=backend)
    for number in range(6):
        x = np.ones(3) + number
        np.testing.assert_array_equal(compiled(x), function(x, other))
        np.testing.assert_array_equal(w, other)
        w[:] = other[:] = 1
    if dtype is float and "view" not in function.__name__:
        assert compiled.stats["hits"] >= 4


def test_writes_by_numpy_to_an_array_are_refused():
    w = np.ones(3)
    with pytest.warns(UserWarning, match="NumPy writes to an array from outside"):
        pb.compile(lambda x: _writes_unread_view(x, w))(np.ones(3))


def test_numbers_that_another_thread_draws_do_not_matter():
    has_begun, has_drawn = threading.Event(), threading.Event()
    calls = []

    def draw():
        has_begun.wait()
        random.random()
        has_drawn.set()

    def f(x):
        calls.append(0)
        if len(calls) == 1:
            has_begun.set()
            has_drawn.wait()
        return x * 2

    compiled = pb.compile(f, backend="eager")
    waiting = threading.Event()
    others = [threading.Thread(target=draw), threading.Thread(target=waiting.wait)]
    for thread in others:
        thread.start()
    np.testing.assert_array_equal(compiled(X), X * 2)
    waiting.set()
    for thread in others:
        thread.join()
    assert not compiled.stats["eager"]


def _results(make, calls):
    """Results and state of calls, by the function and by its compiled form."""
    found = []
    for is_compiled in (False, True):
        function, state = make()
        call = pb.compile(function) if is_compiled else function
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = [call(*args) for args in calls]
        found.append((repr(results), repr(state())))
    return found


NUMBERS = [(X, number) for number in (1, 2, 1, 3, 2, 2)]


def _store(container, store):
    def make():
        held = container()

        def function(x, number):
            store(held, number)
            return x * 2

        return function, lambda: held

    return make


@pytest.mark.parametrize(
    ("container", "store"),
    [
        (dict, lambda held, n: held.__setitem__(n, "value")),
        (dict, lambda held, n: held.setdefault((n, "key"), n * 2)),
        (dict, lambda held, n: held.setdefault("inner", {}).setdefault(n, 1)),
        (set, lambda held, n: held.add(n)),
        (list, lambda held, n: held.append((n, 1))),
        (collections.deque, lambda held, n: held.append(n)),
        (lambda: [0] * 300, lambda held, n: held.append(n)),
    ],
)
def test_numbers_among_the_arguments_are_stored_as_numbers(container, store):
    expected, found = _results(_store(container, store), NUMBERS)
    assert found == expected


def test_a_memo_by_numbers_has_what_the_function_computes():
    def make():
        memo = {}

        def function(x, number):
            if number not in memo:
                memo[number] = np.linspace(0, 1, 2) ** number
            return x * memo[number]

        return function, lambda: memo

    expected, found = _results(make, NUMBERS)
    assert found == expected


def test_cached_functions_keep_no_tensors_of_a_trace():
    @functools.lru_cache
    def grid(count, scale):
        return np.linspace(0, scale, count)

    function = pb.compile(lambda x, scale: (x * grid(2, scale)).sum())
    for scale in (1.0, 2.0, 1.0):
        assert function(X, scale) == 2 * scale
        assert type(grid(2, scale)) is np.ndarray
    assert grid(2, 2.0).tolist() == [0.0, 2.0]


@pytest.mark.parametrize("maxsize", [None, 4])
def test_a_cache_that_is_filled_again_is_seen(maxsize, tmp_path):
    path = tmp_path / "values.npy"

    @functools.lru_cache(maxsize)
    def load(scale):
        return scale * np.load(path)

    np.save(path, np.ones(2))
    load(2.0)
    function = pb.compile(lambda x: x * load(2.0))
    for n in range(12):
        if n % 4 == 3:
            np.save(path, np.full(2, float(n)))
            load.cache_clear()
            load(2.0)
        np.testing.assert_array_equal(function(X), X * load(2.0))
    assert function.stats["traces"] == 4


def test_an_error_of_the_first_call_leaves_what_the_function_leaves():
    def make():
        held = types.SimpleNamespace(w=np.arange(2.0), calls=[])

        def run(x):
            held.calls.append(1)
            held.w += x
            raise ValueError("stop")

        return held, run

    (held, run), (plain, plain_run) = make(), make()
    function = pb.compile(run)
    for call in (function, plain_run):
        for _ in range(2):
            with pytest.raises(ValueError, match="stop"):
                call(X)
    np.testing.assert_array_equal(held.w, plain.w)
    assert held.calls == plain.calls


@pytest.mark.parametrize(
    ("change", "undo"),
    [
        (
            lambda held: vars(held).update(count=held.count + 1),
            lambda held: vars(held).update(count=0),
        ),
        (lambda held: held.items.append(1), lambda held: held.items.clear()),
        (lambda held: held.items.reverse(), lambda held: held.items.reverse()),
        (lambda held: setattr(held, "extra", 1), lambda held: delattr(held, "extra")),
        (lambda held: held.order.sort(), lambda held: held.order.__setitem__(slice(None), [1, 0])),
    ],
)
@pytest.mark.parametrize("backend", ["llvm", "eager"])
def test_changes_of_the_function_that_are_undone_between_calls_are_done_again(
    change, undo, backend
):
    def make():
        held = types.SimpleNamespace(count=0, items=[0, 1], order=np.array([1, 0]))

        def run(x):
            change(held)
            return x * 2

        return held, run

    (held, run), (plain, plain_run) = make(), make()
    function = pb.compile(run, backend=backend)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "compile: run cannot be one graph")
        for _ in range(CALLS):
            np.testing.assert_array_equal(function(X), plain_run(X))
            assert str(held) == str(plain)
            undo(held)
            undo(plain)


@pytest.mark.parametrize("backend", ["llvm", "eager"])
def test_arrays_of_numpy_that_are_returned_twice_or_stored_are_one_array(backend):
    held = types.SimpleNamespace(order=np.array([1, 0]))

    def twice(x):
        own = np.array(held.order)
        return x * 2, own, own

    def store(x):
        held.order = held.order[::-1].copy()
        return x * 2, held.order, held.order[:1]

    double = pb.compile(twice, backend=backend)
    for _ in range(3):
        _, first, second = double(X)
        first[0] = 7
        assert first is second
        assert held.order[0] == 1
    stored = pb.compile(store, backend=backend)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "compile: store cannot be one graph: it stores an array")
        for _ in range(3):
            _, first, view = stored(X)
            assert first is held.order
            assert np.shares_memory(first, view)


@dataclasses.dataclass
class State:
    x: np.ndarray
    time: float = 0.0


def _advance(state, step):
    state.x = state.x + step
    state.time += step
    return state.x.sum()


def _advance_dict(state, step):
    state["x"] = state["x"] * step
    state["time"] = state.get("time", 0.0) + step
    return state["x"]


@pytest.mark.parametrize(
    ("function", "state"),
    [
        (_advance, lambda: State(X)),
        (_advance_dict, lambda: {"x": X}),
        (_advance_dict, lambda: {"x": X, "time": 1.0}),
        (lambda held, x: held.append(x) or held[0] * x, lambda: [X]),
        (lambda held, x: held.pop() * x, lambda: [X, X + 1]),
    ],
)
def test_containers_among_the_arguments_are_changed(function, state):
    compiled = pb.compile(function)
    for step in (0.5, 2.0):
        expected, found = state(), state()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert repr(compiled(found, step)) == repr(function(expected, step))
        assert repr(found) == repr(expected)
