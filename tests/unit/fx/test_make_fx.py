"""``make_fx``: graphs of functions, of their derivatives, and of functions inside vmap."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

import pullback as pb
from pullback.errors import AutogradError, TraceError
from pullback.fx.experimental.proxy_tensor import make_fx
from pullback.utils import pytree

MATRIX = np.linspace(-1.0, 1.0, 9).reshape(3, 3)


def _writes(x):
    z = pb.zeros((2, 3))
    row = z[1]
    row[1:] = x[:2]
    z += 1
    row.mul_(x)
    return z, {"first": z[0], "sum": row.sum()}


FUNCTIONS = {
    "elementwise": lambda x: pb.sin(x) * 2 + x,
    "reductions": lambda x: (x.sum(), x.max(), x.mean()),
    "writes": _writes,
    "gradient": pb.func.grad(lambda x: (pb.sin(x) ** 2).sum()),
    "gradient_of_writes": pb.func.grad(lambda x: (_writes(x)[0] ** 2).sum()),
    "jvp": lambda x: pb.func.jvp(lambda y: pb.tanh(y), (x,), (x,)),
    "jacrev": pb.func.jacrev(lambda x: pb.tanh(MATRIX @ x)),
    "jacfwd": pb.func.jacfwd(lambda x: pb.tanh(MATRIX @ x)),
    "hessian": pb.func.hessian(lambda x: pb.log(pb.exp(MATRIX @ x).sum())),
    "third": pb.func.grad(lambda x: pb.func.grad(lambda y: (y**4).sum())(x).sum()),
    "linalg": lambda x: pb.linalg.solve(MATRIX + 3 * np.eye(3), x) + pb.sort(x),
    "list": lambda x: pb.concatenate([x, pb.stack([x, x])[0]]),
    "several": lambda x: pb.linalg.svd(pb.outer(x, x)[:2])[1],
    "index": lambda x: x[np.array([2, 0])] + x[x.shape[0] - 1],
    "backward": lambda x: _by_backward(x),
    "numpy_mode": pb.differentiable(lambda x: np.where(np.zeros(3) < x, x, 0.0) + np.ones(3)),
    "numpy": lambda x: np.sum(np.exp(x)) * np.ones(3),
    "hvp": lambda x: pb.hvp(lambda y: (y**3).sum())(x, x),
}


def _by_backward(x):
    leaf = x.detach().clone().requires_grad_()
    (leaf * x).sum().backward()
    return leaf.grad


def _same(found, expected):
    pairs = zip(pytree.leaves(found), pytree.leaves(expected), strict=True)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_graph_computes_what_the_function_computes_for_other_values(name):
    function = FUNCTIONS[name]
    module = make_fx(function)(pb.tensor([0.3, -0.2, 0.9]))
    module.graph.lint()
    for values in ([0.3, -0.2, 0.9], [0.1, 0.4, -0.7]):
        _same(module(pb.tensor(values)), function(pb.tensor(values)))


MAPPED = {
    "elementwise": lambda x: pb.sin(x) * x[0],
    "gradient": pb.func.grad(lambda x: (x**3).sum() * x[0]),
    "matmul": lambda x: MATRIX @ x,
    "rule_by_rule": lambda x: pb.sort(x) + pb.linalg.solve(MATRIX + 3 * np.eye(3), x),
    "write": lambda x: _square_first(x),
    "nested": lambda x: pb.func.vmap(lambda a: a * x.sum())(x),
    "constant": lambda x: x + pb.ones(3),
}


def _square_first(x):
    y = x.clone()
    y[0] = x[0] ** 2
    return y


@pytest.mark.parametrize("name", MAPPED)
def test_functions_inside_vmap_are_traced(name):
    function = pb.func.vmap(MAPPED[name])
    first, second = (np.random.default_rng(n).normal(size=(4, 3)) for n in range(2))
    module = make_fx(function)(pb.asarray(first))
    for values in (first, second):
        _same(module(pb.asarray(values)), function(pb.asarray(values)))


@pytest.mark.parametrize("name", [name for name in MAPPED if name != "write"])
def test_graphs_of_mapped_functions_are_functions_themselves(name):
    function = pb.func.vmap(MAPPED[name])
    x, v = (pb.asarray(np.random.default_rng(n).normal(size=(4, 3))) for n in range(2))
    module = make_fx(function)(x)

    def loss(f):
        return lambda x: (f(x) ** 2).sum()

    for f in (module, pickle.loads(pickle.dumps(module)), make_fx(module)(x)):
        _same(pb.func.grad(loss(f))(v), pb.func.grad(loss(function))(v))
        _same(pb.func.jvp(f, (x,), (v,)), pb.func.jvp(function, (x,), (v,)))
    _same(pb.func.hessian(loss(module))(v), pb.func.hessian(loss(function))(v))
    both = pb.stack([x, v])
    _same(pb.func.vmap(module)(both), pb.func.vmap(function)(both))
    _same(pb.func.functionalize(module)(v), function(v))
    leaf = v.clone().requires_grad_()
    loss(module)(leaf).backward()
    _same(leaf.grad, pb.func.grad(loss(function))(v))
    _same(pb.compile(pb.func.grad(loss(module)), backend="eager")(v), leaf.grad)


def test_writes_of_mapped_functions_are_not_differentiated_in_a_graph():
    function = pb.func.vmap(MAPPED["write"])
    x = pb.asarray(np.random.default_rng(0).normal(size=(4, 3)))
    module = make_fx(function)(x)
    with pytest.raises(AutogradError, match=r"make the graph of its derivative: make_fx\(grad"):
        pb.func.grad(lambda x: module(x).sum())(x)
    with pytest.raises(AutogradError, match="writes to memory"):
        pb.func.jvp(module, (x,), (x,))
    gradient = pb.func.grad(lambda x: (function(x) ** 2).sum())
    _same(make_fx(gradient)(x)(x * 2), gradient(x * 2))


def test_elementwise_operators_inside_vmap_are_plain_operators():
    module = make_fx(pb.func.vmap(lambda x: pb.sin(x) + 1))(pb.ones((4, 3)))
    assert "vmap" not in module.code
    assert "pullback.sin" in module.code


def test_captured_arrays_and_tensors_are_read_whenever_the_graph_runs():
    array, tensor = np.ones(3), pb.ones(3)
    module = make_fx(lambda x: x * array + tensor + pb.tensor(array))(pb.zeros(3))
    array[:] = 5.0
    tensor.fill_(2.0)
    assert module(pb.tensor([1.0, 2.0, 3.0])).tolist() == [12.0, 17.0, 22.0]


def test_memory_that_the_program_makes_is_new_in_each_run():
    def count(x):
        total = pb.tensor([0.0, 0.0])
        total += x
        return total

    module = make_fx(count)(pb.ones(2))
    assert module(pb.ones(2)).tolist() == module(pb.ones(2)).tolist() == [1.0, 1.0]


def test_a_write_to_an_argument_is_one_when_the_graph_runs():
    module = make_fx(lambda x: x.mul_(3).sum())(pb.ones(2))
    x = pb.tensor([1.0, 2.0])
    assert module(x).item() == 9.0
    assert x.tolist() == [3.0, 6.0]


def test_containers_of_arguments_and_results():
    def f(tree):
        return {"sum": [tree["a"] + tree["b"][0]], "two": 2}

    tree = {"a": pb.ones(2), "b": [pb.zeros(2)]}
    module = make_fx(f)(tree)
    found = module({"a": pb.ones(2), "b": [pb.ones(2)]})
    assert found["sum"][0].tolist() == [2.0, 2.0]
    assert found["two"] == 2


def test_dataclasses_are_containers():
    @dataclasses.dataclass
    class Pair:
        a: object
        b: object

    module = make_fx(lambda p: p.a * p.b)(Pair(pb.ones(2), pb.ones(2)))
    assert module(Pair(pb.full(2, 3.0), pb.full(2, 2.0))).tolist() == [6.0, 6.0]


@pytest.mark.parametrize(
    "read", [bool, float, lambda x: x.item(), lambda x: x.numpy(), lambda x: x.tolist(), range]
)
def test_a_value_that_is_read_is_refused_with_file_and_line(read):
    value = pb.tensor(3) if read is range else pb.tensor(3.0)
    with pytest.raises(TraceError, match=r"test_make_fx.py:\d+.*pb.where"):
        make_fx(lambda x: read(x))(value)


def test_a_tensor_that_escapes_is_refused_outside():
    kept = []
    make_fx(lambda x: kept.append(x * 2) or x)(pb.ones(2))
    with pytest.raises(TraceError, match="used outside of it"):
        kept[0] + 1
    with pytest.raises(TraceError, match="used outside of it"):
        kept[0].tolist()


def test_the_state_of_the_thread_is_restored_after_an_error():
    with pytest.raises(ZeroDivisionError):
        make_fx(lambda x: 1 / 0)(pb.ones(2))
    assert (pb.ones(2) + 1).tolist() == [2.0, 2.0]


def test_a_decomposition_is_recorded_in_the_place_of_its_operator():
    def tanh(x):
        return 1 - 2 / (pb.exp(2 * x) + 1)

    table = {pb.ops.pullback.tanh.default: tanh}
    module = make_fx(pb.tanh, decomposition_table=table)(pb.ones(2))
    assert "pullback.tanh" not in module.code
    assert "pullback.exp" in module.code
    np.testing.assert_allclose(module(pb.ones(2)).numpy(), np.tanh(1.0) * np.ones(2))


def test_operators_can_be_changed_in_the_graph():
    module = make_fx(lambda x: pb.sin(x) * 2)(pb.ones(2))
    for node in module.graph.find_nodes(op="call_function", target=pb.ops.pullback.sin.default):
        node.target = pb.ops.pullback.cos.default
    module.recompile()
    np.testing.assert_allclose(module(pb.ones(2)).numpy(), 2 * np.cos(np.ones(2)))


def test_readable_text_has_shapes_and_dtypes():
    module = make_fx(lambda x: x.sum(0))(pb.ones((2, 3), dtype=np.float32))
    assert "# float32[3]" in module.print_readable(print_output=False)


def test_a_graph_can_be_differentiated_and_mapped():
    module = make_fx(lambda x: (pb.sin(x) * 2).sum())(pb.ones(3))
    x = pb.tensor([0.1, 0.2, 0.3])
    np.testing.assert_allclose(pb.func.grad(module)(x).numpy(), 2 * np.cos(x.numpy()))


def test_another_tracing_mode_is_refused():
    with pytest.raises(ValueError, match="tracing_mode must be 'real'"):
        make_fx(pb.sin, tracing_mode="symbolic")


def test_operators_above_autograd_are_refused_by_name():
    with pytest.raises(ValueError, match="pre_dispatch must be False"):
        make_fx(pb.sin, pre_dispatch=True)


def test_detached_tensors_stay_detached_where_a_graph_is_differentiated():
    x = pb.tensor([1.0, 2.0])
    for f in (lambda x: (x.detach() * x).sum(), lambda x: (x.data * x).sum()):
        assert pb.func.grad(make_fx(f)(pb.ones(2)))(x).tolist() == [1.0, 2.0]
        rows = pb.stack([x, 2 * x])
        module = make_fx(pb.func.vmap(f))(rows)
        assert pb.func.grad(lambda x, m=module: m(x).sum())(rows).tolist() == rows.tolist()


def test_a_write_through_a_detached_tensor_is_one_to_its_memory():
    def f(x):
        y = x.clone()
        y.detach()[0] = 7.0
        return y * x

    for module in (make_fx(f)(pb.ones(2)), make_fx(pb.func.functionalize(f))(pb.ones(2))):
        assert module(pb.tensor([1.0, 2.0])).tolist() == [7.0, 4.0]


def test_captured_tensors_get_gradients_of_calls_of_a_graph():
    w = pb.tensor([3.0, 4.0], requires_grad=True)
    x = pb.tensor([1.0, 2.0])
    make_fx(lambda x: (x * w + w.detach()).sum())(pb.ones(2))(x).backward()
    assert w.grad.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("wrap", [lambda f: f, pb.func.functionalize])
def test_buffers_that_a_graph_writes_to_get_no_history(wrap):
    rng = np.random.default_rng(0)
    model = pb.nn.Sequential(pb.nn.Linear(3, 4), pb.nn.BatchNorm1d(4))
    rows = [pb.asarray(rng.normal(size=(5, 3))) for _ in range(2)]
    module = make_fx(wrap(model))(rows[0])
    same = pickle.loads(pickle.dumps(model))
    (same(rows[1]) ** 2).sum().backward()
    (module(rows[1]) ** 2).sum().backward()
    for buffer, expected in zip(model.buffers(), same.buffers(), strict=True):
        assert not buffer.requires_grad
        np.testing.assert_allclose(buffer.numpy(), expected.numpy())
    for ours, theirs in zip(model.parameters(), same.parameters(), strict=True):
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), atol=1e-12)


def test_a_graph_inside_of_a_graph():
    def f(x):
        module = make_fx(lambda y: (pb.sin(y) * y).add_(1))(x)
        return module(x * 2) + make_fx(pb.func.grad(lambda y: (y**3).sum()))(x)(x)

    x = pb.tensor([1.0, 2.0])
    module = make_fx(f)(pb.ones(2))
    assert "sin" in module.code
    for found in (module(x), pb.compile(f, backend="eager", fullgraph=True)(x), f(x)):
        expected = np.sin(2 * x.numpy()) * 2 * x.numpy() + 1 + 3 * x.numpy() ** 2
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-14)
    with pytest.raises(TraceError, match="traced is used outside"):
        make_fx(lambda x: make_fx(lambda y: y * x)(x)(x))(x)


def test_a_captured_tensor_may_be_a_result():
    w = pb.tensor([1.0, 2.0], requires_grad=True)
    same, total = make_fx(lambda x: (w, (w * x).sum()))(pb.ones(2))(pb.ones(2))
    assert same is w
    total.backward()
    assert w.grad.tolist() == [1.0, 1.0]
