"""`autograd.Function`: both styles, arguments and results, what a backward may return."""

from __future__ import annotations

import numpy as np
import pytest


def function(lib, forward, backward, **members):
    """A Function of these two functions."""
    namespace = {"forward": staticmethod(forward), "backward": staticmethod(backward), **members}
    return type("Made", (lib.Function,), namespace)


def test_forward_of_function_runs_without_recording(lib):
    """Rule 6.1."""
    seen = []

    class Double(lib.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append((x, x.requires_grad, lib.is_grad_enabled()))
            ctx.mine = "kept"
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = lib.leaf(1.0, 2.0)
    y = Double.apply(x)
    assert seen[0][0] is x
    assert seen[0][1:] == (True, False)
    assert y.grad_fn.name() == "DoubleBackward"
    assert y.grad_fn.mine == "kept"
    assert Double.apply(lib.tensor([1.0])).grad_fn is None
    with lib.no_grad():
        assert Double.apply(x).grad_fn is None


def test_ctx_takes_any_attribute(lib):
    """Rule 6.1. The names that a node has inside do not get in the way of the user's."""

    class Reshaped(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.shape, ctx.dtype, ctx.outputs, ctx.edges = tuple(x.shape), "d", 7, "e"
            ctx.saved, ctx.seq = "s", 3
            return x.reshape(4)

        @staticmethod
        def backward(ctx, grad):
            assert (ctx.dtype, ctx.outputs, ctx.edges, ctx.saved, ctx.seq) == ("d", 7, "e", "s", 3)
            return grad.reshape(ctx.shape)

    x = lib.leaf([[1.0, 2.0], [3.0, 4.0]])
    (Reshaped.apply(x) * lib.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_ops_recorded_inside_forward_do_not_leak(lib):
    """Rule 6.2."""

    def forward(ctx, x):
        with lib.enable_grad():
            return x * 2

    f = function(lib, forward, lambda ctx, grad: grad * 100)
    x = lib.leaf(1.0, 2.0)
    y = f.apply(x)
    assert y.grad_fn.name() == "MadeBackward"
    y.sum().backward()
    assert x.grad.tolist() == [100.0, 100.0]


def test_setup_context_gets_inputs_with_defaults(lib):
    """Rule 6.3."""
    seen = []

    class Power(lib.Function):
        @staticmethod
        def forward(x, k=2):
            return x**k

        @staticmethod
        def setup_context(ctx, inputs, output):
            seen.append((len(inputs), isinstance(output, lib.Tensor), lib.is_grad_enabled()))
            x, ctx.k = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return ctx.k * x ** (ctx.k - 1) * grad, None

    a = lib.leaf(3.0)
    Power.apply(a).backward()
    assert a.grad.item() == 6.0
    assert seen == [(2, True, False)]

    class Both(lib.Function):
        @staticmethod
        def forward(x):
            return x * 1, x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            seen.append(type(output))

        @staticmethod
        def backward(ctx, first, second):
            return first + 2 * second

    seen.clear()
    Both.apply(a)
    assert seen == [tuple]


def test_keyword_tensor_is_differentiated(lib):
    """Rule 6.4."""

    def forward(ctx, x, y, k=1):
        ctx.k = k
        return x * 2 + y * 3

    f = function(lib, forward, lambda ctx, grad: (grad * 2, grad * 3, None))
    x, y = lib.leaf(1.0), lib.leaf(2.0)
    f.apply(x, k=5, y=y).backward()
    assert (x.grad.item(), y.grad.item()) == (2.0, 3.0)


def test_nested_tensors_are_not_tracked(lib):
    """Rule 6.5."""
    x = lib.leaf(1.0)
    taking = function(lib, lambda ctx, xs: xs[0] * 2, lambda ctx, grad: None)
    assert not taking.apply([x]).requires_grad
    giving = function(lib, lambda ctx, x: (x * 1, [x * 2], (x * 3,)), lambda ctx, g, _, __: g * 10)
    first, in_list, in_tuple = giving.apply(x)
    assert first.requires_grad
    assert not in_list[0].requires_grad
    assert not in_tuple[0].requires_grad


def test_function_returns_tensor_or_tuple(lib):
    """Rule 6.6."""
    seen = []

    def backward(ctx, *grads):
        seen.append([None if g is None else g.item() for g in grads])
        return grads[0]

    x = lib.leaf(1.0)
    single = function(lib, lambda ctx, x: x * 1, backward).apply(x)
    assert isinstance(single, lib.Tensor)
    one = function(lib, lambda ctx, x: (x * 1,), backward).apply(x)
    assert isinstance(one, tuple)
    mixed = function(lib, lambda ctx, x: (x * 1, 5, None, "text"), backward).apply(x)
    assert mixed[1:] == (5, None, "text")
    mixed[0].backward()
    assert seen == [[1.0, None, None, None]]


def test_needs_input_grad_is_set_before_forward(lib):
    """Rule 6.7."""
    seen = []

    def forward(ctx, *args):
        seen.append(ctx.needs_input_grad)
        return args[0] * 2

    f = function(lib, forward, lambda ctx, grad: (grad * 2, None, None, None, None))
    x, y = lib.leaf(1.0), lib.leaf(2.0)
    out = f.apply(x, 3, lib.tensor(1.0), lib.tensor(1, "int64"), y)
    assert seen == [(True, False, False, False, True)]
    out.grad_fn.register_hook(lambda *_: seen.append(out.grad_fn.needs_input_grad))
    lib.grad(out, x)
    assert seen[1] == seen[0]


def test_backward_must_return_one_gradient_per_argument(lib):
    """Rule 6.8."""

    def run(returned, second=None):
        x = lib.leaf(1.0)
        y = lib.leaf(2.0) if second is None else second
        f = function(lib, lambda ctx, x, y: x * 1, lambda ctx, grad: returned(grad))
        f.apply(x, y).backward()
        return x.grad

    with lib.raises("incorrect number of gradients (expected 2, got 1)"):
        run(lambda g: g)
    with lib.raises("incorrect number of gradients (expected 2, got 1)"):
        run(lambda g: (g,))
    assert run(lambda g: (g, None, None, None)).item() == 1.0
    with lib.raises("incorrect number of gradients (expected 2, got 3)"):
        run(lambda g: (g, None, g))
    with lib.raises("expected Variable or None"):
        run(lambda g: (g, 5.0))
    with lib.raises("different than None at position 2"):
        run(lambda g: (g, g), second=7)
    for plain in (lib.tensor(1.0), lib.tensor(1, "int64")):
        assert run(lambda g: (g, g), second=plain).item() == 1.0


def test_none_for_requiring_input_is_undefined_gradient(lib):
    """Rule 6.9."""
    x, y = lib.leaf(1.0), lib.leaf(2.0)
    f = function(lib, lambda ctx, x, y: x * y, lambda ctx, grad: (None, grad))
    f.apply(x, y).backward()
    assert (x.grad, y.grad.item()) == (None, 1.0)


def test_undefined_gradients_are_materialized_as_zeros(lib):
    """Rule 6.11."""
    seen = []

    def forward(ctx, x):
        return x * 1, x * 2, lib.tensor([1, 2], "int64"), lib.tensor([True], "bool")

    def backward(ctx, *grads):
        seen.append([None if g is None else (g.tolist(), g.dtype) for g in grads])
        return grads[0]

    x = lib.leaf(1.0, 2.0)
    f = function(lib, forward, backward)
    f.apply(x)[0].sum().backward()
    double, long, boolean = map(lib.dtype, ("float64", "int64", "bool"))
    assert seen == [
        [
            ([1.0, 1.0], double),
            ([0.0, 0.0], double),
            ([0, 0], long),
            ([False], boolean),
        ]
    ]
    seen.clear()

    def unmaterialized(ctx, x):
        ctx.set_materialize_grads(False)
        return forward(ctx, x)

    function(lib, unmaterialized, backward).apply(x)[0].sum().backward()
    assert seen == [[([1.0, 1.0], double), None, None, None]]


def test_marked_outputs_are_not_differentiable(lib):
    """Rule 6.12."""
    seen = []

    def forward(ctx, x):
        first, second = x * 1, x * 2
        ctx.mark_non_differentiable(second)
        return first, second, lib.cast(x, "int64")

    def backward(ctx, *grads):
        seen.append([g.tolist() for g in grads])
        return grads[0]

    outputs = function(lib, forward, backward).apply(lib.leaf(1.0, 2.0))
    assert [out.requires_grad for out in outputs] == [True, False, False]
    outputs[0].sum().backward()
    assert seen == [[[1.0, 1.0], [0.0, 0.0], [0, 0]]]


def test_gradients_of_same_argument_are_added(lib):
    """Rule 6.17."""
    x = lib.leaf(1.0)
    f = function(lib, lambda ctx, x, y: x * 2 + y * 3, lambda ctx, grad: (grad * 2, grad * 3))
    f.apply(x, x).backward()
    assert x.grad.item() == 5.0


def exp_function(lib):
    class Exp(lib.Function):
        @staticmethod
        def forward(ctx, x):
            y = lib.exp(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            (y,) = ctx.saved_tensors
            return y * grad

    return Exp.apply


def test_backward_of_function_is_differentiable(lib):
    """Rule 6.18."""
    x = lib.leaf(1.0)
    y = exp_function(lib)(x)
    for _ in range(3):
        (y,) = lib.grad(y, x, create_graph=True)
        assert y.item() == pytest.approx(np.e)


def test_once_differentiable_refuses_second_derivative(lib):
    """Rule 6.19."""

    class Square(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @lib.function.once_differentiable
        def backward(ctx, grad):
            assert not lib.is_grad_enabled()
            return 2 * ctx.saved_tensors[0] * grad

    x = lib.leaf(3.0)
    (g,) = lib.grad(Square.apply(x), x, create_graph=True)
    assert (g.item(), g.requires_grad) == (6.0, False)
    y = Square.apply(x)
    (g,) = lib.grad(y * y, x, create_graph=True)
    assert g.requires_grad
    with lib.raises("differentiate twice a function that was marked with @once_differentiable"):
        g.backward()


def test_once_differentiable_refuses_through_grad(pb):
    """Rule 6.19. PyTorch says that x was not used; it was, and the derivative would be missing."""

    class Square(pb.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @pb.function.once_differentiable
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    x = pb.leaf(3.0)
    y = Square.apply(x)
    (g,) = pb.grad(y * y, x, create_graph=True)
    with pb.raises("differentiate twice"):
        pb.grad(g, x)


def test_numpy_backward_gives_no_second_derivative(lib):
    """Rule 6.20."""

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return lib.asarray(2 * x.detach().numpy()) * grad

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    x = lib.leaf(3.0)
    f = function(lib, forward, backward)
    assert not lib.grad(f.apply(x), x, create_graph=True)[0].requires_grad
    y = f.apply(x)
    assert lib.grad(y * y, x, create_graph=True)[0].requires_grad


def test_missing_backward_or_forward_raises(lib):
    """Rule 6.21."""
    x = lib.leaf(3.0)
    nothing = type("Nothing", (lib.Function,), {"forward": staticmethod(lambda ctx, x: x * 1)})
    y = nothing.apply(x)
    with lib.raises("backward or vjp", NotImplementedError):
        y.backward()
    vjp = type(
        "Vjp",
        (lib.Function,),
        {
            "forward": staticmethod(lambda ctx, x: x * 1),
            "vjp": staticmethod(lambda ctx, grad: grad * 5),
        },
    )
    vjp.apply(x).backward()
    assert x.grad.item() == 5.0
    both = function(lib, lambda ctx, x: x * 1, lambda ctx, g: g, vjp=staticmethod(lambda c, g: g))
    with lib.raises("both 'backward' and 'vjp'"):
        both.apply(x).backward()
    with pytest.raises(NotImplementedError):
        type("Empty", (lib.Function,), {}).apply(x)
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        instance = nothing()
    with lib.raises("Legacy autograd function"):
        instance(x)


def test_function_without_requiring_inputs_records_nothing(lib):
    """Rule 6.22."""
    seen = []

    def forward(ctx, x, y):
        seen.append(ctx.needs_input_grad)
        return x * y

    f = function(lib, forward, lambda ctx, grad: (grad, grad))
    assert f.apply(lib.tensor(1.0), lib.tensor(2.0)).grad_fn is None
    assert seen == [(False, False)]
