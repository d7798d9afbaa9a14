"""Rules 15.9 to 15.17: gradients by name."""

from __future__ import annotations

import pytest

import pullback as pb
from pullback.library import custom_op, impl_backward, impl_save_for_backward

T = pb.Tensor


def product(ns, backward=None, save=None, schema="(Tensor x, Tensor y) -> Tensor", fn=None, **more):
    """x * y by name; what is given replaces a half."""
    fn = fn or (lambda x, y: x * y)
    op = custom_op(f"{ns}::f", fn, mutates_args=(), schema=schema)
    op.impl_save_for_backward()(save or (lambda inputs, output: (inputs.x, inputs.y)))
    op.impl_backward(**more)(
        backward or (lambda ctx, saved, grad: {"x": grad * saved[1], "y": grad * saved[0]})
    )
    return op


def test_other_gradients_are_refused(ns, lib):
    """Rule 15.9."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x, "Autograd")
    with pytest.raises(RuntimeError, match="already has an Autograd kernel registered"):
        impl_backward(f"{ns}::f", lib=lib)(lambda ctx, saved, grad: {})
    lib.define("g(Tensor x) -> Tensor")
    lib.impl("g", lambda x: x, "CompositeImplicitAutograd")
    with pytest.raises(RuntimeError, match="already has an implementation"):
        impl_save_for_backward(f"{ns}::g", lib=lib)(lambda inputs, output: None)


def test_the_two_styles_exclude_each_other(ns, cube):
    """Rule 15.9."""
    with pytest.raises(RuntimeError, match="already has an implementation"):
        cube.impl_backward()(lambda ctx, saved, grad: {})
    op = product(ns)
    with pytest.raises(RuntimeError, match="already has an implementation"):
        op.register_autograd(lambda ctx, grad: grad)


@pytest.mark.parametrize("half", ["backward", "save_for_backward"])
def test_one_half_names_the_other(ns, leaf, half):
    """Rule 15.10."""
    op = custom_op(f"{ns}::f", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    getattr(op, f"impl_{half}")()(lambda *_: None)
    other = "save_for_backward" if half == "backward" else "backward"
    words = (
        rf"We found a '{half}' registration .*\.py:\d+.* unable to find a '{other}' registration"
    )
    for x in (leaf(1), pb.tensor([1.0])):
        with pytest.raises(RuntimeError, match=words):
            op(x)
        with pb.no_grad(), pytest.raises(RuntimeError, match=words):
            op(x)
    with pytest.raises(RuntimeError, match=f"already has a {half} impl"):
        getattr(op, f"impl_{half}")()(lambda *_: None)


def test_without_a_formula_the_call_raises(ns, leaf):
    """Rule 15.11."""
    op = custom_op(
        f"{ns}::f", lambda xs: xs[0] * 2, mutates_args=(), schema="(Tensor[] xs) -> Tensor"
    )
    with pytest.raises(RuntimeError, match="Autograd has not been implemented for operator"):
        op([pb.tensor([1.0]), leaf(1)])
    assert op([pb.tensor([1.0])]).tolist() == [2.0]
    with pb.no_grad():
        assert not op([leaf(1)]).requires_grad


def test_save_function_is_called_on_every_call(ns, leaf):
    """Rule 15.12."""
    seen = []

    def save(inputs, output):
        seen.append((type(inputs).__name__, inputs._fields, inputs.x.requires_grad, output.grad_fn))
        seen.append(pb.is_grad_enabled())
        return ()

    op = product(ns, save=save, backward=lambda ctx, saved, grad: {"x": grad, "y": None})
    y = pb.tensor([2.0])
    op(y, y)
    with pb.no_grad():
        op(leaf(1), y)
    op(leaf(1), y)
    fields = ("f_args", ("x", "y"))
    assert [s for s in seen if s is not False] == [
        (*fields, False, None),
        (*fields, True, None),
        (*fields, True, None),
    ]


def test_what_is_saved_may_be_any_structure(ns, leaf):
    """Rule 15.13."""
    seen = []

    def save(inputs, output):
        return {"in": [inputs.x, (inputs.y, "text", None)], "out": output, "n": 3}

    def backward(ctx, saved, grad):
        seen.append(saved)
        assert type(ctx).__name__ == "_Context"
        assert not vars(ctx)
        return {"x": grad * saved["in"][1][0], "y": grad * saved["in"][0]}

    op = product(ns, save=save, backward=backward)
    x, y = leaf(3), leaf(5)
    op(x, y).sum().backward()
    assert (x.grad.item(), y.grad.item()) == (5.0, 3.0)
    (saved,) = seen
    assert saved["in"][1][1:] == ("text", None)
    assert saved["n"] == 3
    assert saved["out"].item() == 15.0
    z = op(x, y)
    with pb.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_saved_values_are_freed_and_pass_through_hooks(ns, leaf):
    """Rule 15.13."""
    x, y = leaf(3), leaf(5)
    op = product(ns)
    packed = []
    with pb.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        z = op(x, y)
    assert [t.item() for t in packed] == [3.0, 5.0]
    z.backward()
    with pytest.raises(RuntimeError, match="second time"):
        z.backward()


def test_one_gradient_for_each_return(ns, leaf):
    """Rule 15.14."""
    seen = []

    def backward(ctx, saved, *grads):
        seen.append(grads)
        return {"x": grads[0][0] + grads[1]}

    op = custom_op(
        f"{ns}::f",
        lambda x: ([x * 1, x * 2], x * 3, 7),
        mutates_args=(),
        schema="(Tensor x) -> (Tensor[], Tensor, int)",
    )
    op.impl_save_for_backward()(lambda inputs, output: None)
    op.impl_backward()(backward)
    x = leaf(1)
    pair, _, number = op(x)
    assert number == 7
    assert type(pair) is list
    pair[1].backward()
    ((list_, tensor, none),) = seen
    assert [g.item() for g in list_] == [0.0, 1.0]
    assert tensor.item() == 0.0
    assert none is None


@pytest.mark.parametrize("flags", [(True,), [1], [True, True], "True", [None]])
def test_output_differentiability_is_a_list_of_bools(ns, flags):
    """Rule 15.15."""
    op = custom_op(f"{ns}::f", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(
        RuntimeError, match="expected output_differentiability to be a list of bools"
    ):
        op.impl_backward(output_differentiability=flags)(lambda *_: {})


def test_outputs_that_are_not_differentiable(ns, leaf):
    """Rule 15.15."""

    def make(name, flags):
        op = custom_op(
            f"{ns}::{name}",
            lambda x: (x * 1, [x * 2, x * 3], 4),
            mutates_args=(),
            schema="(Tensor x) -> (Tensor, Tensor[], int)",
        )
        op.impl_save_for_backward()(lambda inputs, output: None)
        op.impl_backward(output_differentiability=flags)(lambda ctx, saved, a, b, c: {"x": a})
        return op

    first, rest, _ = make("f", [True, False, False])(leaf(1))
    assert first.requires_grad
    assert not any(t.requires_grad for t in rest)
    with pytest.raises(RuntimeError, match="cannot have be marked as differentiable"):
        make("g", [True, True, True])(leaf(1))
    op = custom_op(
        f"{ns}::i", lambda x: x.astype("int64"), mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    op.impl_save_for_backward()(lambda inputs, output: None)
    op.impl_backward()(lambda ctx, saved, g: {"x": None})
    assert not op(leaf(1)).requires_grad


BAD = [
    (lambda ctx, saved, g: [g], "expected the output of the backward function to be a dict"),
    (lambda ctx, saved, g: {"x": g}, "expected the returned grad_input dict to have keys"),
    (lambda ctx, saved, g: {"x": g, "xs": [g, g], "n": None}, "dict to have keys"),
    (lambda ctx, saved, g: {"x": g, "xs": [g, g], "o": None, "n": None}, "dict to have keys"),
    (lambda ctx, saved, g: {"x": g, "xs": None, "o": None}, "hold a list of gradients"),
    (lambda ctx, saved, g: {"x": g, "xs": g, "o": None}, "hold a list of gradients"),
    (lambda ctx, saved, g: {"x": g, "xs": [g], "o": None}, "hold a list of 2 gradients but got 1"),
    (
        lambda ctx, saved, g: {"x": g, "xs": [g, 2.0], "o": None},
        "list of None or Tensor gradients.* at index 1",
    ),
    (
        lambda ctx, saved, g: {"x": g, "xs": [g, g], "o": None},
        "expected None because the 1-th value was not a Tensor",
    ),
    (
        lambda ctx, saved, g: {"x": 2.0, "xs": [g, None], "o": None},
        "got object of type <class 'float'> as the gradient",
    ),
    (
        lambda ctx, saved, g: {"x": [g], "xs": [g, None], "o": None},
        "got object of type <class 'list'> as the gradient",
    ),
    (
        lambda ctx, saved, g: {"x": g, "xs": [g, None], "o": g},
        "expected None as the gradient because input 'o' was not a Tensor",
    ),
]


@pytest.mark.parametrize(("backward", "words"), BAD)
def test_what_a_backward_returns_is_checked(ns, leaf, backward, words):
    """Rule 15.16."""
    op = custom_op(
        f"{ns}::f",
        lambda x, xs, n, o: x * n,
        mutates_args=(),
        schema="(Tensor x, Tensor?[] xs, int n, Tensor? o=None) -> Tensor",
    )
    op.impl_save_for_backward()(lambda inputs, output: None)
    op.impl_backward()(backward)
    y = op(leaf(1), [leaf(1), None], 2)
    with pytest.raises(RuntimeError, match=words) as caught:
        y.sum().backward()
    assert str(caught.value).startswith(
        f"In the backward function defined for {ns}::f at {__file__}:"
    )


def test_engine_reports_gradient_of_wrong_shape(ns):
    """Rule 15.16."""
    op = product(ns, backward=lambda ctx, saved, g: {"x": pb.ones(5), "y": None})
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"invalid gradient at index 0 - got \[5\] but expected"):
        op(x, x.detach()).sum().backward()


def test_named_gradients_of_higher_order(ns, leaf):
    """Rule 15.16."""
    op, x = product(ns), leaf(3)
    (first,) = pb.autograd.grad(op(x, x), x, create_graph=True)
    assert pb.autograd.grad(first, x)[0].item() == 2.0


def test_defaults_and_keyword_only_arguments_work(ns, leaf):
    """Rule 15.17."""
    op = custom_op(
        f"{ns}::f",
        lambda x, n=2, *, m=5: x * n * m,
        mutates_args=(),
        schema="(Tensor x, int n=2, *, int m=5) -> Tensor",
    )
    op.impl_save_for_backward()(lambda inputs, output: inputs.n * inputs.m)
    op.impl_backward()(lambda ctx, saved, g: {"x": g * saved})
    x = leaf(1)
    op(x).sum().backward()
    op(x, m=1).sum().backward()
    assert x.grad.item() == 12.0


def test_functional_form_registers_backward(ns, lib, leaf):
    """Rule 15.17."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: pb.asarray(x.detach().numpy() * 2), "CPU")
    impl_save_for_backward(f"{ns}::f", func=lambda inputs, output: None, lib=lib)
    impl_backward(f"{ns}::f", func=lambda ctx, saved, g: {"x": g * 2}, lib=lib)
    x = leaf(1)
    lib.operator("f")(x).backward()
    assert x.grad.item() == 2.0


def test_a_gradient_of_the_wrong_shape_names_the_place(ns, leaf):
    """Rule 15.16."""
    op = pb.library.custom_op(
        f"{ns}::shape", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    op.impl_save_for_backward()(lambda inputs, output: None)
    op.impl_backward()(lambda ctx, saved, grad: {"x": pb.ones(5)})
    words = r"test_named_gradients.py:\d+\) returned an invalid gradient at index 0 - got \[5\] but"
    with pytest.raises(RuntimeError, match=words):
        op(leaf(1, 2)).sum().backward()
