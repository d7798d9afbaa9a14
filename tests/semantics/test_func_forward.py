"""jvp, linearize and the Jacobians (rules 8.16 and 9.19 to 9.21)."""

from __future__ import annotations

import pytest

import pullback as pb

# PyTorch compiles some of its forward mode when it is first used, and warns about how it does that.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning"),
]


def pair(lib):
    return lib.tensor([1.0, 2.0]), lib.tensor([1.0, 10.0])


def listed(tree):
    if isinstance(tree, dict):
        return {key: listed(value) for key, value in tree.items()}
    return tuple(map(listed, tree)) if isinstance(tree, tuple) else tree.tolist()


def test_func_jvp_returns_output_and_tangent(lib):
    """Rule 9.19."""
    x, v = pair(lib)
    output, tangent = lib.func.jvp(lambda x: x**3, (x,), (v,))
    assert (output.tolist(), tangent.tolist()) == ([1.0, 8.0], [3.0, 120.0])


def test_jvp_takes_trees_and_aux(lib):
    """Rule 9.19."""
    x, v = pair(lib)

    def f(tree, y):
        return {"p": tree["a"] * y, "s": y.sum()}, tree["a"] + 1

    output, tangent, aux = lib.func.jvp(f, ({"a": x}, x), ({"a": v}, v), has_aux=True)
    assert listed(output) == {"p": [1.0, 4.0], "s": 3.0}
    assert listed(tangent) == {"p": [2.0, 40.0], "s": 11.0}
    assert aux.tolist() == [2.0, 3.0]


def test_jvp_checks_structure_of_tangents(lib):
    """Rule 9.19."""
    x, v = pair(lib)
    for primals, tangents, words in (
        ([x], [v], "primals to be a tuple"),
        (x, v, "primals to be a tuple"),
        ((), (), "at least one Tensor"),
        ((x,), (v, v), "same python structure"),
        ((x,), (None,), "tangents"),
        ((1.0,), (1.0,), "primals to only contain Tensors"),
        ((x,), (v[:1],), "different size"),
    ):
        with lib.raises(words):
            lib.func.jvp(lambda x: x, primals, tangents)
    whole = lib.tensor([1], dtype="int64")
    with pytest.raises(ValueError, match="primal to be floating point or complex"):
        lib.func.jvp(lambda x: x, (whole,), (whole,))
    with lib.raises("only tensors"):
        lib.func.jvp(lambda _: 3.0, (x,), (v,))


def test_jvp_of_independent_output_is_zero(lib):
    """Rule 9.19."""
    x, v = pair(lib)
    _, tangent = lib.func.jvp(lambda _: lib.tensor([5.0]), (x,), (v,))
    assert tangent.tolist() == [0.0]
    with lib.raises("independent of the inputs"):
        lib.func.jvp(lambda _: lib.tensor([5.0]), (x,), (v,), strict=True)
    assert lib.func.jvp(lambda x: x.argmax(), (x,), (v,))[1].item() == 0


def test_jvp_nests(lib):
    """Rule 9.19."""
    one = lib.tensor(1.0)

    def slope(f):
        return lambda x: lib.func.jvp(f, (x,), (one,))[1]

    x = lib.tensor(2.0)
    f = slope
    assert slope(lambda x: x**4)(x).item() == 32.0
    assert slope(f(lambda x: x**4))(x).item() == 48.0
    assert slope(f(f(lambda x: x**4)))(x).item() == 48.0


def test_jvp_leaves_arguments_and_tangents_alone(pb):
    x, v = pair(pb)
    pb.func.jvp(lambda x: (x * 1).mul_(x).sum(), (x,), (v,))
    assert (x.tolist(), v.tolist()) == ([1.0, 2.0], [1.0, 10.0])


def test_jvp_of_something_that_requires_grad(lib):
    x, v = lib.leaf(1.0, 2.0), lib.leaf(1.0, 10.0)
    output, tangent = lib.func.jvp(lambda x: x**3, (x,), (v,))
    (output.sum() + tangent.sum()).backward()
    assert x.grad.tolist() == [3.0 + 6.0, 12.0 + 120.0]
    assert v.grad.tolist() == [3.0, 12.0]


def test_jvp_inside_a_dual_level(pb):
    fwd = pb.autograd.forward_ad
    with fwd.dual_level():
        dual = fwd.make_dual(pb.tensor(2.0), pb.tensor(1.0))
        output, tangent = pb.func.jvp(lambda x: x * dual, (dual,), (pb.tensor(3.0),))
        assert (output.item(), tangent.item()) == (4.0, 6.0)
        assert fwd.unpack_dual(output).tangent.item() == 4.0
        assert fwd.unpack_dual(tangent).tangent.item() == 3.0


def test_a_dual_level_inside_jvp(pb):
    fwd = pb.autograd.forward_ad

    def f(x):
        with fwd.dual_level():
            return fwd.unpack_dual(fwd.make_dual(x, x * x) ** 3).tangent

    # 3 x^2 · x^2, whose derivative is 12 x^3
    _, tangent = pb.func.jvp(f, (pb.tensor(2.0),), (pb.tensor(1.0),))
    assert tangent.item() == 96.0


def test_jacrev_and_jacfwd_agree(lib):
    """Rule 9.20."""
    x = lib.tensor([1.0, 2.0])
    for jac in (lib.func.jacrev, lib.func.jacfwd):
        assert jac(lambda x: x * x.sum())(x).tolist() == [[4.0, 1.0], [2.0, 5.0]]
        assert jac(lambda x: x.sum())(x).tolist() == [1.0, 1.0]
        assert jac(lambda x: x)(lib.tensor(1.0)).item() == 1.0
        assert jac(lambda _: lib.tensor([1.0, 2.0]))(x).tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert tuple(jac(lambda x: x.reshape(2, 1) * lib.tensor([[1.0, 2.0, 3.0]]))(x).shape) == (
            2,
            3,
            2,
        )


def test_jacobians_of_trees_and_argnums(lib):
    """Rule 9.20."""
    x, y = lib.tensor([1.0, 2.0]), lib.tensor(3.0)

    def f(x, tree):
        return x * tree["y"], {"s": x.sum()}

    for jac in (lib.func.jacrev, lib.func.jacfwd):
        found = jac(f, argnums=(0, 1))(x, {"y": y})
        assert listed(found) == (
            ([[3.0, 0.0], [0.0, 3.0]], {"y": [1.0, 2.0]}),
            {"s": ([1.0, 1.0], {"y": 0.0})},
        )
        single = jac(lambda x, _: x, argnums=(0,))(x, y)
        assert isinstance(single, tuple)
        by_tree = jac(f, argnums=1)(x, {"y": y})
        assert listed(by_tree) == ({"y": [1.0, 2.0]}, {"s": {"y": 0.0}})


def test_jacobians_take_aux_and_keywords(pb):
    """Rule 9.20."""
    lib = pb  # PyTorch's jacfwd does not hand keywords on to the function
    x = lib.tensor([1.0, 2.0])

    def f(x, *, factor):
        return x * factor, x + 1

    for jac in (lib.func.jacrev, lib.func.jacfwd):
        found, aux = jac(f, has_aux=True)(x, factor=3.0)
        assert (found.tolist(), aux.tolist()) == ([[3.0, 0.0], [0.0, 3.0]], [2.0, 3.0])


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 100])
def test_jacrev_in_chunks_agrees(lib, chunk_size):
    """Rule 9.20."""
    x = lib.tensor([1.0, 2.0, 3.0])
    found = lib.func.jacrev(lambda x: x**2, chunk_size=chunk_size)(x)
    assert found.tolist() == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]


def test_jacobians_refuse_wrong_options(lib):
    """Rule 9.20."""
    for size in (0, -1):
        with pytest.raises(ValueError, match="chunk_size"):
            lib.func.jacrev(lambda x: x, chunk_size=size)(lib.tensor([1.0]))
    with lib.raises("randomness"):
        lib.func.jacfwd(lambda x: x, randomness="some")(lib.tensor([1.0]))


def test_jacobians_of_empty_inputs_and_outputs(lib):
    """Rule 9.20."""
    x = lib.tensor([1.0, 2.0])
    assert tuple(lib.func.jacrev(lambda x: x[:0])(x).shape) == (0, 2)
    assert tuple(lib.func.jacfwd(lambda x: x.sum() + x[:0].sum())(x[:0]).shape) == (0,)


def test_hessian_of_scalar_and_vector_functions(lib):
    """Rule 9.20."""
    x = lib.tensor([1.0, 2.0])
    assert lib.func.hessian(lambda x: (x**3).sum())(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert tuple(lib.func.hessian(lambda x: x**3)(x).shape) == (2, 2, 2)
    found = lib.func.hessian(lambda x, y: (x * y).sum() ** 2, argnums=(0, 1))(x, x)
    assert found[0][1].tolist() == [[12.0, 4.0], [4.0, 18.0]]
    by_tree = lib.func.hessian(lambda d: (d["a"] ** 3).sum())({"a": x})
    assert by_tree["a"]["a"].tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_complex_jacobians_are_refused(lib):
    """Rule 8.16."""
    z = lib.tensor([1 + 1j], dtype="complex128")
    for jac in (lib.func.jacrev, lib.func.jacfwd):
        with lib.raises("Expected all inputs to be real"):
            jac(lambda z: z * z)(z)
        with lib.raises("Expected all outputs to be real"):
            jac(lambda x: x * 1j)(lib.tensor([1.0]))


def test_jacobians_can_be_differentiated(lib):
    x = lib.leaf(1.0, 2.0)
    for jac in (lib.func.jacrev, lib.func.jacfwd):
        (by_x,) = lib.grad(jac(lambda x: x**3)(x).sum(), x)
        assert by_x.tolist() == [6.0, 12.0]


def test_linearize_fixes_primals(lib):
    """Rule 9.21."""
    x, v = pair(lib)
    output, jvp_fn = lib.func.linearize(lambda x: (x**3, {"s": x.sum()}), x)
    assert listed(output) == ([1.0, 8.0], {"s": 3.0})
    for _ in range(2):
        assert listed(jvp_fn(v)) == ([3.0, 120.0], {"s": 11.0})
    for wrong in ((v[:1],), ((v,),), (v, v), (lib.cast(v, "float32"),)):
        with pytest.raises(RuntimeError):
            jvp_fn(*wrong)


def test_linearize_runs_the_function_once(pb):
    calls = []

    def f(x):
        calls.append(1)
        return pb.module.sin(x) * x

    x, v = pair(pb)
    output, jvp_fn = pb.func.linearize(f, x)
    for _ in range(3):
        expected = pb.func.jvp(lambda x: pb.module.sin(x) * x, (x,), (v,))
        assert jvp_fn(v).tolist() == pytest.approx(expected[1].tolist(), rel=1e-15)
    assert output.tolist() == expected[0].tolist()
    assert len(calls) == 1


def test_linearize_inside_other_transforms(pb):
    v = pb.tensor(1.0)

    def slope(x):
        return pb.func.linearize(lambda x: x**4, x)[1](v)

    x = pb.tensor(2.0)
    assert slope(x).item() == 32.0
    assert pb.func.grad(slope)(x).item() == 48.0
    assert pb.func.jvp(slope, (x,), (v,))[1].item() == 48.0
    _, jvp_fn = pb.func.linearize(lambda x: x**4, x)
    assert pb.func.grad(jvp_fn)(v).item() == 32.0
    assert pb.func.jvp(jvp_fn, (v,), (pb.tensor(2.0),))[1].item() == 64.0


def test_linearize_of_complex_and_of_constants(pb):
    z, dz = (pb.tensor(v, dtype="complex128") for v in (1 + 2j, 1j))
    assert pb.func.linearize(lambda z: z * z, z)[1](dz).item() == -4 + 2j
    output, jvp_fn = pb.func.linearize(lambda x: (x.argmax(), pb.tensor(5.0)), pb.tensor([1.0]))
    assert listed(output) == (0, 5.0)
    assert listed(jvp_fn(pb.tensor([1.0]))) == (0, 0.0)
    output, jvp_fn = pb.func.linearize(lambda: pb.tensor(5.0))
    assert jvp_fn().item() == 0.0


def test_real_tangent_of_a_complex_tensor_is_a_complex_direction():
    """Parts of a tangent that had stayed real gave wrong values of gradients along it."""
    x = pb.tensor(0.444 - 0.487j)

    def slope(x):
        return pb.func.grad(lambda z: pb.real((z * x) * pb.conj(z * x)))(x)

    ours = pb.func.jvp(slope, (x,), (pb.tensor(0.7),))
    theirs = pb.func.jvp(slope, (x,), (pb.tensor(0.7 + 0j),))
    for a, b in zip(ours, theirs, strict=True):
        assert a.item() == b.item()
    with pb.autograd.forward_ad.dual_level():
        dual = pb.autograd.forward_ad.make_dual(x, pb.tensor(0.7))
        assert pb.autograd.forward_ad.unpack_dual(slope(dual)).tangent.item() == ours[1].item()
