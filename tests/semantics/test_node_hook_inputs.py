"""What node hooks get, and whether they run at nodes whose gradients were asked for."""

from __future__ import annotations

import pytest


def shapes_seen(output, backward=lambda y: y.sum().backward()):
    """The shapes that a post-hook of an output's node sees, None for what was not asked for."""
    seen = []

    def hook(inputs, _):
        seen.append([None if grad is None else tuple(grad.shape) for grad in inputs])

    output.grad_fn.register_hook(hook)
    backward(output)
    (found,) = seen
    return found


@pytest.mark.parametrize(
    "operation",
    [
        lambda _, x, y: x + y,
        lambda _, x, y: x - y,
        lambda _, x, y: x * y,
        lambda _, x, y: x / y,
        lambda _, x, y: x**y,
        lambda lib, x, y: lib.module.atan2(x, y),
        lambda lib, x, y: lib.module.maximum(x, y),
    ],
)
def test_post_hook_gets_shapes_of_broadcast_inputs(lib, operation):
    vector, matrix = lib.leaf(1.0, 2.0, 3.0), lib.leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    number = lib.leaf(2.0)
    assert shapes_seen(operation(lib, vector, matrix)) == [(3,), (2, 3)]
    assert shapes_seen(operation(lib, matrix, vector)) == [(2, 3), (3,)]
    assert shapes_seen(operation(lib, number, matrix)) == [(), (2, 3)]


def test_post_hook_gets_total_over_broadcast_axes(lib):
    vector, matrix = lib.leaf(1.0, 2.0), lib.leaf([[1.0, 2.0], [3.0, 4.0]])
    y = vector * matrix
    seen = []
    y.grad_fn.register_hook(lambda inputs, _: seen.append(inputs[0].tolist()))
    y.sum().backward()
    assert seen == [[4.0, 6.0]]
    assert vector.grad.tolist() == [4.0, 6.0]


def test_post_hook_with_create_graph_gets_shapes_of_inputs(lib):
    vector, matrix = lib.leaf(1.0, 2.0), lib.leaf([[1.0, 2.0], [3.0, 4.0]])
    found = shapes_seen(
        vector * matrix, lambda y: lib.grad(y.sum(), (vector, matrix), create_graph=True)
    )
    assert found == [(2,), (2, 2)]


def test_replacement_of_a_post_hook_has_the_shape_of_the_input(lib):
    vector, matrix = lib.leaf(1.0, 2.0), lib.leaf([[1.0, 2.0], [3.0, 4.0]])
    y = vector * matrix
    y.grad_fn.register_hook(lambda inputs, _: (inputs[0] * 10, inputs[1]))
    y.sum().backward()
    assert vector.grad.tolist() == [40.0, 60.0]


def test_post_hook_gets_none_for_gradients_that_are_not_needed(lib):
    x, y = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0)
    assert shapes_seen(x * y, lambda z: lib.grad(z.sum(), x)) == [(2,), None]
    assert shapes_seen(x * y, lambda z: lib.grad(z.sum(), y)) == [None, (2,)]
    assert shapes_seen(x * y.detach()) == [(2,), None]


def test_post_hook_of_function_gets_what_its_backward_returns(lib):
    class Product(lib.Function):
        @staticmethod
        def forward(_, x, y):
            return x * y

        @staticmethod
        def backward(_, grad):
            return grad, grad

    x, y = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0)
    assert shapes_seen(Product.apply(x, y), lambda z: lib.grad(z.sum(), x)) == [(2,), (2,)]


def watched(lib):
    """A leaf, a value in the middle and a result, whose hooks all write to a log."""
    log = []
    leaf = lib.leaf(1.0, 2.0)
    middle = leaf * 3
    result = lib.module.exp(middle)
    for name, tensor in {"leaf": leaf, "middle": middle, "result": result}.items():
        tensor.register_hook(lambda _, name=name: log.append(f"tensor {name}"))
        if tensor.grad_fn is not None:
            node = tensor.grad_fn
            node.register_prehook(lambda _, name=name: log.append(f"pre {name}"))
            node.register_hook(
                lambda inputs, _, name=name: log.append(
                    f"post {name}" + (" None" if inputs[0] is None else "")
                )
            )
    return leaf, middle, result, log


RESULT = ["tensor result", "pre result", "post result"]


@pytest.mark.parametrize("create_graph", [False, True])
def test_grad_by_an_inner_tensor_runs_its_tensor_hooks_only(lib, create_graph):
    _, middle, result, log = watched(lib)
    lib.grad(result.sum(), middle, create_graph=create_graph)
    assert log == [*RESULT, "tensor middle"]


def test_grad_by_a_leaf_runs_the_hooks_of_inner_nodes(lib):
    leaf, middle, result, log = watched(lib)
    lib.grad(result.sum(), (leaf, middle))
    assert log == [*RESULT, "tensor middle", "pre middle", "post middle", "tensor leaf"]


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("create_graph", [False, True])
def test_backward_to_an_inner_tensor_runs_the_hooks_of_its_node(lib, create_graph):
    leaf, middle, result, log = watched(lib)
    result.sum().backward(inputs=[middle], create_graph=create_graph)
    assert log == [*RESULT, "tensor middle", "pre middle", "post middle None"]
    assert middle.grad.tolist() == result.tolist()
    assert leaf.grad is None


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("create_graph", [False, True])
def test_backward_to_the_result_of_a_custom_function_runs_its_backward(lib, create_graph):
    calls = []

    class Twice(lib.Function):
        @staticmethod
        def forward(_, x):
            return x * 2

        @staticmethod
        def backward(_, grad):
            calls.append(grad.tolist())
            return grad * 2

    x = lib.leaf(1.0, 2.0)
    y = Twice.apply(x)
    (y * 3).sum().backward(inputs=[y], create_graph=create_graph)
    assert calls == [[3.0, 3.0]]
    assert x.grad is None


def test_hooks_of_a_saved_tensor_of_a_custom_function(lib):
    class Square(lib.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(x, None, y)
            return y

        @staticmethod
        def backward(ctx, grad):
            x, nothing, y = ctx.saved_tensors
            assert nothing is None
            return grad * 2 * x + 0 * y

    x = lib.leaf(1.0, 2.0)
    y = Square.apply(x)
    first, nothing, last = y.grad_fn._raw_saved_tensors
    first.register_hooks(lambda t: t.detach() * 10, lambda t: t)
    last.register_hooks(lambda t: t.tolist(), lambda t: lib.tensor(t))
    with lib.raises("with value None is forbidden"):
        nothing.register_hooks(lambda t: t, lambda t: t)
    with lib.raises("hooks have already been set"):
        first.register_hooks(lambda t: t, lambda t: t)
    assert y.grad_fn.saved_tensors[0].tolist() == [10.0, 20.0]
    y.sum().backward()
    assert x.grad.tolist() == [20.0, 40.0]
    with pytest.raises(RuntimeError):
        first.register_hooks(lambda t: t, lambda t: t)
    with lib.raises("backward through the graph a second time"):
        _ = y.grad_fn._raw_saved_tensors
