"""Graphs, interpreters and transformers do what those of ``torch.fx`` do."""

from __future__ import annotations

import copy
import operator
import pickle

import numpy as np
import pytest

import pullback as pb
from pullback import fx
from pullback.errors import GraphError
from pullback.fx.experimental.proxy_tensor import make_fx

ops = pb.ops.pullback
X = pb.tensor([0.5, 1.5])


def _module(f=lambda a: pb.sin(a) * 2 + a):
    return make_fx(f)(X)


def _node(module, target):
    return module.graph.find_nodes(op="call_function", target=target)[0]


def test_nodes_form_a_ring_around_the_root():
    nodes = _module().graph.nodes
    assert nodes[0].prev.op == "root"
    assert nodes[-1].next.op == "root"
    assert nodes[0].prev.next is nodes[0]
    assert [node.next for node in nodes[:-1]] == nodes[1:]
    assert _module().graph.output_node().op == "output"


def test_nodes_are_moved():
    module = _module()
    first, sin, *_ = module.graph.nodes
    made = module.graph.call_function(ops.exp.default, (first,))
    sin.prepend(made)
    sin.args = (made,)
    module.graph.lint()
    module.recompile()
    np.testing.assert_allclose(module(X), 2 * np.sin(np.exp(X.numpy())) + X.numpy())
    made.append(first)
    with pytest.raises(GraphError):
        module.graph.lint()
    made.prepend(made)
    first.prev.append(made)
    assert [node.name for node in module.graph.nodes][:2] == ["exp", "a_1"]
    with pytest.raises(GraphError, match="not in this graph"):
        made.append(fx.Graph().placeholder("x"))


def test_nodes_are_inserted_before_and_after_all():
    module = _module(lambda a: a)
    with module.graph.inserting_before():
        module.graph.placeholder("first")
    with module.graph.inserting_after():
        module.graph.call_function(ops.exp.default, (module.graph.nodes[1],))
    assert [node.op for node in module.graph.nodes] == [
        "placeholder",
        "placeholder",
        "output",
        "call_function",
    ]


def test_arguments_are_inserted():
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    call = graph.call_function(operator.sub, (y,))
    call.insert_arg(0, x)
    graph.output(call)
    assert fx.GraphModule({}, graph)(5, 3) == 2
    assert call in x.users


def test_methods_defaults_and_annotations():
    graph = fx.Graph()
    x = graph.placeholder("x", type_expr=int, default_value="a,b")
    graph.output(graph.call_method("split", (x, ","), {"maxsplit": 1}))
    module = fx.GraphModule({}, graph)
    assert module() == module("a,b") == module(x="a,b") == ["a", "b"]
    assert fx.Interpreter(module).run() == ["a", "b"]
    assert x.type is int
    assert "x.split(',', maxsplit=1)" in module.code


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_modules_are_copied_and_pickled(again):
    captured = pb.tensor([3.0, 4.0])
    module = make_fx(lambda t: {"y": pb.sin(t["a"]) * captured, "z": [t["a"][:1]]})({"a": X})
    copied = again(module)
    copied.graph.lint()
    assert copied.code == module.code
    _node(copied, ops.sin.default).target = ops.cos.default
    copied.recompile()
    captured.zero_()
    np.testing.assert_allclose(copied({"a": X})["y"], np.cos(X.numpy()) * [3.0, 4.0])
    np.testing.assert_allclose(module({"a": X})["y"], [0.0, 0.0])
    assert _node(copied, ops.mul.default).meta["tensor_meta"].shape == (2,)


def test_long_graphs_are_copied_and_pickled():
    def f(a):
        for _ in range(3000):
            a = a + 1.0
        return a

    module = _module(f)
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        np.testing.assert_allclose(copied(X), X.numpy() + 3000)


def test_a_graph_is_copied_into_another():
    module, graph, copies = _module(), fx.Graph(), {}
    result = graph.graph_copy(module.graph, copies)
    graph.output(graph.call_function(ops.neg.default, (result,)))
    np.testing.assert_allclose(fx.GraphModule(module, graph)(X), -module(X).numpy())
    assert list(copies) == module.graph.nodes[:-1]


def test_setting_the_graph_recompiles():
    module = _module()
    module.graph = _module(lambda a: a * 7).graph
    np.testing.assert_allclose(module(X), X.numpy() * 7)


def test_an_interpreter_calls_the_method_of_the_op():
    seen = []

    class Log(fx.Interpreter):
        def placeholder(self, target, args, kwargs):
            seen.append(target)
            return super().placeholder(target, args, kwargs)

        def call_function(self, target, args, kwargs):
            if target is ops.sin.default:
                return pb.cos(*args)
            return super().call_function(target, args, kwargs)

        def output(self, target, args, kwargs):
            seen.append(target)
            return super().output(target, args, kwargs)

    module = _module()
    np.testing.assert_allclose(Log(module).run(X), 2 * np.cos(X.numpy()) + X.numpy())
    assert seen == ["a_1", "output"]
    known = {_node(module, ops.sin.default): pb.zeros(2)}
    np.testing.assert_allclose(fx.Interpreter(module).run(X, initial_env=known), X.numpy())


def test_an_interpreter_forgets_values():
    freed, kept = fx.Interpreter(_module()), fx.Interpreter(_module(), False)
    freed.run(X)
    kept.run(X)
    assert len(freed.env) == 1
    assert len(kept.env) == 5


def test_containers_of_arguments_are_flattened():
    module = make_fx(lambda t: t["a"] + t["b"][0])({"a": X, "b": [X]})
    np.testing.assert_allclose(fx.Interpreter(module).run({"a": X, "b": [X]}), 2 * X.numpy())


def test_a_transformer_makes_another_graph():
    class Double(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return 2 * super().call_function(target, args, kwargs)

    module = make_fx(lambda t: {"y": pb.sin(t["a"]) + X})({"a": X})
    made = Double(module).transform()
    made.graph.lint()
    assert [node.op for node in made.graph.nodes].count("get_attr") == 1
    np.testing.assert_allclose(made({"a": X})["y"], 2 * (2 * np.sin(X.numpy()) + X.numpy()))
    np.testing.assert_allclose(module({"a": X})["y"], np.sin(X.numpy()) + X.numpy())


def test_proxies_record_operators_attributes_and_methods():
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    y = (abs(-x) // 2).reshape(2, 1)[0] ** 2 + (1 - x).shape[0]
    graph.output(y.node)
    x_value = np.array([-4.0, 6.0])
    expected = (abs(-x_value) // 2).reshape(2, 1)[0] ** 2 + 2
    np.testing.assert_allclose(fx.GraphModule({}, graph)(x_value), expected)
    with pytest.raises(TypeError, match="branch"):
        bool(x > 0)
    with pytest.raises(TypeError, match="length"):
        list(x)


def test_functionalize_inside_vmap():
    def f(a):
        return a.clone().mul_(2).sum()

    found = pb.vmap(pb.func.functionalize(f))(pb.ones((2, 3)))
    np.testing.assert_array_equal(found, [6.0, 6.0])
