"""Operators of the common kind have compiled functions, which behave as the general ones do."""

from __future__ import annotations

import pytest

import pullback as pb
from pullback.autograd import grad as grad_of
from pullback.library import custom_op, kernel_call, record

PATHS = ["compiled", "general"]


@pytest.fixture(params=PATHS)
def make(request, ns, monkeypatch):
    """Makes an operator of x and c that multiplies them and saves c; `choose` is its backward."""
    if request.param == "general":
        monkeypatch.setattr(record, "is_simple", lambda _: False)
        monkeypatch.setattr(kernel_call, "is_simple", lambda _: False)

    @custom_op(f"{ns}::times", mutates_args=())
    def times(x: pb.Tensor, c: pb.Tensor) -> pb.Tensor:
        return x * c

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[1])

    def with_backward(choose):
        times.register_autograd(
            lambda ctx, grad: choose(*ctx.saved_tensors, grad), setup_context=setup
        )
        return times

    with_backward.is_compiled = request.param == "compiled"
    return with_backward


def test_compiled_and_general_path_are_different_functions(make, leaf):
    op = make(lambda c, grad: (grad * c, None))
    node = op(leaf(1), pb.tensor([2.0])).grad_fn
    assert ("run" in type(node).__dict__) is make.is_compiled


@pytest.mark.parametrize("seeded", [False, True], ids=["sum", "seed"])
@pytest.mark.parametrize(
    "choose",
    [
        lambda c, _: c,
        lambda c, _: c[:],
        lambda c, _: c.detach(),
        lambda c, _: c.reshape(2, 1).reshape(2),
    ],
    ids=["itself", "a view", "detached", "reshaped"],
)
def test_a_write_to_a_gradient_that_was_saved_is_seen(make, leaf, choose, seeded):
    op = make(lambda c, grad: (choose(c, grad), None))
    x, w, c = leaf(1, 2), leaf(1, 1), pb.tensor([3.0, 4.0])
    later = (w * c).sum()
    y = op(x, c)
    if seeded:
        (found,) = grad_of(y, x, pb.tensor([1.0, 1.0]))
    else:
        (found,) = grad_of(y.sum(), x)
    assert found.tolist() == [3.0, 4.0]
    assert found._version == 0
    found.mul_(2)
    assert c._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        later.backward()


@pytest.mark.parametrize("seeded", [False, True], ids=["loss", "seed"])
@pytest.mark.parametrize("part", [lambda g: g, lambda g: g[:1], lambda g: g.detach()])
def test_a_gradient_that_the_backward_keeps_counts_with_what_flows_on(make, leaf, part, seeded):
    kept = []

    def choose(c, grad):
        kept.append(part(grad))
        return grad, None

    op = make(choose)
    x, w = leaf(1, 2), leaf(1, 1)
    y = op(x, pb.tensor([3.0, 4.0]))
    seed = pb.tensor([1.0, 1.0])
    (found,) = grad_of(y, x, seed) if seeded else grad_of((y * 2).sum(), x)
    later = (w[: kept[0].shape[0]] * kept[0]).sum()
    found.mul_(2)
    assert kept[0]._version == 1
    assert seed._version == int(seeded)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        later.backward()


def test_a_gradient_that_is_kept_is_the_one_that_is_found(make, leaf):
    kept = []

    def choose(c, grad):
        kept.append(grad * c)
        return kept[-1], None

    op = make(choose)
    x, c = leaf(1, 2), pb.tensor([3.0, 4.0])
    (found,) = grad_of(op(x, c).sum(), x)
    assert found is kept[0]
    kept.clear()
    (found,) = grad_of(op(op(x, c), c).sum(), x)
    assert found is kept[1]


def test_what_two_operators_are_shown_is_one_tensor_if_it_was_kept(make, leaf):
    kept = []

    def choose(c, grad):
        kept.append(grad)
        return grad * c, None

    op = make(choose)
    x, z, c = leaf(1, 2), leaf(1, 2), pb.tensor([3.0, 4.0])
    grad_of(((op(x, c) + op(z, c)) * 2).sum(), (x, z))
    assert kept[0] is kept[1]


@pytest.mark.parametrize(
    "choose",
    [
        lambda c, grad: (grad, grad),
        lambda c, grad: (grad[:], grad.reshape(2)),
        lambda c, grad: (grad, grad[:]),
        lambda c, grad: (c, c),
        lambda c, grad: (c, c[:]),
        lambda c, grad: (total := grad * c, total),
        lambda c, grad: (total := grad * c, total[:]),
    ],
)
def test_two_gradients_in_one_place_count_together(make, leaf, choose):
    op = make(choose)
    x, c = leaf(1, 2), leaf(3, 4)
    first, second = grad_of((op(x, c) * 2).sum(), (x, c))
    before = second._version
    with pb.no_grad():
        first.mul_(2)
    assert second.tolist() == first.tolist()
    assert second._version == before + 1


@pytest.mark.parametrize(
    "choose",
    [
        lambda c, grad: (c, c),
        lambda c, grad: (grad, grad),
        lambda c, grad: (total := grad * c, total),
    ],
)
def test_a_grad_owns_its_memory(make, leaf, choose):
    op = make(choose)
    x, c = leaf(1, 2), leaf(3, 4)
    for _ in range(2):
        op(x, c).sum().backward()
        x.grad.mul_(2)
    assert c.tolist() == [3.0, 4.0]
    assert c.grad.tolist() != x.grad.tolist()
