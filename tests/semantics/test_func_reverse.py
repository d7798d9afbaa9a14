"""Reverse-mode transforms: grad, grad_and_value, vjp (rules 9.16 to 9.18)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

# PyTorch compiles some of its forward mode when it is first used, and warns about how it does that.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")


def x_of(lib):
    return lib.tensor([1.0, 2.0])


def cubes(x):
    return (x**3).sum()


def test_func_grad_returns_gradient(lib):
    """Rule 9.16."""
    assert lib.func.grad(cubes)(x_of(lib)).tolist() == [3.0, 12.0]


def test_func_grad_refuses_output_with_axes(lib):
    """Rule 9.16."""
    with lib.raises("scalar Tensor"):
        lib.func.grad(lambda x: x[:1])(x_of(lib))
    with lib.raises("to return"):
        lib.func.grad(lambda _: 2.0)(x_of(lib))
    with lib.raises("to return a Tensor"):
        lib.func.grad(lambda x: (x.sum(),))(x_of(lib))
    with lib.raises("real scalar outputs"):
        lib.func.grad(lambda x: (x * 1j).sum())(x_of(lib))


def test_func_grad_argnums(lib):
    """Rule 9.16."""
    x, y = x_of(lib), lib.tensor([3.0, 4.0])

    def dot(a, b):
        return (a * b).sum()

    assert lib.func.grad(dot, argnums=1)(x, y).tolist() == [1.0, 2.0]
    assert lib.func.grad(dot, argnums=-1)(x, y).tolist() == [1.0, 2.0]
    both = lib.func.grad(dot, argnums=(1, 0))(x, y)
    assert [g.tolist() for g in both] == [[1.0, 2.0], [3.0, 4.0]]
    single = lib.func.grad(dot, argnums=(0,))(x, y)
    assert isinstance(single, tuple)
    assert single[0].tolist() == [3.0, 4.0]
    for argnums, words in (
        (2, "argnum=2, but only 2 positional inputs"),
        (-3, "argnum=-3, but only 2 positional inputs"),
        ((0, 0), "unique"),
        ((1, -1), "unique"),
        ((), "non-empty"),
        ("a", "argnums must be int or Tuple"),
    ):
        with lib.raises(words):
            lib.func.grad(dot, argnums=argnums)(x, y)


class Pair(NamedTuple):
    left: Any
    right: Any


def test_func_grad_of_trees(lib):
    """Rule 9.16."""
    x, y = x_of(lib), lib.tensor([3.0, 4.0])
    tree = {"a": [x], "b": Pair(y, (x,))}

    def f(tree):
        return (tree["a"][0] * tree["b"].left).sum() + cubes(tree["b"].right[0])

    found = lib.func.grad(f)(tree)
    assert isinstance(found["b"], Pair)
    assert found["a"][0].tolist() == [3.0, 4.0]
    assert found["b"].left.tolist() == [1.0, 2.0]
    assert found["b"].right[0].tolist() == [3.0, 12.0]


@dataclass
class Layer:
    weight: Any
    bias: Any = None


def test_dataclasses_and_none_are_trees(pb):
    layer = Layer(x_of(pb))
    found = pb.func.grad(lambda layer: cubes(layer.weight))(layer)
    assert isinstance(found, Layer)
    assert found.weight.tolist() == [3.0, 12.0]
    assert found.bias is None


def test_func_grad_returns_aux(lib):
    """Rule 9.16."""
    grad, aux = lib.func.grad(lambda x: (cubes(x), {"y": x * 2}), has_aux=True)(x_of(lib))
    assert grad.tolist() == [3.0, 12.0]
    assert aux["y"].tolist() == [2.0, 4.0]
    assert not aux["y"].requires_grad
    for wrong in (cubes, lambda x: (cubes(x), 1, 2), lambda x: [cubes(x), 1]):
        with lib.raises("(output, aux)"):
            lib.func.grad(wrong, has_aux=True)(x_of(lib))


def test_aux_may_be_anything(pb):
    captured = pb.tensor(1.0, requires_grad=True)
    _, aux = pb.func.grad(lambda x: (cubes(x), (x, 3, "text", captured)), has_aux=True)(x_of(pb))
    assert aux[0].tolist() == [1.0, 2.0]
    assert not aux[0].requires_grad
    assert aux[1:3] == (3, "text")
    assert aux[3] is captured


def test_independent_output_gives_zeros(lib):
    """Rule 9.16."""
    assert lib.func.grad(lambda _: lib.tensor(3.0))(x_of(lib)).tolist() == [0.0, 0.0]
    grads = lib.func.grad(lambda x, _: cubes(x), argnums=(0, 1))(x_of(lib), lib.tensor(5.0))
    assert grads[1].item() == 0.0


def test_integers_and_floats_are_refused(lib):
    """Rule 9.16."""
    with pytest.raises((RuntimeError, ValueError), match="floating point"):
        lib.func.grad(lambda x: x.sum())(lib.tensor([1, 2], dtype="int64"))
    with pytest.raises(ValueError, match="must be Tensor"):
        lib.func.grad(lambda x: x * x)(2.0)


def test_errors_name_the_argument(pb):
    with pb.raises("grad: argument 1['n'][0] has dtype int64"):
        pb.func.grad(lambda _, tree: tree["n"][0], argnums=1)(
            x_of(pb), {"n": [pb.tensor(1, "int64")]}
        )
    with pb.raises("grad: argument 0.left must be Tensor, got float"):
        pb.func.grad(lambda pair: pair.right)(Pair(1.0, x_of(pb)))


def test_grad_and_value_returns_both(lib):
    """Rule 9.16."""
    grad, value = lib.func.grad_and_value(cubes)(x_of(lib))
    assert (grad.tolist(), value.item()) == ([3.0, 12.0], 9.0)
    assert not value.requires_grad
    grad, (value, aux) = lib.func.grad_and_value(lambda x: (cubes(x), x + 1), has_aux=True)(
        x_of(lib)
    )
    assert (grad.tolist(), value.item(), aux.tolist()) == ([3.0, 12.0], 9.0, [2.0, 3.0])


def test_func_grad_ignores_outer_no_grad(lib):
    """Rule 9.17."""
    with lib.no_grad():
        assert lib.func.grad(cubes)(x_of(lib)).tolist() == [3.0, 12.0]

    def f(x):
        with lib.no_grad():
            square = x * x
        return (x - square).sum()

    assert lib.func.grad(f)(x_of(lib)).tolist() == [1.0, 1.0]


def test_results_can_be_differentiated_outside(lib):
    """Rule 9.17."""
    x = lib.leaf(1.0, 2.0)
    first = lib.func.grad(cubes)(x)
    assert first.requires_grad
    first.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]
    with lib.no_grad():
        assert not lib.func.grad(cubes)(x).requires_grad


def test_captured_tensors_can_be_differentiated_by(lib):
    """Rule 9.17."""
    w = lib.leaf(3.0, 4.0)
    grad, value = lib.func.grad_and_value(lambda x: (x * x * w).sum())(x_of(lib))
    assert grad.requires_grad
    assert value.requires_grad
    (grad.sum() + value).backward()
    assert w.grad.tolist() == [3.0, 8.0]


def test_nested_func_grad_gives_higher_derivatives(lib):
    """Rule 9.17."""
    f = lib.func.grad(lib.func.grad(lambda x: x**3))
    assert f(lib.tensor(2.0)).item() == 12.0


def test_plain_results_have_no_history(pb):
    grad, value = pb.func.grad_and_value(cubes)(x_of(pb))
    for tensor in (grad, value):
        assert tensor.is_leaf
        assert not tensor.requires_grad
        assert tensor.grad_fn is None


def test_gradients_own_their_memory(pb):
    big = pb.module.zeros(100_000)
    left, right = pb.func.grad(lambda a, b: (a + b).sum(), argnums=(0, 1))(big, big)
    left.mul_(2)
    assert (left[0].item(), right[0].item()) == (2.0, 1.0)
    _, vjp_fn = pb.func.vjp(lambda x: x, big)
    seed = pb.module.ones(100_000)
    (back,) = vjp_fn(seed)
    back.mul_(3)
    assert seed[0].item() == 1.0


def test_arguments_are_left_alone(pb):
    x = pb.leaf(1.0, 2.0)
    pb.func.grad(cubes)(x)
    assert x.grad is None
    assert x.is_leaf
    plain = x_of(pb)
    pb.func.grad(cubes)(plain)
    assert not plain.requires_grad


def test_func_grad_works_in_inference_mode(lib):
    """Rule 2.37."""
    with lib.inference_mode():
        x, w = x_of(lib), lib.tensor([3.0, 4.0])
        assert lib.func.grad(cubes)(x).tolist() == [3.0, 12.0]
        assert lib.func.grad(lambda x: (x * x * w).sum())(x).tolist() == [6.0, 16.0]
        assert lib.func.jvp(cubes, (x,), (w,))[1].item() == 57.0


def test_vjp_function_is_reusable_and_returns_tuple(lib):
    """Rule 9.18."""
    x = x_of(lib)
    output, vjp_fn = lib.func.vjp(lambda x: x**3, x)
    assert output.tolist() == [1.0, 8.0]
    assert not output.requires_grad
    for _ in range(3):
        returned = vjp_fn(lib.tensor([1.0, 10.0]))
        assert isinstance(returned, tuple)
        assert returned[0].tolist() == [3.0, 120.0]
    for wrong in ((x,), lib.tensor(1.0), [x, x]):
        with pytest.raises(RuntimeError):
            vjp_fn(wrong)


def test_vjp_takes_trees_and_aux(lib):
    """Rule 9.18."""
    x, y = x_of(lib), lib.tensor([3.0, 4.0])

    def f(x, tree):
        return {"p": x * tree["y"], "s": x.sum()}, x + 1

    output, vjp_fn, aux = lib.func.vjp(f, x, {"y": y}, has_aux=True)
    assert (output["p"].tolist(), aux.tolist()) == ([3.0, 8.0], [2.0, 3.0])
    by_x, by_tree = vjp_fn({"p": lib.tensor([1.0, 1.0]), "s": lib.tensor(10.0)})
    assert by_x.tolist() == [13.0, 14.0]
    assert by_tree["y"].tolist() == [1.0, 2.0]


def test_outputs_are_differentiable_tensors(lib):
    """Rule 9.18."""
    with lib.raises("only tensors"):
        lib.func.vjp(lambda x: (x, 3), x_of(lib))
    with lib.raises("floating-point or complex Tensors"):
        lib.func.vjp(lambda x: (x, x.argmax()), x_of(lib))


def test_vjp_fn_is_linear_and_can_be_differentiated(lib):
    x, v = x_of(lib), lib.leaf(1.0, 10.0)
    _, vjp_fn = lib.func.vjp(lambda x: x**3, x)
    (pulled,) = vjp_fn(v)
    pulled.sum().backward()
    assert v.grad.tolist() == [3.0, 12.0]


def test_vjp_of_something_that_requires_grad(lib):
    x = lib.leaf(1.0, 2.0)
    output, vjp_fn = lib.func.vjp(lambda x: x**3, x)
    (pulled,) = vjp_fn(lib.tensor([1.0, 1.0]))
    (output.sum() + pulled.sum()).backward()
    assert x.grad.tolist() == [3.0 + 6.0, 12.0 + 12.0]


def test_identity_and_views_of_an_argument_come_back(lib):
    x = lib.leaf(1.0, 2.0)
    output, vjp_fn = lib.func.vjp(lambda x: (x, x[:1]), x)
    (output[0].sum() + output[1].sum()).backward()
    assert x.grad.tolist() == [2.0, 1.0]
    assert vjp_fn((lib.tensor([1.0, 1.0]), lib.tensor([5.0])))[0].tolist() == [6.0, 1.0]


def test_complex_gradients_keep_the_convention(lib):
    z = lib.tensor(1 + 2j, dtype="complex128")
    assert lib.func.grad(lambda z: (z.conj() * z).real)(z).item() == 2 + 4j
    _, vjp_fn = lib.func.vjp(lambda z: z * z, z)
    assert vjp_fn(lib.tensor(1j, dtype="complex128"))[0].item() == 4 + 2j


def test_a_saved_argument_that_is_written_to_is_noticed(pb):
    x = x_of(pb)
    _, vjp_fn = pb.func.vjp(cubes, x)
    x.add_(1)
    with pb.raises("modified by an inplace operation"):
        vjp_fn(pb.tensor(1.0))


def test_an_error_leaves_no_transform_behind(pb):
    for call in (
        lambda: pb.func.grad(lambda x: x.nothing)(x_of(pb)),
        lambda: pb.func.jvp(lambda x: x.nothing, (x_of(pb),), (x_of(pb),)),
    ):
        with pytest.raises(AttributeError):
            call()
    pb.tensor([1.0]).requires_grad_()


def test_a_pullback_made_under_no_grad_is_recorded_where_it_is_called(lib):
    w = lib.leaf([1.0, 2.0])
    with lib.no_grad():
        output, pullback_of = lib.func.vjp(lambda x: (x * x).sum(), w)
    assert not output.requires_grad
    (slope,) = pullback_of(lib.tensor(1.0))
    assert slope.requires_grad
    assert lib.grad(slope.sum(), w)[0].tolist() == [2.0, 2.0]
    with lib.no_grad():
        (slope,) = pullback_of(lib.tensor(1.0))
    assert not slope.requires_grad
    assert slope.tolist() == [2.0, 4.0]


def test_a_pullback_made_under_no_grad_has_its_whole_derivative(pb):
    def outer(x):
        with pb.no_grad():
            _, pullback_of = pb.func.vjp(lambda y: (pb.module.exp(y) * y * y).sum(), x)
        return pullback_of(pb.tensor(1.0))[0].sum()

    def plainly(x):
        return pb.func.vjp(lambda y: (pb.module.exp(y) * y * y).sum(), x)[1](pb.tensor(1.0))[
            0
        ].sum()

    x = pb.tensor([0.5, 2.0])
    expected = pb.func.grad(plainly)(x).tolist()
    assert pb.func.grad(outer)(x).tolist() == pytest.approx(expected)
    assert pb.func.jacfwd(outer)(x).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["grad", "jacrev", "vjp"])
def test_derivatives_under_no_grad_are_constants(lib, kind):
    w = lib.leaf([1.0, 2.0])
    with lib.no_grad():
        if kind == "vjp":
            (found,) = lib.func.vjp(lambda x: (x * x).sum(), w)[1](lib.tensor(1.0))
        else:
            found = getattr(lib.func, kind)(lambda x: (x * x).sum())(w)
    assert not found.requires_grad
    assert found.tolist() == [2.0, 4.0]
