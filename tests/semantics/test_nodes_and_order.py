"""Nodes as users see them, and the order in which they run."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest


def test_node_has_name_edges_and_metadata(lib):
    """Rule 5.1."""
    a, b = lib.leaf(1.0, 2.0), lib.tensor([3.0, 4.0])
    y = a * b
    node = y.grad_fn
    assert node.name() == "MulBackward0"
    assert isinstance(node, lib.graph.Node)
    assert [edge[0] is None for edge in node.next_functions] == [False, True]
    assert all(number == 0 for _, number in node.next_functions)
    node.metadata["mine"] = 5
    assert y.grad_fn is node
    assert y.grad_fn.metadata["mine"] == 5
    assert callable(node.register_hook)
    assert callable(node.register_prehook)
    (described,) = node._input_metadata
    assert tuple(described.shape) == (2,)
    assert described.dtype == lib.dtype("float64")
    assert len(a.unbind()[0].grad_fn._input_metadata) == 2


def test_node_of_function_is_named_after_class(lib):
    """Rule 5.1."""

    class Thing(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    node = Thing.apply(lib.leaf(1.0)).grad_fn
    assert node.name() == "ThingBackward"
    assert isinstance(node, lib.graph.Node)


def test_edge_of_leaf_is_accumulate_grad(lib):
    """Rule 5.2."""
    a = lib.leaf(1.0, 2.0)
    (first, _), (second, _) = (a * a).grad_fn.next_functions
    assert first is second
    assert first.variable is a
    assert first.next_functions == ()
    assert "AccumulateGrad" in first.name()


def test_calling_node_runs_its_formula(lib):
    """Rule 5.3."""
    a = lib.leaf(1.0, 2.0)
    first, second = (a * 2).grad_fn(lib.tensor([1.0, 1.0]))
    assert first.tolist() == [2.0, 2.0]
    assert second is None
    assert lib.exp(a * 0).grad_fn(lib.tensor([3.0, 4.0])).tolist() == [3.0, 4.0]
    with pytest.raises(TypeError):
        (a * 2).grad_fn(lib.tensor([1.0, 1.0]), lib.tensor([1.0, 1.0]))


def test_sequence_number_grows_per_thread(lib):
    """Rule 5.4."""
    found = []

    def record():
        a = lib.leaf(1.0)
        nodes = [(a * 2).grad_fn, (a + 1).grad_fn]
        found.append([node._sequence_nr() for node in nodes])
        found.append(nodes[0].next_functions[0][0]._sequence_nr())

    for _ in range(2):
        thread = threading.Thread(target=record)
        thread.start()
        thread.join()
    assert found == [[0, 1], 2**64 - 1] * 2


def test_leaf_holds_accumulate_grad_weakly(lib):
    """Rule 5.5."""
    a, log = lib.leaf(1.0), []
    a.register_hook(lambda g: log.append("tensor"))
    a.register_post_accumulate_grad_hook(lambda t: log.append("post"))
    y = a * 2
    y.grad_fn.next_functions[0][0].register_hook(lambda *_: log.append("node"))
    y.backward()
    assert log == ["tensor", "post", "node"]
    log.clear()
    del y
    gc.collect()
    (a * 2).backward()
    assert log == ["tensor", "post"]
    node = (a * 2).grad_fn.next_functions[0][0]
    node.register_hook(lambda *_: log.append("kept"))
    log.clear()
    (a * 2).backward()
    assert log == ["tensor", "post", "kept"]


def test_hook_of_shared_leaf_gets_total_once(lib):
    """Rule 5.6."""
    a, seen = lib.leaf(1.0), []
    a.register_hook(lambda g: seen.append(g.item()))
    (a * 2 + a * 3).backward()
    assert seen == [5.0]


def traced(log, **tensors):
    """Notes the order in which the nodes of some tensors run."""
    for name, tensor in tensors.items():
        tensor.grad_fn.register_hook(lambda *_, name=name: log.append(name))


@pytest.mark.parametrize("swapped", [False, True])
def test_last_recorded_ready_node_runs_first(lib, swapped):
    """Rule 5.7."""
    a, log = lib.leaf(1.0), []
    if swapped:
        c = a * 3
        b = a * 2
    else:
        b = a * 2
        c = a * 3
    e = b + c
    s = e.sum()
    a.register_post_accumulate_grad_hook(lambda t: log.append("a"))
    traced(log, b=b, c=c, e=e, s=s)
    s.backward()
    assert log == (["s", "e", "b", "c", "a"] if swapped else ["s", "e", "c", "b", "a"])


def test_accumulate_grad_runs_as_soon_as_ready(lib):
    """Rule 5.8."""
    a, z, log = lib.leaf(1.0), lib.leaf(2.0), []
    b = a * 2
    m = b * z
    s = m.sum()
    for name, leaf in (("acc a", a), ("acc z", z)):
        leaf.register_post_accumulate_grad_hook(lambda t, name=name: log.append(name))
    traced(log, b=b, m=m, s=s)
    s.backward()
    assert log == ["s", "m", "acc z", "b", "acc a"]


def test_later_recorded_root_runs_first(lib):
    """Rule 5.9."""
    a, log = lib.leaf(1.0), []
    b, c = a * 2, a * 3
    traced(log, b=b, c=c)
    lib.backward([b, c], retain_graph=True)
    assert log == ["c", "b"]
    log.clear()
    a.grad = None
    e = c * 5
    traced(log, e=e)
    lib.backward([c, e, b])
    assert log == ["e", "c", "b"]
    assert a.grad.item() == 20.0


def test_seed_used_twice_is_unchanged(lib):
    """Rule 5.10."""
    a, g = lib.leaf(1.0, 2.0), lib.tensor([1.0, 1.0])
    z = a * 1
    lib.backward([z, z, z], [g, g, g])
    assert g.tolist() == [1.0, 1.0]
    assert a.grad.tolist() == [3.0, 3.0]


def returning(lib, make):
    class Returns(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return make(grad)

    return Returns.apply


def test_gradient_shape_and_dtype_are_checked_on_edges(lib):
    """Rule 5.11."""
    a = lib.leaf(1.0, 2.0)
    ones = lib.tensor([[1.0, 1.0]] * 4)
    returning(lib, lambda _: ones)(a).sum().backward()
    assert a.grad.tolist() == [4.0, 4.0]
    wrong = returning(lib, lambda _: lib.tensor([1.0, 1.0, 1.0]))
    with lib.raises(
        "returned an invalid gradient at index 0 - got [3] but expected shape compatible with [2]"
    ):
        wrong(a).sum().backward()
    a.grad = None
    returning(lib, lambda g: lib.cast(g, "float32"))(a).sum().backward()
    assert a.grad.dtype == lib.dtype("float64")


def test_complex_gradient_of_real_input_raises(lib):
    """Rule 5.11."""
    a = lib.leaf(1.0, 2.0)
    with pytest.raises(RuntimeError):
        returning(lib, lambda g: g * 1j)(a).sum().backward()
    z = lib.tensor([1j], "complex128", requires_grad=True)
    returning(lib, lambda _: lib.tensor([2.0]))(z).backward(lib.tensor([1j], "complex128"))
    assert z.grad.dtype == lib.dtype("complex128")
    assert z.grad.tolist() == [2 + 0j]


def test_hooks_off_the_path_do_not_run(lib):
    """Rule 5.12."""
    a, b, log = lib.leaf(1.0), lib.leaf(2.0), []
    b.register_hook(lambda g: log.append("b"))
    lib.grad(a * b, a)
    assert log == []


def test_undefined_gradients_pass_ops_and_become_zeros_in_functions(lib):
    """Rule 5.13."""
    seen = []

    def record(grad):
        seen.append(grad.tolist())
        return grad

    a = lib.leaf(1.0, 2.0)
    nothing = returning(lib, lambda _: None)
    nothing(returning(lib, record)(a)).sum().backward()
    assert seen == [[0.0, 0.0]]
    assert a.grad.tolist() == [0.0, 0.0]
    a.grad = None
    nothing(lib.exp(a)).sum().backward()
    assert a.grad is None


def test_error_of_backward_keeps_its_type(lib):
    """Rule 5.14."""

    def fails(kind):
        def make(_):
            raise kind("as it is")

        return make

    for kind in (ValueError, ZeroDivisionError):
        a, b = lib.leaf(1.0), lib.leaf(2.0)
        y = returning(lib, fails(kind))(a) * b
        with pytest.raises(kind, match=r"^as it is$"):
            y.backward()
        assert b.grad.item() == 1.0
        assert a.grad is None


def test_failed_pass_leaves_waiting_leaves_untouched(lib):
    """Rule 5.14."""

    def fail(_):
        raise ValueError("as it is")

    b, c = lib.leaf(2.0), lib.leaf(3.0)
    y = returning(lib, fail)(b * 1) * b * c
    with pytest.raises(ValueError, match="as it is"):
        y.backward()
    assert b.grad is None
    assert c.grad.item() == 4.0


def test_reentrant_backward_accumulates(lib):
    """Rule 5.15."""
    a = lib.leaf(1.0, 2.0)
    y = a * 2

    def hook(_):
        with lib.enable_grad():
            (a * 100).sum().backward()

    y.register_hook(hook)
    y.sum().backward()
    assert a.grad.tolist() == [102.0, 102.0]


def test_reentrant_backward_nests_deep(lib):
    """Rule 5.15."""
    reached = []

    class Nested(lib.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            reached.append(ctx.depth)
            if ctx.depth:
                with lib.enable_grad():
                    inner = lib.leaf(1.0)
                    Nested.apply(inner, ctx.depth - 1).backward()
            return grad, None

    x = lib.leaf(1.0)
    Nested.apply(x, 150).backward()
    assert reached == list(range(150, -1, -1))
    assert x.grad.item() == 1.0


def test_error_in_nested_pass_propagates(pb):
    """Rule 5.15."""

    class Nested(pb.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            if not ctx.depth:
                raise ZeroDivisionError("at the bottom")
            with pb.enable_grad():
                Nested.apply(pb.leaf(1.0), ctx.depth - 1).backward()
            return grad, None

    with pb.raises("at the bottom", ZeroDivisionError):
        Nested.apply(pb.leaf(1.0), 60).backward()
    assert pb.task_id() == -1


def test_queued_callback_runs_after_the_pass(lib):
    """Rule 5.16."""
    a, log = lib.leaf(1.0), []

    def hook(_):
        lib.queue_callback(lambda: log.append(("first", lib.is_grad_enabled(), a.grad.item())))
        lib.queue_callback(lambda: log.append("second"))

    y = a * 2
    y.register_hook(hook)
    a.register_post_accumulate_grad_hook(lambda _: log.append("accumulated"))
    y.backward()
    assert log == ["accumulated", ("first", False, 2.0), "second"]
    with lib.raises("can only be installed during backward"):
        lib.queue_callback(lambda: None)


def test_queued_callback_outside_pass_raises(lib):
    """Rule 5.16."""

    def fails():
        raise ZeroDivisionError("late")

    y = lib.leaf(1.0) * 2
    y.register_hook(lambda _: lib.queue_callback(fails))
    with pytest.raises(ZeroDivisionError):
        y.backward()


def test_each_pass_has_its_own_task_id(lib):
    """Rule 5.47."""
    seen = []
    a = lib.leaf(1.0)
    y = a * 2

    def hook(_):
        seen.append(lib.task_id())
        with lib.enable_grad():
            z = a * 3
        z.register_hook(lambda _: seen.append(lib.task_id()))
        z.backward()
        seen.append(lib.task_id())
        lib.set_grad_enabled(True)

    assert lib.task_id() == -1
    y.register_hook(hook)
    with lib.no_grad():
        y.backward()
        assert not lib.is_grad_enabled()
    outer, inner, again = seen
    assert (inner - outer, again) == (1, outer)
    assert lib.task_id() == -1
    assert lib.is_grad_enabled()


def test_mode_and_task_id_are_restored_after_failure(lib):
    """Rule 5.47."""
    y = lib.leaf(1.0) * 2

    def hook(_):
        lib.set_grad_enabled(True)
        raise ZeroDivisionError

    y.register_hook(hook)
    with lib.no_grad():
        with pytest.raises(ZeroDivisionError):
            y.backward()
        assert not lib.is_grad_enabled()
    assert lib.task_id() == -1


def test_the_sum_of_many_contributions(lib):
    """The buffer in which contributions are summed is the engine's own."""
    a = lib.leaf(1.0, 2.0)
    y = a * 1
    parts = [y * k for k in range(1, 6)]
    seeds = [lib.tensor([1.0, 1.0]) for _ in parts]
    lib.backward(parts, seeds)
    assert a.grad.tolist() == [15.0, 15.0]
    assert all(seed.tolist() == [1.0, 1.0] for seed in seeds)
    np.testing.assert_array_equal(a.detach().numpy(), [1.0, 2.0])
