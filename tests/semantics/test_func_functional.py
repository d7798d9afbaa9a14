"""autograd.functional: Jacobians, Hessians and products with them (rules 9.12 to 9.15)."""

from __future__ import annotations

import pytest

# PyTorch compiles some of its forward mode when it is first used, and warns about how it does that.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

FORWARD = {"vectorize": True, "strategy": "forward-mode"}
WAYS = [{}, {"vectorize": True}, FORWARD]


def inputs(lib):
    return lib.tensor([1.0, 2.0]), lib.tensor([3.0, 4.0])


def cubes(x):
    return (x**3).sum()


def listed(tree):
    return tuple(map(listed, tree)) if isinstance(tree, tuple | list) else tree.tolist()


@pytest.mark.parametrize("options", WAYS)
def test_jacobian_follows_structure_of_inputs_and_outputs(lib, options):
    """Rule 9.12."""
    functional, (x, y) = lib.autograd.functional, inputs(lib)
    assert functional.jacobian(lambda x: x**3, x, **options).tolist() == [[3.0, 0.0], [0.0, 12.0]]
    single = functional.jacobian(lambda x: x * 2, (x,), **options)
    assert listed(single) == ([[2.0, 0.0], [0.0, 2.0]],)
    both = functional.jacobian(lambda x, y: (x * y, x.sum()), (x, y), **options)
    expected = ([[3.0, 0.0], [0.0, 4.0]], [[1.0, 0.0], [0.0, 2.0]]), ([1.0, 1.0], [0.0, 0.0])
    assert listed(both) == expected
    matrix = functional.jacobian(lambda x: x.reshape(2, 1) * x, x, **options)
    assert tuple(matrix.shape) == (2, 2, 2)
    zeros = functional.jacobian(lambda _: y, x, **options)
    assert zeros.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_jacobian_refuses_lists_and_floats(lib):
    """Rule 9.12."""
    functional, (x, _) = lib.autograd.functional, inputs(lib)
    for given, f in (
        ([x], lambda x: x),
        (2.0, lambda x: x),
        ((2.0,), lambda x: x),
        (x, lambda x: [x]),
        (x, lambda _: 2.0),
    ):
        with pytest.raises(TypeError, match="must be either a Tensor or a tuple of Tensors"):
            functional.jacobian(f, given)


def test_strict_jacobian_refuses_independence(lib):
    """Rule 9.12."""
    functional, (x, y) = lib.autograd.functional, inputs(lib)
    with lib.raises("Output 1 ... does not require gradients"):
        functional.jacobian(lambda x: (x, y), x, strict=True)
    with lib.raises("Output 0 ... is independent of input 1"):
        functional.jacobian(lambda x, _: x * 2, (x, y), strict=True)
    with lib.raises("independent of input 0 ... create_graph=True"):
        functional.jacobian(lambda x: x * 2, x, strict=True, create_graph=True)
    assert functional.jacobian(lambda x: x * 2, x, strict=True)[0, 0].item() == 2.0
    with lib.raises("not supported together"):
        functional.jacobian(lambda x: x, x, strict=True, vectorize=True)


def test_jacobian_strategies_and_their_limits(lib):
    """Rule 9.12."""
    functional, (x, _) = lib.autograd.functional, inputs(lib)
    with pytest.raises(NotImplementedError):
        functional.jacobian(lambda x: x, x, strategy="forward-mode")
    with pytest.raises(NotImplementedError):
        functional.jacobian(lambda x: x, x, create_graph=True, **FORWARD)
    with pytest.raises(AssertionError, match="forward-mode"):
        functional.jacobian(lambda x: x, x, strategy="sideways")


def test_functional_leaves_flags_and_modes_alone(lib):
    """Rule 9.13."""
    functional, x = lib.autograd.functional, lib.leaf(1.0, 2.0)
    with lib.no_grad():
        plain = functional.jacobian(lambda x: x**3, x)
        graph = functional.jacobian(lambda x: x**3, x, create_graph=True)
    assert (plain.requires_grad, graph.requires_grad) == (False, True)
    assert x.grad is None
    (by_x,) = lib.grad(graph.sum(), x)
    assert by_x.tolist() == [6.0, 12.0]
    other = lib.tensor([1.0, 2.0])
    functional.jacobian(lambda x: x**3, other)
    assert not other.requires_grad


def test_jacobian_of_complex_output_raises(lib):
    """Rule 8.16."""
    with lib.raises("real scalar outputs"):
        lib.autograd.functional.jacobian(lambda x: x * 1j, inputs(lib)[0])


HESSIAN_WAYS = [{}, {"vectorize": True}]
HESSIAN_WAYS += [{"vectorize": True, "outer_jacobian_strategy": "forward-mode"}]


@pytest.mark.parametrize("options", HESSIAN_WAYS)
def test_hessian_needs_one_element_output(lib, options):
    """Rule 9.14."""
    functional, (x, y) = lib.autograd.functional, inputs(lib)
    assert functional.hessian(cubes, x, **options).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert functional.hessian(lambda x: cubes(x).reshape(1), x, **options)[0, 0].item() == 6.0
    found = functional.hessian(lambda x, y: (x * y * y).sum(), (x, y), **options)
    mixed, second = [[6.0, 0.0], [0.0, 8.0]], [[2.0, 0.0], [0.0, 4.0]]
    assert listed(found) == (([[0.0, 0.0], [0.0, 0.0]], mixed), (mixed, second))


def test_hessian_of_linear_function_is_zero_and_wrong_outputs_raise(lib):
    """Rule 9.14."""
    functional, (x, _) = lib.autograd.functional, inputs(lib)
    assert functional.hessian(lambda x: x.sum(), x).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    with lib.raises("independent of the input"):
        functional.hessian(lambda x: x.sum(), x, strict=True)
    with lib.raises("single element"):
        functional.hessian(lambda x: x, x)
    with lib.raises("single Tensor"):
        functional.hessian(lambda x: (cubes(x), cubes(x)), x)
    with pytest.raises(NotImplementedError):
        functional.hessian(cubes, x, outer_jacobian_strategy="forward-mode")


def test_hessian_has_no_history_without_create_graph(pb):
    """Rule 13.10."""
    functional, x = pb.autograd.functional, pb.leaf(1.0, 2.0)
    for options in HESSIAN_WAYS:
        assert not functional.hessian(cubes, x, **options).requires_grad
    graph = functional.hessian(cubes, x, create_graph=True)
    assert pb.grad(graph.sum(), x)[0].tolist() == [6.0, 6.0]


def test_vjp_jvp_vhp_and_hvp_products(lib):
    """Rule 9.15."""
    functional, (x, y) = lib.autograd.functional, inputs(lib)
    v = lib.tensor([1.0, 10.0])
    for product in (functional.vjp, functional.jvp):
        assert listed(product(lambda x: x**3, x, v)) == ([1.0, 8.0], [3.0, 120.0])
    for product in (functional.vhp, functional.hvp):
        assert listed(product(cubes, x, v)) == (9.0, [6.0, 120.0])
    assert listed(functional.vjp(lambda x, y: (x * y, x + y), (x, y), (v, v)))[1] == (
        [4.0, 50.0],
        [2.0, 30.0],
    )
    assert listed(functional.jvp(lambda x, y: (x * y, x + y), (x, y), (v, v)))[1] == (
        [4.0, 60.0],
        [2.0, 20.0],
    )
    for product in (functional.vhp, functional.hvp):
        found = product(lambda x, y: (x * y * y).sum(), (x, y), (v, v))
        assert listed(found) == (41.0, ([6.0, 80.0], [8.0, 120.0]))


def test_the_vector_may_be_left_out(lib):
    """Rule 9.15."""
    functional, (x, _) = lib.autograd.functional, inputs(lib)
    assert functional.vjp(cubes, x)[1].tolist() == [3.0, 12.0]
    assert functional.jvp(lambda x: x**3, lib.tensor([2.0]))[1].tolist() == [12.0]
    assert functional.hvp(cubes, lib.tensor([2.0]))[1].tolist() == [12.0]
    for call in (
        lambda: functional.vjp(lambda x: x, x),
        lambda: functional.jvp(lambda x: x, x),
        lambda: functional.hvp(cubes, x),
        lambda: functional.vhp(cubes, x),
    ):
        with lib.raises("can only be None if"):
            call()


def test_wrong_vectors_are_refused(lib):
    """Rule 9.15."""
    functional, (x, _) = lib.autograd.functional, inputs(lib)
    for name in ("vjp", "jvp", "hvp", "vhp"):
        f = cubes if name.startswith(("h", "vh")) else lambda x: x
        with lib.raises("v has invalid size"):
            getattr(functional, name)(f, x, lib.tensor([1.0]))
        with pytest.raises(RuntimeError):
            getattr(functional, name)(f, x, (x, x))


def test_unused_inputs_give_zeros_or_raise_if_strict(lib):
    """Rule 9.15."""
    functional, (x, y) = lib.autograd.functional, inputs(lib)
    v = (x, x)
    assert listed(functional.vjp(lambda x, _: x, (x, y), x))[1] == ([1.0, 2.0], [0.0, 0.0])
    assert listed(functional.jvp(lambda _: y, x, x))[1] == [0.0, 0.0]
    for product in (functional.vhp, functional.hvp):
        assert listed(product(lambda x, _: cubes(x), (x, y), v))[1] == ([6.0, 24.0], [0.0, 0.0])
        assert listed(product(lambda x: x.sum(), x, x))[1] == [0.0, 0.0]
        with pytest.raises(RuntimeError, match="independent"):
            product(lambda x: x.sum(), x, x, strict=True)
    with lib.raises("independent of input 1"):
        functional.vjp(lambda x, _: x * 2, (x, y), x, strict=True)
    with lib.raises("does not require gradients"):
        functional.jvp(lambda _: y, x, x, strict=True)


def test_products_can_be_differentiated(lib):
    functional, x = lib.autograd.functional, lib.leaf(1.0, 2.0)
    v = lib.tensor([1.0, 10.0])
    for product, expected in (
        (lambda: functional.vjp(lambda x: x**3, x, v, create_graph=True), [6.0, 120.0]),
        (lambda: functional.jvp(lambda x: x**3, x, v, create_graph=True), [6.0, 120.0]),
        (lambda: functional.hvp(cubes, x, v, create_graph=True), [6.0, 60.0]),
        (lambda: functional.vhp(cubes, x, v, create_graph=True), [6.0, 60.0]),
    ):
        (by_x,) = lib.grad(product()[1].sum(), x)
        assert by_x.tolist() == expected


def test_inside_a_transform_it_is_refused(lib):
    with pytest.raises(RuntimeError, match=r"inside.*transform"):
        lib.func.grad(lambda x: lib.autograd.functional.jacobian(lambda x: x, x).sum())(
            lib.tensor([1.0])
        )


def test_old_functions_are_welcome(pb):
    class Square(pb.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    found = pb.autograd.functional.hessian(lambda x: Square.apply(x).sum(), pb.tensor([1.0, 2.0]))
    assert found.tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_second_derivatives_of_several_inputs(lib):
    functional = lib.autograd.functional
    x, y = lib.tensor([1.0, 2.0]), lib.tensor([[3.0, 4.0, 5.0]], requires_grad=True)
    v, w = lib.tensor([1.0, -1.0]), lib.tensor([[1.0, 0.0, 2.0]])

    def curved(x, y):
        return (x * x * y.sum()).sum() + (y**3).sum()

    for product in (functional.hvp, functional.vhp):
        value, found = product(curved, (x, y), (v, w))
        assert value.item() == 276.0
        assert listed(found) == ([30.0, -12.0], [[16.0, -2.0, 58.0]])
        assert not any(tensor.requires_grad for tensor in (value, *found))
    for vectorize in (False, True):
        found = functional.hessian(curved, (x, y), vectorize=vectorize)
        (of_x, mixed), (transposed, of_y) = found
        assert of_x.tolist() == [[24.0, 0.0], [0.0, 24.0]]
        assert mixed.tolist() == [[[2.0, 2.0, 2.0]], [[4.0, 4.0, 4.0]]]
        assert transposed.tolist() == [[[2.0, 4.0], [2.0, 4.0], [2.0, 4.0]]]
        diagonal = [[[18.0, 0.0, 0.0]], [[0.0, 24.0, 0.0]], [[0.0, 0.0, 30.0]]]
        assert of_y.tolist() == [diagonal]
