"""Places that a function reaches without naming them: every change between calls is seen."""

from __future__ import annotations

import array
import builtins
import collections
import contextlib
import contextvars
import dataclasses
import functools
import importlib
import inspect
import math
import operator
import sys
import threading
import types
import warnings
import weakref

import numpy as np
import pytest

import pullback as pb
from pullback._cpython import CAN_READ_BYTECODE

pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")

X = np.array([0.5, -1.0, 2.0])
reads_bytecode = pytest.mark.skipif(
    not CAN_READ_BYTECODE, reason="more is compared on interpreters that are not tested"
)


class Held:
    """An object with numbers that special methods, a property or a descriptor read."""

    def __init__(self):
        self.store = {"rate": 1.0}
        self.factor = 1.0

    def __getattr__(self, name):
        try:
            return self.__dict__["store"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, key):
        return self.store[key]

    def __iter__(self):
        return iter([self.factor, 2.0])

    def __lt__(self, other):
        return self.factor < other

    def __enter__(self):
        return self.factor

    def __exit__(self, *error):
        return None


class Kind(type):
    @property
    def rate(cls):
        return cls.hidden


class Base:
    factor = 1.0

    def apply(self, x):
        return x * self.factor


class Derived(Base):
    def apply(self, x):
        return super().apply(x) + 1

    scaled = functools.partialmethod(lambda self, k, x: x * k * self.factor, 3.0)


class Vector:
    def __init__(self, values):
        self.values = values

    def __add__(self, other):
        return Vector(self.values + other.values * FACTOR)


FACTOR = 1.0
FUNCTION, DTYPE, module_in_use = np.tanh, np.float32, np


@dataclasses.dataclass
class Options:
    first: float = 1.0
    second: float = 2.0


class World:
    """Functions of `x`, and a change for each call."""

    def attribute_by_getattr(self):
        held = Held()
        return (lambda x: x * held.rate), lambda n: held.store.update(rate=1.0 + n)

    def item_by_getitem(self):
        held = Held()
        return (lambda x: x * held["rate"]), lambda n: held.store.update(rate=1.0 + n)

    def iteration(self):
        held = Held()
        return (lambda x: sum(x * k for k in held)), lambda n: setattr(held, "factor", 1.0 + n)

    def comparison(self):
        held = Held()
        return (lambda x: x * (2 if held < 2.5 else 3)), lambda n: setattr(held, "factor", 1.0 + n)

    def context_manager(self):
        held = Held()

        def f(x):
            with held as factor:
                return x * factor

        return f, lambda n: setattr(held, "factor", 1.0 + n)

    def decorated_context_manager(self):
        held = Held()

        @contextlib.contextmanager
        def manager():
            yield held.factor

        def f(x):
            with manager() as factor:
                return x * factor

        return f, lambda n: setattr(held, "factor", 1.0 + n)

    def property_of_a_metaclass(self):
        kind = Kind("Other", (), {"hidden": 1.0})
        return (lambda x: x * kind.rate), lambda n: setattr(kind, "hidden", 1.0 + n)

    def method_of_a_base(self):
        base = type("OtherBase", (Base,), {"factor": 1.0})
        held = type("Other", (Derived, base), {})()
        return held.apply, lambda n: setattr(base, "factor", 1.0 + n)

    def partial_method(self):
        held = Derived()
        return (lambda x: held.scaled(x)), lambda n: setattr(held, "factor", 1.0 + n)

    def class_of_an_object(self):
        held = type("First", (Base,), {"factor": 1.0})()

        def change(n):
            held.__class__ = type("Second", (Base,), {"factor": 1.0 + n})

        return (lambda x: held.apply(x)), change

    def code_of_a_function(self):
        def h(x):
            return x * 2

        def change(n):
            h.__code__ = (lambda x: x * 3).__code__ if n % 2 else (lambda x: x * 4).__code__

        return (lambda x: h(x)), change

    def operators_of_new_objects(self):
        def change(n):
            global FACTOR
            FACTOR = 1.0 + n

        return (lambda x: (Vector(x) + Vector(x)).values), change

    def fields_of_new_dataclasses(self):
        q = 3.0

        @dataclasses.dataclass
        class Made:
            w: float = 1.0
            z: list = dataclasses.field(default_factory=lambda: [q])

            def __post_init__(self):
                self.w = self.w * q

        def change(n):
            nonlocal q
            q = 3.0 + n

        return (lambda x: x * Made().w + Made().z[0]), change

    def computed_names(self):
        held = Options()
        names = ["first", "second"]

        def change(n):
            held.second = 2.0 + n

        return (lambda x: sum(x * getattr(held, name) for name in names)), change

    def names_in_an_attrgetter(self):
        held, get = Options(), operator.attrgetter("second")
        return (lambda x: x * get(held)), lambda n: setattr(held, "second", 2.0 + n)

    def attribute_that_may_be_missing(self):
        held = Options()
        return (lambda x: x * getattr(held, "third", 1.0)), lambda n: setattr(
            held, "third", 1.0 + n
        )

    def asdict(self):
        held = Options()
        f = lambda x: x * sum(dataclasses.asdict(held).values())  # noqa: E731
        return f, lambda n: setattr(held, "second", 2.0 + n)

    def imported_module(self):
        module = sys.modules["pullback_test_module"] = types.ModuleType("pullback_test_module")
        module.rate = 1.0

        def f(x):
            from pullback_test_module import rate

            return x * rate

        return f, lambda n: setattr(module, "rate", 1.0 + n)

    def attribute_of_a_module_by_getattr(self):
        module, rates = types.ModuleType("module"), {"rate": 1.0}
        module.__getattr__ = lambda name: rates[name]
        return (lambda x: x * module.rate), lambda n: rates.update(rate=1.0 + n)

    def keywords_of_a_partial(self):
        f = functools.partial(lambda x, k: x * k, k=1.0)
        return f, lambda n: f.keywords.update(k=1.0 + n)

    def single_dispatch(self):
        k = 1.0

        @functools.singledispatch
        def h(x):
            return x * k

        def change(n):
            nonlocal k
            k = 1.0 + n

        return (lambda x: h(x)), change

    def chain_map(self):
        first = {"rate": 1.0}
        chain = collections.ChainMap(first, {"other": 2.0})
        return (lambda x: x * chain["rate"]), lambda n: first.update(rate=1.0 + n)

    def user_list(self):
        held = collections.UserList([1.0])
        return (lambda x: x * held[0]), lambda n: held.__setitem__(0, 1.0 + n)

    def read_only_dict(self):
        rates = {"rate": 1.0}
        view = types.MappingProxyType(rates)
        return (lambda x: x * view["rate"]), lambda n: rates.update(rate=1.0 + n)

    def bytes(self):
        held = bytearray(b"\x01\x02")
        return (lambda x: x * held[0] + len(held)), lambda n: held.append(n)

    def array_of_python(self):
        held = array.array("d", [1.0, 2.0])
        return (lambda x: x * held[0]), lambda n: held.__setitem__(0, 1.0 + n)

    def view_of_memory(self):
        held = np.ones(3)
        view = memoryview(held)
        return (lambda x: x * view[0]), lambda n: held.fill(1.0 + n)

    def context_variable(self):
        variable = contextvars.ContextVar("variable", default=1.0)
        return (lambda x: x * variable.get()), lambda n: variable.set(1.0 + n)

    def values_of_a_thread(self):
        held = threading.local()
        held.rate = 1.0
        return (lambda x: x * held.rate), lambda n: setattr(held, "rate", 1.0 + n)

    def weak_reference(self):
        held = Options()
        self.held = held
        reference = weakref.ref(held)
        return (lambda x: x * reference().first), lambda n: setattr(held, "first", 1.0 + n)

    def function_in_a_vectorize(self):
        k = 1.0
        vectorized = np.vectorize(lambda v: v * k)

        def change(n):
            nonlocal k
            k = 1.0 + n

        return (lambda x: x * vectorized(2.0)), change

    def masked_array(self):
        held = np.ma.masked_array([1.0, 2.0, 3.0], [True, False, False])

        def change(n):
            held.mask = [False, n % 2 == 0, False]

        return (lambda x: x * held.sum()), change

    def functions_of_libraries(self):
        def change(n):
            global FUNCTION, DTYPE, module_in_use
            FUNCTION = np.sin if n % 2 else np.tanh
            DTYPE = np.float64 if n % 2 else np.float32
            module_in_use = pb if n % 2 else np

        return (lambda x: FUNCTION(x).astype(DTYPE) * module_in_use.exp(x)), change

    def missing_attribute(self):
        held = Options()

        def f(x):
            try:
                return x * held.third
            except AttributeError:
                return x

        def change(n):
            if n % 2:
                held.third = 1.0 + n
            else:
                del held.third

        return f, change

    def missing_attribute_of_a_class(self):
        kind = type("Other", (), {})
        held = kind()
        f = lambda x: x * getattr(held, "third", 1.0)  # noqa: E731
        return f, lambda n: setattr(kind, "third", 1.0 + n)

    def missing_global(self):
        def f(x):
            try:
                return x * MISSING
            except NameError:
                return x

        def change(n):
            if n % 2:
                globals()["MISSING"] = 1.0 + n
            else:
                del globals()["MISSING"]

        return f, change

    def new_name_of_builtins(self):
        builtins.pullback_test_name = 1.0

        def change(n):
            builtins.pullback_test_name = 1.0 + n

        return (lambda x: x * pullback_test_name), change  # noqa: F821

    def middle_of_a_long_list(self):
        arrays = [np.ones(1) for _ in range(600)]
        return (lambda x: x * np.sin(arrays[300])), lambda n: arrays[300].fill(n)


NAMES = [name for name in vars(World) if not name.startswith("_")]


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize("name", NAMES)
def test_changes_are_seen(name, backend):
    world = World()
    function, change = getattr(world, name)()
    compiled = pb.compile(function, backend=backend)
    for number in range(5):
        if number:
            change(number)
        np.testing.assert_allclose(compiled(X), function(X))
        np.testing.assert_allclose(compiled(X), function(X))
    assert compiled.stats["hits"] >= 4  # each change is hardly more than one trace
    assert compiled.stats["eager"] == 0


@pytest.mark.parametrize("backend", ["llvm", "eager"])
def test_side_effects_in_bytes_and_context_variables_happen_once(backend):
    held, numbers = bytearray(b"\x01"), array.array("d", [1.0])
    variable = contextvars.ContextVar("variable", default=0)

    def f(x):
        held.append(7)
        numbers.append(2.0)
        variable.set(variable.get() + 1)
        return x * len(held) if x.sum().item() > 0 else x  # too many values, in the end

    compiled = pb.compile(f, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(12):
            np.testing.assert_allclose(compiled(X + number), (X + number) * (2 + number))
    assert (len(held), len(numbers), variable.get()) == (13, 13, 12)


def test_objects_that_compute_their_attributes_are_searched():
    values = {"rate": 2.0}

    class Strange:
        def __getattribute__(self, name):
            return values[name]  # KeyError for any other name, __class__ and __dict__ too

    strange = Strange()
    compiled = pb.compile(lambda x: x * strange.rate, backend="eager")
    np.testing.assert_allclose(compiled(X), X * 2)
    values["rate"] = 3.0
    np.testing.assert_allclose(compiled(X), X * 3)


def test_more_places_than_can_be_compared_are_refused():
    table = {number: float(number) for number in range(20_000)}
    compiled = pb.compile(lambda x: x * table[15_000], backend="eager")
    with pytest.warns(UserWarning, match="too many objects from outside"):
        compiled(X)
    table[15_000] = 2.0
    np.testing.assert_allclose(compiled(X), X * 2)


class Model:
    def loss(self, x):
        return (x * x).sum()


loss = at = real = None  # names of attributes below


@reads_bytecode
def test_globals_with_names_of_attributes_are_not_compared():
    model = Model()

    def program(x, i):
        y = x.copy()
        np.add.at(y, i, 1.0)
        return model.loss(y) + x.real[0]

    f = pb.compile(program)
    for turn in range(12):
        for name in ("loss", "at", "real"):
            globals()[name] = np.full(3, float(turn))
        np.testing.assert_allclose(
            f(X + turn, np.array([0, turn % 3])), program(X + turn, [0, turn % 3])
        )
    assert f.stats == {"traces": 1, "hits": 11, "eager": 0, "changes": 0}


def test_globals_read_by_a_computed_name_are_compared():
    name = "".join(["ra", "te"])
    globals()["rate"] = 2.0
    f = pb.compile(lambda x: x * globals()["rate"] + (0 if name else 1))
    for rate in (2.0, 3.0, 4.0):
        globals()["rate"] = rate
        np.testing.assert_array_equal(f(X), X * rate)


@reads_bytecode
def test_attributes_that_the_code_does_not_name_are_not_compared():
    held = Options()
    held.calls = 0
    compiled = pb.compile(lambda x: x * getattr(held, "first", 2.0), backend="eager")
    for _ in range(3):
        compiled(X)
        held.calls += 1
    assert compiled.stats["traces"] == 1


FACTOR = 2.0


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * sys.modules[__name__].FACTOR,
        lambda x: x * importlib.import_module(__name__).FACTOR,
        lambda x: x * inspect.getmodule(Held).FACTOR,
    ],
    ids=["modules", "import_module", "getmodule"],
)
def test_globals_that_are_read_as_attributes_of_the_module_are_compared(function, monkeypatch):
    compiled = pb.compile(function, backend="eager")
    for factor in (2.0, 3.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        np.testing.assert_allclose(compiled(X), X * factor)


@pytest.mark.parametrize(
    "source",
    [
        "from .inner import FACTOR\n return x * FACTOR",
        "from . import inner\n return x * inner.FACTOR",
        "return x * import_module('outer_of_test.inner').FACTOR",
    ],
)
def test_modules_that_a_function_imports_by_other_names_are_compared(source, monkeypatch):
    outer, inner = types.ModuleType("outer_of_test"), types.ModuleType("outer_of_test.inner")
    outer.__path__, outer.inner, inner.FACTOR = [], inner, 2.0
    for module in (outer, inner):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    space = {"__name__": "outer_of_test.user", "__package__": "outer_of_test"}
    space["import_module"] = importlib.import_module
    exec(f"def f(x):\n {source}", space)
    compiled = pb.compile(space["f"], backend="eager")
    for inner.FACTOR in (2.0, 3.0):
        np.testing.assert_allclose(compiled(X), X * inner.FACTOR)


# --- elements of captured arrays that NumPy reads -------------------------------------------------


def branch(x, a):
    return x * 100 + a if np.max(a) > 5 else x * a


def steps(x, a):
    found = x * a
    for _ in range(int(a[0])):
        found = found + 1
    return found


ELEMENTS = {
    "branch": branch,
    "steps": steps,
    "lossy": lambda x, a: x * a + np.sign(a),
    "symmetric": lambda x, a: x * a + np.abs(a),
    "sum": lambda x, a: x * a + np.sum(a),
    "number": lambda x, a: x * a * float(a[0]),
    "argmax": lambda x, a: x[np.argmax(a)] * a,
    "count": lambda x, a: x * a * np.count_nonzero(a > 2),
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_elements_that_numpy_reads_are_compared_for_ever(name):
    a = np.array([1.0, 2.0, 3.0])
    function = ELEMENTS[name]
    compiled = pb.compile(lambda x: function(x, a), backend="llvm")
    for change in (None, a + 0.1, a + 0.2, a[::-1].copy(), -a, a + 10, a, a * [1, 9, 1]):
        if change is not None:
            a[...] = change
        np.testing.assert_allclose(compiled(X), function(X, a))


def held(function):
    return lambda x, a: x * a * function(a[0])


class Tools:
    convert = float


TABLE = {0.5: 2.0, 1.0: 3.0}
CASES = {"0.5": 2.0, "1.0": 3.0}

UNSEEN = {
    "cell": held(math.floor),
    "default": lambda x, a, convert=float: x * a * convert(a[0]),
    "attribute": lambda x, a: x * a * Tools.convert(a[0]),
    "methodcaller": lambda x, a, read=operator.methodcaller("item", 0): x * a * read(a),
    "partial": held(functools.partial(float)),
    "length": lambda x, a: x * a * len(np.flatnonzero(a)),
    "size": lambda x, a: x * a * a.nonzero()[0].size,
    "mask": lambda x, a: x * a * a[np.greater(a, 1.0)].size,
    "distinct": lambda x, a: x * a * len(set(a.flat)),
    "order": lambda x, a: x[np.argsort(a)] * a,
    "first": lambda x, a: x * a * [1.0, 2.0, 3.0][np.argsort(a)[0]],
    "table": lambda x, a: x * a * TABLE.get(a[0], 7.0),
    "literal table": lambda x, a: x * a * {0.5: 2.0, 1.0: 3.0}.get(a[0], 7.0),
    "text": lambda x, a: x * a * CASES.get(f"{a[0]:.1f}", 7.0),
    "percent": lambda x, a: x * a * CASES.get("%.1f" % a[0], 7.0),  # noqa: UP031
    "not": lambda x, a: x * a * (not a[2]),
    "memory": lambda x, a: x * a * memoryview(a)[0],
    "method": lambda x, a: x * a * a[0].__float__(),
    "loop": lambda x, a: x * a + sum(1.0 for _ in zip(np.flatnonzero(a))),
}


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize("name", UNSEEN)
def test_elements_that_code_reads_without_a_branch_are_compared(name, backend):
    a = np.array([1.0, 2.0, 3.0])
    function = UNSEEN[name]
    compiled = pb.compile(lambda x: function(x, a), backend=backend)
    for change in ([1.0, 2.0, 3.0], [0.5, 0.0, 0.0], [3.0, 3.0, 1.0]):
        a[...] = change
        np.testing.assert_allclose(compiled(X), function(X, a))


@pytest.mark.parametrize("backend", ["llvm", "eager"])
def test_integers_that_index_are_compared(backend):
    index = np.array([0, 1, 2])
    compiled = pb.compile(lambda x: x[index] * index, backend=backend)
    for change in ([0, 1, 2], [2, 2, 0], [1, 0, 1]):
        index[...] = change
        np.testing.assert_allclose(compiled(X), X[index] * index)


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize("shape", [(2,), (2, 1), (1, 2)])
def test_elements_of_arrays_of_objects_are_compared(shape, backend):
    inner = np.array([1.0, 2.0, 3.0])
    held = np.empty(shape, object)
    held.flat[0], held.flat[1] = 2.0, inner
    f = lambda x: x * held.flat[0] + np.sin(held.flat[1])  # noqa: E731
    compiled = pb.compile(f, backend=backend)
    np.testing.assert_allclose(compiled(X), f(X))
    held.flat[0] = 5.0
    np.testing.assert_allclose(compiled(X), f(X))
    inner[0] = 7.0
    np.testing.assert_allclose(compiled(X), f(X))
    held.flat[1] = inner * 2
    np.testing.assert_allclose(compiled(X), f(X))
    traces = compiled.stats["traces"]
    np.testing.assert_allclose(compiled(X), f(X))
    assert compiled.stats["traces"] == traces


def test_elements_of_arrays_of_objects_are_restored():
    held = np.array([0, None], dtype=object)

    def f(x):
        held[0] += 1
        raise ValueError("a mistake")

    compiled = pb.compile(f, backend="eager")
    with pytest.raises(ValueError, match="a mistake"):
        compiled(X)
    assert held[0] == 1


@reads_bytecode
def test_arrays_that_only_a_graph_reads_are_not_compared():
    weights = np.array([1.0, 2.0, 3.0])
    layers = [weights, np.ones(3)]

    def f(x):
        for layer in layers:
            x = np.tanh(x * layer) + np.linspace(0.0, 1.0, 3)
        return x

    compiled = pb.compile(f, backend="llvm")
    for _ in range(12):
        np.testing.assert_allclose(compiled(X), f(X))
        weights *= 0.9
    assert compiled.stats["traces"] == 1


def test_memory_of_tensors_that_numpy_reads_is_compared():
    t = pb.tensor([1.0, 2.0, 3.0])
    f = lambda x: x * np.sign(t.numpy()) + t  # noqa: E731
    compiled = pb.compile(f, backend="llvm")
    for factor in (1.0, 2.0, -1.0, 3.0, -2.0):
        t.mul_(factor)
        np.testing.assert_allclose(compiled(X), f(X))


def _scaled(options, x):
    return x * options.rate


@pytest.mark.parametrize("kind", [types.SimpleNamespace, Options])
def test_attributes_that_called_functions_read_are_compared(kind):
    options = kind()
    options.rate = 2.0
    compiled = pb.compile(lambda x: _scaled(options, x))
    for rate in (2.0, 3.0, 4.0):
        options.rate = rate
        np.testing.assert_array_equal(compiled(X), X * rate)
    assert compiled.stats["traces"] == 3
