"""Values from outside of a compiled function: every change between calls is seen."""

from __future__ import annotations

import dataclasses
import math
import types
import warnings
from typing import ClassVar

import numpy as np
import pytest

import pullback as pb
from pullback.compiled.reach import find_watches
from pullback.compiled.watch import is_same_constant
from pullback.errors import AutogradError

pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")

X = np.array([0.3, -0.2, 0.9])
BACKENDS = ["llvm", "eager"]
RATE = 2.0


class Model:
    scale = 2.0
    weights: ClassVar = [1.0, 2.0]

    def __init__(self):
        self.w = np.ones(3)
        self._shift = 2.0

    @property
    def shift(self):
        return self._shift

    def helper(self, x):
        return x * self.w

    def __call__(self, x):
        return self.helper(x) * self.scale * self.shift + self.weights[0]

    @classmethod
    def scaled(cls, x):
        return x * cls.scale


class Slotted:
    __slots__ = ("w",)


@dataclasses.dataclass
class Options:
    rate: float = 1.0


settings = types.ModuleType("settings")


class World:
    """Functions of `x`, and a change for each call."""

    def inner_lambda(self):
        def change(n):
            global RATE
            RATE = 2.0 + n

        return (lambda x: (lambda y: y * RATE)(x)), change

    def comprehension(self):
        return (lambda x: sum(x * RATE * k for k in range(2))), self.inner_lambda()[1]

    def module(self):
        settings.rate = 2.0
        return (lambda x: x * settings.rate), lambda n: setattr(settings, "rate", 2.0 + n)

    def dict_items(self):
        params = {"w": np.ones(3), "deep": {"z": [np.ones(3)]}}

        def change(n):
            if n == 1:
                params["w"] = np.full(3, 5.0)
            if n == 2:
                params["deep"]["z"][0] = np.full(3, 5.0)
            if n == 3:
                params["deep"] = {"z": [np.full(3, 7.0)]}

        return (lambda x: x * params["w"] + params["deep"]["z"][0]), change

    def list_that_grows(self):
        factors = [np.ones(3)]

        def f(x):
            for factor in factors:
                x = x * factor
            return x

        return f, lambda n: factors.append(np.full(3, 1.0 + n))

    def list_that_is_another(self):
        factors = [np.ones(3)]

        def change(n):
            nonlocal factors
            factors = [np.full(3, 1.0 + n)]

        return (lambda x: x * factors[0]), change

    def long_list(self):
        factors = [1.0] * 1000
        return (lambda x: x * factors[999]), lambda n: factors.__setitem__(999, 1.0 + n)

    def attributes(self):
        model = Model()

        def change(n):
            if n == 1:
                model.w = np.full(3, 5.0)
            if n == 2:
                model._shift = 9.0
            if n == 3:
                model.scale = 7.0  # hides the class's

        return model, change

    def class_attributes(self):
        kind = type("Other", (Model,), {"scale": 3.0, "weights": [3.0]})

        def change(n):
            kind.scale = 3.0 + n
            kind.weights[0] = n

        return kind(), change

    def class_methods(self):
        kind = type("Other", (Model,), {"scale": 3.0})
        return kind.scaled, lambda n: setattr(kind, "scale", 3.0 + n)

    def methods_of_an_object(self):
        model = Model()
        return (lambda x: model.helper(x)), lambda n: setattr(model, "w", np.full(3, 1.0 + n))

    def slots(self):
        held = Slotted()
        held.w = 1.0
        return (lambda x: x * held.w), lambda n: setattr(held, "w", 1.0 + n)

    def getattr_by_name(self):
        options = Options()
        return (lambda x: x * getattr(options, "rate")), lambda n: setattr(options, "rate", 1.0 + n)  # noqa: B009

    def compiled_inside(self):
        inner = pb.compile(lambda x: x * RATE)
        return (lambda x: inner(x) + 1), self.inner_lambda()[1]

    def compiled_inside_on_a_captured_array(self):
        captured = np.ones(3)
        inner = pb.compile(lambda y: y * 2)
        inner(captured)
        return (lambda x: x + inner(captured)), lambda n: captured.fill(n)

    def defaults(self):
        def f(x, k=np.ones(3), *, rate=[2.0]):  # noqa: B006, B008
            return x * k * rate[0]

        def change(n):
            if n < 3:
                f.__defaults__ = (np.full(3, float(n)),)
            f.__kwdefaults__["rate"][0] = n

        return f, change

    def data_of_a_tensor(self):
        w = pb.ones(3)
        return (lambda x: x * w), lambda n: setattr(w, "data", pb.full((3,), float(n)))

    def shape_of_an_array(self):
        captured = np.ones(3)
        return (lambda x: x * captured), lambda n: setattr(captured, "shape", (3, 1)[: n % 2 + 1])

    def arrays_that_numpy_reads(self):
        captured, index, mask = np.ones(3), np.array([0, 1, 2]), np.array([True, False, True])

        def f(x):
            total = x * np.sin(captured) + captured[0] + x[index] * captured.sum()
            return total * 2 if captured[1] < 3 else total * mask.sum()

        def change(n):
            captured[:2] = n + 1
            index[0] = n % 3
            mask[1] = n % 2

        return f, change

    def sign_of_zero(self):
        zero = 0.0

        def change(n):
            nonlocal zero
            zero = -0.0 if n % 2 else 0.0

        return (lambda x: pb.copysign(x, zero)), change

    def types_of_numbers(self):
        pair = (1, 2)

        def change(n):
            nonlocal pair
            pair = (1.0, 2) if n % 2 else (1, 2)

        return (lambda x: (x > 0) * pair[0]), change

    def networks(self):
        net = pb.nn.Sequential(pb.nn.Linear(3, 2), pb.nn.Dropout(1.0))
        net.requires_grad_(False)

        def change(n):
            if n == 1:
                net.eval()
            if n == 2:
                net[0].weight = pb.nn.Parameter(pb.ones((2, 3)), requires_grad=False)

        return net, change


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # NumPy 2.5
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [name for name in vars(World) if not name.startswith("_")])
def test_changes_are_seen(name, backend):
    function, change = getattr(World(), name)()
    compiled = pb.compile(function, backend=backend)
    for n in range(4):
        if n:
            change(n)
        for _ in range(2):
            found, expected = compiled(pb.asarray(X)), function(pb.asarray(X))
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(np.signbit(found.numpy()), np.signbit(expected.numpy()))
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-14)
    assert compiled.stats["hits"] >= 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_attributes_of_objects_among_the_arguments_are_seen(backend):
    options = Slotted()
    compiled = pb.compile(lambda x, options: x * options.w, backend=backend)
    for rate in (1.0, 1.0, 2.0, 3.0):
        options.w = rate
        np.testing.assert_array_equal(compiled(X, options), X * rate)


def test_a_place_that_changes_in_each_call_ends_tracing_with_one_warning():
    step = 0

    def f(x):
        return x * step

    compiled = pb.compile(f)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(20):
            np.testing.assert_array_equal(compiled(X), X * step)
    assert len(caught) == 1
    assert "changes from call to call; pass it as an argument" in str(caught[0].message)
    assert compiled.stats["traces"] < 12


def test_constants_are_compared_with_their_types():
    assert is_same_constant((1, ("a", 2.0)), (1, ("a", 2.0)))
    for x, y in (((1,), (1.0,)), (0.0, -0.0), (1, True), ("1", 1), ((0.0,), (-0.0,))):
        assert not is_same_constant(x, y)
    compiled = pb.compile(lambda x, t: x * t[0], static_argnums=1)
    x = np.arange(3)
    for pair in ((1, 2), (1.0, 2), (1, 2)):
        assert compiled(x, pair).dtype == (x * pair[0]).dtype


def test_libraries_are_not_searched():
    found = find_watches(lambda x: np.sin(x) + math.sin(1.0) + pb.sin(x)).watches
    assert [watch.kind for watch in found] == ["code"]


def test_a_gradient_of_captured_tensors_inside_forward_mode_is_recorded():
    w, seed = pb.tensor([0.1, 0.2]), pb.tensor([[0.5, 0.1]])

    def product(x):
        _, pull = pb.func.vjp(lambda y: pb.outer(y, w), x)
        return pull(seed)[0] * x

    def slope(x):
        return pb.func.jvp(product, (x,), (x * 0.5,))[1]

    compiled = pb.compile(slope)
    x = pb.tensor(0.1)
    for _ in range(3):
        assert compiled(x).item() == pytest.approx(slope(x).item())
        w.mul_(0.75)
        seed.mul_(1.5)
    assert compiled.stats["traces"] == 1


def test_other_names_of_a_module_do_not_matter():
    compiled = pb.compile(pb.value_and_grad(lambda x: (x * RATE).sum()))
    compiled(X)
    try:
        globals()["_another_name"] = 1
        compiled(X)
        assert compiled.stats["hits"] == 1
    finally:
        del globals()["_another_name"]


# --- captured tensors that the function writes to -------------------------------------------------


def write_then(read):
    """A function of x that adds 1 to a captured tensor and reads it, and this tensor."""
    count = pb.zeros(1)

    def f(x):
        count.add_(1)
        return x * read(count)

    return f, count


READS = {
    "item": lambda n: n.item(),
    "item at a place": lambda n: n.item(0),
    "float": float,
    "bool": lambda n: 2.0 if n - 2 else 3.0,
    "tolist": lambda n: n.tolist()[0],
    "numpy": lambda n: n.numpy()[0],
    "asarray": lambda n: float(np.asarray(n)[0]),
    "detached": lambda n: n.detach().item(),
    "part": lambda n: n[0].item(),
}


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", READS)
def test_a_captured_tensor_is_read_after_a_write(name, backend):
    f, count = write_then(READS[name])
    g, own = write_then(READS[name])
    compiled = pb.compile(g, backend=backend)
    for _ in range(4):
        assert compiled(pb.tensor(X)).tolist() == f(pb.tensor(X)).tolist()
        assert own.tolist() == count.tolist()


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("read", [lambda n: n.item(), lambda n: n.numpy()])
def test_a_captured_tensor_is_read_before_a_write(read, backend):
    def make():
        count = pb.zeros(1)

        def f(x):
            value = read(count)
            count.add_(1)
            return x * float(np.sum(value))

        return f

    f, compiled = make(), pb.compile(make(), backend=backend)
    for _ in range(4):
        assert compiled(pb.tensor(X)).tolist() == f(pb.tensor(X)).tolist()


def test_a_value_that_is_read_in_a_full_graph_stays_watched():
    n = pb.zeros(1)
    f = pb.compile(lambda x: x * n.item() + n, fullgraph=True)
    for value in (1.0, 2.0, 3.0):
        n.fill_(value)
        assert f(pb.tensor(X)).tolist() == (X * value + value).tolist()


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("backend", BACKENDS)
def test_cumulative_statistics_of_batch_norm(backend):
    mine, theirs = (pb.nn.BatchNorm1d(3, momentum=None) for _ in range(2))
    f = pb.compile(mine, backend=backend)
    for n in range(10):
        x = pb.tensor(np.outer([1.0, 2.0, -1.0], X + n))
        np.testing.assert_allclose(f(x).detach().numpy(), theirs(x).detach().numpy(), rtol=1e-5)
        np.testing.assert_allclose(mine.running_mean.numpy(), theirs.running_mean.numpy(), 1e-5)
        np.testing.assert_allclose(mine.running_var.numpy(), theirs.running_var.numpy(), 1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", [3, 100_000])
def test_arrays_that_are_written_to_before_backward(backend, size):
    a = np.ones(size)
    functions = [lambda x, b: (x**3 * b).sum(), lambda x, _: (x**3 * a).sum()]
    for place, function in enumerate(functions):
        f = pb.compile(function, backend=backend)
        for _ in range(3):
            a[:] = 1.0
            x = pb.tensor(np.ones(size), requires_grad=True)
            y = f(x, a)
            a *= 3.0
            if size > 3 or (place and backend == "eager"):  # shared, and the write is found
                with pytest.raises(AutogradError, match="modified"):
                    y.backward()
            else:
                y.backward()
                assert x.grad.tolist() == [3.0] * size


def writes():
    """Functions of (a, b, view of b) whose write to b is recorded."""
    yield lambda a, b, _: b.mul_(a)
    yield lambda a, b, _: b.copy_(a * 2)
    yield lambda a, b, _: b[:2].mul_(a[:2])
    yield lambda a, _, view: view.mul_(a[:2])


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("write", list(writes()))
@pytest.mark.parametrize("captured", [True, False])
def test_a_recorded_write_gives_memory_from_outside_a_history(write, backend, captured):
    found = []
    for compiles in (False, True):
        b = pb.ones(3)
        view = b[:2]

        def captures(a, b=b, view=view):
            write(a, b, view)
            return a.sum()

        def takes(a, b):
            write(a, b, b[:2])
            return a.sum()

        function = captures if captured else takes
        f = pb.compile(function, backend=backend) if compiles else function
        x = pb.tensor(X, requires_grad=True)
        f(x) if captured else f(x, b)
        assert b.requires_grad
        b.sum().backward()
        found.append((b.tolist(), x.grad.tolist()))
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("backend", BACKENDS)
def test_requires_grad_of_tensors_from_outside(backend):
    p = pb.ones(3)

    def toggles(a):
        p.requires_grad_(not p.requires_grad)
        return (a * p).sum()

    def sets(a):
        a.requires_grad = True
        return (a**2).sum()

    f = pb.compile(toggles, backend=backend)
    for expected in (True, False, True, False):
        assert f(pb.ones(3)).requires_grad == expected == p.requires_grad
    a = pb.ones(3)
    assert pb.compile(sets, backend=backend)(a).requires_grad
    assert a.requires_grad


@pytest.mark.parametrize("backend", BACKENDS)
def test_requires_grad_of_tensors_that_the_function_makes(backend):
    p = pb.ones(3)

    def f(a):
        q, r = p.detach().requires_grad_(), a.detach().requires_grad_()
        return pb.autograd.grad((q * r * r).sum(), (q, r))

    compiled = pb.compile(f, backend=backend, fullgraph=True)
    for _ in range(3):
        assert [g.tolist() for g in compiled(pb.tensor(X))] == [g.tolist() for g in f(pb.tensor(X))]
    assert compiled.stats["traces"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_strides_of_an_array_that_numpy_reads_are_seen(backend):
    w = np.arange(9.0).reshape(3, 3)
    f = pb.compile(lambda x: x * np.sin(w), backend=backend)
    x = np.ones((3, 3))
    assert np.array_equal(f(x), f(x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        w.strides = (8, 24)
    np.testing.assert_allclose(f(x), np.sin(w), rtol=1e-15)
    assert f.stats["traces"] == 2
