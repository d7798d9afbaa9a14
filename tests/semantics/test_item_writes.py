"""``x[index] = value`` is one step with the results of two, a view and a write to it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pullback import dispatch
from pullback.autograd.graph.setitem import CopyItem
from pullback.tensor.methods import indexing

INDICES = [1, -1, slice(0, 2), (slice(None), 1), (..., 0), (1, 2), (None, 1), slice(None, None, -2)]


@pytest.fixture
def in_two_steps(monkeypatch):
    """Has writes go the way of unusual ones."""

    def begin():
        monkeypatch.setattr(indexing, "write_item", lambda *_: False)

    return begin


@pytest.fixture(autouse=True)
def linked(pb):
    """The first call of an operator in a state goes the long way, which links it."""
    for x in (pb.leaf(1.0, 2.0) * 1, pb.tensor([1.0, 2.0])):
        for value in (pb.leaf(3.0), pb.tensor(3.0)):
            with pb.no_grad():
                x.clone()[0] = value
            x.clone()[0] = value


def is_at_once(tensor):
    return type(tensor.grad_fn) is CopyItem


def derivatives(pb, index):
    rng = np.random.default_rng(0)
    start = pb.tensor(rng.normal(size=(3, 4)), requires_grad=True)
    value = pb.tensor(rng.normal(size=np.empty((3, 4))[index].shape), requires_grad=True)
    weight = pb.tensor(rng.normal(size=(3, 4)))
    x = start * start
    before = pb.sin(x.clone())
    x[index] = value * value
    total = (pb.exp(x) * weight * before).sum()
    first = pb.grad(total, [start, value], retain_graph=True)
    again = pb.grad(total, [start, value], create_graph=True)
    second = pb.grad(sum((g * g).sum() for g in again), [start, value])
    return x, [t.detach().numpy() for t in (total, *first, *again, *second)]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_derivatives_are_those_of_two_steps(pb, in_two_steps, index):
    x, found = derivatives(pb, index)
    assert is_at_once(x)
    in_two_steps()
    x, expected = derivatives(pb, index)
    assert not is_at_once(x)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_graph_is_that_of_two_steps(pb, in_two_steps):
    def graph():
        w, value = pb.leaf([1.0, 2.0, 3.0]), pb.leaf(5.0)
        x = w * 1
        x[1] = value
        node = x.grad_fn
        (x * x).sum().backward(retain_graph=True)
        direct = node(pb.tensor([1.0, 2.0, 3.0]))
        names = [None if n is None else n.name() for n, _ in node.next_functions]
        return (
            [node.name(), names, x._version, x.tolist(), w.grad.tolist(), value.grad.tolist()],
            [g.tolist() for g in direct],
            node.fn.name(),
            node._input_metadata,
        )

    at_once = graph()
    in_two_steps()
    assert graph() == at_once


def test_a_plain_tensor_begins_to_require_grad(pb):
    x, w = pb.tensor([1.0, 2.0, 3.0]), pb.leaf(2.0)
    view = x[:2]
    x[1] = w * w
    assert is_at_once(x)
    assert x.requires_grad
    assert view.requires_grad
    (x * x + view.sum()).sum().backward()
    assert w.grad.item() == 2 * 4 * 4 + 3 * 4


@pytest.mark.parametrize("kind", ["tensor", "number"])
def test_a_value_without_history_cuts_the_old_one(pb, kind):
    w = pb.leaf(1.0, 2.0, 3.0)
    x = w * w
    x[1] = pb.tensor(7.0) if kind == "tensor" else 7.0
    assert is_at_once(x)
    assert x.tolist() == [1.0, 7.0, 9.0]
    x.sum().backward()
    assert w.grad.tolist() == [2.0, 0.0, 6.0]


def test_unrecorded_writes_count_as_writes(pb):
    w = pb.leaf(1.0, 2.0)
    x = w * 1
    y = x * x
    with pb.no_grad():
        x[0] = pb.tensor(5.0)
    assert x._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_write_over_saved_value_raises(pb):
    w = pb.leaf(1.0, 2.0)
    x = pb.exp(w)  # the node has saved its result, which has no counter yet
    x[0] = pb.leaf(5.0)
    assert is_at_once(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x.sum().backward()


def test_shared_gradients_are_not_written_to(pb):
    w = pb.leaf(1.0, 2.0, 3.0)
    x = w * 1
    y = x.clone()
    x[0] = pb.leaf(4.0)
    z = x + y  # both get one and the same gradient
    seen = []
    z.register_hook(seen.append)
    z.backward(pb.tensor([1.0, 1.0, 1.0]))
    assert seen[0].tolist() == [1.0, 1.0, 1.0]
    assert w.grad.tolist() == [1.0, 2.0, 2.0]
    seed = pb.tensor([1.0, 1.0, 1.0])
    x = w * 1
    x[0] = pb.leaf(4.0)
    x.backward(seed)
    assert seed.tolist() == [1.0, 1.0, 1.0]


def test_retained_gradients_follow(pb):
    w = pb.leaf(1.0, 2.0)
    x = w * 1
    x.retain_grad()
    x[0] = pb.leaf(3.0)
    (x * x).sum().backward()
    assert x.grad.tolist() == [6.0, 4.0]


def test_hooks_of_the_old_value_stay_with_it(pb):
    w = pb.leaf(1.0, 2.0)
    x = w * 1
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    x[0] = pb.leaf(3.0)
    (x * x).sum().backward()
    assert seen == [[0.0, 4.0]]


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda pb, x: x.__setitem__(0, x[1]), id="from itself"),
        pytest.param(lambda pb, x: x.__setitem__(0, 2), id="an integer"),
        pytest.param(lambda pb, x: x.__setitem__(0, pb.ones(1)), id="leading one"),
        pytest.param(lambda pb, x: x.__setitem__(slice(2), pb.ones(())), id="broadcast"),
        pytest.param(lambda pb, x: x.__setitem__(0, pb.ones((), dtype="float32")), id="cast"),
        pytest.param(lambda pb, x: x[1:].__setitem__(0, pb.ones(())), id="to a view"),
    ],
)
def test_unusual_writes_use_the_general_path(pb, write):
    w = pb.leaf(1.0, 2.0, 3.0)
    x = w * 1
    write(pb, x)
    assert x.grad_fn.name() == "CopySlices"
    assert not is_at_once(x)
    x.sum().backward()
    assert w.grad is not None


def test_refusals_change_nothing(pb):
    leaf, value = pb.leaf(1.0, 2.0), pb.leaf(3.0)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        leaf[0] = value
    x = leaf * 1
    with pytest.raises(IndexError):
        x[5] = value
    with pytest.raises(RuntimeError):
        x[0] = pb.leaf(1.0, 2.0)
    assert leaf.tolist() == [1.0, 2.0]
    assert x.tolist() == [1.0, 2.0]
    assert x._version == 0
    assert x.grad_fn.name() == "MulBackward0"
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        pb.asarray(frozen)[0] = value


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_modes_get_both_operators(pb):
    x = pb.leaf(1.0, 2.0) * 1
    with pb.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        x[0] = pb.leaf(3.0)
    assert not is_at_once(x)
    with pb.autograd.detect_anomaly():
        x[1] = pb.leaf(3.0)
    assert not is_at_once(x)
    with pb.inference_mode():
        y = pb.tensor([1.0, 2.0])
        y[0] = pb.tensor(3.0)
    assert y.is_inference()


@pytest.mark.filterwarnings("ignore:.*overrid")
@pytest.mark.parametrize("name", ["getitem", "copy_"])
def test_kernel_of_the_user_is_called(pb, name):
    x, seen = pb.leaf(1.0, 2.0) * 1, []

    def kernel(keyset, *args):
        seen.append(name)
        own = getattr(pb.module.ops.pullback, name).default
        return own.redispatch(keyset & dispatch.after_autograd, *args)

    with pb.module.library.Library("pullback", "IMPL") as library:
        library.impl(name, kernel, "AutogradCPU", with_keyset=True)
        x[1] = pb.tensor(4.0)
    assert seen == [name]
    for _ in range(2):  # linked anew, then used
        x[1] = pb.leaf(5.0)
    assert is_at_once(x)
    assert seen == [name]


def program(pb, seed):
    """A recurrence over rows and columns with random reads and writes."""
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    start = pb.tensor(rng.uniform(0.5, 1.0, (4, 4)), requires_grad=True)
    pools = [start * 1, pb.tensor(rng.uniform(0.5, 1.0, (4, 4)))]
    for _ in range(12):
        x, y = choose.choice(pools), choose.choice(pools)
        i, j = choose.randrange(4), choose.randrange(4)
        at = choose.choice([i, (slice(None), i), (i, j), (..., i), slice(i, None)])
        source = y[at] if choose.random() < 0.3 else pb.tanh(y[at]) * x[at].clone()
        if choose.random() < 0.2:
            with pb.no_grad():
                source = source.clone()
        x[at] = source.clone()
        if choose.random() < 0.2:
            pools.append(x.clone())
    total = sum((x * x).sum() for x in pools)
    (grad,) = pb.grad(total, [start], create_graph=True)
    (second,) = pb.grad((grad * grad).sum(), [start])
    return [total.item(), grad.tolist(), second.tolist()]


def test_random_recurrences(pb, in_two_steps):
    seeds = range(40)
    at_once = [program(pb, seed) for seed in seeds]
    in_two_steps()
    for seed, found in zip(seeds, at_once, strict=True):
        for got, want in zip(found, program(pb, seed), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12, err_msg=str(seed))


def test_a_part_of_a_view_that_was_not_recorded(lib):
    x = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with lib.no_grad():
        view = x[:2]
    y = x * 1.0
    y[1:] = view[1:]
    (y * y).sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 0.0]
