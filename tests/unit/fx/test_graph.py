"""Graphs of programs: reading, changing, running."""

from __future__ import annotations

import gc
import linecache
import operator

import numpy as np
import pytest

import pullback as pb
from pullback import fx
from pullback.errors import GraphError
from pullback.fx.experimental.proxy_tensor import make_fx


def _double_plus_one():
    graph = fx.Graph()
    x = graph.placeholder("x")
    double = graph.call_function(operator.mul, (x, 2))
    graph.output(graph.call_function(operator.add, (double, 1)))
    return graph


def test_a_graph_prints_as_the_function_that_it_runs():
    module = fx.GraphModule({}, _double_plus_one())
    assert module.code == (
        "def forward(self, x):\n"
        "    mul = x * 2;  x = None\n"
        "    add = mul + 1;  mul = None\n"
        "    return add\n"
    )
    assert module(20) == 41
    assert "mul" in str(module.graph)


def test_nodes_know_their_users_and_inputs():
    graph = _double_plus_one()
    x, mul, add, output = graph.nodes
    assert list(x.users) == [mul]
    assert list(mul.users) == [add]
    assert add.all_input_nodes == [mul]
    assert mul.next is add
    assert add.prev is mul
    assert output.op == "output"
    assert output.args == (add,)


def test_a_node_can_be_replaced_and_erased():
    graph = _double_plus_one()
    x, mul, _, _ = graph.nodes
    with graph.inserting_after(mul):
        power = graph.call_function(operator.pow, (x, 3))
    mul.replace_all_uses_with(power)
    graph.erase_node(mul)
    graph.lint()
    assert fx.GraphModule({}, graph)(2) == 9


def test_a_node_that_is_used_cannot_be_erased():
    graph = _double_plus_one()
    with pytest.raises(GraphError, match="still has users in the graph: mul"):
        graph.erase_node(graph.nodes[0])


def test_new_nodes_go_before_and_after_a_node_in_order():
    graph = _double_plus_one()
    x, mul, add, _ = graph.nodes
    with graph.inserting_before(add):
        first = graph.call_function(operator.neg, (mul,))
        second = graph.call_function(operator.abs, (first,))
    assert graph.nodes.index(second) == graph.nodes.index(first) + 1 == 3
    add.update_arg(0, second)
    assert fx.GraphModule({}, graph)(-5) == 11
    assert list(mul.users) == [first]
    assert x.name == "x"


def test_lint_finds_a_use_before_the_definition():
    graph = _double_plus_one()
    _, mul, add, _ = graph.nodes
    mul.args = (add, 2)
    with pytest.raises(GraphError, match="mul uses add, which comes later"):
        graph.lint()


def test_a_node_of_another_graph_is_refused():
    other = fx.Graph().placeholder("y")
    with pytest.raises(GraphError, match="belongs to another graph"):
        _double_plus_one().call_function(operator.neg, (other,))


def test_dead_code_is_removed_but_writes_are_kept():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(pb.ops.pullback.sin.default, (x,))
    graph.call_function(pb.ops.pullback.mul_.default, (x, 2))
    graph.output(x)
    assert graph.eliminate_dead_code()
    assert [n.name for n in graph.nodes] == ["x", "mul_", "output"]
    assert not graph.eliminate_dead_code()


def test_names_are_unique_and_no_keywords():
    graph = fx.Graph()
    names = [graph.placeholder(name).name for name in ("x", "x", "lambda", "sum", "1a", "a.b")]
    assert names == ["x", "x_1", "lambda_1", "sum_1", "_1a_1", "a_b"]


@pytest.mark.parametrize(
    "value",
    [1.5, float("inf"), -2, 1j, None, ..., "s", [1, (2,)], slice(1, None, 2), np.dtype("float32")],
)
def test_constants_survive_the_way_through_source(value):
    graph = fx.Graph()
    graph.output(value)
    assert fx.GraphModule({}, graph)() == value


def test_an_object_without_a_literal_is_passed_by_reference():
    graph = fx.Graph()
    generator = np.random.default_rng(0)
    graph.output(graph.call_function(lambda g: g, (generator,)))
    assert fx.GraphModule({}, graph)() is generator


def test_a_missing_captured_value_is_named():
    graph = fx.Graph()
    graph.output(graph.get_attr("w"))
    with pytest.raises(GraphError, match="'w', which the root does not have"):
        fx.GraphModule({}, graph)
    module = fx.GraphModule({"w": 3}, graph)
    assert module() == 3
    module.w = 4
    assert module() == 4
    assert module.captured() == {"w": 4}


def test_the_interpreter_runs_node_by_node():
    module = fx.GraphModule({}, _double_plus_one())
    seen = []

    class Watch(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            seen.append((target, args))
            return super().call_function(target, args, kwargs)

    assert Watch(module).run(3) == 7
    assert seen == [(operator.mul, (3, 2)), (operator.add, (6, 1))]


def test_python_s_operators_are_written_as_such():
    graph = fx.Graph()
    x = graph.placeholder("x")
    pair = graph.call_function(divmod, (x, 7))
    rest = graph.call_function(operator.getitem, (pair, -1))
    power = graph.call_function(operator.pow, (-2, rest))
    graph.call_function(operator.neg, (x,))
    graph.output(graph.call_function(getattr, (power, "real")))
    module = fx.GraphModule({}, graph)
    assert module.code == (
        "def forward(self, x):\n"
        "    divmod_1 = divmod(x, 7)\n"
        "    getitem = divmod_1[-1];  divmod_1 = None\n"
        "    pow_1 = (-2) ** getitem;  getitem = None\n"
        "    neg = -x;  x = neg = None\n"
        "    getattr_1 = pow_1.real;  pow_1 = None\n"
        "    return getattr_1\n"
    )
    assert module(9) == 4


def test_inputs_may_have_names_of_modules():
    graph = fx.Graph()
    names = ["pullback", "operator", "dtype", "_float32dtype_0"]
    x, y, z, _ = map(graph.placeholder, names)
    sin = graph.call_function(pb.ops.pullback.sin.default, (x,))
    true = graph.call_function(operator.truth, (y,))
    cast = graph.call_function(np.asarray, (z,), {"dtype": np.dtype("float32")})
    graph.output((sin, true, cast))
    sin, true, cast = fx.GraphModule({}, graph)(pb.zeros(1), 2, 3, 4)
    assert (sin.item(), true, cast.dtype) == (0.0, True, np.float32)


def test_sources_are_freed_with_their_functions():
    before = len(linecache.cache)
    for n in range(5):
        function = pb.compile(lambda x, n=n: pb.sin(x) * n, backend="eager")
        function(pb.ones(2))
        module = make_fx(lambda x, n=n: pb.sin(x) * n)(pb.ones(2))
    del function, module
    gc.collect()
    assert len(linecache.cache) <= before + 1
