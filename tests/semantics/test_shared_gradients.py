"""Gradients that lie in the memory of others: none is written to unseen.

A custom backward or a hook may return a tensor that somebody has saved, or keep the gradient it is
shown. ``grad`` hands such tensors out as they are, so whoever saved one must notice a later write;
``.grad`` owns its memory.
"""

from __future__ import annotations

import weakref

import pytest


def returning(lib, choose):
    """A Function of x and c whose gradient for x is what `choose` makes of c and the gradient."""

    class Returning(lib.Function):
        @staticmethod
        def forward(ctx, x, c):
            ctx.save_for_backward(c)
            return x * c

        @staticmethod
        def backward(ctx, grad):
            (c,) = ctx.saved_tensors
            return choose(c, grad), None

    return Returning.apply


OPERATIONS = {
    "a function returns what it saved": lambda lib, x, c: returning(lib, lambda c, _: c)(x, c),
    "a function returns a view of it": lambda lib, x, c: returning(lib, lambda c, _: c[:])(x, c),
    "a tensor hook": lambda lib, x, c: hooked(x + 0, lambda y: y.register_hook(lambda _: c)),
    "a pre-hook": lambda lib, x, c: hooked(
        x + 0, lambda y: y.grad_fn.register_prehook(lambda _: (c,))
    ),
    "a post-hook": lambda lib, x, c: hooked(
        x + 0, lambda y: y.grad_fn.register_hook(lambda inputs, _: (c, *inputs[1:]))
    ),
}


def hooked(y, register):
    register(y)
    return y


@pytest.mark.parametrize("seeded", [False, True], ids=["sum", "seed"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_write_to_saved_gradient_raises(lib, words, operation, seeded):
    x, w, c = lib.vector(1.0, 2.0), lib.vector(1.0, 1.0), lib.tensor([3.0, 4.0])
    later = (w * c).sum()
    y = OPERATIONS[operation](lib, x, c)
    if seeded:
        (found,) = lib.grad(y, x, lib.tensor([1.0, 1.0]))
    else:
        (found,) = lib.grad(y.sum(), x)
    assert found.tolist() == [3.0, 4.0]
    found.mul_(2)
    with lib.raises(words.version):
        later.backward()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_grad_owns_its_memory(pb, operation):
    """Also where two gradients are added up."""
    x, w, c = pb.vector(1.0, 2.0), pb.vector(1.0, 1.0), pb.tensor([3.0, 4.0])
    later = (w * c).sum()
    (OPERATIONS[operation](pb, x, c).sum() + (x * 5).sum()).backward()
    assert x.grad.tolist() == [8.0, 9.0]
    x.grad.mul_(2)
    OPERATIONS[operation](pb, x, c).sum().backward()
    x.grad.mul_(2)
    assert c.tolist() == [3.0, 4.0]
    later.backward()
    assert w.grad.tolist() == [3.0, 4.0]


def test_two_gradients_that_are_views_of_one_count_together(lib):
    class Both(lib.Function):
        @staticmethod
        def forward(ctx, x, z):
            return x + z

        @staticmethod
        def backward(ctx, grad):
            return grad[:], grad.reshape(2)

    x, z = lib.vector(1.0, 2.0), lib.vector(1.0, 2.0)
    first, second = lib.grad((Both.apply(x, z) * 2).sum(), (x, z))
    before = second._version
    first.mul_(2)
    assert second.tolist() == [4.0, 4.0]
    assert second._version == before + 1


def test_what_a_hook_keeps_is_the_gradient_that_is_returned(lib):
    x = lib.vector(1.0, 2.0)
    kept = []
    x.register_hook(kept.append)
    (found,) = lib.grad((x * 3).sum(), x)
    assert found is kept[0]


def test_a_hook_that_keeps_the_seed_counts_with_it(lib):
    y = lib.vector(1.0, 2.0) * 1
    kept = []
    y.register_hook(kept.append)
    seed = lib.tensor([1.0, 1.0])
    y.backward(seed)
    kept[0].mul_(2)
    assert seed._version == 1
    assert seed.tolist() == [2.0, 2.0]


def test_shown_gradients_are_not_kept_by_the_pass(pb):
    """Hooks on a long chain need no more memory than one gradient at a time."""
    seen = []

    def hook(grad):
        alive = [r for r in seen if r() is not None]
        seen[:] = [*alive, weakref.ref(grad)]

    y = pb.vector(1.0, 2.0)
    for _ in range(50):
        y = y * 2
        y.register_hook(hook)
    y.sum().backward()
    assert len(seen) <= 3


def test_parts_are_not_added_to_a_gradient_that_others_hold(pb):
    w, v = pb.leaf(1.0, 2.0, 3.0), pb.leaf(4.0, 5.0, 6.0)
    y = w * 1
    parts = y[0] + y[1] * 2 + y[0] * 3  # recorded first, so their gradients arrive last
    z = y + v  # both get one and the same array
    seed = pb.tensor([1.0, 1.0, 1.0])
    pb.backward([z, parts], [seed, pb.tensor(1.0)])
    assert seed.tolist() == [1.0, 1.0, 1.0]
    assert v.grad.tolist() == [1.0, 1.0, 1.0]
    assert w.grad.tolist() == [5.0, 3.0, 1.0]


def test_cotangents_are_summed_before_they_are_exposed(pb):
    w, v = pb.leaf(1.0, 2.0, 3.0), pb.leaf(2.0, 3.0)
    total = sum(w[i] * w[i] for i in range(3)) + sum(v[i] for i in (0, 1, 0))
    for _ in range(2):
        (grad,) = pb.grad(total, [v], retain_graph=True)
        assert grad.tolist() == [2.0, 1.0]
    (grad,) = pb.grad(total, [w])
    assert grad.tolist() == [2.0, 4.0, 6.0]
    assert v.grad is None
