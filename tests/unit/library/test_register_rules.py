"""Rules 15.32 to 15.41, and the forward rule: registered derivatives, fakes and functions."""

from __future__ import annotations

import pytest

import pullback as pb
from pullback.autograd import forward_ad
from pullback.library import Library, custom_op, register_autograd, register_fake, register_jvp

T = pb.Tensor


def make(ns, schema, fn, backward=None, setup=None, name="f"):
    op = custom_op(f"{ns}::{name}", fn, mutates_args=(), schema=schema)
    if backward is not None:
        op.register_autograd(backward, setup_context=setup)
    return op


def test_registering_again_reaches_recorded_graphs(ns, leaf):
    """Rule 15.32."""
    op = make(ns, "(Tensor x) -> Tensor", lambda x: x * 2, lambda ctx, g: g * 2)
    x = leaf(1)
    y = op(x)
    op.register_autograd(lambda ctx, g: g * 100)
    y.backward()
    assert x.grad.item() == 100.0


def test_register_autograd_refuses_non_functional_operators(ns, lib):
    """Rule 15.32."""
    for schema in ("f(Tensor(a!) x) -> ()", "g(Tensor(a) x) -> Tensor(a)"):
        lib.define(schema)
    for name in "fg":
        with pytest.raises(RuntimeError, match="for non-functional operator"):
            register_autograd(f"{ns}::{name}", lambda ctx, g: g, lib=lib)
    lib.define("h(Tensor x, *, Tensor y) -> Tensor")
    with pytest.raises(NotImplementedError, match="keyword-only tensor"):
        register_autograd(f"{ns}::h", lambda ctx, g: g, lib=lib)
    with pytest.raises(AttributeError, match="does not exist"):
        register_autograd(f"{ns}::nothing", lambda ctx, g: g)
    with pytest.raises(ValueError, match="expected op to be a name"):
        register_autograd(3, lambda ctx, g: g)
    op = make(ns, "(Tensor x) -> Tensor", lambda x: x * 2, name="ok")
    with pytest.raises(TypeError, match="required to be a callable"):
        op.register_autograd(3)
    assert not op(pb.tensor([1.0])).requires_grad


def test_without_a_formula_the_body_is_never_recorded(ns, leaf):
    """Rule 15.33."""
    op = make(ns, "(Tensor x) -> Tensor", lambda x: pb.sin(x))
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        op(leaf(1))

    def recording(x):
        with pb.enable_grad():
            return pb.sin(x)

    inner = make(ns, "(Tensor x) -> Tensor", recording, lambda ctx, g: g, name="g")
    y = inner(leaf(1))
    assert y.grad_fn.name() == "gBackward"
    assert y.grad_fn.next_functions[0][0] is not None
    with pb.no_grad():
        assert not inner(leaf(1)).requires_grad


def test_setup_is_called_where_something_is_recorded(ns, leaf):
    """Rule 15.34."""
    calls = []
    op = make(
        ns,
        "(Tensor[] xs, Tensor? y=None) -> Tensor",
        lambda xs, y: xs[0] * 2,
        lambda ctx, g: ([g * 2] + [None] * (ctx.n - 1), None),
        lambda ctx, inputs, output: (
            calls.append(pb.is_grad_enabled()),
            setattr(ctx, "n", len(inputs[0])),
        ),
    )
    plain = pb.tensor([1.0])
    op([plain])
    with pb.no_grad():
        op([leaf(1)])
    assert calls == []
    op([plain, leaf(1)])
    op([plain], leaf(1))
    assert calls == [False, False]


def test_setup_gets_its_arguments_by_keyword_with_defaults_filled(ns, leaf):
    """Rule 15.35."""
    seen = []

    def setup(ctx, *, output, inputs, keyword_only_inputs):
        seen.append((inputs[1:], keyword_only_inputs))

    op = make(
        ns,
        "(Tensor x, int n=2, *, float s=0.5) -> Tensor",
        lambda x, n, *, s: x * n * s,
        lambda ctx, g: (g, None),
        setup,
    )
    op(leaf(1))
    op(leaf(1), s=3, n=4)
    assert seen == [((2,), {"s": 0.5}), ((4,), {"s": 3.0})]


def test_ctx_has_the_interface_of_a_function(ns, leaf):
    """Rule 15.35."""

    def setup(ctx, inputs, output):
        ctx.needs = ctx.needs_input_grad
        ctx.save_for_backward(inputs[0], output[0])
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    def backward(ctx, a, b):
        assert ctx.needs == ctx.needs_input_grad == (True, False, [False, True], False)
        x, out = ctx.saved_tensors
        return (None if a is None else a * out / x), None, [None, None], None

    op = make(
        ns,
        "(Tensor x, Tensor y, Tensor[] zs, int n) -> (Tensor, Tensor)",
        lambda x, y, zs, n: (x * n, x * 1),
        backward,
        setup,
    )
    x = leaf(2)
    a, b = op(x, pb.tensor([1.0]), [pb.tensor([1.0]), leaf(1)], 3)
    assert a.requires_grad
    assert not b.requires_grad
    a.sum().backward()
    assert x.grad.item() == 3.0


def test_what_a_backward_returns(ns, leaf):
    """Rule 15.36."""
    box = [None]
    op = make(ns, "(Tensor x, int n) -> Tensor", lambda x, n: x * n, lambda ctx, g: box[0](g))
    x = leaf(1)

    def run(result):
        box[0] = result
        op(x, 2).sum().backward()

    run(lambda g: (g, None))
    run(lambda g: (g, None, None))
    for result in (lambda g: g, lambda g: [g, None], lambda g: (g, None, g)):
        with pytest.raises(RuntimeError, match=r"incorrect number of gradients .*\(x, n\)"):
            run(result)
    with pytest.raises(RuntimeError, match="gradient different than None at position 2"):
        run(lambda g: (g, g))
    with pytest.raises(RuntimeError, match=r"invalid gradient at index 0.*got float"):
        run(lambda g: (2.0, None))
    one = make(ns, "(Tensor x) -> Tensor", lambda x: x * 1, lambda ctx, g: g, name="one")
    one(x).sum().backward()
    assert x.grad.item() == 3.0


def test_lists_have_the_structure_of_the_inputs(ns, leaf):
    """Rule 15.37."""
    box = [None]
    op = make(
        ns,
        "(Tensor[] xs, int[] n) -> Tensor[]",
        lambda xs, n: [x * 2 for x in xs],
        lambda ctx, grads: box[0](grads),
    )
    x, y = leaf(1), leaf(2)

    def run(result):
        box[0] = result
        a, b = op([x, y], [1, 2])
        (a + 3 * b).sum().backward()

    run(lambda grads: ([2 * g for g in grads], None))
    assert (x.grad.item(), y.grad.item()) == (2.0, 6.0)
    run(lambda grads: ([None, grads[1]], None))
    for result in (lambda g: (g[:1], None), lambda g: (None, None), lambda g: (g[0], None)):
        with pytest.raises(RuntimeError, match="to be of the same structure as the inputs"):
            run(result)


def test_integer_outputs_do_not_require_grad(ns, leaf):
    """Rule 15.38."""
    seen = []

    def backward(ctx, a, b):
        seen.append((a.dtype.name, b.dtype.name, b.tolist()))
        return a

    op = make(ns, "(Tensor x) -> (Tensor, Tensor)", lambda x: (x * 1, x.astype("int32")), backward)
    a, b = op(leaf(1))
    assert not b.requires_grad
    a.sum().backward()
    assert seen == [("float64", "int32", [0])]


def test_fakes_of_library_operators_stack(ns, lib):
    """Rule 15.39."""
    lib.define("f(Tensor x) -> Tensor")
    register_fake(f"{ns}::f", lambda x: "old", lib=lib)
    entry = lib.operator("f").entry
    with Library(ns, "FRAGMENT") as inner:
        register_fake(f"{ns}::f", lambda x: "new", lib=inner)
        assert len(entry.kernels[pb.dispatch.DispatchKey.Meta]) == 2
    assert len(entry.kernels[pb.dispatch.DispatchKey.Meta]) == 1
    with pytest.raises(RuntimeError, match=r"already has a fake impl registered at .*:\d+"):
        register_fake(f"{ns}::f", lambda x: x, lib=lib, allow_override=False)
    with pytest.raises(AttributeError, match="does not exist"):
        register_fake(f"{ns}::g", lambda x: x)
    lib.define("c(Tensor x) -> Tensor")
    lib.impl("c", lambda x: x, "CompositeImplicitAutograd")
    with pytest.raises(RuntimeError, match="should not register a meta kernel"):
        register_fake(f"{ns}::c", lambda x: x, lib=lib)


def test_the_context_of_a_fake_kernel(ns):
    """Rule 15.39."""
    seen = []

    def fake(x):
        ctx = pb.library.get_ctx()
        with pytest.raises(ValueError, match="at least 0"):
            ctx.new_dynamic_size(min=-1)
        seen.append(ctx)
        ctx.new_dynamic_size()

    op = make(ns, "(Tensor x) -> Tensor", lambda x: x * 1)
    meta = pb.dispatch.DispatchKeySet("Meta")
    with pytest.raises(NotImplementedError, match="There was no fake impl registered"):
        op.op.redispatch(meta, pb.tensor([1.0]))
    op.register_fake(fake)
    with pytest.raises(RuntimeError, match="data-dependent"):
        op.op.redispatch(meta, pb.tensor([1.0]))
    assert seen
    assert pb.library.get_ctx() is None


def test_define_and_impl_as_functions(ns):
    """Rule 15.41."""
    for name in (3, "f", f"{ns}::a::b"):
        with pytest.raises(ValueError, match="named by namespace and name"):
            pb.library.define(name, "(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="expected schema to look like"):
        pb.library.define(f"{ns}::f", "f(Tensor x) -> Tensor")
    with Library(ns, "FRAGMENT") as lib:
        pb.library.define(f"{ns}::f", "(Tensor x) -> Tensor", lib=lib)
        for types in ("cpu", "default", "Autograd", ["XLA", "Meta"]):
            pb.library.impl(f"{ns}::f", types, lambda x: x, lib=lib)
        names = {"CPU", "XLA", "Meta", "Autograd", "CompositeExplicitAutograd"}
        assert {k.name for k in lib.operator("f").entry.kernels} == names


def tangent(op, x, t):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(op(forward_ad.make_dual(x, t)))[1]


def test_forward_mode_needs_a_rule(ns):
    op = make(ns, "(Tensor x) -> Tensor", lambda x: x * 1, lambda ctx, g: g)
    with pytest.raises(NotImplementedError, match=r"Trying to use forward AD with .*register_jvp"):
        tangent(op, pb.tensor([1.0]), pb.tensor([1.0]))


def test_forward_rule_shares_the_setup(cube):
    found = tangent(cube, pb.tensor([2.0]), pb.tensor([10.0]))
    assert found.tolist() == [120.0]


def test_forward_rule_composes_with_reverse(cube, leaf):
    x = leaf(2)
    t = pb.tensor([1.0])
    with forward_ad.dual_level():
        y = cube(forward_ad.make_dual(x, t))
        found = forward_ad.unpack_dual(y).tangent
        assert pb.autograd.grad(found.sum(), x)[0].tolist() == [12.0]
        assert pb.autograd.grad(y.sum(), x)[0].tolist() == [12.0]


def test_forward_rule_with_a_setup_of_its_own_and_lists(ns):
    op = make(
        ns,
        "(Tensor[] xs, int n) -> (Tensor[], Tensor)",
        lambda xs, n: ([x * n for x in xs], xs[0] * 1),
    )
    seen = []

    def jvp(ctx, tangents, n):
        seen.append((n, [t.tolist() for t in tangents]))
        return [t * ctx.n for t in tangents], None

    op.register_jvp(jvp, setup_context=lambda ctx, inputs, output: setattr(ctx, "n", inputs[1]))
    with forward_ad.dual_level():
        x = forward_ad.make_dual(pb.tensor([1.0]), pb.tensor([7.0]))
        (a, b), c = op([x, pb.tensor([2.0])], 3)
        tangents = [forward_ad.unpack_dual(t).tangent.tolist() for t in (a, b, c)]
    assert seen == [(None, [[7.0], [0.0]])]
    assert tangents == [[21.0], [0.0], [0.0]]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (lambda t: (t, t), "invalid number of forward gradients"),
        (lambda t: 2.0, "expected a Tensor or None"),
        (lambda t: pb.ones(3), r"shape \[3\] at position 0"),
    ],
)
def test_what_a_forward_rule_returns_is_checked(ns, result, words):
    op = make(ns, "(Tensor x) -> Tensor", lambda x: x * 1)
    op.register_jvp(lambda ctx, t: result(t))
    with pytest.raises(RuntimeError, match=words):
        tangent(op, pb.tensor([1.0]), pb.tensor([1.0]))


def test_forward_rules_of_library_operators(ns, lib):
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: pb.asarray(x.numpy() * 2), "CPU")
    register_jvp(f"{ns}::f", lambda ctx, t: t * 2, lib=lib)
    assert tangent(lib.operator("f"), pb.tensor([1.0]), pb.tensor([3.0])).tolist() == [6.0]
    lib.define("g(Tensor(a!) x) -> ()")
    with pytest.raises(RuntimeError, match="non-functional"):
        register_jvp(f"{ns}::g", lambda ctx, t: t, lib=lib)
