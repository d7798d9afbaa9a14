"""What a transformed function may not do, and what it may (rule 9.29)."""

from __future__ import annotations

import pytest

# PyTorch compiles some of its forward mode when it is first used, and warns about how it does that.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

CAPTURED = "mutate a captured Tensor"


def run(lib, inside, kind="grad"):
    """Runs something with an argument and a value inside a transform."""

    def f(x):
        y = x * 2
        inside(x, y)
        return y.sum()

    x = lib.tensor([1.0, 2.0])
    if kind == "grad":
        return lib.func.grad(f)(x).tolist()
    return lib.func.jvp(f, (x,), (lib.tensor([1.0, 1.0]),))[1].item()


def test_mutating_transformed_input_raises(lib, words):
    """Rule 9.29."""

    def f(x):
        x.mul_(2)
        return x.sum()

    x = lib.tensor([1.0, 2.0])
    with lib.raises(words.leaf):
        lib.func.grad(f)(x)
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("how", ["view", "detached", "no_grad", "jvp"])
def test_the_input_is_safe_from_all_sides(pb, words, how):
    def f(x):
        if how == "view":
            x[:1].mul_(2)
        elif how == "detached":
            x.detach().mul_(2)
        else:
            with pb.no_grad():
                x.mul_(2)
        return x.sum()

    x = pb.tensor([1.0, 2.0])
    with pb.raises(words.leaf):
        if how == "jvp":
            pb.func.jvp(f, (x,), (x,))
        else:
            pb.func.grad(f)(x)
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("kind", ["grad", "jvp"])
def test_mutating_captured_tensor_raises(lib, kind):
    """Rule 9.29."""
    buffer, total = lib.tensor([0.0, 0.0]), lib.tensor(0.0)
    for inside in (
        lambda x, _: buffer.copy_(x),
        lambda *_: total.add_(1),
        lambda x, _: buffer[:1].add_(x[:1]),
    ):
        with lib.raises(CAPTURED):
            run(lib, inside, kind)
    assert buffer.tolist() == [0.0, 0.0]
    assert not buffer.requires_grad


def test_a_tensor_of_an_outer_transform_is_captured_too(lib):
    def outer(x):
        y = x * 1
        return lib.func.grad(lambda z: y.mul_(z).sum())(x).sum()

    with lib.raises(CAPTURED):
        lib.func.grad(outer)(lib.tensor([1.0, 2.0]))


def _buffers(lib):
    module = lib.module
    yield lambda x: module.zeros(2)
    yield lambda x: module.zeros_like(x)
    yield lambda x: module.ones(2) * 0
    yield lambda x: lib.tensor([0.0, 0.0])
    yield lambda x: x.detach() * 0
    yield lambda x: x * 0
    yield lambda x: module.zeros(2, 2)[0] if lib.is_torch else module.zeros((2, 2))[0]
    yield lambda x: module.stack([module.zeros(()), module.zeros(())])


@pytest.mark.parametrize("kind", ["grad", "jvp"])
@pytest.mark.parametrize("number", range(8))
def test_what_is_made_inside_may_be_written_to(lib, kind, number):
    make = list(_buffers(lib))[number]

    def f(x):
        buffer = lib.cast(make(x), "float64")
        buffer[0] = x[1] * x[1]
        buffer += 1
        return (buffer * buffer).sum()

    x = lib.tensor([1.0, 2.0])
    if kind == "grad":
        assert lib.func.grad(f)(x).tolist() == [0.0, 40.0]
    else:
        assert lib.func.jvp(f, (x,), (lib.tensor([1.0, 1.0]),))[1].item() == 40.0


def test_gradients_of_an_inner_transform_may_be_written_to(pb):
    def f(x):
        slope = pb.func.grad(lambda y: (y**3).sum())(pb.tensor([1.0, 2.0]))
        slope.mul_(x)
        other = pb.func.jvp(lambda y: y * y, (pb.tensor(3.0),), (pb.tensor(1.0),))[1]
        other.mul_(x[0])
        constant = pb.func.jvp(lambda _: pb.tensor(2.0), (x,), (x,))[1]
        constant.add_(1)
        (slow,) = pb.grad((pb.leaf(1.0, 2.0) ** 2).sum(), [leaf := pb.leaf(1.0)], allow_unused=True)
        assert slow is None
        (fast,) = pb.grad(leaf * 2, leaf)
        fast.mul_(x[0])
        return slope.sum() + other + fast

    x = pb.tensor([1.0, 1.0])
    assert pb.func.grad(f)(x).tolist() == [3.0 + 6.0 + 2.0, 12.0]
    assert pb.func.jvp(f, (x,), (x,))[1].item() == 23.0


@pytest.mark.parametrize("kind", ["grad", "jvp"])
def test_grad_flags_and_backward_are_refused_inside_transforms(lib, kind):
    """Rule 9.29."""
    for inside, words in (
        (lambda x, y: y.detach().requires_grad_(), "requires_grad_()"),
        (lambda x, y: y.sum().backward(), "backward()"),
        (lambda x, y: lib.backward(y.sum()), "backward()"),
    ):
        with lib.raises(words):
            run(lib, inside, kind)


def test_retain_grad_and_saved_tensor_hooks_are_refused_inside_transforms(lib):
    """Rule 9.29."""

    def hooks(*_):
        with lib.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            pass

    with lib.raises("retain_grad()"):
        run(lib, lambda _, y: y.retain_grad())
    with pytest.raises(RuntimeError, match=r"saved.tensor.?_?hooks"):
        run(lib, hooks)


def test_autograd_grad_works_inside_transforms(lib):
    """Rule 9.29."""

    def slope(x, create_graph):
        return lib.grad((x**3).sum(), x, create_graph=create_graph)[0].sum()

    x = lib.tensor([1.0, 2.0])
    assert lib.func.grad(lambda x: slope(x, True))(x).tolist() == [6.0, 12.0]
    assert lib.func.grad(lambda x: slope(x, False))(x).tolist() == [0.0, 0.0]


def test_hooks_and_detach_work_inside_transforms(lib):
    """Rule 9.29."""
    assert run(lib, lambda _, y: y.register_hook(lambda g: g * 10)) == [20.0, 20.0]
    assert run(lib, lambda x, _: x.register_hook(lambda g: g * 10)) == [20.0, 20.0]
    f = lib.func.grad(lambda x: (x * x.detach()).sum())
    assert f(lib.tensor([1.0, 2.0])).tolist() == [1.0, 2.0]


def test_hooks_on_the_input_of_an_inner_transform(lib):
    def hooked(x):
        x.register_hook(lambda g: g * 10)
        return (x**3).sum()

    f = lib.func.grad(lambda x: lib.func.grad(hooked)(x).sum())
    assert f(lib.tensor([1.0])).tolist() == [60.0]


def test_a_leaf_made_inside_is_allowed(lib):
    assert run(lib, lambda *_: lib.tensor(1.0, requires_grad=True)) == [2.0, 2.0]


def test_the_input_looks_like_a_leaf(lib):
    seen = []
    run(lib, lambda x, y: seen.append((x.requires_grad, x.is_leaf, x.grad_fn, y.grad_fn.name())))
    assert seen == [(True, True, None, "MulBackward0")]


class Square:
    """A Function in both styles."""

    @staticmethod
    def old(lib):
        class OldSquare(lib.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, grad):
                return 2 * ctx.saved_tensors[0] * grad

        return OldSquare

    @staticmethod
    def new(lib):
        class NewSquare(lib.Function):
            @staticmethod
            def forward(x):
                return x * x

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)
                ctx.save_for_forward(*inputs)

            @staticmethod
            def backward(ctx, grad):
                return 2 * ctx.saved_tensors[0] * grad

            @staticmethod
            def jvp(ctx, tangent):
                return 2 * ctx.saved_tensors[0] * tangent

        return NewSquare


def test_old_style_function_is_refused_by_transforms(lib):
    """Rule 6.26."""
    x = lib.tensor([1.0, 2.0])
    square = Square.old(lib)
    for call in (
        lambda: lib.func.grad(lambda x: square.apply(x).sum())(x),
        lambda: lib.func.jvp(square.apply, (x,), (x,)),
    ):
        with lib.raises("must override the setup_context staticmethod"):
            call()


def test_functions_with_setup_context_nest(pb):
    lib = pb  # PyTorch gives 12 for the second derivative by forward over reverse
    square = Square.new(lib)
    x, v = lib.tensor(3.0), lib.tensor(1.0)

    def f(x):
        return square.apply(x) * x

    def slope(g):
        return lambda x: lib.func.jvp(g, (x,), (v,))[1]

    grad = lib.func.grad
    assert grad(f)(x).item() == 27.0
    for second in (grad(grad(f)), slope(grad(f)), grad(slope(f)), slope(slope(f))):
        assert second(x).item() == pytest.approx(18.0)
    assert slope(grad(slope(f)))(x).item() == pytest.approx(6.0)
    assert slope(slope(slope(f)))(x).item() == pytest.approx(6.0)


ARGUMENT_WRITES = {
    "mul_": (lambda x, y: y.mul_(x), [[2.0, 0.0], [0.0, 8.0]], [1.0, 4.0]),
    "add_": (lambda x, y: y.add_(1), [[2.0, 0.0], [0.0, 3.0]], [2.0, 3.0]),
    "item": (lambda x, y: y.__setitem__(0, x[1] * 3), [[6.0, 3.0], [0.0, 2.0]], [6.0, 2.0]),
    "view": (lambda x, y: y[:1].mul_(x[:1]), [[2.0, 0.0], [0.0, 2.0]], [1.0, 2.0]),
    "detached": (lambda x, y: y.detach().mul_(2), [[2.0, 0.0], [0.0, 4.0]], [2.0, 4.0]),
}


@pytest.mark.parametrize("name", ARGUMENT_WRITES)
def test_an_argument_that_is_not_differentiated_by_may_be_written_to(lib, name):
    write, jacobian, left = ARGUMENT_WRITES[name]

    def f(x, y):
        write(x, y)
        return x * y

    x, y = lib.tensor([1.0, 2.0]), lib.tensor([1.0, 2.0])
    assert lib.func.jacrev(f, argnums=0)(x, y).tolist() == jacobian
    assert y.tolist() == left
    assert not y.requires_grad
    y = lib.tensor([1.0, 2.0])
    found = lib.func.grad(lambda x, y: f(x, y).sum())(x, y)
    assert found.tolist() == [sum(column) for column in zip(*jacobian, strict=True)]
    assert y.tolist() == left
    assert not y.requires_grad


def test_an_argument_in_a_tree_may_be_written_to(lib):
    def f(x, state):
        state["y"].mul_(x)
        return (x * state["y"]).sum()

    state = {"y": lib.tensor([1.0, 2.0])}
    assert lib.func.grad(f)(lib.tensor([1.0, 2.0]), state).tolist() == [2.0, 8.0]
    assert state["y"].tolist() == [1.0, 4.0]


def test_what_is_written_to_an_argument_keeps_its_history_outside(lib):
    w, y = lib.leaf([1.0, 2.0]), lib.tensor([1.0, 2.0])

    def f(x, y):
        y.mul_(w * x)
        return (x * y).sum()

    lib.func.grad(f)(lib.tensor([3.0, 4.0]), y)
    assert y.requires_grad
    y.sum().backward()
    assert w.grad.tolist() == [3.0, 8.0]


def test_an_argument_that_an_outer_transform_has_captured_is_not_written_to(lib):
    y = lib.tensor([1.0, 2.0])

    def outer(x):
        return lib.func.grad(lambda a, b: (a * b.mul_(a)).sum())(x, y).sum()

    with lib.raises(CAPTURED):
        lib.func.grad(outer)(lib.tensor([1.0, 2.0]))
