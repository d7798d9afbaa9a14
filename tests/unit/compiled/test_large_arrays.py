"""Captured arrays of megabytes: no function has them as constants, and few compare them."""

from __future__ import annotations

import copy
import threading
import types

import numpy as np
import pytest

import pullback as pb
from pullback.errors import AutogradError
from pullback.fx import snapshots

pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")

BACKENDS = ["llvm", "eager"]
SIZE = 200_000


def _held(array):
    return types.SimpleNamespace(x=array, views=[array[:3]], local=None)


def _table():
    return _held(np.linspace(0.0, 1.0, SIZE).reshape(-1, 4))


def _integers():
    return _held(np.arange(SIZE))


def _records():
    return _held(np.ones(SIZE, [("a", float), ("b", int)]))


def _in_thread_values():
    held = _table()
    held.local = threading.local()
    held.local.x = held.x
    return held


def _kind(held, t):
    x = held.x if isinstance(held.x, np.ndarray) else held.x * 7
    y = held.x * 7 if isinstance(held.x, pb.Tensor) or hasattr(held.x, "detach") else held.x
    return (x @ t).sum() * (y @ t).sum() * (3 if isinstance(t, pb.Tensor) else 5)


def _kind_of_computed(held, t):
    doubled = held.x * 2
    return t * (doubled if isinstance(doubled, np.ndarray) else doubled * 7).sum()


def _copied_elements(held, t):
    row = held.x[1].copy()
    first = row[0]
    row[0] = 5.0
    return t * first * row[0]


def _keyed(held, t):
    return t * {1.0: 2.0}.get(held.x[-1, -1], 3.0) * float(f"{held.x[-1, -1]:.1f}")


def _with_views(held, t):
    return t * held.x.sum() * np.sin(held.views[0]).sum()


def _in_loop(held, t):
    def step(carry, _):
        doubled = held.x[0] * 2
        scale = 1.0 if isinstance(doubled, np.ndarray) else 9.0
        return carry + (held.x[:3] @ carry).sum() * np.sin(held.x[0]) * scale, carry.sum()

    return pb.scan(step, t, None, length=3)[0]


COMPUTED = [
    (_table, lambda held, t: t * np.sin(held.x).sum()),
    (_table, lambda held, t: t * held.x[5, 1]),
    (_table, lambda held, t: t * 2 if held.x[0, 0] > 1.5 else t * 3),
    (_table, lambda held, t: (held.x @ t).sum() * np.cos(held.x).sum()),
    (_table, lambda held, t: (t, held.x, held.x[0], held.x[0].copy(), np.sin(held.x))),
    (_table, lambda held, t: np.where(held.x[:, 0] > 0.5, t.sum(), 0.0).sum()),
    (_table, lambda held, t: t * np.linalg.svd(held.x[:4])[1]),
    (_table, _kind),
    (_table, _kind_of_computed),
    (_table, _copied_elements),
    (_table, _keyed),
    (_table, _with_views),
    (_table, _in_loop),
    (_in_thread_values, lambda held, t: t * np.sin(held.local.x).sum()),
    (_integers, lambda held, t: t[held.x[5] % 4] + t * np.bincount(held.x % 7)[3]),
    (_records, lambda held, t: t * held.x["a"].sum()),
]


def _change(held, n):
    if held.x.dtype.names:
        held.x["a"] += 1.0
    elif n % 3 == 2:
        held.x[0] = 7
    else:
        held.x[...] += 1


def _require_same(found, expected):
    if not isinstance(found, tuple):
        found, expected = (found,), (expected,)
    for value, wanted in zip(found, expected, strict=True):
        assert type(value) is type(wanted)
        np.testing.assert_allclose(np.asarray(value), np.asarray(wanted))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("make", "function"), COMPUTED)
def test_what_numpy_computes_of_a_large_array_is_no_constant(make, function, backend):
    held, plain = make(), make()
    compiled = pb.compile(lambda t: function(held, t), backend=backend)
    for n in range(5):
        t = pb.tensor([1.0, 2.0, 0.5, 1.5])
        _require_same(compiled(t), function(plain, t))
        _change(held, n)
        _change(plain, n)
    assert not compiled.stats["eager"]
    assert type(held.x) is np.ndarray


@pytest.mark.parametrize("backend", BACKENDS)
def test_records_and_arrays_of_libraries_are_compared_in_functions_of_arrays(backend, tmp_path):
    records = np.ones(SIZE, [("a", float)])
    mapped = np.memmap(tmp_path / "values", float, "w+", shape=(SIZE,))
    compiled = pb.compile(lambda x: x * records["a"].sum() + np.sin(mapped).sum(), backend=backend)
    for _ in range(3):
        expected = records["a"].sum() + np.sin(mapped).sum()
        np.testing.assert_allclose(compiled(np.ones(2)), expected)
        records["a"] += 1.0
        mapped[:9] += 1.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_training_step_does_not_compare_its_data(backend):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50_000, 4)), rng.normal(size=50_000)
    losses = []
    for is_compiled in (True, False):
        own = x.copy()
        w = pb.zeros(4, requires_grad=True)
        optimizer = pb.optim.SGD([w], lr=0.1)

        def step(own=own, w=w, optimizer=optimizer):
            optimizer.zero_grad()
            loss = ((own @ w - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        train = pb.compile(step, backend=backend) if is_compiled else step
        for _ in range(6):
            losses.append(train().item())
            own[:100] += 1.0
        if is_compiled:
            assert train.stats["traces"] == 1
            assert not any(w.kind == "content" and w.owner is own for w in train._watches)
    np.testing.assert_allclose(losses[:6], losses[6:])


def test_a_backward_pass_finds_that_a_large_array_has_changed():
    x = np.linspace(0.0, 1.0, SIZE).reshape(-1, 4)
    w = pb.ones(4, requires_grad=True)
    compiled = pb.compile(lambda: (x @ w).sum())
    for _ in range(2):
        w.grad = None
        compiled().backward()
        np.testing.assert_allclose(w.grad.numpy(), x.sum(axis=0))
        x[...] += 1
    loss = compiled()
    x[...] += 1
    with pytest.raises(AutogradError):
        loss.backward()


@pytest.mark.parametrize(
    "write",
    [
        lambda x: np.add(x, 1, out=x),
        lambda x: x.__setitem__(0, 9.0),
        lambda x: x.__iadd__(1),
        lambda x: x.sort(),
    ],
)
def test_writes_of_numpy_to_a_large_array_happen_in_each_call(write):
    held = _held(np.linspace(1.0, 0.0, SIZE))
    plain = copy.deepcopy(held)

    def f(held, t):
        write(held.x)
        return t * held.x[:3]

    compiled = pb.compile(lambda t: f(held, t))
    t = pb.ones(3)
    with pytest.warns(UserWarning, match="NumPy writes to an array from outside"):
        _require_same(compiled(t), f(plain, t))
    for _ in range(3):
        _require_same(compiled(t), f(plain, t))
        np.testing.assert_array_equal(held.x, plain.x)


def test_numpy_of_a_large_captured_tensor_is_called_as_it_is():
    w = pb.tensor(np.linspace(0.0, 1.0, SIZE))
    compiled = pb.compile(lambda t: t * w.numpy().sum())
    t = pb.ones(2)
    with pytest.warns(UserWarning, match="NumPy reads a captured array of more than 1 MB"):
        compiled(t)
    w += 1.0
    np.testing.assert_allclose(compiled(t).numpy(), w.numpy().sum())


def test_memory_that_cannot_change_is_not_compared():
    x = np.frombuffer(np.linspace(0.0, 1.0, SIZE).tobytes())
    compiled = pb.compile(lambda t: (t * np.sin(x).sum(), x))
    for _ in range(2):
        _require_same(compiled(pb.ones(2)), (pb.ones(2) * np.sin(x).sum(), x))
    assert not any(w.kind == "content" and w.owner is x for w in compiled._watches)


def test_numpy_may_not_write_to_a_large_array_that_the_graph_has_read(monkeypatch):
    monkeypatch.setattr(snapshots, "_MOST_COPIED", 100)

    def f(x):
        own = np.arange(50.0)
        first = x * own
        own += 1
        return first + own

    compiled = pb.compile(f)
    with pytest.warns(UserWarning, match="after the program has used it"):
        _require_same(compiled(pb.ones(50)), f(pb.ones(50)))
    _require_same(compiled(pb.ones(50)), f(pb.ones(50)))
