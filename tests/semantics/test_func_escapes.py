"""Values that escape from a transform, into a list that its function captured, are constants."""

from __future__ import annotations

import gc
import sys
import weakref
from threading import Event, Thread

import numpy as np
import pytest

import pullback
import pullback.sparse
from pullback.autograd.engine import fast_path
from pullback.autograd.graph import accumulate_grad, escapes
from pullback.autograd.graph.accumulate_grad import ended
from pullback.autograd.graph.node import Node

# PyTorch compiles some of its forward mode when it is first used, and warns about how it does that.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning"),
]

ROW = [1.0, 2.0, 3.0]


def row(lib):
    return lib.tensor(ROW)


TRANSFORMS = {
    "grad": lambda lib, f: lib.func.grad(f)(row(lib)),
    "grad_and_value": lambda lib, f: lib.func.grad_and_value(f)(row(lib)),
    "vjp": lambda lib, f: lib.func.vjp(f, row(lib)),
    "jvp": lambda lib, f: lib.func.jvp(f, (row(lib),), (row(lib),)),
    "jacrev": lambda lib, f: lib.func.jacrev(f)(row(lib)),
    "jacfwd": lambda lib, f: lib.func.jacfwd(f)(row(lib)),
    "hessian": lambda lib, f: lib.func.hessian(f)(row(lib)),
    "linearize": lambda lib, f: lib.func.linearize(f, row(lib)),
    "grad of grad": lambda lib, f: lib.func.grad(lambda x: lib.func.grad(f)(x).sum())(row(lib)),
    "jvp of grad": lambda lib, f: lib.func.jvp(lib.func.grad(f), (row(lib),), (row(lib),)),
    "grad of jvp": lambda lib, f: lib.func.grad(lambda x: lib.func.jvp(f, (x,), (x,))[1])(row(lib)),
}
NUMPY_STYLE = {
    "pb.grad": lambda lib, f: lib.module.grad(f)(np.array(ROW)),
    "pb.value_and_grad": lambda lib, f: lib.module.value_and_grad(f)(np.array(ROW)),
    "pb.elementwise_grad": lambda lib, f: lib.module.elementwise_grad(f)(np.array(ROW)),
    "pb.jacobian": lambda lib, f: lib.module.jacobian(f)(np.array(ROW)),
    "pb.hessian": lambda lib, f: lib.module.hessian(f)(np.array(ROW)),
    "pb.hvp": lambda lib, f: lib.module.hvp(f)(np.array(ROW), np.ones(3)),
}
SPARSE = {
    "sparse_jacobian": lambda lib, f: lib.module.sparse.sparse_jacobian(f, row(lib)),
    "sparse_jacobian forward": lambda lib, f: lib.module.sparse.sparse_jacobian(
        f, row(lib), mode="forward"
    ),
    "sparse_hessian": lambda lib, f: lib.module.sparse.sparse_hessian(f, row(lib)),
    "jacobian_pattern": lambda lib, f: lib.module.sparse.jacobian_pattern(f, row(lib)),
    "hessian_pattern": lambda lib, f: lib.module.sparse.hessian_pattern(f, row(lib)),
}
ALL = {**TRANSFORMS, **NUMPY_STYLE, **SPARSE}


def escaped_from(lib, transform, fails=False):
    """A value of the transformed function, and what the transform has returned."""
    found = []

    def f(x):
        h = x * x
        found.append(h)
        if fails:
            raise ZeroDivisionError
        return (h * x).sum()

    if fails:
        with pytest.raises(ZeroDivisionError):
            transform(lib, f)
        return found[0], None
    kept = transform(lib, f)
    return found[0], kept


@pytest.mark.parametrize("name", TRANSFORMS)
def test_an_escaped_value_is_a_constant_in_the_next_grad(lib, name):
    # PyTorch has an internal assertion for values of two transforms at once.
    if lib.is_torch and (" of " in name or name == "hessian"):
        pytest.skip("PyTorch fails here")
    value, _kept = escaped_from(lib, TRANSFORMS[name])
    assert (value * 2).tolist() == [2.0, 8.0, 18.0]
    found = lib.func.grad(lambda y: (y * value).sum())(row(lib))
    assert found.tolist() == [1.0, 4.0, 9.0]


@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
@pytest.mark.parametrize("name", ALL)
def test_an_escaped_value_is_a_constant(pb, name, fails):
    if name in SPARSE:
        pytest.importorskip("scipy.sparse", reason="pip install scipy")
    value, kept = escaped_from(pb, ALL[name], fails)
    assert not value.requires_grad
    assert value.grad_fn is None
    assert value.is_leaf
    assert value.numpy().tolist() == np.asarray(value).tolist() == [1.0, 4.0, 9.0]
    assert float(value[1]) == 4.0
    doubled = value * 2
    assert not doubled.requires_grad
    w = pb.leaf(ROW)
    (w * value).sum().backward()
    assert w.grad.tolist() == [1.0, 4.0, 9.0]
    value.add_(1.0)
    assert value.tolist() == [2.0, 5.0, 10.0]
    assert pb.func.grad(lambda y: (y * doubled).sum())(row(pb)).tolist() == [2.0, 8.0, 18.0]
    del kept


FUNCTIONAL = {
    "jacobian": lambda of, f, x, **graph: of.jacobian(f, x, **graph),
    "jacobian of rows together": lambda of, f, x, **g: of.jacobian(f, x, vectorize=True, **g),
    "hessian": lambda of, f, x, **graph: of.hessian(f, x, **graph),
    "vjp": lambda of, f, x, **graph: of.vjp(f, x, **graph),
    "jvp": lambda of, f, x, **graph: of.jvp(f, x, x, **graph),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", FUNCTIONAL)
def test_an_escaped_value_of_autograd_functional_keeps_its_history(lib, name, create_graph):
    """These functions run on a graph of their own, which a program may look into."""
    value, _ = escaped_from(
        lib,
        lambda lib, f: FUNCTIONAL[name](
            lib.autograd.functional, f, row(lib), create_graph=create_graph
        ),
    )
    assert value.requires_grad
    assert value.grad_fn is not None


@pytest.mark.parametrize("name", ["pb.grad", "pb.value_and_grad", "pb.hvp", "pb.hessian"])
def test_running_statistics_in_the_loss(pb, name):
    mean = {"h": pb.tensor(0.0)}

    def loss(w):
        h = w * w
        mean["h"] = 0.9 * mean["h"] + 0.1 * h.mean()
        return (h * h).sum() - mean["h"] ** 2

    found = [ALL[name](pb, loss) for _ in range(4)]
    expected, again = 0.0, [pb.tensor(0.0)]
    for result in found:
        mean["h"] = again[0]
        fresh = ALL[name](pb, loss)
        again[0] = mean["h"].detach()
        for a, b in zip(_parts(result), _parts(fresh), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        expected = 0.9 * expected + 0.1 * 14.0 / 3.0
        np.testing.assert_allclose(mean["h"].item(), expected)


def _parts(result):
    return result if isinstance(result, tuple) else (result,)


def test_running_statistics_as_in_pytorch(lib):
    mean = [lib.tensor(0.0)]

    def loss(w):
        h = w * w
        mean[0] = 0.9 * mean[0] + 0.1 * h.mean()
        return (h - mean[0]).sum()

    for _ in range(4):
        np.testing.assert_allclose(lib.func.grad(loss)(row(lib)).tolist(), [1.8, 3.6, 5.4], 1e-6)
    np.testing.assert_allclose(mean[0].tolist(), (1 - 0.9**4) * 14.0 / 3.0, 1e-6)


@pytest.mark.parametrize(
    "name", ["grad", "jacrev", "hessian", "vjp", "jvp of grad", "pb.hvp", *SPARSE]
)
def test_running_statistics_keep_no_graph(pb, name):
    mean = [pb.tensor(0.0)]

    def loss(w):
        h = (w * w).mean()
        mean[0] = 0.9 * mean[0] + 0.1 * h  # of no use to the result
        return (w * w * w).sum()

    gc.collect()
    before = sum(issubclass(type(each), Node) for each in gc.get_objects())
    for _ in range(200):
        ALL[name](pb, loss)
    gc.collect()
    after = sum(issubclass(type(each), Node) for each in gc.get_objects())
    # Where a pullback could still be called, tensors are looked for now and then only.
    assert after - before < (500 if name == "vjp" else 4)
    np.testing.assert_allclose(mean[0].item(), (1 - 0.9**200) * 14.0 / 3.0)


def test_an_escaped_view_is_a_constant(pb):
    found = []

    def f(x):
        h = x * 2
        found.extend([h[1:], x[:1], h])
        return h.sum()

    pb.func.grad(f)(row(pb))
    part, of_input, whole = found
    assert [each.requires_grad for each in found] == [False, False, False]
    part.mul_(10)
    assert whole.tolist() == [2.0, 40.0, 60.0]
    w = pb.leaf([1.0, 1.0])
    part.mul_(w)
    assert part.requires_grad
    assert whole.requires_grad
    whole.sum().backward()
    assert w.grad.tolist() == [40.0, 60.0]
    assert of_input.numpy().tolist() == [1.0]


def test_an_escaped_input_is_a_constant(pb):
    found = []

    def f(x):
        found.append(x)
        return (x * x).sum()

    pb.func.grad(f)(row(pb))
    assert not found[0].requires_grad
    assert pb.func.grad(lambda y: (y * found[0]).sum())(row(pb)).tolist() == ROW


def test_a_pullback_works_beside_escaped_values(pb):
    found = []

    def f(x):
        h = x * x
        found.append(h)
        return h * x

    output, pullback_of = pb.func.vjp(f, row(pb))
    w = pb.leaf(ROW)
    (found[0] * w).sum().backward()  # does not run, and free, what the pullback needs
    assert w.grad.tolist() == [1.0, 4.0, 9.0]
    assert pb.grad((found[0] * w).sum(), w)[0].tolist() == [1.0, 4.0, 9.0]
    assert pullback_of(pb.tensor([1.0, 1.0, 1.0]))[0].tolist() == [3.0, 12.0, 27.0]
    pullback_of(pb.tensor([1.0, 1.0, 1.0]), retain_graph=False)
    assert pb.func.grad(lambda y: (y * found[0]).sum())(row(pb)).tolist() == [1.0, 4.0, 9.0]
    with pb.raises("does not require grad"):
        found[0].sum().backward()
    assert output.tolist() == [1.0, 8.0, 27.0]


def test_an_escaped_value_keeps_its_history_outside(lib):
    w = lib.leaf(ROW)
    found = []

    def f(x):
        found.append(x * x)
        return (x * 3).sum()

    lib.func.grad(f)(w)
    (found[0] * 1).sum().backward()
    assert w.grad.tolist() == [2.0, 4.0, 6.0]


def test_an_escaped_value_keeps_only_its_history_outside(lib):
    w = lib.leaf(ROW)
    found = []

    def f(x):
        h = x * x
        found.append(h * w)
        return (h * x).sum()

    assert lib.func.grad(f)(row(lib)).tolist() == [3.0, 12.0, 27.0]
    (found[0] * 1).sum().backward()
    assert w.grad.tolist() == [1.0, 4.0, 9.0]


def test_an_escaped_value_belongs_to_the_outer_transform(lib):
    found = []

    def inner(x):
        h = x * x
        found.append(h)
        return h.sum()

    def outer(x):
        slope = lib.func.grad(inner)(x)
        return (slope * found[-1]).sum()  # 2 x³

    assert lib.func.grad(outer)(row(lib)).tolist() == [6.0, 24.0, 54.0]


def test_a_value_of_an_inner_transform_is_a_constant_to_a_later_one(lib):
    found = []

    def inner(y):
        found.append(y * y)
        return (y * y).sum()

    def outer(x):
        lib.func.grad(inner)(row(lib))
        return (x * found[-1]).sum()

    assert lib.func.grad(outer)(row(lib)).tolist() == [1.0, 4.0, 9.0]


def test_an_escaped_gradient_is_a_constant(pb):
    found = []

    def outer(x):
        slope = pb.func.grad(lambda y: (y**3).sum())(x)
        found.append(slope)
        return slope.sum()

    pb.func.grad(outer)(row(pb))
    assert not found[0].requires_grad
    assert pb.func.grad(lambda y: (y * found[0]).sum())(row(pb)).tolist() == [3.0, 12.0, 27.0]


def test_no_object_is_searched_where_nothing_escapes(pb, monkeypatch):
    def search():
        raise AssertionError("searched all objects")

    monkeypatch.setattr(pullback.autograd.graph.escapes, "_search_escaped", search)

    def f(x):
        h = x[1:] * x[:2]
        return (h * h).sum() + pb.func.grad(lambda y: (y * y).sum())(x).sum()

    for name in sorted(set(ALL) - {"vjp", "linearize"}):
        ALL[name](pb, f)


def test_a_graph_is_freed_with_its_escaped_value(pb):
    found, before = [], set(ended)  # of earlier tests, whose garbage may be frozen

    def f(x):
        h = x * x
        found.append(h)
        return h.sum()

    pb.func.grad(f)(row(pb))
    pb.func.vjp(f, row(pb))
    array = weakref.ref(found[0].numpy())
    del found[:]
    assert array() is None
    assert set(ended) <= before


def test_values_that_escape_while_the_collector_is_off(pb):
    gc.disable()
    try:
        value, _ = escaped_from(pb, TRANSFORMS["grad"])
        assert not value.requires_grad
    finally:
        gc.enable()


def test_values_that_have_grown_old_are_found(pb):
    found = []

    def f(x):
        found.append(x * x)
        gc.collect()
        gc.collect()
        return found[0].sum()

    pb.func.grad(f)(row(pb))
    assert not found[0].requires_grad


def test_values_escape_in_one_thread_while_others_compute(pb):
    stop, failed = Event(), []

    def compute():
        w = pb.leaf(ROW)
        try:
            while not stop.is_set():
                (slope,) = pb.grad((w * w * w)[1:].sum(), w)
                assert slope.tolist() == [0.0, 12.0, 27.0]
                assert pb.func.grad(lambda x: (x * x).sum())(row(pb)).tolist() == [2.0, 4.0, 6.0]
        except BaseException as error:
            failed.append(error)

    threads = [Thread(target=compute) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        for thread in threads:
            thread.start()
        for _ in range(20):
            value, _ = escaped_from(pb, TRANSFORMS["grad"])
            assert not value.requires_grad
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        for thread in threads:
            thread.join()
    assert failed == []


def visits_while_asking(monkeypatch, steps):
    """How many nodes are visited if a program asks for ``requires_grad`` after each step."""
    visited = []
    node_of = accumulate_grad.node_of
    monkeypatch.setattr(accumulate_grad, "node_of", lambda edge: visited.append(1) or node_of(edge))
    pullback_of = pullback.func.vjp(lambda x: x * x, pullback.ones(2))[1]
    h = pullback.ones(2).requires_grad_()
    for _ in range(steps):
        h = h * 1.5
        assert h.requires_grad
    del pullback_of
    return len(visited)


def test_query_after_every_step_visits_every_node_once(monkeypatch):
    monkeypatch.setattr(accumulate_grad, "later_threads", [])
    assert visits_while_asking(monkeypatch, 200) < 10 * 200


def test_numbers_of_nodes_are_not_relied_on_with_several_threads(monkeypatch):
    monkeypatch.setattr(accumulate_grad, "later_threads", [1])
    assert visits_while_asking(monkeypatch, 50) > 50 * 50 / 2


@pytest.mark.parametrize("later_threads", [[], [1]])
def test_value_queried_inside_becomes_constant(monkeypatch, later_threads):
    monkeypatch.setattr(accumulate_grad, "later_threads", later_threads)
    x = pullback.ones(2)
    kept = pullback.func.vjp(lambda x: x * x, x)  # so that there are inputs that have ended
    found = []

    def f(x):
        h = x * x
        found.extend([h, h * 2.0])
        assert all(each.requires_grad for each in found)
        return h * h

    value, pull = pullback.func.vjp(f, x)
    assert not any(each.requires_grad for each in found)
    assert pull(pullback.ones(2))[0].tolist() == [4.0, 4.0]
    assert kept[1](value)[0].tolist() == [2.0, 2.0]


@pytest.fixture
def searched(monkeypatch):
    """The generations of the garbage collector that are searched, from a fresh start."""
    generations = []

    def get_objects(generation):
        generations.append(generation)
        return gc.get_objects(generation)

    monkeypatch.setattr(escapes, "find_objects", get_objects)
    monkeypatch.setattr(escapes, "_skips", [0, 0])
    return generations


def test_old_objects_are_searched_seldom_where_it_is_in_vain(searched):
    x, weight = pullback.ones(2), pullback.ones(2).requires_grad_()
    last = []

    def f(x):
        h = x * weight  # requires grad by `weight`, too, and so stays what it is
        last[:] = [h]
        return (h * x).sum()

    for _ in range(100):
        gradient = pullback.func.grad(f)(x)
        assert gradient.tolist() == [2.0, 2.0]
    assert searched.count(2) <= 7
    assert last[0].requires_grad


def test_old_value_is_constant_where_the_search_is_skipped(searched, monkeypatch):
    monkeypatch.setattr(escapes, "_skips", [7, 7])
    mean = [pullback.tensor(0.0)]

    def f(x):
        h = x * x
        mean[0] = 0.5 * mean[0] + h.mean()
        gc.collect()  # all values that live are old now
        return h.sum() + mean[0]

    for n in range(3):
        assert pullback.func.grad(f)(pullback.ones(2)).tolist() == [3.0, 3.0], n
        assert not mean[0].requires_grad
    assert 2 not in searched


OUTERMOST_MAPS = {
    "jacfwd of grad": lambda f, x: pullback.func.jacfwd(pullback.func.grad(f))(x),
    "jacfwd of jacrev": lambda f, x: pullback.func.jacfwd(pullback.func.jacrev(f))(x),
    "jacfwd in chunks": lambda f, x: pullback.func.jacfwd(pullback.func.grad(f), chunk_size=1)(x),
    "vmap": lambda f, x: pullback.func.vmap(lambda s: s * pullback.func.grad(f)(x))(x),
    "vmap in chunks": lambda f, x: pullback.func.vmap(
        lambda s: s * pullback.func.grad(f)(x), chunk_size=2
    )(x),
}


@pytest.mark.parametrize("outer", OUTERMOST_MAPS.values(), ids=OUTERMOST_MAPS)
def test_history_does_not_grow_where_the_outermost_transform_is_a_map(outer):
    mean = [pullback.tensor(0.0)]

    def f(x):
        h = x * x
        mean[0] = 0.9 * mean[0] + 0.1 * h.mean()
        return h.sum()

    before = len(ended)
    for _ in range(5):
        outer(f, row(pullback))
        assert mean[0]._edge is None  # without a look at ``requires_grad``, which would settle it
        assert len(ended) == before
        assert not escapes.pending


# --- backward passes while a pullback is alive ---------------------------------------------------


def alive_pullback(pb, escaped):
    """A pullback of x * x, with the gradient that it has to give; values escape to a list."""

    def f(x):
        y = x * x
        escaped.extend([x, y])
        return y

    return pb.func.vjp(f, row(pb))[1], [2 * n for n in ROW]


@pytest.mark.parametrize("make", ["vjp", "linearize"])
@pytest.mark.parametrize("asks", [False, True], ids=["backward", "grad"])
def test_pass_over_another_graph_takes_the_fast_path(pb, monkeypatch, make, asks):
    held = getattr(pb.func, make)(lambda x: x * x, row(pb))

    def refuse(*args, **kwargs):
        raise AssertionError("a graph task was made")

    monkeypatch.setattr(fast_path.GraphTask, "__init__", refuse)
    x = pb.leaf(1.0, 2.0)
    loss = (pb.sin(x) * x).sum()
    found = pb.grad(loss, x)[0] if asks else (loss.backward(), x.grad)[1]
    values = np.array([1.0, 2.0])
    np.testing.assert_allclose(found.tolist(), np.cos(values) * values + np.sin(values))
    del held


@pytest.mark.parametrize("place", [0, 1], ids=["input", "value"])
@pytest.mark.parametrize("asks", [False, True], ids=["backward", "grad"])
def test_pass_that_meets_an_escaped_value_leaves_the_pullback_its_graph(pb, place, asks):
    escaped = []
    pull, expected = alive_pullback(pb, escaped)
    w = pb.leaf(1.0, 2.0, 3.0)
    other = escaped[place]
    with pb.enable_grad():
        loss = (w * w * (other * 1.0)).sum()
    found = pb.grad(loss, w)[0] if asks else (loss.backward(), w.grad)[1]
    assert found.tolist() == [2 * n * n ** (place + 1) for n in ROW]
    for _ in range(2):
        assert pull(pb.tensor([1.0, 1.0, 1.0]))[0].tolist() == expected


def test_input_that_has_escaped_gets_no_gradient(pb):
    escaped = []
    pull, expected = alive_pullback(pb, escaped)
    w = pb.leaf(1.0, 2.0, 3.0)
    loss = (w * escaped[0]).sum()
    with pb.raises("does not require grad"):
        pb.grad(loss, escaped[0])
    loss.backward()
    assert escaped[0].grad is None
    assert pull(pb.tensor([1.0, 1.0, 1.0]))[0].tolist() == expected


def test_graph_recorded_while_the_function_ran_leaves_the_pullback_its_graph(pb):
    """A tensor of the function that depends on a parameter, too, keeps its history."""
    kept = []
    w = pb.leaf(1.0, 2.0, 3.0)

    def f(x):
        y = x * x
        kept.append((y * w).sum())
        return y

    _, pull = pb.func.vjp(f, row(pb))
    (found,) = pb.grad(kept[0], w, retain_graph=True)
    kept[0].backward()
    assert found.tolist() == w.grad.tolist() == [n * n for n in ROW]
    for _ in range(2):
        assert pull(pb.tensor([1.0, 1.0, 1.0]))[0].tolist() == [2 * n for n in ROW]
