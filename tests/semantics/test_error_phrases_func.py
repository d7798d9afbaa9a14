"""Messages of transforms and of forward mode.

Each row of the table runs in Pullback and, where it is installed, in PyTorch; the phrase is found
in both messages, so that a user who searches for PyTorch's words finds help for ours.
"""

from __future__ import annotations

import pytest

from tests.semantics.error_situations import Table, function_of

table = Table()
raises = table.raises
NOT_IN_DIMS = "expected `in_dims` to be int or a (potentially nested) tuple matching the structure"
IN_DIMS = "in_dims is not compatible with the structure of `inputs`"
OUT_DIMS = "out_dims is not compatible with the structure of `outputs`"
ITEM = "vmap: It looks like you're calling .item() on a Tensor"
EMPTY = "Expected f to be a function that has non-empty output (got output ="
ONLY_TENSORS = "expected f(*primals) to return only tensors, got unsupported type"
NOT_A_PAIR = "output of function f should be a tuple: (output, aux) if has_aux is True"
LIKE_PRIMALS = "Expected primals and tangents to have the same python structure"
ANOTHER_SIZE = (
    "Trying to set a forward gradient that has a different size than that of the original Tensor"
)
SETUP = "(vmap, grad, jvp, jacrev, ...), it must override the setup_context staticmethod"
TWO_RETURNS = "Expected the vmap staticmethod to have two returns,"
OTHER_DIMS = "vmap staticmethod returned an incompatible (output, out_dims) tuple"


def mul(x, y):
    return x * y


def same(x):
    return x


def square(x):
    return (x * x).sum()


def matrix(lib):
    return lib.tensor([[1.0, 2.0], [3.0, 4.0]])


def pair(lib):
    return lib.tensor([1.0, 2.0])


# --- vmap ----------------------------------------------------------------------------------------


@raises("got no inputs", ValueError)
def vmap_without_arguments(lib):
    lib.func.vmap(lambda: lib.tensor(1.0))()


@raises("Expected at least one Tensor to vmap over", ValueError)
def vmap_over_nothing(lib):
    lib.func.vmap(same, in_dims=(None,))(matrix(lib))


@raises("must only return Tensors, got type <class 'float'>", ValueError)
def vmap_of_a_function_that_returns_a_number(lib):
    lib.func.vmap(lambda _: 3.0)(matrix(lib))


@raises(
    "Expected all tensors to have the same size in the mapped dimension, got sizes [2, 3]",
    ValueError,
)
def vmap_over_axes_of_different_lengths(lib):
    lib.func.vmap(mul)(matrix(lib), lib.tensor([1.0, 2.0, 3.0]))


@raises(NOT_IN_DIMS, ValueError)
def vmap_with_a_text_for_in_dims(lib):
    lib.func.vmap(mul, in_dims="lol")(matrix(lib), matrix(lib))


@raises(NOT_IN_DIMS, ValueError)
def vmap_with_a_list_for_in_dims(lib):
    lib.func.vmap(mul, [0, 0])(matrix(lib), matrix(lib))


@raises(NOT_IN_DIMS, ValueError)
def vmap_with_a_dict_for_in_dims(lib):
    lib.func.vmap(mul, {0: 0})(matrix(lib), matrix(lib))


@raises(IN_DIMS, ValueError)
def vmap_with_too_few_in_dims(lib):
    lib.func.vmap(mul, (0,))(matrix(lib), matrix(lib))


@raises(IN_DIMS, ValueError)
def vmap_with_in_dims_of_another_structure(lib):
    lib.func.vmap(lambda z: z[0] + z[1], in_dims=((0, 0),))([matrix(lib), matrix(lib)])


@raises(
    "Got in_dim=0.5 for an input but in_dim must be either an integer dimension or None", ValueError
)
def vmap_over_half_an_axis(lib):
    lib.func.vmap(mul, (0, 0.5))(matrix(lib), matrix(lib))


@raises("Got in_dim=0 for an input but the input is of type", ValueError)
def vmap_over_a_number(lib):
    lib.func.vmap(mul, (0, 0))(matrix(lib), 2)


@raises("Got in_dim=2 for some input, but that input is a Tensor of dimensionality 2", ValueError)
def vmap_over_an_axis_out_of_range(lib):
    lib.func.vmap(same, (2,))(matrix(lib))


@raises("Got in_dim=0 for some input, but that input is a Tensor of dimensionality 0", ValueError)
def vmap_over_a_tensor_without_axes(lib):
    lib.func.vmap(same)(lib.tensor(1.0))


@raises("`out_dims` must be an int, None or a python collection of ints", ValueError)
def vmap_with_a_text_for_out_dims(lib):
    lib.func.vmap(same, out_dims="lol")(matrix(lib))


@raises("can not return a BatchedTensor when out_dim is None", ValueError)
def vmap_of_results_that_vary_without_an_axis(lib):
    lib.func.vmap(same, out_dims=None)(matrix(lib))


@raises(OUT_DIMS, ValueError)
def vmap_with_two_out_dims_for_one_result(lib):
    lib.func.vmap(same, out_dims=(0, 0))(matrix(lib))


@raises(OUT_DIMS, ValueError)
def vmap_with_three_out_dims_for_two_results(lib):
    lib.func.vmap(lambda x: (x, x), out_dims=(0, 0, 0))(matrix(lib))


@raises("Dimension out of range (expected to be in range of [-2, 1], but got 3)", IndexError)
def vmap_with_out_dims_out_of_range(lib):
    lib.func.vmap(same, out_dims=3)(matrix(lib))


@raises("Dimension out of range (expected to be in range of [-2, 1], but got -4)", IndexError)
def vmap_with_negative_out_dims_out_of_range(lib):
    lib.func.vmap(same, out_dims=-4)(matrix(lib))


@raises(ITEM)
def item_in_vmap(lib):
    lib.func.vmap(lambda x: x.sum().item())(matrix(lib))


@raises(ITEM)
def float_in_vmap(lib):
    lib.func.vmap(lambda x: x * float(x.sum()))(matrix(lib))


@raises("attempting to use a Tensor in some data-dependent control flow")
def branch_in_vmap(lib):
    lib.func.vmap(lambda x: x if x.sum() > 0 else -x)(matrix(lib))


@raises("vmap: We do not support batching operators that can")
def mask_in_vmap(lib):
    lib.func.vmap(lambda x: x[x > 0])(matrix(lib))


@raises("vmap: We do not support batching operators that can output dynamic shape")
def nonzero_in_vmap(lib):
    lib.func.vmap(lambda x: (x > 0).nonzero())(matrix(lib))


@raises("Only allowed values for randomness are 'error', 'different', or 'same'. Got foo")
def vmap_of_unknown_randomness(lib):
    lib.func.vmap(same, randomness="foo")(matrix(lib))


@raises("vmap: called random operation while in randomness error mode")
def random_numbers_in_vmap(lib):
    lib.func.vmap(lambda x: lib.F.dropout(x, 0.5))(matrix(lib))


@raises("should be None or greater than 0. (got 0)", ValueError)
def vmap_in_chunks_of_nothing(lib):
    lib.func.vmap(same, chunk_size=0)(matrix(lib))


# --- grad, vjp, jvp and Jacobians ----------------------------------------------------------------


@raises("You are attempting to call Tensor.requires_grad_()")
def requires_grad_in_a_transform(lib):
    lib.func.grad(lambda x: x.clone().requires_grad_().sum())(pair(lib))


@raises("You are attempting to call Tensor.retain_grad() inside of a function being transformed by")
def retain_grad_in_a_transform(lib):
    lib.func.grad(lambda x: ((x * 2).retain_grad(), square(x))[1])(pair(lib))


@raises("You are attempting to call Tensor.requires_grad_()")
def functional_jacobian_in_a_transform(lib):
    jacobian = lib.autograd.functional.jacobian
    lib.func.grad(lambda x: jacobian(lambda y: y * y, x).sum())(pair(lib))


@raises("t support saved tensor hooks")
def saved_tensor_hooks_in_a_transform(lib):
    def function(x):
        with lib.graph.saved_tensors_hooks(same, same):
            return square(x)

    lib.func.grad(function)(pair(lib))


@raises("Expected f(*args) to return a scalar Tensor, got")
def grad_of_a_function_with_a_vector_result(lib):
    lib.func.grad(same)(pair(lib))


@raises("Expected f(*args) to return a Tensor, got")
def grad_of_a_function_with_two_results(lib):
    lib.func.grad(lambda x: (x.sum(), x))(pair(lib))


@raises(NOT_A_PAIR)
def grad_with_aux_of_a_list(lib):
    lib.func.grad(lambda x: [x.sum(), x], has_aux=True)(pair(lib))


@raises(NOT_A_PAIR)
def vjp_with_aux_of_a_tensor(lib):
    lib.func.vjp(same, pair(lib), has_aux=True)


@raises("Got argnum=1, but only 1 positional inputs")
def grad_by_an_argument_that_is_not_there(lib):
    lib.func.grad(square, argnums=1)(pair(lib))


@raises("argnums must be int or Tuple[int, ...], got:")
def grad_by_half_an_argument(lib):
    lib.func.grad(square, argnums=0.5)(pair(lib))


@raises("argnums must be non-empty")
def grad_by_no_argument(lib):
    lib.func.grad(square, argnums=())(pair(lib))


@raises("argnums elements must be unique, got (0, 0)")
def grad_by_an_argument_twice(lib):
    lib.func.grad(mul, argnums=(0, 0))(pair(lib), pair(lib))


@raises("only Tensors of floating point dtype can require gradients")
def grad_by_integers(lib):
    lib.func.grad(square)(lib.tensor([1, 2], dtype="int64"))


@raises("would mutate a captured Tensor")
def grad_of_a_function_that_writes_outside(lib):
    outside = pair(lib)
    lib.func.grad(lambda x: outside.add_(x).sum())(pair(lib))


@raises("a leaf Variable that requires grad is being used in an in-place operation")
def grad_of_a_function_that_writes_to_its_argument(lib):
    lib.func.grad(lambda x: x.add_(1).sum())(pair(lib))


@raises(EMPTY)
def vjp_of_none(lib):
    lib.func.vjp(lambda _: None, pair(lib))


@raises(EMPTY)
def jacfwd_of_an_empty_tuple(lib):
    lib.func.jacfwd(lambda _: ())(pair(lib))


@raises(ONLY_TENSORS)
def jacrev_of_a_number(lib):
    lib.func.jacrev(lambda _: 3)(pair(lib))


@raises(ONLY_TENSORS)
def jvp_of_a_number(lib):
    lib.func.jvp(lambda _: 3, (pair(lib),), (pair(lib),))


@raises("Expected pytree structure of cotangents to be the same as pytree structure of outputs")
def cotangents_of_another_structure(lib):
    lib.func.vjp(lambda x: (x, x), pair(lib))[1](pair(lib))


@raises("Mismatch in shape: grad_output[0] has a shape of")
def cotangent_of_another_shape(lib):
    lib.func.vjp(same, pair(lib))[1](lib.tensor([1.0]))


@raises("All outputs of f must be floating-point or complex Tensors, got Tensor with dtype")
def vjp_of_integers(lib):
    lib.func.vjp(lambda _: lib.tensor([1], dtype="int64"), pair(lib))


@raises("jacrev: Expected all inputs to be real but received complex tensor at flattened input idx")
def jacrev_by_a_complex_number(lib):
    lib.func.jacrev(same)(lib.tensor([1j], dtype="complex128"))


@raises("Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
def jvp_of_a_bare_tensor(lib):
    lib.func.jvp(same, pair(lib), (pair(lib),))


@raises(LIKE_PRIMALS)
def jvp_with_a_bare_tangent(lib):
    lib.func.jvp(same, (pair(lib),), pair(lib))


@raises(LIKE_PRIMALS)
def jvp_with_two_tangents_for_one_primal(lib):
    lib.func.jvp(same, (pair(lib),), (pair(lib), pair(lib)))


@raises(ANOTHER_SIZE)
def jvp_with_a_tangent_of_another_shape(lib):
    lib.func.jvp(same, (pair(lib),), (lib.tensor([1.0]),))


@raises("Expected primals to contain at least one Tensor.")
def jvp_by_nothing(lib):
    lib.func.jvp(lambda: pair(lib), (), ())


@raises("The output of f is independent of the inputs. This is not allowed with strict=True.")
def strict_jvp_of_a_constant(lib):
    lib.func.jvp(lambda _: pair(lib), (pair(lib),), (pair(lib),), strict=True)


@raises("Expected primal to be floating point or complex", ValueError)
def jvp_by_integers(lib):
    numbers = lib.tensor([1, 2], dtype="int64")
    lib.func.jvp(same, (numbers,), (numbers,))


@raises("in flattened pytree doesn't match the shape")
def linearized_function_of_a_tangent_of_another_shape(lib):
    lib.func.linearize(lambda x: x * 2, pair(lib))[1](lib.tensor([1.0]))


# --- custom functions in transforms, and forward mode --------------------------------------------


def with_setup(lib, **members):
    """A function in the style that transforms need."""
    kinds = {"forward": lambda x: x * 1, "setup_context": lambda *_: None}
    return function_of(lib, **{**kinds, "backward": lambda _, g: g, **members})


@raises(SETUP)
def grad_of_a_function_without_setup_context(lib):
    made = function_of(lib, forward=lambda _, x: x * 1, backward=lambda _, g: g)
    lib.func.grad(lambda x: made.apply(x).sum())(pair(lib))


@raises("You tried to vmap over MyFn, but it does not have vmap support.")
def vmap_of_a_function_without_a_rule(lib):
    lib.func.vmap(with_setup(lib).apply)(matrix(lib))


@raises("but it has both generate_vmap_rule=True and an overridden vmap staticmethod")
def vmap_of_a_function_with_two_rules(lib):
    made = with_setup(lib, generate_vmap_rule=True, vmap=lambda _, __, x: (x, 0))
    lib.func.vmap(made.apply)(matrix(lib))


@raises(TWO_RETURNS)
def vmap_rule_that_returns_no_out_dims(lib):
    lib.func.vmap(with_setup(lib, vmap=lambda _, __, x: x).apply)(matrix(lib))


@raises(OTHER_DIMS)
def vmap_rule_that_returns_other_out_dims(lib):
    rule = with_setup(lib, vmap=lambda _, __, x: ((x, x), (0, 0, 0)))
    lib.func.vmap(rule.apply)(matrix(lib))


def pushed(lib, forward, jvp):
    """A dual tensor through a function with these methods."""
    forward_ad = lib.autograd.forward_ad
    made = function_of(lib, forward=forward, jvp=jvp)
    with forward_ad.dual_level():
        made.apply(forward_ad.make_dual(lib.tensor([1.0]), lib.tensor([1.0])))


def doubled(_, x):
    return x * 2


@raises(
    "You must implement the jvp function for custom autograd.Function to use it",
    NotImplementedError,
)
def function_without_jvp(lib):
    forward_ad = lib.autograd.forward_ad
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(lib.tensor([1.0]), lib.tensor([1.0]))
        function_of(lib, forward=doubled, backward=doubled).apply(dual)


@raises("Function's jvp returned an invalid number of forward gradients (expected 1 but got 2)")
def jvp_method_that_returns_too_many(lib):
    pushed(lib, doubled, lambda _, t: (t, t))


@raises("expected Variable or None (got int) for grad output 0")
def jvp_method_that_returns_a_number(lib):
    pushed(lib, doubled, lambda _, __: 3)


@raises(ANOTHER_SIZE)
def jvp_method_that_returns_another_shape(lib):
    pushed(lib, doubled, lambda _, __: pair(lib))


@raises("An inplace custom Function is not modifying the forward mode gradients inplace.")
def jvp_method_that_does_not_write(lib):
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.add_(1)

    pushed(lib, forward, lambda _, t: t.clone())


@raises("forward is returning a view (or an input as-is) but the jvp is not returning a view.")
def jvp_method_that_returns_no_view(lib):
    pushed(lib, lambda _, x: x.view(-1), lambda _, t: t.clone())


@raises("is returning a view but the jvp is not returning a view of the given grad input")
def jvp_method_that_returns_a_view_of_something_else(lib):
    other = lib.tensor([1.0])
    pushed(lib, lambda _, x: x.view(-1), lambda _, __: other.view(-1))


@raises("the corresponding forward output is not a differentiable Tensor.")
def jvp_method_that_returns_a_tangent_of_a_constant(lib):
    def forward(ctx, x):
        y, z = x * 1, x * 2
        ctx.mark_non_differentiable(z)
        return y, z

    pushed(lib, forward, lambda _, t: (t * 1, t * 1))


@raises("Trying to create a dual Tensor for forward AD but no level exists, make sure to")
def dual_tensor_outside_of_a_level(lib):
    lib.autograd.forward_ad.make_dual(lib.tensor(1.0), lib.tensor(1.0))


def dual(lib, primal, tangent):
    with lib.autograd.forward_ad.dual_level():
        return lib.autograd.forward_ad.make_dual(primal, tangent)


@raises(ANOTHER_SIZE)
def tangent_of_another_shape(lib):
    dual(lib, lib.tensor([1.0]), pair(lib))


@raises("has a forward gradient at the same level")
def tangent_with_a_tangent(lib):
    make_dual = lib.autograd.forward_ad.make_dual
    with lib.autograd.forward_ad.dual_level():
        make_dual(pair(lib), make_dual(pair(lib), pair(lib)))


@raises("Expected tangent to be floating point or complex, but got:", ValueError)
def tangent_of_integers(lib):
    dual(lib, lib.tensor([1.0]), lib.tensor([1], dtype="int64"))


@raises("Nested forward mode AD is not supported at the moment")
def level_in_a_level(lib):
    with lib.autograd.forward_ad.dual_level(), lib.autograd.forward_ad.dual_level():
        pass


# --- the test ------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", table, ids=lambda row: row.name)
def test_message_has_the_phrase_of_pytorch(lib, row):
    row.check(lib)
