"""Hooks on tensors and nodes: their order, what they may return, when they run."""

from __future__ import annotations

import pytest


def test_rule_5_17(lib):
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


def test_rule_5_18(lib):
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
def test_rule_5_19(lib, first):
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


def test_rule_5_20(lib):
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


def test_rule_5_21(lib):
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


def test_rule_5_22(lib):
    seen = []
    a = lib.leaf(1.0, 2.0)
    y = a * 2
    y.grad_fn.register_hook(lambda inputs, _: seen.append([g is None for g in inputs]))
    p, _ = y.unbind()
    p.grad_fn.register_prehook(lambda outputs: seen.append([g is None for g in outputs]))
    p.backward()
    assert seen == [[False, True], [False, True]]


def test_rule_5_23(lib):
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


def test_rule_5_23_unused_output(lib):
    seen = []
    p, q = (lib.leaf(1.0, 2.0) * 1).unbind()
    q.register_hook(seen.append)
    p.backward()
    assert seen == [None]


def test_rule_5_24(lib):
    with lib.raises("doesn't require gradient"):
        lib.tensor([1.0]).register_hook(print)


def test_rule_5_25(lib):
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


def test_rule_5_25_when(lib):
    a, b, log = lib.leaf(1.0), lib.leaf(2.0), []
    a.register_post_accumulate_grad_hook(lambda _: log.append("a"))
    b.register_post_accumulate_grad_hook(lambda _: log.append("b"))
    lib.grad(a * b, [a, b])
    assert log == []
    (a * b).backward(inputs=[a])
    assert log == ["a"]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.filterwarnings("ignore:.*create_graph")
def test_rule_5_26(lib, create_graph):
    a, seen = lib.leaf(1.0), []
    y = a * a
    for register in (y.register_hook, y.grad_fn.register_hook, y.grad_fn.register_prehook):
        register(lambda *_: seen.append(lib.is_grad_enabled()))
    a.register_hook(lambda *_: seen.append(lib.is_grad_enabled()))
    a.register_post_accumulate_grad_hook(lambda *_: seen.append(lib.is_grad_enabled()))
    y.backward(create_graph=create_graph)
    assert seen == [create_graph] * 5
    a.grad = None


def test_rule_5_27(lib):
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


def test_rule_5_28(pb):
    """PyTorch captures y's gradient before y's hooks when something behind it is asked for too."""
    a = pb.leaf(1.0)
    y = a * 2
    y.register_hook(lambda g: g * 10)
    first, second = pb.grad(y * 1, [y, a])
    assert (first.item(), second.item()) == (10.0, 20.0)


def test_rule_5_28_backward(lib):
    a = lib.leaf(1.0)
    y = a * 2
    y.register_hook(lambda g: g * 10)
    (y * 1).backward(inputs=[y, a])
    assert (y.grad.item(), a.grad.item()) == (10.0, 20.0)


def test_rule_5_29(lib):
    a = lib.leaf(1.0, 2.0)
    p, q = (a * 1).unbind()
    p.register_hook(lambda g: g * 10)
    q.register_hook(lambda g: g * 100)
    (p + q).backward()
    assert a.grad.tolist() == [10.0, 100.0]


def test_rule_5_30(lib):
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


def test_rule_5_31(lib):
    log = []
    a = lib.leaf(1.0, 2.0) * 1
    v = a[:1]
    v.register_hook(log.append)
    a.mul_(5)
    v.sum().backward()
    assert log == []


def test_rule_5_32(lib):
    """A hook that writes to its argument is in error, but what it writes flows on."""

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


def test_rule_5_33(lib):
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


def test_rule_5_34(lib):
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


def test_rule_5_34_any(lib):
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


def test_rule_5_34_grad(pb):
    """PyTorch raises when leaves are asked for by autograd.grad."""
    a, b, calls = pb.leaf(1.0), pb.leaf(2.0), []
    pb.graph.register_multi_grad_hook((a, b), lambda g: calls.append([x and x.item() for x in g]))
    pb.grad(a * b, [a, b])
    pb.grad(a * b, [a])
    assert calls == [[2.0, 1.0], [2.0, None]]


def test_rule_5_34_results(pb):
    """Tensors in the middle of the graph, and a root; PyTorch does not call for the root."""
    a, calls = pb.leaf(1.0), []
    y = a * 2
    z = a * 3
    pb.graph.register_multi_grad_hook((y, z), lambda g: calls.append([x is None for x in g]))
    (y + z).backward(retain_graph=True)
    y.backward(retain_graph=True)
    assert calls == [[False, False], [False, True]]


def test_rule_5_35(lib):
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
