"""Captured arrays are inputs of a graph: they may change in each call, by place or by element."""

from __future__ import annotations

import builtins
import collections
import copy
import functools
import pickle
import queue
import sys
import threading
import types
import warnings

import numpy as np
import pytest

import pullback as pb

pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")

X = np.array([0.5, -1.0, 2.0])
BACKENDS = ["llvm", "eager"]


class Simulation:
    """State in attributes, with a flag and a choice by elements."""

    def __init__(self):
        self.x = np.linspace(0.0, 1.0, 5)
        self.v = np.ones(5)
        self.is_periodic = True

    def energy(self, k):
        force = np.where(self.x > 0.5, k * self.x, -k * self.x)
        if self.is_periodic:
            force = force - force.mean()
        return 0.5 * np.sum(self.v**2) + np.sum(force * self.x)

    def step(self, dt=0.1):
        self.v -= dt * self.x
        self.x += dt * self.v
        return np.sum(self.x**2)

    def move(self):
        self.x += 0.1 * self.v
        self.v *= 0.9

    def replace(self):
        self.x = self.x + 0.1 * self.v
        self.v = self.v * 0.9


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("change", ["move", "replace"])
def test_a_state_that_changes_in_each_call_is_an_input(change, backend):
    compiled, plain = Simulation(), Simulation()
    energy = pb.compile(compiled.energy, backend=backend)
    for _ in range(12):
        np.testing.assert_allclose(energy(1.5), plain.energy(1.5))
        getattr(compiled, change)()
        getattr(plain, change)()
    assert energy.stats["traces"] == 2
    assert energy.stats["eager"] == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("args", [(), (0.1,)])
def test_writes_to_the_state_are_part_of_the_graph(args, backend):
    compiled, plain = Simulation(), Simulation()
    step = pb.compile(compiled.step, backend=backend)
    for _ in range(6):
        found, expected = step(*args), plain.step(*args)
        assert type(found) is type(expected)
        np.testing.assert_allclose(found, expected)
        np.testing.assert_allclose(compiled.x, plain.x)
        np.testing.assert_allclose(compiled.v, plain.v)
    assert type(compiled.x) is np.ndarray
    assert step.stats == {"traces": 1, "hits": 5, "eager": 0, "changes": 0}


def test_constants_of_captured_arrays_stay_constants_until_they_change():
    rates = np.array([0.1, 0.2, 0.3])
    compiled = pb.compile(lambda x: x * np.exp(-rates), backend="eager")
    compiled(X)
    assert "exp" not in compiled.graph(X)
    for _ in range(10):
        rates *= 1.1
        np.testing.assert_allclose(compiled(X), X * np.exp(-rates))
    assert compiled.stats["traces"] == 2
    assert "exp" in compiled.graph(X)


def _state(**values):
    return types.SimpleNamespace(**values)


def _of_kinds(state, x):
    known = isinstance(state.w, np.ndarray) and isinstance(state.w[0], float)
    return x * state.w if known else x * 100


def _by_type(state, x):
    return x * state.w if type(state.w) is np.ndarray else x * 100


def _keyed(state, x):
    return x * {0.5: 2.0, 1.0: 3.0}.get(state.w[0], 9.0)


def _branching(state, x):
    return x * state.w if state.w[0] > 0.7 else x - state.w


def _stored(state, x):
    state.last = state.w
    return x * state.w


def _sorted(state, x):
    return x * np.sort(state.w) + max(state.w) + np.argmax(state.w)


def _sizes(state, x):
    return x[: len(state.w)] * state.w.sum()


def _returned(state, x):
    return state.w + 0 * x, state.w[1:], x * state.w.sum()


READS = [_of_kinds, _by_type, _keyed, _branching, _stored, _sorted, _sizes, _returned]
ELEMENTS = [[0.5, 1.0, 2.0], [1.0, 3.0, 0.5], [0.5, 0.1, 4.0], [7.0, 1.0, 2.0], [0.5, 1.0, 2.0]]


@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("function", READS)
def test_reads_of_a_state_that_changes(function, replaces):
    compiled, plain = _state(w=np.ones(3), last=None), _state(w=np.ones(3), last=None)
    f = pb.compile(lambda x: function(compiled, x), backend="eager")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "compile: ")
        for elements in ELEMENTS * 2:
            for state in (compiled, plain):
                if replaces:
                    state.w = np.array(elements)
                else:
                    state.w[...] = elements
            found, expected = f(X), function(plain, X)
            np.testing.assert_allclose(np.hstack(found), np.hstack(expected))
            assert type(compiled.w) is np.ndarray
            assert (compiled.last is compiled.w) == (plain.last is plain.w)


@pytest.mark.parametrize("backend", BACKENDS)
def test_integers_that_change_in_each_call_are_inputs(backend):
    order = _state(order=np.arange(3))
    compiled = pb.compile(lambda x: x[order.order] * 2, backend=backend)
    for _ in range(12):
        np.testing.assert_allclose(compiled(X), X[order.order] * 2)
        order.order = np.roll(order.order, 1)
    assert compiled.stats["traces"] == 2


def test_arrays_in_tuples_and_of_other_kinds():
    pair = collections.namedtuple("pair", "x v")
    box = [pair(np.arange(3.0), np.ones(3))]
    held = _state(w=np.arange(3.0))
    compiled = pb.compile(lambda k: k * np.sum(box[0].x * box[0].v) * held.w, backend="eager")
    for n, dtype in enumerate([float, np.float32, int, float, complex, float]):
        box[0].x[0] += 1.0
        held.w = held.w.real.astype(dtype) if n else held.w
        np.testing.assert_allclose(compiled(2.0), 2.0 * np.sum(box[0].x * box[0].v) * held.w)


def test_large_arrays_are_not_compared():
    matrix = np.linspace(0.0, 1.0, 40_000).reshape(200, 200)
    labels = np.arange(40_000) % 200
    x = np.ones(200)
    compiled = pb.compile(lambda x: (matrix @ x).mean() + x[labels].sum() + matrix.mean())
    for n in range(5):
        expected = (matrix @ x).mean() + x[labels].sum() + matrix.mean()
        np.testing.assert_allclose(compiled(x), expected)
        matrix[n] += 1.0
        labels[n] = 7
    assert compiled.stats["traces"] == 1


def test_a_constant_state_is_called_by_several_threads():
    state = Simulation()
    energy = pb.compile(state.energy, backend="eager")
    expected = [Simulation().energy(k) for k in range(4)]
    found = {}
    threads = [threading.Thread(target=lambda k=k: found.update({k: energy(k)})) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_allclose([found[k] for k in range(4)], expected)
    assert type(state.x) is np.ndarray


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_written_array_that_is_replaced_by_one_that_is_compared(backend):
    def make():
        held = _state(a=np.array([0.5, -1.0, 2.0]), pair=[np.ones(3), np.ones(3)])

        def run(x):
            rolled = np.roll(held.a, 1)
            for item in held.pair:
                item *= 0.9
            return rolled * held.pair[0] * float(held.a[1]) * x

        return held, run

    (held, run), (plain, plain_run) = make(), make()
    compiled = pb.compile(run, backend=backend)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "compile: run cannot be one graph")
        for n in range(6):
            np.testing.assert_allclose(compiled(X), plain_run(X))
            for state in (held, plain):
                state.pair[1] = [np.zeros(3), state.pair[1], state.a][min(n // 2, 2)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [int, float])
def test_a_written_argument_that_is_an_array_whose_elements_are_constants(dtype, backend):
    def make():
        held = _state(a=np.array([3, 1, 2], dtype))

        def run(x):
            x[0] += 1
            return x * np.roll(held.a, 1).sum() * float(held.a[0])

        return held, run

    (held, run), (plain, plain_run) = make(), make()
    compiled = pb.compile(run, backend=backend)
    warnings.filterwarnings("ignore", "compile: run cannot be one graph: it writes to an argument")
    for n in range(6):
        given = (np.ones(3, dtype), np.ones(3, dtype)) if n % 3 == 0 else (held.a, plain.a)
        np.testing.assert_allclose(compiled(given[0]), plain_run(given[1]))
        np.testing.assert_array_equal(held.a, plain.a)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trace_does_not_disturb_functions_of_the_same_module(backend):
    double = pb.compile(lambda x: x * 2 if isinstance(x, np.ndarray) else x, backend=backend)
    found = [double(np.ones(3)), double(np.ones(3))]

    def traced(x):
        thread = threading.Thread(target=lambda: found.append(double(np.ones(3))))
        thread.start()
        thread.join()
        return x * 3 if isinstance(x, np.ndarray) else x

    np.testing.assert_array_equal(pb.compile(traced, backend=backend)(X), X * 3)
    np.testing.assert_array_equal(found, np.full((3, 3), 2.0))
    assert double.stats["changes"] == 0
    assert "isinstance" not in globals()


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2 if isinstance(x, np.ndarray) else x,
        lambda x: x * 2 if isinstance(x, list | tuple | np.ndarray) else x,
        lambda x: x * 2 if isinstance(x[0], float) else x,
        lambda x: x * 2 if type(x) is np.ndarray else x,
        lambda x: x * {np.ndarray: 2.0}.get(type(x), 3.0),
        lambda x: x * 2 if type(x).__module__ == "numpy" else x,
        lambda x: x * [*map(type, (x, x[0], x > 1))].index(np.float64),
        lambda x: x * {0.5: 2.0}.get(x[0], 7.0),
        lambda x: x * len(set(x.flat)),
        lambda x: x * 2 if hasattr(x, "detach") else x,
        lambda x: x * 2 if isinstance(x, pb.Tensor | list) else x,
        lambda x: x * 2 if getattr(x, "requires_grad", None) is None else x,
        lambda x: pb.grad(lambda y: (y * 2 if isinstance(y, pb.Tensor) else y).sum())(x),
    ],
)
def test_arguments_are_arrays_for_the_code_of_the_function(function):
    compiled = pb.compile(function, backend="eager")
    for x in (X, np.array([1.0, 1.0, 1.0])):
        np.testing.assert_allclose(compiled(x), function(x))


def _with_classes(x, n):
    class Named(type):
        def __call__(cls, *args):
            return super().__call__(*args)

    class Held(metaclass=Named):
        def __init__(self, value):
            self.value = value

    scale = {int: 2.0, float: 3.0}[type(n)] if type(n * 1) is type(n) else 9.0
    made = type(Held(scale))(type("Empty", (), {"k": 5}).k)
    return x * scale * made.value * isinstance(type(n), type) * issubclass(Named, type)


@pytest.mark.parametrize("make", [np.array, pb.tensor], ids=["array", "tensor"])
def test_types_of_numbers_are_those_of_the_call(make):
    compiled = pb.compile(_with_classes, fullgraph=True, backend="eager")
    for n in (1, 2, 2.5, 3, 1.5):
        found = compiled(make([1.0, 2.0]), n)
        np.testing.assert_allclose(np.asarray(found), np.array([1.0, 2.0]) * (10 + 5 * (n % 1 > 0)))
    assert type is builtins.type
    assert compiled.stats["traces"] == 2


def test_copies_of_arguments_are_no_guards():
    compiled = pb.compile(lambda x: pb.tensor(x) + 1, backend="eager")
    for n in range(10):
        np.testing.assert_allclose(compiled(X + n), X + n + 1)
    assert compiled.stats["traces"] == 1


# --- other places ---------------------------------------------------------------------------------


class Options(collections.UserDict):
    """A dict whose items a library reads."""


class Pattern:
    __match_args__ = ("rate",)


def _matched(held):
    match held:
        case Pattern(rate):
            return rate
    return None


def _module_with(name, value):
    module = types.ModuleType("module_of_hidden_inputs")
    setattr(module, name, value)
    sys.modules[module.__name__] = module
    return module


MODULE = _module_with("rate", 1.0)
ACTIVATIONS = _module_with("activation", np.sin)
RATE = 1.0


def _places():
    options, pattern = Options(rate=1.0), Pattern()
    pattern.rate = 1.0
    matrix, order, name = np.eye(3), {"a": 2.0, "b": 3.0}, "rate"
    apply = matrix.dot
    text = pb.tensor([1.0, 2.0])

    def walk(x):
        for value in order.values():
            x = x * value + 1
        return x

    def set_rate(value):
        MODULE.rate = value

    def set_activation(value):
        ACTIVATIONS.activation = np.cos if value > 2 else np.sin

    def set_pattern(value):
        pattern.rate = value

    def set_global(value):
        global RATE
        RATE = value

    return {
        "a library's container": (
            lambda x: x * options["rate"],
            lambda value: options.update(rate=value),
        ),
        "a class pattern": (lambda x: x * _matched(pattern), set_pattern),
        "a function in a module": (lambda x: ACTIVATIONS.activation(x), set_activation),
        "a method of an array": (lambda x: apply(x), lambda value: matrix.fill(value)),
        "the order of a dict": (walk, lambda _: order.update(a=order.pop("a"))),
        "a computed name of a module": (lambda x: x * vars(MODULE)[name], set_rate),
        "getattr of a module": (lambda x: x * getattr(MODULE, "ra" + "te"[:]), set_rate),
        "the text of a tensor": (
            lambda x: x * ("9" in f"{text}") + len(str(text)),
            lambda value: text.fill_(value * 9),
        ),
        "code of a text": (lambda x: eval("x * RATE"), set_global),
    }


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", _places())
def test_changes_are_seen(name, backend):
    function, change = _places()[name]
    compiled = pb.compile(function, backend=backend)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "compile: ")
        for value in (1.0, 2.0, 3.5, 1.0):
            change(value)
            for _ in range(2):
                np.testing.assert_allclose(compiled(X), function(X))


def test_names_that_hide_builtins_are_seen(monkeypatch):
    compiled = pb.compile(lambda x: x * len(x), backend="eager")
    np.testing.assert_allclose(compiled(X), X * 3)
    monkeypatch.setitem(globals(), "len", lambda _: 7)
    np.testing.assert_allclose(compiled(X), X * 7)
    monkeypatch.undo()
    np.testing.assert_allclose(compiled(X), X * 3)


def test_the_order_of_a_dict_is_restored():
    order = {"a": 1, "b": 2}

    def f(x):
        order["a"] = order.pop("a")
        raise ValueError("a mistake")

    with pytest.raises(ValueError, match="a mistake"):
        pb.compile(f, backend="eager")(X)
    assert list(order) == ["b", "a"]


def _held_by(place):
    """A function that reads an array at a place, and one that sets it."""
    if place == "cell":
        cell = None

        def set_cell(value):
            nonlocal cell
            cell = value

        return lambda x: (x * cell).sum() * len(cell), set_cell
    if place == "attribute":
        state = _state(w=None)
        return lambda x: (x * state.w).sum() * len(state.w), lambda w: setattr(state, "w", w)
    held, key = ({"w": None}, "w") if place == "item" else ([None], 0)
    return lambda x: (x * held[key]).sum() * len(held[key]), lambda w: held.__setitem__(key, w)


@pytest.mark.parametrize("place", ["attribute", "item", "element", "cell"])
def test_replaced_arrays_are_read_by_machine_code(place):
    f, set_to = _held_by(place)
    compiled = pb.compile(f, backend="llvm")
    for n in range(6):
        set_to(np.arange(3.0) + n)
        np.testing.assert_allclose(compiled(X), f(X))
    assert compiled.stats == {"traces": 2, "hits": 4, "eager": 0, "changes": 1}
    for other in (np.ones(1), np.ones(3, np.float32), np.ones((2, 3)), np.arange(6.0)[::2]):
        set_to(other)
        np.testing.assert_allclose(compiled(X), f(X))
    set_to(None)
    with pytest.raises(TypeError):
        compiled(X)
    set_to(np.arange(3.0))
    np.testing.assert_allclose(compiled(X), f(X))


def test_identity_of_arrays_that_are_replaced():
    state = _state(a=np.ones(3), b=np.zeros(3))
    f = lambda x: x * state.a * (2 if state.a is state.b else 3)  # noqa: E731
    compiled = pb.compile(f, backend="eager")
    for n in range(6):
        state.b = state.a if n % 3 == 2 else state.a.copy()
        np.testing.assert_allclose(compiled(X), f(X))


READERS = {
    "allclose": lambda w: 1.0 if np.allclose(w, [1.0, 2.0, 3.0]) else 2.0,
    "array_equal": lambda w: 1.0 if np.array_equal(w, np.ones(3)) else 2.0,
    "unique": lambda w: len(np.unique(w)),
    "trim_zeros": lambda w: len(np.trim_zeros(w)),
    "array_str": lambda w: len(np.array_str(w)),
    "tobytes": lambda w: w.tobytes()[6],
    "str": lambda w: len(str(w)),
    "f-string": lambda w: len(f"{w}") + len(f"{w[0]:.9g}"),
    "percent": lambda w: len("%s" % w[0]),  # noqa: UP031
    "searchsorted": lambda w: int(np.searchsorted(w, 2.0)),
}
CONTENTS = [[1.0, 2.0, 3.0], [7.25, 1.5, 0.5], [2.0, 2.0, 2.0], [0.0, 5.5, 1e-9]]


@pytest.mark.parametrize("kind", ["argument", "elements", "replaced", "tensor"])
@pytest.mark.parametrize("name", READERS)
def test_values_that_numpy_or_texts_read(name, kind):
    if (name, kind) == ("percent", "tensor"):
        pytest.skip("an element of a captured tensor is a number in functions of arrays")
    read = READERS[name]
    held = pb.ones(3) if kind == "tensor" else np.ones(3)
    compiled = pb.compile(
        (lambda x, w: x * read(w)) if kind == "argument" else (lambda x: x * read(held)),
        backend="eager",
    )
    for elements in CONTENTS * 2:
        if kind == "replaced":
            held = np.array(elements)
        else:
            held[...] = np.array(elements)
        args = (X, held) if kind == "argument" else (X,)
        np.testing.assert_allclose(compiled(*args), X * read(held))


@pytest.mark.parametrize("transform", [pb.func.vmap, pb.grad, pb.value_and_grad])
def test_states_in_transforms_are_inputs(transform):
    state = _state(w=np.ones(2), b=np.ones(2))
    function = transform(lambda x: np.where(state.b > 2, np.tanh(state.w @ x), state.b * x).sum())
    x = np.ones((3, 2)) if transform is pb.func.vmap else np.ones(2)
    compiled = pb.compile(function, backend="eager")
    for n in range(10):
        state.w = state.w * 1.1
        state.b[n % 2] += 0.5
        for found, expected in zip(compiled(x), function(x), strict=True):
            np.testing.assert_allclose(found, expected)
    assert compiled.stats["traces"] == 2


def _memo(write):
    """A function with a workspace, or an entry, in an ``lru_cache``."""
    scale = np.ones(2)

    @functools.lru_cache
    def table(count):
        return np.zeros(count) + scale

    def function(x):
        entry = table(2)
        if write:
            entry += x
        return x * entry

    def change(n):
        scale[0] += 1.0
        if n == 3:
            table.cache_clear()

    return function, change


@pytest.mark.parametrize("write", [False, True])
def test_entries_of_cached_functions_stay(write):
    (plain, change), (function, change_too) = _memo(write), _memo(write)
    compiled = pb.compile(function)
    for n in range(6):
        x = np.array([1.0, 2.0]) * n
        np.testing.assert_allclose(compiled(x), plain(x))
        change(n), change_too(n)


def _in_tuple(state, array):
    state["stored"] = {"key": [(array, 1)]}
    return lambda: state["stored"]["key"][0][0]


def _in_deque(state, array):
    state["stored"] = collections.deque([array])
    return lambda: state["stored"][0]


def _in_partial(state, array):
    state["stored"] = functools.partial(np.multiply, array)
    return lambda: state["stored"].args[0]


def _in_queue(state, array):
    state["stored"] = queue.Queue()
    state["stored"].put(array)
    return lambda: state["stored"].queue[0]


def _in_error(state, array):
    state["stored"] = ValueError("message", array)
    return lambda: state["stored"].args[1]


def _in_iterator(state, array):
    state["stored"] = iter([array])
    return lambda: state["stored"].__reduce__()[1][0][0]


@pytest.mark.parametrize(
    "store", [_in_tuple, _in_deque, _in_partial, _in_queue, _in_error, _in_iterator]
)
@pytest.mark.filterwarnings("ignore:compile")
def test_captured_arrays_that_are_stored_anywhere_are_arrays(store):
    state = {"w": np.ones(2), "stored": None}
    found = None

    def function(x):
        nonlocal found
        found = store(state, state["w"])
        return x * state["w"]

    compiled = pb.compile(function)
    for n in range(4):
        assert compiled(np.ones(2)).tolist() == state["w"].tolist()
        assert type(state["w"]) is np.ndarray
        assert found() is state["w"]
        state["w"] = np.ones(2) * n


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "pickle"]
)
@pytest.mark.parametrize("kind", [np.asarray, pb.asarray])
def test_copies_of_captured_values_are_made_in_each_call(copied, kind):
    state = types.SimpleNamespace(w=kind(np.ones(2)))

    def function(x):
        made = copied(state.w)
        made += x
        return made

    compiled = pb.compile(function)
    for n in range(4):
        assert compiled(kind(np.ones(2))).tolist() == [n + 2.0, 2.0]
        state.w[0] += 1.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_that_become_writeable_or_read_only(backend):
    w = np.ones(2)

    def function(x):
        try:
            w[0] = 3.0
        except ValueError:
            return x - w
        return x * w

    compiled = pb.compile(function, backend=backend)
    for is_writeable in (False, False, True, True, False):
        w.flags.writeable = True
        w[0] = 1.0
        w.flags.writeable = is_writeable
        expected = [3.0, 1.0] if is_writeable else [0.0, 0.0]
        assert compiled(np.ones(2)).tolist() == expected


@pytest.mark.parametrize("dtype", [">f8", ">i4"])
@pytest.mark.parametrize("kind", [np.asarray, pb.asarray])
def test_captured_arrays_of_another_byte_order(dtype, kind):
    w = np.arange(3.0).astype(dtype)
    compiled, swap = pb.compile(lambda x: x * w), pb.compile(lambda x: x.astype(dtype))
    for n in range(3):
        assert compiled(kind(np.ones(3))).tolist() == [n, 1.0, 2.0]
        assert swap(np.arange(3.0)).tolist() == [0, 1, 2]
        w[0] += 1


class CountingDict(dict):
    """A dict that counts what is set."""

    count = 0

    def __setitem__(self, name, value):
        self.count += 1
        super().__setitem__(name, value)


class CountingList(list):
    """A list that counts what is set."""

    count = 0

    def __setitem__(self, place, value):
        self.count += 1
        super().__setitem__(place, value)


@pytest.mark.parametrize("make", [lambda x: CountingDict({0: x}), lambda x: CountingList([x])])
def test_methods_of_containers_do_not_run_for_a_trace(make):
    held = make(np.ones(2))
    compiled = pb.compile(lambda x: x * held[0])
    for n in range(4):
        assert compiled(np.ones(2)).tolist() == [1.0 + n, 1.0]
        assert held.count == 0
        held[0][0] += 1.0


class Tagged(np.ndarray):
    """An array of a class of the user, which NumPy's results are of, too."""


def test_results_are_of_the_class_of_captured_arrays():
    held = np.ones(2).view(Tagged)
    compiled = pb.compile(lambda x: x * held)
    with pytest.warns(UserWarning, match="results of a Tagged are of this class"):
        assert type(compiled(np.ones(2))) is Tagged
    assert type(compiled(np.ones(2))) is Tagged
    plain = pb.compile(lambda x: x * np.asarray(held))
    assert type(plain(np.ones(2))) is np.ndarray
    assert plain.stats["eager"] == 0
