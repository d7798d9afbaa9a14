"""Messages about graphs, gradients, hooks, in-place writes and custom functions.

Each row of the table runs in Pullback and, where it is installed, in PyTorch; the phrase is found
in both messages, so that a user who searches for PyTorch's words finds help for ours.
"""

from __future__ import annotations

import copy

import pytest

from tests.semantics.error_situations import Table, function_of

table = Table()
raises = table.raises
FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed)"
)


# --- starting a backward pass --------------------------------------------------------------------


@raises("element 0 of tensors does not require grad and does not have a grad_fn")
def backward_of_a_constant(lib):
    lib.tensor([1.0]).backward()


@raises("element 0 of tensors does not require grad and does not have a grad_fn")
def grad_of_a_constant(lib):
    lib.grad(lib.tensor(1.0), lib.leaf(1.0))


@raises("One of the differentiated Tensors does not require grad")
def grad_by_a_constant(lib):
    lib.grad(lib.leaf(1.0) * 2, lib.tensor(1.0))


@raises(
    "appears to not have been used in the graph. Set allow_unused=True if this is the desired "
    "behavior"
)
def unused_input(lib):
    lib.grad(lib.leaf(1.0) * 2, lib.leaf(1.0))


@raises("grad can be implicitly created only for scalar outputs")
def backward_of_a_vector(lib):
    (lib.leaf(1.0, 2.0) * 2).backward()


@raises("grad can be implicitly created only for real scalar outputs but got")
def backward_of_a_complex_number(lib):
    lib.tensor([1j], dtype="complex128", requires_grad=True).sum().backward()


@raises(FREED)
def second_backward(lib):
    y = (lib.leaf(1.0, 2.0) ** 2).sum()
    y.backward()
    y.backward()


@raises(FREED)
def saved_value_after_backward(lib):
    y = lib.leaf(1.0) ** 2
    node = y.grad_fn
    y.backward()
    return node._saved_self


@raises("Mismatch in shape: grad_output[0] has a shape of")
def seed_of_another_shape(lib):
    x = lib.leaf([[1.0, 2.0], [3.0, 4.0]])
    lib.grad(x * 2, x, lib.tensor([1.0, 1.0]))


@raises("both grad_output and output are required to have the same dtype")
def real_seed_of_a_complex_output(lib):
    x = lib.tensor([1j], dtype="complex128", requires_grad=True)
    lib.grad(x * 2, x, lib.tensor([1.0]))


@raises("`inputs` argument to `backward()` cannot be empty")
def backward_with_no_inputs(lib):
    lib.backward(lib.leaf(1.0) * 2, inputs=[])


@raises("`inputs` argument to `grad()` cannot be empty")
def grad_with_no_inputs(lib):
    lib.grad(lib.leaf(1.0) * 2, [])


@raises("Expected allow_unused to be True or not passed when materialize_grads=True", ValueError)
def zeros_for_unused_inputs_that_are_not_allowed(lib):
    x = lib.leaf(1.0)
    lib.grad(x * 2, x, allow_unused=False, materialize_grads=True)


@raises("If `is_grads_batched=True`, we interpret the first dimension of each grad_output as")
def batched_seed_of_another_shape(lib):
    x = lib.leaf(1.0, 2.0)
    lib.grad(x * 2, x, lib.tensor([1.0, 1.0]), is_grads_batched=True)


@raises("expected 1 arguments, got 2 instead", TypeError)
def node_called_with_too_many(lib):
    x = lib.leaf(1.0)
    (x**2).grad_fn(x.detach(), x.detach())


@raises("expected 1 arguments, got 0 instead", TypeError)
def node_called_with_too_few(lib):
    (lib.leaf(1.0) ** 2).grad_fn()


@raises("It is not possible to get the gradient edge for a Tensor that does not require gradients")
def gradient_edge_of_a_constant(lib):
    lib.graph.get_gradient_edge(lib.tensor(1.0))


@raises("Final callbacks can only be installed during backward pass.")
def callback_outside_of_a_pass(lib):
    lib.queue_callback(lambda: None)


# --- hooks ---------------------------------------------------------------------------------------


@raises("expected Variable, but hook returned 'int'", TypeError)
def hook_returns_a_number(lib):
    x = lib.leaf(1.0)
    x.register_hook(lambda _: 3)
    (x * 2).backward()


@raises("hook '<lambda>' has changed the size of value")
def hook_returns_another_shape(lib):
    x = lib.leaf(1.0, 2.0)
    x.register_hook(lambda g: g[:1])
    (x * 2).sum().backward()


@raises("hook '<lambda>' has changed the type of value (was")
def hook_returns_another_dtype(lib):
    x = lib.leaf(1.0, 2.0)
    x.register_hook(lambda g: lib.cast(g, "float32"))
    (x * 2).sum().backward()


@raises("cannot register a hook on a tensor that doesn't require gradient")
def hook_on_a_constant(lib):
    lib.tensor(1.0).register_hook(lambda g: g)


@raises("hook '<lambda>' has returned an incorrect number of values (got 3, but expected 2)")
def post_hook_returns_too_many(lib):
    y = lib.leaf(1.0) * 2
    y.grad_fn.register_hook(lambda grads, _: (grads[0],) * 3)
    y.backward()


@raises("hook '<lambda>' has returned an incorrect number of values (got 2, but expected 1)")
def pre_hook_returns_too_many(lib):
    y = lib.leaf(1.0) * 2
    y.grad_fn.register_prehook(lambda grads: (grads[0], grads[0]))
    y.backward()


@raises("expected tuple, but hook returned 'int'", TypeError)
def post_hook_returns_a_number(lib):
    y = lib.module.exp(lib.leaf(1.0))
    y.grad_fn.register_hook(lambda _, __: 3)
    y.backward()


@raises("post accumulate grad hooks cannot be registered on non-leaf tensors")
def post_accumulate_hook_on_a_result(lib):
    (lib.leaf(1.0) * 2).register_post_accumulate_grad_hook(lambda _: None)


@raises("hooks should return None")
def post_accumulate_hook_returns_a_tensor(lib):
    x = lib.leaf(1.0)
    x.register_post_accumulate_grad_hook(lambda t: t * 2)
    (x * 2).backward()


@raises("Expects mode to be one of ('all', 'any') but got foo", ValueError)
def multi_grad_hook_of_unknown_mode(lib):
    lib.graph.register_multi_grad_hook((lib.leaf(1.0),), lambda _: None, mode="foo")


@raises("A saved tensor pack hook is modifying its input in place")
def pack_hook_writes(lib):
    y = lib.leaf(1.0, 2.0) * 1
    with lib.graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t):
        return y * y


@raises(
    "Output of saved tensor unpack_hook expected to be a Tensor but got result of type int",
    TypeError,
)
def unpack_hook_returns_a_number(lib):
    with lib.graph.saved_tensors_hooks(lambda t: t, lambda _: 3):
        y = lib.leaf(1.0, 2.0) ** 2
    y.sum().backward()


@raises("Calling register_hooks on a saved tensor whose hooks have already been set")
def hooks_of_a_saved_tensor_set_twice(lib):
    y = lib.leaf(1.0) ** 2  # PyTorch's handle does not keep the graph alive
    saved = y.grad_fn._raw_saved_self
    for _ in range(2):
        saved.register_hooks(lambda t: t, lambda t: t)


@raises("Calling register_hooks on a saved tensor after it has been freed")
def hooks_of_a_freed_tensor(lib):
    y = lib.leaf(1.0) ** 2
    saved = y.grad_fn._raw_saved_self
    y.backward()
    saved.register_hooks(lambda t: t, lambda t: t)


@raises("Calling register_hooks on a saved tensor with value None is forbidden")
def hooks_of_nothing(lib):
    y = lib.leaf(1.0) * 2
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)


@raises("Trying to create a SavedTensor object from Python is forbidden")
def saved_tensor_made_by_hand(lib):
    y = lib.leaf(1.0) ** 2
    type(y.grad_fn._raw_saved_self)()


@raises(
    "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context", AssertionError
)
def backward_outside_of_the_mutation_block(lib):
    with lib.graph.allow_mutation_on_saved_tensors():
        y = lib.leaf(1.0, 2.0).clone()
        z = (y**2).sum()
        y.sin_()
    z.backward()


@raises("allow_mutation_on_saved_tensors contexts cannot be nested")
def mutation_block_in_another(lib):
    with lib.graph.allow_mutation_on_saved_tensors(), lib.graph.allow_mutation_on_saved_tensors():
        pass


# --- flags, grad and data ------------------------------------------------------------------------


@raises("can't retain_grad on Tensor that has requires_grad=False")
def retain_grad_of_a_constant(lib):
    lib.tensor(1.0).retain_grad()


@raises("nly Tensors of floating point and complex dtype can require gradients")
def integers_that_require_grad(lib):
    lib.tensor([1], dtype="int64", requires_grad=True)


@raises("only Tensors of floating point and complex dtype can require gradients")
def integers_set_to_require_grad(lib):
    lib.tensor([1], dtype="int64").requires_grad = True


@raises("you can only change requires_grad flags of leaf variables.")
def result_set_not_to_require_grad(lib):
    (lib.leaf(1.0) * 2).requires_grad = False


@raises("you can only change requires_grad flags of leaf variables.")
def result_told_not_to_require_grad(lib):
    (lib.leaf(1.0) * 2).requires_grad_(False)


@raises("requires_grad must be a bool")
def requires_grad_deleted(lib):
    del lib.leaf(1.0).requires_grad


@raises("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol")
def deep_copy_of_a_result(lib):
    copy.deepcopy(lib.leaf(1.0) * 2)


@raises("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
def array_of_a_leaf(lib):
    lib.leaf(1.0).numpy()


@raises("attempting to assign a gradient of size '[1]' to a tensor of size '[2]'")
def grad_of_another_shape(lib):
    lib.leaf(1.0, 2.0).grad = lib.tensor([1.0])


@raises("attempting to assign a gradient with dtype")
def grad_of_another_dtype(lib):
    lib.leaf(1.0, 2.0).grad = lib.tensor([1.0, 1.0], dtype="float32")


@raises("assigned grad expected to be a Tensor or None but got grad of type int", TypeError)
def number_as_grad(lib):
    lib.leaf(1.0, 2.0).grad = 3


@raises("can't assign Variable as its own grad")
def own_grad(lib):
    x = lib.leaf(1.0)
    x.grad = x


@raises("data set to a tensor that requires gradients must be floating point or complex dtype")
def integers_as_data(lib):
    lib.leaf(1.0).data = lib.tensor(1, dtype="int64")


@raises("Variable data has to be a tensor, but got NoneType", TypeError)
def none_as_data(lib):
    lib.leaf(1.0).data = None


@raises("Deleting tensor data is not allowed. Delete tensor instead!")
def data_deleted(lib):
    del lib.leaf(1.0).data


@raises("Can't detach views in-place. Use detach() instead")
def view_detached_in_place(lib):
    (lib.leaf(1.0, 2.0) * 1)[:1].detach_()


@raises("Trying to use a saved tensor that has been detached in-place, i.e. with .detach_()")
def saved_tensor_detached_in_place(lib):
    y = lib.leaf(1.0, 2.0).clone()
    z = lib.module.sin(y)
    y.detach_()
    z.sum().backward()


@raises("shape '[2, 2]' is invalid for input of size 3")
def view_of_another_size(lib):
    lib.tensor([1.0, 2.0, 3.0]).view(2, 2)


@raises("view size is not compatible with input tensor's size and stride")
def view_that_would_have_to_copy(lib):
    lib.tensor([[1.0, 2.0], [3.0, 4.0]]).T.view(4)


# --- in-place writes -----------------------------------------------------------------------------


@raises(
    "one of the variables needed for gradient computation has been modified by an inplace operation"
)
def saved_result_written_to(lib):
    y = lib.module.exp(lib.leaf(1.0, 2.0))
    y.add_(1)
    y.sum().backward()


@raises("a leaf Variable that requires grad is being used in an in-place operation.")
def leaf_written_to(lib):
    lib.leaf(1.0).add_(1)


@raises("a view of a leaf Variable that requires grad is being used in an in-place operation.")
def view_of_a_leaf_written_to(lib):
    lib.leaf(1.0, 2.0)[:1].add_(1)


@raises("a view of a leaf Variable that requires grad is being used in an in-place operation.")
def element_of_a_leaf_assigned(lib):
    lib.leaf(1.0, 2.0)[0] = 1.0


@raises("output with shape [2] doesn't match the broadcast shape [2, 2]")
def write_of_a_larger_shape(lib):
    lib.tensor([1.0, 2.0]).add_(lib.tensor([[1.0], [2.0]]))


def view_made_in(lib, mode):
    x = lib.leaf(1.0, 2.0) * 1
    with mode():
        return x, x[:1]


@raises("A view was created in no_grad mode and is being modified inplace with grad mode enabled.")
def no_grad_view_written_to(lib):
    view_made_in(lib, lib.no_grad)[1].add_(1)


@raises("A view was created in inference mode and is being modified inplace in normal mode.")
def inference_view_written_to(lib):
    view_made_in(lib, lib.inference_mode)[1].add_(1)


@raises(
    "A view was created in no_grad mode and its base or another view of its base has been modified "
    "inplace with grad mode enabled."
)
def base_of_a_no_grad_view_written_to(lib):
    base, view = view_made_in(lib, lib.no_grad)
    base.add_(1)
    return view.grad_fn


@raises(
    "A view was created in inference mode and its base or another view of its base has been "
    "modified inplace in normal mode."
)
def base_of_an_inference_view_written_to(lib):
    base, view = view_made_in(lib, lib.inference_mode)
    base.add_(1)
    return view.grad_fn


def inference_tensor(lib):
    with lib.inference_mode():
        return lib.tensor([1.0])


@raises("Inference tensors cannot be saved for backward.")
def inference_tensor_saved(lib):
    return lib.leaf(1.0) * inference_tensor(lib)


@raises("Inplace update to inference tensor outside InferenceMode is not allowed")
def inference_tensor_written_to(lib):
    inference_tensor(lib).add_(1)


@raises("Inference tensors do not track version counter.")
def version_of_an_inference_tensor(lib):
    return inference_tensor(lib)._version


@raises("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed")
def inference_tensor_that_requires_grad(lib):
    inference_tensor(lib).requires_grad_()


# --- custom functions ----------------------------------------------------------------------------


def same(_, x):
    return x * 1


def back(_, grad):
    return grad


@raises("Legacy autograd function with non-static forward method is deprecated")
def function_object_called(lib):
    function_of(lib, forward=same, backward=back)()(lib.leaf(1.0))


@raises("You must implement the forward function for custom autograd.Function", NotImplementedError)
def function_without_forward(lib):
    function_of(lib, backward=back).apply(lib.leaf(1.0))


@raises("You must implement either the backward or vjp method for your custom", NotImplementedError)
def function_without_backward(lib):
    function_of(lib, forward=same).apply(lib.leaf(1.0)).backward()


@raises("Implementing both 'backward' and 'vjp' for a custom Function is not allowed")
def function_with_two_backwards(lib):
    function_of(lib, forward=same, backward=back, vjp=back).apply(lib.leaf(1.0)).backward()


@raises("function MyFnBackward returned an incorrect number of gradients (expected 1, got 2)")
def too_many_gradients(lib):
    made = function_of(lib, forward=same, backward=lambda _, g: (g, g))
    made.apply(lib.leaf(1.0)).backward()


@raises("expected Variable or None (got int)")
def number_as_gradient(lib):
    function_of(lib, forward=same, backward=lambda _, __: 3).apply(lib.leaf(1.0)).backward()


@raises(
    "function MyFnBackward returned a gradient different than None at position 2, but the "
    "corresponding forward input was not a Variable"
)
def gradient_of_a_number(lib):
    made = function_of(lib, forward=lambda _, x, n: x * n, backward=lambda _, g: (g, g))
    made.apply(lib.leaf(1.0), 2).backward()


@raises(
    "Function MyFnBackward returned an invalid gradient at index 0 - got [2] but expected shape "
    "compatible with [3]"
)
def gradient_of_another_shape(lib):
    made = function_of(lib, forward=same, backward=lambda _, __: lib.tensor([1.0, 1.0]))
    made.apply(lib.leaf(1.0, 2.0, 3.0)).sum().backward()


def marking(method, *outputs):
    """A forward that marks its argument, writes to it, and returns these functions of it."""

    def forward(ctx, x):
        getattr(ctx, method)(x)
        x.add_(1)
        made = tuple(output(x) for output in outputs)
        return made if len(made) > 1 else made[0]

    return forward


@raises("a leaf Variable that requires grad has been used in an in-place operation")
def leaf_marked_dirty(lib):
    made = function_of(lib, forward=marking("mark_dirty", lambda x: x), backward=back)
    made.apply(lib.leaf(1.0))


@raises(
    "Some elements marked as dirty during the forward method were not returned as output. The "
    "inputs that are modified inplace must all be outputs of the Function"
)
def dirty_input_not_returned(lib):
    made = function_of(lib, forward=marking("mark_dirty", lambda x: x * 1), backward=back)
    made.apply(lib.leaf(1.0) * 1)


@raises(
    "If your Function modifies inplace an input that is a view of another Tensor, your Function "
    "cannot return more than one Tensor"
)
def dirty_view_and_another_output(lib):
    forward = marking("mark_dirty", lambda x: x, lambda x: x * 1)
    made = function_of(lib, forward=forward, backward=lambda _, g, __: g)
    made.apply((lib.leaf(1.0, 2.0) * 1)[:1])


def calling(method):
    """A forward that gives a number to a method of the context."""

    def forward(ctx, x):
        getattr(ctx, method)(3)
        return x * 1

    return forward


@raises("mark_dirty can only accept variables")
def number_marked_dirty(lib):
    function_of(lib, forward=calling("mark_dirty"), backward=back).apply(lib.leaf(1.0))


@raises("mark_non_differentiable only accepts variable arguments")
def number_marked_not_differentiable(lib):
    made = function_of(lib, forward=calling("mark_non_differentiable"), backward=back)
    made.apply(lib.leaf(1.0))


@raises("save_for_backward can only save variables", TypeError)
def number_saved_for_backward(lib):
    function_of(lib, forward=calling("save_for_backward"), backward=back).apply(lib.leaf(1.0))


@raises("trying to differentiate twice a function that was marked with @once_differentiable")
def once_differentiable_twice(lib):
    backward = lib.function.once_differentiable(lambda _, g: g * 2)
    x = lib.leaf(1.0)
    y = function_of(lib, forward=same, backward=backward).apply(x)
    (g,) = lib.grad(y, x, lib.leaf(1.0), create_graph=True)
    g.backward()


@raises(FREED)
def saved_tensors_after_backward(lib):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1

    y = function_of(lib, forward=forward, backward=back).apply(lib.leaf(1.0))
    node = y.grad_fn
    y.backward()
    return node.saved_tensors


@raises(
    "Output 0 of MyFn is a view and is being modified inplace. This view was created inside a "
    "custom Function (or because an input was returned as-is)"
)
def view_of_a_function_written_to(lib):
    made = function_of(lib, forward=lambda _, x: x.view(-1), backward=back)
    made.apply(lib.leaf(1.0, 2.0) * 1).add_(1)


@raises(
    "Output 0 of MyFn is a view and is being modified inplace. This view is the output of a "
    "function that returns multiple views"
)
def one_of_two_views_of_a_function_written_to(lib):
    made = function_of(
        lib, forward=lambda _, x: (x.view(-1), x.view(-1)), backward=lambda _, g, h: g + h
    )
    made.apply(lib.leaf(1.0, 2.0) * 1)[0].add_(1)


@raises("Function 'MyFnBackward' returned nan values in its 0th output.")
def nan_in_anomaly_mode(lib):
    made = function_of(lib, forward=same, backward=lambda _, g: g * float("nan"))
    with lib.autograd.detect_anomaly():
        made.apply(lib.leaf(1.0)).backward()


# --- the tests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", table, ids=lambda row: row.name)
def test_message_has_the_phrase_of_pytorch(lib, row):
    row.check(lib)


def test_message_of_a_freed_graph_names_the_option(lib):
    y = (lib.leaf(1.0, 2.0) ** 2).sum()
    y.backward()
    with lib.raises("Specify retain_graph=True"):
        y.backward()
