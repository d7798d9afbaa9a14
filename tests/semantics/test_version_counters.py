"""Version counters, and the check that a saved value has not been written over."""

from __future__ import annotations

import math

import numpy as np
import pytest


def test_version_is_shared_by_views_and_detach_only(lib):
    """Rule 3.1."""
    a = lib.tensor([1.0, 2.0, 3.0])
    assert a._version == a.clone()._version == 0
    v, u, d = a[:2], a[:2][:1], a.detach()
    a.add_(1)
    assert [t._version for t in (v, u, d)] == [1, 1, 1]
    assert a.data._version == 0
    a.numpy()[0] = 7.0
    lib.asarray(a.numpy()).add_(1)
    assert a._version == 1
    assert a.clone()._version == 0


def test_write_through_any_alias_counts_for_all(lib):
    """Rule 3.2."""
    a = lib.tensor([0.0, 0.0, 0.0, 0.0])
    v, d = a[:2], a.detach()
    seen = []
    for write in (a.add_, v.add_, d.add_, lambda n: d[0].add_(n), lambda n: a.data.add_(n)):
        write(1)
        seen.append((a._version, v._version, d._version))
    assert seen == [(1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4), (4, 4, 4)]


@pytest.mark.parametrize(
    "write",
    [
        lambda a: a.add_(1),
        lambda a: a.mul_(2),
        lambda a: a.exp_(),
        lambda a: a.fill_(1),
        lambda a: a.zero_(),
        lambda a: a.copy_(a.clone()),
        lambda a: a.__setitem__(0, 1.0),
        lambda a: a.__setitem__(slice(0, 2), 1.0),
        lambda a: a.__setitem__(slice(0, 0), 1.0),
        lambda a: a.__setitem__([0, 1], 1.0),
        lambda a: a.__setitem__(a > 0, 1.0),
        lambda a: a[:0].add_(1),
    ],
)
def test_every_in_place_op_counts_one(lib, write):
    """Rule 3.3."""
    a = lib.tensor([1.0, 2.0])
    write(a)
    assert a._version == 1


@pytest.mark.parametrize(
    ("change", "shape"),
    [
        (lambda a: a.t_(), (3, 2)),
        (lambda a: a.transpose_(0, 1), (3, 2)),
        (lambda a: a.unsqueeze_(0), (1, 2, 3)),
        (lambda a: a.squeeze_(), (2, 3)),
        (lambda a: a.resize_(3, 2), (3, 2)),
        (lambda a: a.resize_(2), (2,)),
        (lambda a: a.set_(a.detach()[0]), (3,)),
    ],
)
def test_in_place_shape_changes_count_one(lib, change, shape):
    """Rule 3.3."""
    a = lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert change(a) is a
    assert (a._version, tuple(a.shape)) == (1, shape)


def test_writes_to_empty_tensors_count(lib):
    """Rule 3.3."""
    a = lib.tensor([])
    a.add_(1)
    assert a._version == 1


def test_flags_and_failed_writes_do_not_count(lib):
    """Rule 3.4."""
    a = lib.leaf(1.0, 2.0)
    (a * a).sum().backward()
    a.grad = None
    a.requires_grad_(False)
    a.requires_grad_()
    a.detach_()
    a.data = lib.tensor([3.0, 4.0])
    a.resize_(2)
    assert a.tolist() == [3.0, 4.0]
    assert a._version == 0
    with pytest.raises(RuntimeError):
        a.add_(lib.tensor([[1.0, 2.0], [3.0, 4.0]]))
    with pytest.raises((RuntimeError, ValueError)):
        a.add_(lib.tensor([1.0, 2.0, 3.0]))
    with pytest.raises(RuntimeError):
        lib.tensor([1], "int64").mul_(1.5)
    assert a._version == 0


def test_augmented_assignment_counts_twice(lib):
    """Rule 3.5."""
    a = lib.tensor([1.0, 2.0])
    a[0] += 1
    assert a._version == 2

    class Doubles(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    b = lib.leaf(1.0) * 1
    Doubles.apply(b)
    assert b._version == 2


def test_accumulation_counts_for_grad_only(lib):
    """Rule 3.6."""
    x = lib.leaf(1.0)
    (x * 2).backward()
    (x * 2).backward()
    assert (x._version, x.grad._version) == (0, 1)


def test_increment_version_adds_one_per_tensor(lib):
    """Rule 3.7."""
    a, b = lib.tensor([1.0]), lib.tensor([2.0])
    lib.graph.increment_version(a)
    lib.graph.increment_version([a, b])
    lib.graph.increment_version(t for t in [b])
    assert (a._version, b._version) == (2, 2)


def test_preserved_version_counter_ignores_write(pb):
    """Rule 3.7."""
    a = pb.tensor([1.0])
    with pb.graph._unsafe_preserve_version_counter(a):
        a.add_(1)
    assert (a._version, a.item()) == (0, 2.0)


def saved_input(lib):
    x = lib.leaf(1.0, 2.0)
    return x * x, x


def saved_inner(lib):
    y = lib.leaf(1.0, 2.0) * 1
    return y * y, y


def saved_output(lib):
    y = lib.exp(lib.leaf(1.0, 2.0))
    return y * 1, y


def saved_multiplier(lib):
    c = lib.tensor(3.0)
    return lib.leaf(1.0, 2.0) * c, c


def saved_index(lib):
    index = lib.tensor([0, 1], "int64")
    return lib.leaf(1.0, 2.0)[index], index


def saved_condition(lib):
    condition = lib.tensor([True, False], "bool")
    return lib.where(condition, lib.leaf(1.0, 2.0), lib.tensor([0.0, 0.0])), condition


def saved_alias(lib):
    d = lib.tensor([1.0, 2.0])
    return lib.leaf(1.0, 2.0) * d.detach(), d


@pytest.mark.parametrize(
    "program",
    [
        saved_input,
        saved_inner,
        saved_output,
        saved_multiplier,
        saved_index,
        saved_condition,
        saved_alias,
    ],
)
def test_write_to_saved_value_raises_in_backward(lib, words, program):
    """Rule 3.8."""
    result, saved = program(lib)
    with lib.no_grad():
        saved.zero_()
    with lib.raises(words.version + " ... is at version 1; expected version 0"):
        result.sum().backward()


def test_write_to_saved_value_raises_when_read(lib, words):
    """Rule 3.8."""
    x = lib.leaf(1.0, 2.0)
    y = x * x
    with lib.no_grad():
        x.add_(1)
    with lib.raises(words.version):
        y.grad_fn._saved_self  # noqa: B018 - reading it is the test


def test_write_through_overlapping_alias_raises(lib, words):
    """Rule 3.9."""
    y = lib.leaf(1.0, 2.0) * 1
    v = y.reshape(2)
    z = v * v
    y.add_(1)
    with lib.raises(words.version):
        z.sum().backward()
    a = lib.leaf(1.0, 2.0) * 1
    a[0] = a[0] ** 3
    with lib.raises(words.version):
        a.sum().backward()
    w = lib.leaf(2.0, 3.0)
    a = w * 1
    a[0] = a[0] * 3
    a.sum().backward()
    assert w.grad.tolist() == [3.0, 1.0]
    a = w * 1
    a[0] = a[0].clone() ** 3
    (g,) = lib.grad(a.sum(), w, create_graph=True)
    assert g.tolist() == [12.0, 1.0]
    assert lib.grad(g.sum(), w)[0].tolist() == [12.0, 0.0]


def test_write_to_unsaved_value_is_fine(lib, words):
    """Rule 3.10."""
    w = lib.leaf(1.0, 2.0)
    y = w * 3
    y.mul_(2)
    y.sum().backward()
    assert w.grad.tolist() == [6.0, 6.0]
    w.grad = None
    y = w * lib.tensor([3.0, 4.0])
    with lib.no_grad():
        w.add_(1)
    y.sum().backward()
    assert w.grad.tolist() == [3.0, 4.0]
    y = w * lib.leaf(3.0, 4.0)
    with lib.no_grad():
        w.add_(1)
    with lib.raises(words.version):
        y.sum().backward()


def test_only_needed_operands_are_saved(lib):
    """Rule 3.11."""
    a, b = lib.tensor([1.0, 2.0]), lib.leaf(3.0, 4.0)
    node = (b * a).grad_fn
    assert node._saved_self is None
    assert node._saved_other is a


@pytest.mark.parametrize("name", ["exp", "sqrt", "tanh", "reciprocal", "sigmoid"])
def test_write_to_saved_result_raises(lib, words, name):
    """Rule 3.12."""
    y = getattr(lib, name)(lib.leaf(1.0, 2.0))
    y.add_(1)
    with lib.raises(words.version):
        y.sum().backward()


@pytest.mark.parametrize("name", ["log", "sin", "cos", "abs", "square"])
def test_write_to_saved_input_raises(lib, words, name):
    """Rule 3.12."""
    x = lib.leaf(1.0, 2.0)
    y = getattr(lib, name)(x)
    y.add_(1)
    y.sum().backward()
    y = getattr(lib, name)(x)
    with lib.no_grad():
        x.add_(1)
    with lib.raises(words.version):
        y.sum().backward()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.softmax(0),
        lambda x: x.log_softmax(0),
        lambda x: x.logsumexp(0),
        lambda x: x.cumprod(0),
    ],
)
def test_reductions_save_what_their_formula_reads(lib, words, function):
    """Rule 3.12."""
    y = function(lib.leaf(1.0, 2.0))
    y.add_(1)
    with lib.raises(words.version):
        y.sum().backward()


def test_power_saves_what_its_formula_reads(lib, words):
    """Rule 3.12."""
    x = lib.leaf(1.0, 2.0)
    y = x**2  # the result is needed for the exponent's gradient only
    y.add_(1)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    y = x ** lib.leaf(2.0)
    y.add_(1)
    with lib.raises(words.version):
        y.sum().backward()


def test_ops_that_save_nothing_allow_writes(lib):
    """Rule 3.12."""
    x = lib.leaf(1.0, 2.0)
    results = [x.sum(), x.reshape(1, 2), x + 1, x - 1, -x, x[:1], lib.concatenate([x, x])]
    results += [x.mean(), x.cumsum(0)]
    for y in results:
        y.add_(1) if y.is_leaf or not y._is_view() else None
    with lib.no_grad():
        x.add_(1)
    sum(y.sum() for y in results).backward()
    assert x.grad.tolist() == [8.5, 6.5]


def test_in_place_op_keeps_copy_of_old_value(lib, words):
    """Rule 3.13."""
    w = lib.leaf(1.0, 2.0)
    found = []
    for change in (
        lambda y: y.sin_(),
        lambda y: y.pow_(2),
        lambda y: y.mul_(w),
        lambda y: y.exp_(),
        lambda y: y.tanh_(),
    ):
        y = w * 1
        change(y)
        found.append(lib.grad(y.sum(), w)[0].tolist())
    expected = [
        [math.cos(1), math.cos(2)],
        [2.0, 4.0],
        [2.0, 4.0],
        [math.e, math.e**2],
        [1 - math.tanh(1) ** 2, 1 - math.tanh(2) ** 2],
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    y = w * 1
    y.mul_(y)
    with lib.raises(words.version):
        y.sum().backward()


def test_saved_input_is_same_object_and_saved_output_is_not(lib):
    """Rule 3.14."""
    a = lib.leaf(1.0, 2.0)
    node = (a * a).grad_fn
    assert node._saved_self is a
    inner = a * 2
    assert (inner * inner).grad_fn._saved_self is inner
    y = lib.exp(a)
    saved = y.grad_fn._saved_result
    assert saved is not y
    assert saved.tolist() == y.tolist()
    assert saved.grad_fn is y.grad_fn


def test_saved_values_are_unreadable_after_free(lib, words):
    """Rule 3.15."""
    a = lib.leaf(1.0, 2.0)
    y = lib.exp(a)
    y.sum().backward()
    with lib.raises(words.freed):
        y.grad_fn._saved_result  # noqa: B018 - reading it is the test
    assert y.grad_fn._raw_saved_result is not None


def test_saved_numbers_stay_readable_after_free(pb):
    """Rule 3.15."""
    a = pb.leaf(1.0, 2.0)
    y = a.sum(axis=0)
    y.backward()
    assert y.grad_fn._saved_axis == 0
    with pytest.raises(AttributeError):
        y.grad_fn._saved_nothing  # noqa: B018 - reading it is the test
