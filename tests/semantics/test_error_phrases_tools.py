"""Messages of ``autograd.functional``, gradient checks, checkpoints and custom operators.

Each row of the table runs in Pullback and, where it is installed, in PyTorch; the phrase is found
in both messages, so that a user who searches for PyTorch's words finds help for ours.
"""

from __future__ import annotations

import importlib
from contextlib import contextmanager

import pytest

from tests.semantics.error_situations import Table, function_of

table = Table()
raises = table.raises
V_NONE = (
    "The vector v can only be None if the input to the user-provided function is a single Tensor "
    "with a single element."
)


def mul(x, y):
    return x * y


def same(x):
    return x


def doubled(_, x):
    return x * 2


def square(x):
    return (x * x).sum()


def pair(lib):
    return lib.tensor([1.0, 2.0])


# --- autograd.functional -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vjp", "jvp", "vhp", "hvp"])
@pytest.mark.parametrize("vector", ["number", "tuple"])
def test_errors_about_the_vector_name_it(lib, name, vector):
    given = 3 if vector == "number" else (pair(lib), 3)
    where = "the given v" if vector == "number" else "the value at index 1"
    with lib.raises(
        f"The v given to {name} must be either a Tensor or a tuple of Tensors but {where} has type",
        TypeError,
    ):
        getattr(lib.autograd.functional, name)(square, pair(lib), given)


@raises(V_NONE)
def hvp_without_a_vector(lib):
    lib.autograd.functional.hvp(square, pair(lib))


@raises("The vector v can only be None if the user-provided function returns a single Tensor")
def vjp_without_a_vector(lib):
    lib.autograd.functional.vjp(lambda x: x * x, pair(lib))


@raises("v has invalid size: should be")
def vector_of_another_shape(lib):
    lib.autograd.functional.jvp(lambda x: x * x, pair(lib), lib.tensor([1.0]))


@raises("v is a tuple of invalid length: should be 2 but got 1.")
def one_vector_for_two_inputs(lib):
    lib.autograd.functional.jvp(mul, (pair(lib), pair(lib)), (pair(lib),))


@raises("The inputs given to jvp must be either a Tensor or a tuple of Tensors", TypeError)
def number_as_input(lib):
    lib.autograd.functional.jvp(same, 3, pair(lib))


@raises("The outputs of the user-provided function given to vjp must be either a Tensor", TypeError)
def number_as_output(lib):
    lib.autograd.functional.vjp(lambda _: 3, pair(lib), pair(lib))


@raises("The Tensor returned by the function given to hessian should contain a single element")
def hessian_of_a_vector(lib):
    lib.autograd.functional.hessian(lambda x: x * x, pair(lib))


@raises("Output 0 of the user-provided function does not require gradients.")
def strict_jacobian_of_a_constant(lib):
    lib.autograd.functional.jacobian(lambda _: pair(lib), pair(lib), strict=True)


@raises("found that the jacobian of the user-provided function with respect to input 0 is")
def strict_hessian_of_a_linear_function(lib):
    lib.autograd.functional.hessian(lambda x: x.sum(), pair(lib), strict=True)


@raises("jacobian: `strict=True` and `vectorized=True` are not supported together")
def strict_vectorized_jacobian(lib):
    lib.autograd.functional.jacobian(same, pair(lib), strict=True, vectorize=True)


@raises(
    "Computing Jacobian using forward-AD or forward-over-reverse Hessian is", NotImplementedError
)
def jacobian_by_forward_mode_one_at_a_time(lib):
    lib.autograd.functional.jacobian(same, pair(lib), strategy="forward-mode")


# --- gradient checks and checkpoints -------------------------------------------------------------


def check(lib, function, *inputs, **options):
    found = importlib.import_module(f"{lib.module.__name__}.autograd.gradcheck")
    found.gradcheck(function, inputs or (lib.leaf(1.0, 2.0),), **options)


@raises("Jacobian mismatch for output 0 with respect to input 0")
def wrong_backward(lib):
    made = function_of(lib, forward=doubled, backward=lambda _, g: g * 3)
    check(lib, made.apply)


@raises("Jacobian computed with forward mode mismatch for output 0 with respect to input 0")
def wrong_jvp(lib):
    made = function_of(lib, forward=doubled, backward=doubled, jvp=lambda _, t: t * 3)
    check(lib, made.apply, check_forward_ad=True)


@raises("Backward is not reentrant, i.e., running backward with same input and grad_output")
def backward_that_differs_from_call_to_call(lib):
    calls = []

    def backward(_, grad):
        calls.append(1)
        return grad * 2 + 1e-6 * len(calls)

    check(lib, function_of(lib, forward=doubled, backward=backward).apply)


@raises("Numerical gradient for function expected to be zero")
def output_that_changes_but_requires_no_grad(lib):
    check(lib, lambda x: x.detach() * 2)


@raises("gradcheck expects at least one input tensor to require gradient", ValueError)
def check_of_constants(lib):
    check(lib, same, lib.tensor([1.0]))


@raises("The 0th input has a dimension with stride 0.")
def check_of_an_expanded_input(lib):
    check(lib, lambda x: x * 1, lib.tensor([1.0]).expand(3).requires_grad_())


@raises(
    "Expected `func` to return outputs with the same shape when inputs are perturbed",
    AssertionError,
)
def output_whose_shape_changes(lib):
    calls = []

    def function(x):
        calls.append(1)
        return x[: 1 + len(calls) % 2] * 1

    check(lib, function)


def checkpointed(lib, first, again, **options):
    """Runs a checkpoint of a function that does something else the second time."""
    calls = []

    def function(x):
        calls.append(1)
        return first(x) if len(calls) == 1 else again(x)

    checkpoint = importlib.import_module(f"{lib.module.__name__}.utils.checkpoint").checkpoint
    checkpoint(function, lib.leaf(1.0, 2.0), **{"use_reentrant": False, **options}).sum().backward()


@raises("A different number of tensors was saved during the original forward and recomputation")
def recomputation_that_saves_less(lib):
    m = lib.module
    checkpointed(lib, lambda x: m.sin(m.exp(x)), m.exp)


@raises("trying to save more tensors during recomputation than during the original forward pass")
def recomputation_that_saves_more(lib):
    m = lib.module
    checkpointed(lib, m.exp, lambda x: m.sin(m.exp(x)), early_stop=False)


@raises("Recomputed values for the following tensors have different metadata than during the")
def recomputation_of_another_shape(lib):
    m = lib.module
    checkpointed(lib, m.exp, lambda x: m.exp(m.stack([x, x])).sum(0))


@raises("is incompatible with .grad() or passing an `inputs` parameter to .backward()")
def reentrant_checkpoint_in_grad(lib):
    checkpoint = importlib.import_module(f"{lib.module.__name__}.utils.checkpoint").checkpoint
    x = lib.leaf(1.0)
    lib.grad(checkpoint(lib.module.exp, x, use_reentrant=True), x)


# --- custom operators ----------------------------------------------------------------------------


def operator(lib, name, function, hints):
    """A custom operator with these annotations."""
    function.__annotations__ = hints
    return lib.module.library.custom_op(f"phrases::{name}", mutates_args=())(function)


@raises("Parameter x must have a type annotation", ValueError)
def operator_without_annotations(lib):
    operator(lib, "bare", lambda x: x, {})


@raises("No return type annotation was provided", ValueError)
def operator_without_a_return_annotation(lib):
    operator(lib, "no_return", lambda x: x, {"x": lib.Tensor})


@raises("Parameter x has unsupported type <class 'object'>", ValueError)
def operator_of_an_object(lib):
    operator(lib, "of_object", lambda x: x, {"x": object, "return": lib.Tensor})


@raises("We do not support positional-only args, varargs, or varkwargs", ValueError)
def operator_of_any_number_of_arguments(lib):
    operator(lib, "starred", lambda *x: x, {"x": lib.Tensor, "return": lib.Tensor})


@raises("in mutates_args were not found in the custom op's signature", ValueError)
def operator_that_writes_to_an_unknown_argument(lib):
    def function(x):
        return x.clone()

    function.__annotations__ = {"x": lib.Tensor, "return": lib.Tensor}
    lib.module.library.custom_op("phrases::unknown", mutates_args=("y",))(function)


@contextmanager
def library(lib, schema):
    """A library with one operator, for the length of a block."""
    made = lib.module.library.Library("phrases_library", "FRAGMENT")
    try:
        made.define(schema)
        yield made
    finally:
        made._destroy()


@raises("Unsupported kind: ", ValueError)
def library_of_unknown_kind(lib):
    lib.module.library.Library("phrases", "FOO")


@raises("is a reserved namespace", ValueError)
def library_in_a_reserved_namespace(lib):
    lib.module.library.Library("prim", "DEF")


@raises("is required to be a callable but found type", TypeError)
def number_as_kernel(lib):
    with library(lib, "f(Tensor x) -> Tensor") as made:
        made.impl("f", 3, "CPU")


@raises("Invalid alias_analysis type foo")
def unknown_alias_analysis(lib):
    with library(lib, "f(Tensor x) -> Tensor") as made:
        made.define("g(Tensor x) -> Tensor", "foo")


@raises("operator phrases::nothing does not exist")
def rule_of_an_operator_that_is_not_there(lib):
    lib.module.library.register_fake("phrases::nothing", same)


@raises("Cannot register autograd formula for non-functional operator")
def formula_of_an_operator_that_writes(lib):
    with library(lib, "f(Tensor(a!) x) -> ()") as made:
        lib.module.library.register_autograd("phrases_library::f", same, lib=made)


# --- the test ------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", table, ids=lambda row: row.name)
def test_message_has_the_phrase_of_pytorch(lib, row):
    row.check(lib)
