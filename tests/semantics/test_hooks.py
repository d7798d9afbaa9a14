"""Hooks on tensors and nodes: their order, what they may return, when they run."""

from __future__ import annotations

import pytest


def test_hooks_of_non_leaf_run_in_order(lib):
    """Rule 5.17."""
    x, log = lib.leaf(1.0, 2.0), []
    y = x * 2
    y.grad_fn.register_hook(lambda *_: log.append("post1"))
    y.grad_fn.register_prehook(lambda *_: log.append("pre1"))
    y.retain_grad()
    y.register_hook(lambda g: log.append("t1") or g * 2)
    y.register_hook(lambda g: log.append(("t2", g.tolist())))
    y.grad_fn.register_prehook(lambda *_: log.append(("pre2", y.grad.tolist())))
    y.grad_fn.register_hook(lambda *_: log.append("post2"))
    y.sum().backward()
    two = [2.0, 2.0]
    assert log == ["t1", ("t2", two), "pre1", ("pre2", two), "post1", "post2"]


def test_hooks_of_leaf_run_in_order(lib):
    """Rule 5.18."""
    x, log = lib.leaf(1.0, 2.0), []
    y = x * 2
    node = y.grad_fn.next_functions[0][0]
    node.register_hook(lambda inputs, outputs: log.append(("post", inputs, outputs[0].tolist())))
    node.register_prehook(lambda _: log.append(("pre", x.grad)))
    x.register_post_accumulate_grad_hook(lambda t: log.append(("accumulated", t.grad.tolist())))
    x.register_hook(lambda _: log.append("tensor"))
    y.sum().backward()
    two = [2.0, 2.0]
    assert log == ["tensor", ("pre", None), ("accumulated", two), ("post", (), two)]


@pytest.mark.parametrize("first", ["hook", "retain"])
def test_retained_grad_is_read_after_tensor_hooks(lib, first):
    """Rule 5.19."""
    x = lib.leaf(1.0, 2.0)
    y = x * 2
    if first == "retain":
        y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.retain_grad()
    y.sum().backward()
    assert (y.grad.tolist(), x.grad.tolist()) == ([10.0, 10.0], [20.0, 20.0])


def run_with(lib, hook):
    x = lib.leaf(1.0, 2.0)
    x.register_hook(hook)
    (x * 2).sum().backward()
    return x.grad.tolist()


def test_tensor_hook_may_replace_gradient_of_same_shape_and_dtype(lib):
    """Rule 5.20."""
    assert run_with(lib, lambda _: None) == [2.0, 2.0]
    assert run_with(lib, lambda g: g * 3) == [6.0, 6.0]
    with lib.raises("expected Variable", TypeError):
        run_with(lib, lambda _: 5)
    with lib.raises("has changed the size of value"):
        run_with(lib, lambda _: lib.tensor([[1.0, 1.0]]))
    with lib.raises("has changed the size of value"):
        run_with(lib, lambda _: lib.tensor([1.0]))
    with lib.raises("has changed the type of value"):
        run_with(lib, lambda g: lib.cast(g, "float32"))


def test_node_hooks_may_replace_gradient_tuples(lib):
    """Rule 5.21."""

    def run(hook, kind="register_hook"):
        a, b = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0)
        y = a * b
        getattr(y.grad_fn, kind)(hook)
        y.sum().backward()
        return a.grad, b.grad

    first, second = run(lambda inputs, _: (inputs[0] * 10, inputs[1]))
    assert (first.tolist(), second.tolist()) == ([30.0, 40.0], [1.0, 2.0])
    first, second = run(lambda inputs, _: (None, inputs[1]))
    assert (first, second.tolist()) == (None, [1.0, 2.0])
    with lib.raises("expected tuple", TypeError):
        run(lambda *_: 5)
    with lib.raises("incorrect number of values (got 1, but expected 2)"):
        run(lambda inputs, _: (inputs[0],))
    with lib.raises("has changed the size of value"):
        run(lambda inputs, _: (inputs[0].sum(), inputs[1]))
    first, _ = run(lambda outputs: (outputs[0] * 2,), "register_prehook")
    assert first.tolist() == [6.0, 8.0]
    first, _ = run(lambda _: (None,), "register_prehook")
    assert first is None
    with lib.raises("has changed the type of value"):
        run(lambda outputs: (lib.cast(outputs[0], "float32"),), "register_prehook")


def test_node_hooks_get_none_for_missing_gradients(lib):
    """Rule 5.22."""
    seen = []
    a = lib.leaf(1.0, 2.0)
    y = a * 2
    y.grad_fn.register_hook(lambda inputs, _: seen.append([g is None for g in inputs]))
    p, _ = y.unbind()
    p.grad_fn.register_prehook(lambda outputs: seen.append([g is None for g in outputs]))
    p.backward()
    assert seen == [[False, True], [False, True]]


def test_hooks_run_with_undefined_gradient(lib):
    """Rule 5.23."""

    class Nothing(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return None

    a, log = lib.leaf(1.0, 2.0), []
    y = lib.exp(a)
    y.register_hook(lambda g: log.append(("tensor", g)))
    y.grad_fn.register_prehook(lambda g: log.append(("pre", g)))
    y.grad_fn.register_hook(lambda i, o: log.append(("post", i, o)))
    a.register_post_accumulate_grad_hook(lambda t: log.append(("accumulated", t.grad)))
    Nothing.apply(y).sum().backward()
    assert log == [
        ("tensor", None),
        ("pre", (None,)),
        ("post", (None,), (None,)),
        ("accumulated", None),
    ]


def test_hook_of_unused_output_gets_none(lib):
    """Rule 5.23."""
    seen = []
    p, q = (lib.leaf(1.0, 2.0) * 1).unbind()
    q.register_hook(seen.append)
    p.backward()
    assert seen == [None]


def test_hook_on_tensor_without_grad_raises(lib):
    """Rule 5.24."""
    with lib.raises("doesn't require gradient"):
        lib.tensor([1.0]).register_hook(print)


def test_post_accumulate_hook_needs_leaf_and_returns_none(lib):
    """Rule 5.25."""

    def run(hook):
        a = lib.leaf(1.0, 2.0)
        a.register_post_accumulate_grad_hook(hook)
        (a * 2).sum().backward()
        return a

    with lib.raises("cannot be registered on non-leaf tensors"):
        (lib.leaf(1.0) * 2).register_post_accumulate_grad_hook(print)
    run(lambda t: t)
    with lib.raises("should return None"):
        run(lambda t: t * 1)
    with pytest.raises(TypeError):
        run(lambda _: 5)

    def step(t):
        assert not lib.is_grad_enabled()
        t.sub_(t.grad)
        t.grad = None

    a = run(step)
    assert (a.tolist(), a.grad) == ([-1.0, 0.0], None)


def test_post_accumulate_hook_runs_only_in_backward_of_its_leaf(lib):
    """Rule 5.25."""
    a, b, log = lib.leaf(1.0), lib.leaf(2.0), []
    a.register_post_accumulate_grad_hook(lambda _: log.append("a"))
    b.register_post_accumulate_grad_hook(lambda _: log.append("b"))
    lib.grad(a * b, [a, b])
    assert log == []
    (a * b).backward(inputs=[a])
    assert log == ["a"]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.filterwarnings("ignore:.*create_graph")
def test_grad_mode_in_hooks_is_create_graph(lib, create_graph):
    """Rule 5.26."""
    a, seen = lib.leaf(1.0), []
    y = a * a
    for register in (y.register_hook, y.grad_fn.register_hook, y.grad_fn.register_prehook):
        register(lambda *_: seen.append(lib.is_grad_enabled()))
    a.register_hook(lambda *_: seen.append(lib.is_grad_enabled()))
    a.register_post_accumulate_grad_hook(lambda *_: seen.append(lib.is_grad_enabled()))
    y.backward(create_graph=create_graph)
    assert seen == [create_graph] * 5
    a.grad = None


def test_grad_runs_tensor_hooks_but_not_node_hooks_of_inputs(lib):
    """Rule 5.27."""
    a, log = lib.leaf(1.0), []
    y = a * 2
    a.register_hook(lambda g: g * 10)
    node = y.grad_fn.next_functions[0][0]
    node.register_hook(lambda *_: log.append("post"))
    node.register_prehook(lambda *_: log.append("pre"))
    a.register_post_accumulate_grad_hook(lambda _: log.append("accumulated"))
    assert lib.grad(y, a)[0].item() == 20.0
    y = a * 2
    y.register_hook(lambda g: g * 10)
    y.grad_fn.register_hook(lambda *_: log.append("post"))
    y.grad_fn.register_prehook(lambda *_: log.append("pre"))
    assert lib.grad(y * 1, y)[0].item() == 10.0
    assert log == []


def test_grad_returns_hooked_gradient_of_intermediate(pb):
    """Rule 5.28.

    PyTorch captures y's gradient before y's hooks when something behind it is asked for too.
    """
    a = pb.leaf(1.0)
    y = a * 2
    y.register_hook(lambda g: g * 10)
    first, second = pb.grad(y * 1, [y, a])
    assert (first.item(), second.item()) == (10.0, 20.0)


def test_backward_stores_hooked_gradient_of_intermediate(lib):
    """Rule 5.28."""
    a = lib.leaf(1.0)
    y = a * 2
    y.register_hook(lambda g: g * 10)
    (y * 1).backward(inputs=[y, a])
    assert (y.grad.item(), a.grad.item()) == (10.0, 20.0)


def test_hooks_of_multiple_outputs_are_separate(lib):
    """Rule 5.29."""
    a = lib.leaf(1.0, 2.0)
    p, q = (a * 1).unbind()
    p.register_hook(lambda g: g * 10)
    q.register_hook(lambda g: g * 100)
    (p + q).backward()
    assert a.grad.tolist() == [10.0, 100.0]


def test_hook_belongs_to_value_at_registration(lib):
    """Rule 5.30."""
    a, log = lib.leaf(1.0, 2.0), []
    y = a * 2
    y.register_hook(lambda g: log.append(("h1", g.tolist())))
    y.mul_(5)
    y.register_hook(lambda g: log.append(("h2", g.tolist())))
    y.sum().backward()
    assert log == [("h2", [1.0, 1.0]), ("h1", [5.0, 5.0])]
    seen = []
    a.register_hook(lambda _: seen.append("kept"))
    with lib.no_grad():
        a.add_(1)
    a.sum().backward()
    assert seen == ["kept"]


def test_hook_of_view_is_dropped_by_write_to_base(lib):
    """Rule 5.31."""
    log = []
    a = lib.leaf(1.0, 2.0) * 1
    v = a[:1]
    v.register_hook(log.append)
    a.mul_(5)
    v.sum().backward()
    assert log == []


def test_hook_that_writes_to_its_argument_changes_the_flow(lib):
    """Rule 5.32. A hook that writes to its argument is in error, but what it writes flows on."""

    def write(grad):
        grad.mul_(10)

    a = lib.leaf(1.0, 2.0)
    y = a * 2
    y.register_hook(write)
    (y + 0).backward(lib.tensor([1.0, 1.0]))
    assert a.grad.tolist() == [20.0, 20.0]
    z = a * 2
    z.register_hook(write)
    with lib.raises("more than one element of the written-to tensor refers"):
        z.sum().backward()


def test_hook_handle_removes_and_list_is_snapshot(lib):
    """Rule 5.33."""
    a, log = lib.leaf(1.0), []
    y = a * 2
    handle = y.register_hook(lambda _: log.append("removed"))
    assert isinstance(handle.id, int)
    y.mul_(5)
    handle.remove()
    handle.remove()
    with y.register_hook(lambda _: log.append("inside")):
        y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    assert log == ["inside"]
    second = None
    y.register_hook(lambda _: second.remove())
    second = y.register_hook(lambda _: log.append("second"))
    y.backward(retain_graph=True)
    y.backward()
    assert log == ["inside", "second"]


def test_multi_grad_hook_runs_once_with_all_gradients(lib):
    """Rule 5.34."""
    a, b, c, calls = lib.leaf(1.0, 2.0), lib.leaf(1.0), lib.leaf(1.0), []

    def note(grads):
        calls.append([None if g is None else g.tolist() for g in grads])

    register = lib.graph.register_multi_grad_hook
    handle = register((a, b, c), note)
    for _ in range(2):
        (a * 2).sum().backward()
    assert calls == [[[2.0, 2.0], None, None]] * 2
    calls.clear()
    (a * b * 1).sum().backward()
    assert calls == [[[1.0, 1.0], 3.0, None]]
    handle.remove()
    calls.clear()
    (a * 2).sum().backward()
    assert calls == []


def test_multi_grad_hook_any_runs_at_first_gradient(lib):
    """Rule 5.34."""
    a, b, calls = lib.leaf(1.0), lib.leaf(2.0), []
    register = lib.graph.register_multi_grad_hook
    register((a, b, lib.tensor(1.0)), lambda g: calls.append(g.item()), mode="any")
    y = a * b
    for _ in range(2):
        y.backward(retain_graph=True)
    assert len(calls) == 2
    with pytest.raises(ValueError, match="mode"):
        register((a,), print, mode="some")
    with pytest.raises(AssertionError):
        register((a, lib.tensor(1.0)), print)


def test_multi_grad_hook_runs_under_grad(pb):
    """Rule 5.34. PyTorch raises when leaves are asked for by autograd.grad."""
    a, b, calls = pb.leaf(1.0), pb.leaf(2.0), []
    pb.graph.register_multi_grad_hook((a, b), lambda g: calls.append([x and x.item() for x in g]))
    pb.grad(a * b, [a, b])
    pb.grad(a * b, [a])
    assert calls == [[2.0, 1.0], [2.0, None]]


def test_multi_grad_hook_on_intermediates_and_root(pb):
    """Rule 5.34.

    Tensors in the middle of the graph, and a root; PyTorch does not call for the root.
    """
    a, calls = pb.leaf(1.0), []
    y = a * 2
    z = a * 3
    pb.graph.register_multi_grad_hook((y, z), lambda g: calls.append([x is None for x in g]))
    (y + z).backward(retain_graph=True)
    y.backward(retain_graph=True)
    assert calls == [[False, False], [False, True]]


def test_gradient_edge_replaces_tensor(lib):
    """Rule 5.35."""
    a = lib.leaf(1.0, 2.0)
    y = a * a
    edge = lib.graph.get_gradient_edge(y)
    assert (edge.node, edge.output_nr) == (y.grad_fn, 0)
    assert lib.graph.get_gradient_edge(a).node is y.grad_fn.next_functions[0][0]
    with lib.raises("not possible to get the gradient edge"):
        lib.graph.get_gradient_edge(lib.tensor(1.0))
    z = (y * 3).sum()
    root = lib.graph.get_gradient_edge(z)
    del y, z
    first, second = lib.grad(root, [edge, a], retain_graph=True)
    assert (first.tolist(), second.tolist()) == ([3.0, 3.0], [6.0, 12.0])
    lib.backward(root, inputs=[a])
    assert a.grad.tolist() == [6.0, 12.0]
    with lib.raises("implicitly created only for scalar outputs"):
        lib.grad(edge, a)
