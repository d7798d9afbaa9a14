"""Saved values get a version counter when the first view or write needs one.

A write to such a value through any alias must raise in the pass that reads it: in the node whose
result it is, and in all nodes that have saved it as their input.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

import pullback as pb
from pullback.autograd.graph import saved
from pullback.errors import SavedVersionError


@pytest.fixture(params=["pullback", pytest.param("torch", marks=pytest.mark.oracle)])
def pb_or_torch(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


def _result() -> tuple[pb.Tensor, pb.Tensor]:
    x = pb.tensor([0.5, 1.0], requires_grad=True)
    return x, pb.exp(x)


def _through_a_view(y: pb.Tensor) -> None:
    y[0].mul_(2.0)


def _through_detach(y: pb.Tensor) -> None:
    y.detach().add_(1.0)


def _after_detach_(y: pb.Tensor) -> None:
    y.detach_()
    y.add_(1.0)


def _under_no_grad(y: pb.Tensor) -> None:
    with pb.no_grad():
        y.zero_()


def _by_changing_its_shape(y: pb.Tensor) -> None:
    y.unsqueeze_(0)


WRITES: list[Callable[[pb.Tensor], None]] = [
    _through_a_view,
    _through_detach,
    _after_detach_,
    _under_no_grad,
    _by_changing_its_shape,
]


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__.strip("_"))
def test_write_to_saved_result_raises(write: Callable[[pb.Tensor], None]) -> None:
    _, y = _result()
    total = y.sum()
    write(y)
    with pytest.raises(SavedVersionError):
        total.backward()


def _as_first(y: pb.Tensor) -> pb.Tensor:
    return pb.sin(y)


def _as_both(y: pb.Tensor) -> pb.Tensor:
    return y * y * y


def _beside_a_leaf(y: pb.Tensor) -> pb.Tensor:
    return pb.tensor([1.0, 3.0], requires_grad=True) / y


def _in_a_product(y: pb.Tensor) -> pb.Tensor:
    return (y @ y) * y


USES = [_as_first, _as_both, _beside_a_leaf, _in_a_product]


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__.strip("_"))
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__.strip("_"))
def test_write_to_saved_input_raises(
    write: Callable[[pb.Tensor], None], use: Callable[[pb.Tensor], pb.Tensor]
) -> None:
    x = pb.tensor([0.5, 1.0], requires_grad=True)
    y = x + 1.0  # whose node saves nothing
    total = use(y).sum()
    (grad,) = pb.autograd.grad(total, x, create_graph=True)
    first = grad.tolist()
    assert pb.autograd.grad(total, x, retain_graph=True)[0].tolist() == first
    write(y)
    with pytest.raises(SavedVersionError):
        total.backward(retain_graph=True)
    with pytest.raises(SavedVersionError):  # so do the formulas that have been recorded
        grad.sum().backward()


def test_reading_a_saved_input_is_no_write() -> None:
    x = pb.tensor([0.5, 1.0], requires_grad=True)
    y = x + 1.0
    total = (y * y).sum()
    _ = y[0], y.detach()
    total.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 4.0]


def test_an_input_that_was_detached_in_place_is_refused(pb_or_torch: Any) -> None:
    x = pb_or_torch.tensor([0.5, 1.0], requires_grad=True)
    y = x + 1.0
    total = (y * y).sum()
    y.detach_()
    with pytest.raises(RuntimeError, match="detach"):
        total.backward()


def test_a_tensor_that_was_detached_in_place_may_be_saved_afterwards(pb_or_torch: Any) -> None:
    w = pb_or_torch.tensor([1.0, 2.0], requires_grad=True)
    h = pb_or_torch.tensor([1.0, 1.0])
    for _ in range(3):  # truncated backpropagation through time
        before = h.tolist()
        h = h * w
        (g,) = pb_or_torch.autograd.grad(h.sum(), [w])
        assert g.tolist() == before
        h.detach_()
    h.requires_grad_()
    (g,) = pb_or_torch.autograd.grad((h * h).sum(), [h])
    assert g.tolist() == [2.0, 16.0]


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_detaching_in_place_takes_the_tangents_too(pb_or_torch: Any) -> None:
    forward_ad = pb_or_torch.autograd.forward_ad
    with forward_ad.dual_level():
        x = forward_ad.make_dual(pb_or_torch.tensor([1.0, 2.0]), pb_or_torch.tensor([1.0, 1.0]))
        y = x * 2.0
        y.detach_()
        assert forward_ad.unpack_dual(y).tangent is None
        assert forward_ad.unpack_dual(x * y).tangent.tolist() == [2.0, 4.0]


def test_detaching_one_result_in_place_leaves_the_others(pb_or_torch: Any) -> None:
    x = pb_or_torch.tensor([[2.0, 0.0], [0.0, 3.0]], requires_grad=True)
    values, vectors = pb_or_torch.linalg.eigh(x)
    values.detach_()
    scaled = values * vectors
    vectors.detach_()
    scaled.sum().backward()  # has saved the values, and needs no vectors
    assert x.grad is not None


def test_a_function_refuses_what_was_detached_after_it_was_saved() -> None:
    class Square(pb.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return 2 * grads[0] * ctx.saved_tensors[0]

    x = pb.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    early = Square.apply(y)
    y.detach_()
    with pytest.raises(RuntimeError, match="detach"):
        early.sum().backward()
    late = Square.apply(y.requires_grad_())
    late.sum().backward()
    assert y.grad is not None
    assert y.grad.tolist() == [6.0, 12.0]


def test_data_that_is_replaced_counts_for_a_saved_input(pb_or_torch: Any) -> None:
    x = pb_or_torch.tensor([0.5, 1.0], requires_grad=True)
    y = x + 1.0
    total = (y * y).sum()
    y.data = pb_or_torch.tensor([10.0, 20.0])
    total.backward()
    assert x.grad.tolist() == [20.0, 40.0]


def test_data_of_another_shape_is_fitted_to_the_history(pb_or_torch: Any) -> None:
    x = pb_or_torch.tensor([2.0], requires_grad=True)
    y = x * 3.0
    y.data = pb_or_torch.tensor([1.0, 2.0, 3.0])
    pb_or_torch.abs(-y).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [9.0]
    (y * y).sum().backward()
    assert x.grad.tolist() == [9.0 + 3.0 * 12.0]


def test_saved_attribute_is_the_original_tensor_while_it_lives() -> None:
    x = pb.tensor([0.5, 1.0], requires_grad=True)
    y = x + 1.0
    z = pb.sin(y)
    gc.collect()  # which changes the order in which the collector finds tensors
    assert z.grad_fn._saved_self is y
    node = y.grad_fn
    del y
    shown = z.grad_fn._saved_self
    assert shown.grad_fn is node
    assert shown.tolist() == [1.5, 2.0]
    with pb.no_grad():
        shown.zero_()
    with pytest.raises(SavedVersionError):
        z.sum().backward()


def test_write_after_data_was_replaced_raises() -> None:
    """As in PyTorch, the version belongs to the tensor, whatever memory it has."""
    _, y = _result()
    total = y.sum()
    y.data = pb.tensor([7.0, 8.0])
    with pb.no_grad():
        y.zero_()
    with pytest.raises(SavedVersionError):
        total.backward()


@pytest.mark.parametrize("retain", [True, False])
def test_write_after_a_formula_read_the_result_raises(retain: bool) -> None:
    x, y = _result()
    w = pb.tensor([1.0, 3.0], requires_grad=True)
    (grad,) = pb.autograd.grad(y, x, w, create_graph=True, retain_graph=retain)
    with pb.no_grad():
        y.zero_()
    with pytest.raises(SavedVersionError):  # the gradient is w * y
        pb.autograd.grad(grad.sum(), w)


def test_a_formula_that_has_read_the_result_may_be_differentiated() -> None:
    x, y = _result()
    (grad,) = pb.autograd.grad(y.sum(), x, create_graph=True)
    _ = y[0]  # begins the counter without a write
    grad.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == y.tolist()


def test_two_threads_create_the_same_counter() -> None:
    for _ in range(50):
        _, y = _result()
        total = y.sum()
        barrier = threading.Barrier(2)
        views: list[pb.Tensor] = []

        def take(y: pb.Tensor = y, at: threading.Barrier = barrier, to: list[pb.Tensor] = views):
            at.wait()
            to.append(y[0])

        threads = [threading.Thread(target=take) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with pb.no_grad():
            views[0].zero_()
        assert views[1]._version == y._version == 1
        with pytest.raises(SavedVersionError):
            total.backward()


def test_counter_created_while_a_formula_loads_the_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = _result()
    make = saved.output_from
    thread = threading.Thread(target=lambda: y.detach().mul_(2.0))

    def late(array: object, counter: list[object]) -> object:
        thread.start()
        thread.join(0.2)  # as far as it comes
        return make(array, counter)

    monkeypatch.setattr(saved, "output_from", late)
    pb.autograd.grad(y.sum(), x, create_graph=True)
    thread.join()
    with pytest.raises(SavedVersionError):
        y.sum().backward()


def test_write_to_exposed_saved_value_raises_in_other_nodes() -> None:
    _, y = _result()
    w = pb.tensor([1.0, 1.0], requires_grad=True)
    z = y * w
    with pb.no_grad():
        y.grad_fn._saved_result.mul_(2.0)
    with pytest.raises(SavedVersionError):
        z.sum().backward(inputs=[w])


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__.strip("_"))
def test_write_to_result_of_function_raises_in_nodes_that_saved_it(
    write: Callable[[pb.Tensor], None],
) -> None:
    class Square(pb.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: pb.Tensor) -> pb.Tensor:
            with pb.enable_grad():
                ctx.x = x.detach().requires_grad_()
                y = ctx.x * 2.0
                ctx.total = (y * y).sum()
            return y

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return pb.autograd.grad(ctx.total, [ctx.x])[0] * grads[0].reshape(2)

    y = Square.apply(pb.tensor([0.5, 1.0], requires_grad=True))
    total = (y + 1.0).sum()
    write(y)
    with pytest.raises(SavedVersionError):
        total.backward()


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__.strip("_"))
def test_write_to_result_of_operator_raises_in_nodes_that_saved_it(
    write: Callable[[pb.Tensor], None],
) -> None:
    inner: list[pb.Tensor] = []

    @pb.library.custom_op("begun_late::double", mutates_args=())
    def double(x: pb.Tensor) -> pb.Tensor:
        with pb.enable_grad():
            leaf = x.detach().requires_grad_()
            y = leaf * 2.0
            inner.append((y * y).sum())
        return y

    double.register_autograd(lambda ctx, grad: grad * 2.0)
    y = double(pb.tensor([0.5, 1.0], requires_grad=True))
    double._destroy()
    write(y)
    with pytest.raises(SavedVersionError):
        inner[0].backward()
