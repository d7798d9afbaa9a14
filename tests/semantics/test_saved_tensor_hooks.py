"""Hooks on saved values: `saved_tensors_hooks` and its relatives."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

from pullback.errors import SavedVersionError


def logging(lib, log):
    """Hooks that note each call."""

    def pack(tensor):
        log.append(("pack", tensor.tolist()))
        return tensor

    def unpack(stored):
        log.append(("unpack", stored.tolist()))
        return stored

    return lib.graph.saved_tensors_hooks(pack, unpack)


def test_pack_value_is_stored_and_unpack_returns_tensor(lib):
    """Rule 3.16."""
    a = lib.leaf(1.0, 2.0)
    with lib.graph.saved_tensors_hooks(lambda t: t.tolist(), lib.tensor):
        y = lib.sin(a)
    y.sum().backward()
    np.testing.assert_allclose(a.grad.tolist(), [math.cos(1), math.cos(2)])
    with lib.graph.saved_tensors_hooks(lambda t: t, lambda _: 5):
        y = lib.sin(a)
    with lib.raises("Output of saved tensor unpack_hook expected to be a Tensor", TypeError):
        y.sum().backward()


def test_pack_and_unpack_run_in_order_once_per_access(lib):
    """Rule 3.17."""
    a, log = lib.leaf(1.0, 2.0), []
    with logging(lib, log):
        y = a * a
        z = lib.exp(y)
    e = [math.e, math.e**4]
    assert [kind for kind, _ in log] == ["pack"] * 3
    np.testing.assert_allclose([v for _, v in log], [[1, 2], [1, 2], e])
    log.clear()
    z.sum().backward(retain_graph=True)
    assert [kind for kind, _ in log] == ["unpack"] * 3
    np.testing.assert_allclose([v for _, v in log], [e, [1, 2], [1, 2]])
    z.sum().backward(retain_graph=True)
    assert len(log) == 6
    log.clear()
    y.grad_fn._saved_self  # noqa: B018 - reading it is the test
    y.grad_fn._saved_self  # noqa: B018 - reading it is the test
    assert len(log) == 2


def test_innermost_saved_tensor_hooks_count(lib):
    """Rule 3.18."""
    a, outer, inner, other = lib.leaf(1.0, 2.0), [], [], []
    with logging(lib, outer):
        with logging(lib, inner):
            lib.sin(a)
        assert (len(outer), len(inner)) == (0, 1)
        lib.sin(a)

        def elsewhere():
            other.append(lib.sin(a).grad_fn is not None)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert (len(outer), len(inner), other) == (1, 1, [True])


def test_pack_gets_original_tensor_with_grad_mode_off(lib):
    """Rule 3.19."""
    a, seen = lib.leaf(1.0, 2.0), []

    def pack(tensor):
        seen.append((tensor, lib.is_grad_enabled()))
        lib.sin(tensor)  # must not come here again
        return tensor

    def unpack(stored):
        seen.append(lib.is_grad_enabled())
        return stored

    with lib.graph.saved_tensors_hooks(pack, unpack):
        lib.sin(a)
        y = lib.exp(a)
    (first, mode), (second, _) = seen
    assert first is a
    assert not mode
    assert second.grad_fn is y.grad_fn
    seen.clear()
    y.sum().backward(retain_graph=True)
    lib.grad(y.sum(), a, create_graph=True)
    assert seen == [False, True]


def test_pack_is_not_called_where_nothing_is_saved(lib):
    """Rule 3.20."""
    a, log = lib.leaf(1.0, 2.0), []
    with logging(lib, log):
        with lib.no_grad():
            lib.sin(a)
        lib.sin(lib.tensor([1.0]))
        a * 3.0
        assert log == []
        a * lib.tensor(3.0)
    assert log == [("pack", 3.0)]


def test_pack_hook_must_not_write_to_its_input(lib):
    """Rule 3.21."""
    a = lib.leaf(1.0, 2.0)
    for change in (lambda t: t.add_(1), lambda t: t.detach().add_(1)):
        hooks = lib.graph.saved_tensors_hooks(change, lambda t: t)
        with hooks, lib.raises("pack hook is modifying its input in place"):
            lib.sin(a)


def test_saved_tensor_hooks_disable_version_check(lib):
    """Rule 3.22."""
    found = []
    for pack in (lambda t: t, lambda t: t.clone()):
        a = lib.leaf(1.0, 2.0)
        with lib.graph.saved_tensors_hooks(pack, lambda t: t):
            y = a * a
        with lib.no_grad():
            a.add_(1)
        y.sum().backward()
        found.append(a.grad.tolist())
    assert found == [[4.0, 6.0], [2.0, 4.0]]


def test_unpacked_output_gets_its_node_again(lib):
    """Rule 3.23."""
    a = lib.leaf(1.0, 2.0)
    with lib.graph.saved_tensors_hooks(
        lambda t: t.detach().numpy().copy(), lambda array: lib.module.asarray(array)
    ):
        y = (lib.exp(a) * a * a).sum()
    (g,) = lib.grad(y, a, create_graph=True)
    (h,) = lib.grad(g.sum(), a)
    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(g.tolist(), np.exp(x) * (x * x + 2 * x))
    np.testing.assert_allclose(h.tolist(), np.exp(x) * (x * x + 4 * x + 2))


def test_save_for_backward_goes_through_hooks(lib):
    """Rule 3.24."""

    class Square(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            x, nothing = ctx.saved_tensors
            assert nothing is None
            return 2 * x * grad

    a, log = lib.leaf(1.0, 2.0), []
    with logging(lib, log):
        y = Square.apply(a)
    assert log == [("pack", [1.0, 2.0])]
    y.sum().backward()
    assert log[1:] == [("unpack", [1.0, 2.0])]
    assert a.grad.tolist() == [2.0, 4.0]


def test_errors_of_saved_tensor_hooks_propagate(lib):
    """Rule 3.25."""

    def fails(_):
        raise ZeroDivisionError("here")

    a = lib.leaf(1.0, 2.0)
    with lib.graph.saved_tensors_hooks(fails, lambda t: t), lib.raises("here", ZeroDivisionError):
        lib.sin(a)
    with lib.graph.saved_tensors_hooks(lambda t: t, fails):
        y = lib.sin(a)
    with lib.raises("here", ZeroDivisionError):
        y.sum().backward()
    log = []
    hooks = logging(lib, log)
    for _ in range(2):
        with hooks:
            lib.sin(a)
        lib.sin(a)
    assert len(log) == 2


def test_hooks_registered_on_raw_saved_value(lib):
    """Rule 3.26."""
    a = lib.leaf(0.0, 0.0)
    y = lib.exp(a)
    raw = y.grad_fn._raw_saved_result
    with pytest.raises(TypeError):
        raw.register_hooks(1, 2)
    log = []
    with lib.no_grad():
        y.add_(1)  # registering is accepted all the same
    raw.register_hooks(lambda t: log.append("packed") or t, lambda t: t * 10)
    assert log == ["packed"]
    with lib.raises("hooks have already been set"):
        raw.register_hooks(lambda t: t, lambda t: t)
    y.sum().backward()
    assert a.grad.tolist() == [20.0, 20.0]
    z = lib.exp(a)
    raw = z.grad_fn._raw_saved_result
    z.sum().backward()
    with lib.raises("register_hooks on a saved tensor after it has been freed"):
        raw.register_hooks(lambda t: t, lambda t: t)


def test_raw_saved_value_of_nothing_refuses_hooks(lib):
    """Rule 3.26."""
    a, b = lib.tensor([1.0]), lib.vector(2.0)
    with lib.raises("None is forbidden"):
        (b * a).grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)


def test_disabled_saved_tensor_hooks_raise_with_message(lib):
    """Rule 3.27."""
    hooks = lib.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    disable = lib.graph.disable_saved_tensors_hooks
    with disable("outer"):
        with disable("inner"), lib.raises("inner"), hooks:
            pass
        with lib.raises("outer"), hooks:
            pass
    with hooks, lib.raises("too late"), disable("too late"):
        pass
    with hooks:
        pass


def test_save_on_cpu_makes_no_copy(lib):
    """Rule 3.28."""
    a = lib.leaf(1.0, 2.0)
    with lib.graph.save_on_cpu():
        y = a * a
    saved = y.grad_fn._saved_self
    assert saved is not a
    assert np.shares_memory(saved.detach().numpy(), a.detach().numpy())
    y.sum().backward()
    assert a.grad.tolist() == [2.0, 4.0]


def test_allow_mutation_keeps_saved_values(lib):
    """Rule 3.29."""
    a = lib.leaf(1.0, 2.0)
    allow = lib.graph.allow_mutation_on_saved_tensors
    with allow():
        b = a.clone()
        y = b * b
        b.add_(10)
        z = lib.exp(a)
        z[:1].zero_()
        y.sum().backward()
        assert a.grad.tolist() == [2.0, 4.0]
        left = lib.sin(b)
        with lib.raises("nested"), allow():
            pass
    with pytest.raises(AssertionError):
        left.sum().backward()


def test_only_what_is_written_is_copied(pb):
    """Rule 3.29."""
    a = pb.leaf(1.0, 2.0)
    with pb.graph.allow_mutation_on_saved_tensors():
        b, c = a.clone(), a.clone()
        y = b * c
        c[0] = 7.0
        first, second = y.grad_fn._saved_self, y.grad_fn._saved_other
        assert np.shares_memory(first.numpy(force=True), b.numpy(force=True))
        assert not np.shares_memory(second.numpy(force=True), c.numpy(force=True))
        b.fill_(0)
        y.sum().backward()
    assert a.grad.tolist() == [2.0, 4.0]


def test_hooks_see_what_in_place_operations_save(lib):
    """Also an operand that lies in the memory which is written to."""
    w = lib.leaf(1.0, 2.0)
    with lib.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = w * 1
        y.mul_(y)
        z = w * 1
        z[:1].exp_()
    (y.sum() + z.sum()).backward()
    np.testing.assert_allclose(w.grad.tolist(), [2 + math.e, 5.0])


def test_hooks_see_lists_of_saved_tensors(pb):
    w, log = pb.leaf(1.0, 2.0, 3.0), []
    with logging(pb, log):
        y = w[pb.tensor([0, 2], "int64")]
    assert log == [("pack", [0, 2])]
    (raw,) = y.grad_fn._raw_saved_indices
    with pb.raises("already been set"):
        raw.register_hooks(lambda t: t, lambda t: t)
    y.sum().backward()
    assert w.grad.tolist() == [1.0, 0.0, 1.0]


def test_operations_cost_the_same_again_after_hooks(pb):
    """The tables of a thread without hooks still hold the plain recording kernels."""
    a = pb.leaf(1.0, 2.0)
    with pb.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        pb.sin(a)
    entry = pb.module.ops.pullback.sin.default.entry
    state = pb.module.dispatch.modes.get_state()
    pb.sin(a)
    assert entry.calls[state][a._flags] is entry.kernels[pb.module.DispatchKey.Autograd][0].fn


def test_write_to_plain_array_in_mutation_block_raises(pb):
    x, weights = pb.leaf(2.0), np.ones(1000)
    with pb.graph.allow_mutation_on_saved_tensors():
        z = (x * weights).sum()
        weights *= 5.0  # shared with the node, and nobody is told of the write
        with pytest.raises(SavedVersionError, match="is a NumPy array that the program wrote to"):
            z.backward()


def test_write_to_plain_array_in_mutation_block_raises_in_second_derivative(pb):
    weights = np.ones(1000)

    def f(x):
        y = x * weights
        weights.__imul__(2.0)
        return (y * y).sum()

    with (
        pb.graph.allow_mutation_on_saved_tensors(),
        pytest.raises(SavedVersionError, match="is a NumPy array that the program wrote to"),
    ):
        pb.func.jacfwd(pb.func.grad(f))(pb.tensor(2.0))


def test_write_between_two_entries_of_a_mutation_block_raises(pb):
    x = pb.leaf(2.0)
    block = pb.graph.allow_mutation_on_saved_tensors()
    with block:
        y = x * 1.0
        z = (y * y).sum()
    y.add_(10.0)
    with block, pytest.raises(SavedVersionError, match="was written to after the block"):
        z.backward()
