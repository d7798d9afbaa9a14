"""Checkpoints in passes with a batch of gradients, and inside transforms."""

from __future__ import annotations

import importlib
from contextlib import contextmanager

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # forward mode
POINT = [0.5, 1.5, 2.5]


def of(lib):
    """The library's checkpoint module."""
    return importlib.import_module(f"{lib.module.__name__}.utils.checkpoint")


def functional(lib):
    return importlib.import_module(f"{lib.module.__name__}.autograd.functional")


def func(lib):
    return importlib.import_module(f"{lib.module.__name__}.func")


def rows(lib, count=3):
    return lib.tensor(np.eye(count).tolist())


class Functions:
    """A function, and the same with checkpoints."""

    def __init__(self, lib):
        self.lib = lib

    def checkpoint(self, function, *args, **options):
        return of(self.lib).checkpoint(function, *args, use_reentrant=False, **options)

    def plain(self, x):
        return self.lib.sin(x) * x * x

    def checkpointed(self, x):
        return self.checkpoint(self.plain, x)

    def plain_twice(self, x):
        return self.plain(self.lib.cos(x)) * x

    def nested(self, x):
        return self.checkpoint(lambda z: self.checkpointed(self.lib.cos(z)) * z, x)

    def sums(self, x):
        return (self.checkpoint(lambda z: (z * z).sum() * z, x)) * 2

    def plain_sums(self, x):
        return ((x * x).sum() * x) * 2

    def written(self, x):
        return self.checkpoint(self.plain_written, x)

    def plain_written(self, x):
        y = x * 2
        y.mul_(self.lib.sin(x))
        return y * y


PAIRS = [
    ("plain", "checkpointed"),
    ("plain_twice", "nested"),
    ("plain_sums", "sums"),
    ("plain_written", "written"),
]


def same(found, expected):
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize(("plain", "checkpointed"), PAIRS)
@pytest.mark.parametrize("create_graph", [False, True])
def test_batch_of_gradients_is_that_of_the_plain_function(lib, plain, checkpointed, create_graph):
    found = []
    for name in (plain, checkpointed):
        x = lib.leaf(*POINT)
        y = getattr(Functions(lib), name)(x)
        (jacobian,) = lib.grad(y, x, rows(lib), is_grads_batched=True, create_graph=create_graph)
        assert jacobian.requires_grad is create_graph
        found.append(jacobian)
    same(found[1], found[0])


@pytest.mark.parametrize(("plain", "checkpointed"), PAIRS)
def test_batched_gradients_of_a_checkpoint_can_be_differentiated(lib, plain, checkpointed):
    found = []
    for name in (plain, checkpointed):
        x = lib.leaf(*POINT)
        y = getattr(Functions(lib), name)(x)
        (jacobian,) = lib.grad(y, x, rows(lib), is_grads_batched=True, create_graph=True)
        found.append(lib.grad((jacobian * jacobian).sum(), x)[0])
    same(found[1], found[0])


def test_checkpoint_runs_again_for_each_pass_and_then_is_freed(lib, words):
    x = lib.leaf(*POINT)
    y = Functions(lib).checkpointed(x)
    (first,) = lib.grad(y, x, rows(lib), is_grads_batched=True, retain_graph=True)
    (second,) = lib.grad(y, x, rows(lib), is_grads_batched=True)
    same(second, first)
    with lib.raises(words.freed):
        lib.grad(y, x, rows(lib), is_grads_batched=True)


@pytest.mark.parametrize("create_graph", [False, True])
def test_vectorized_jacobian_of_a_checkpoint(lib, create_graph):
    functions = Functions(lib)
    of_both = [
        functional(lib).jacobian(
            f, lib.tensor(POINT), vectorize=vectorize, create_graph=create_graph
        )
        for f in (functions.plain, functions.checkpointed, functions.nested, functions.plain_twice)
        for vectorize in (False, True)
    ]
    for place in (1, 2, 3):
        same(of_both[place], of_both[0])
    for place in (5, 6, 7):
        same(of_both[place], of_both[4])


def test_vectorized_hessian_of_a_checkpoint(lib):
    functions = Functions(lib)
    of_plain, of_checkpoint = (
        functional(lib).hessian(lambda x, f=f: f(x).sum(), lib.tensor(POINT), vectorize=True)
        for f in (functions.plain_twice, functions.nested)
    )
    same(of_checkpoint, of_plain)


def test_forward_mode_and_vmap_run_checkpoints(lib):
    functions, x = Functions(lib), lib.tensor(POINT)
    for plain, checkpointed in [
        (functions.plain, functions.checkpointed),
        (functions.plain_twice, functions.nested),
    ]:
        for transform in (
            func(lib).jacfwd,
            func(lib).vmap,
            lambda f: lambda x: func(lib).jvp(f, (x,), (x,))[1],
            lambda f: func(lib).vmap(func(lib).jacfwd(f)),
            lambda f: (
                lambda x: functional(lib).jacobian(f, x, vectorize=True, strategy="forward-mode")
            ),
        ):
            same(transform(checkpointed)(x), transform(plain)(x))


def test_reverse_mode_transforms_refuse_checkpoints(lib):
    functions, x = Functions(lib), lib.tensor(POINT)
    for transform in (
        func(lib).jacrev,
        lambda f: func(lib).grad(lambda x: f(x).sum()),
        lambda f: func(lib).vmap(func(lib).grad(f)),
        lambda f: func(lib).grad(lambda x: func(lib).vmap(f)(x).sum()),
        lambda f: func(lib).jacfwd(func(lib).jacrev(f)),
    ):
        with lib.raises("saved tensor hooks"):
            transform(functions.checkpointed)(x)


def test_contexts_surround_a_checkpoint_in_forward_mode(lib):
    seen = []

    @contextmanager
    def noted(name):
        seen.append(name)
        yield

    functions = Functions(lib)
    func(lib).jacfwd(
        lambda x: functions.checkpoint(
            functions.plain, x, context_fn=lambda: (noted("forward"), noted("recompute"))
        )
    )(lib.tensor(POINT))
    assert seen == ["forward"]


def test_mapped_pass_over_a_checkpoint(lib):
    """A user's own loop over gradients, by vmap."""
    x = lib.leaf(*POINT)
    y = Functions(lib).checkpointed(x)
    found = func(lib).vmap(lambda v: lib.grad(y, x, v, retain_graph=True)[0])(rows(lib))
    same(found, functional(lib).jacobian(Functions(lib).plain, lib.tensor(POINT)))


def test_tangent_of_a_pass_over_a_checkpoint(lib):
    x = lib.leaf(*POINT)
    y = Functions(lib).checkpointed(x)
    v = lib.tensor([1.0, 2.0, 3.0])
    _, found = func(lib).jvp(lambda v: lib.grad(y, x, v, retain_graph=True)[0], (v,), (v,))
    same(found, lib.grad(y, x, v)[0])


def test_random_numbers_are_the_same_for_all_rows(pb):
    """PyTorch refuses to draw them, because it runs the function inside its vmap."""
    np.random.seed(0)
    x = pb.leaf(*POINT)

    def noisy(x):
        return pb.F.dropout(x, 0.5) * pb.sin(x) + x * np.random.rand()

    y = Functions(pb).checkpoint(noisy, x)
    (found,) = pb.grad(y, x, rows(pb), is_grads_batched=True, retain_graph=True)
    expected = [pb.grad(y, x, row, retain_graph=True)[0].tolist() for row in rows(pb)]
    assert found.tolist() == expected


def test_captured_leaf_of_a_mapped_checkpoint_gets_its_gradient(pb):
    w = pb.leaf(*POINT)
    functions = Functions(pb)
    samples = pb.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    mapped = func(pb).vmap(lambda v: functions.checkpoint(lambda v: pb.sin(w * v) * w, v))
    (found,) = pb.grad(mapped(samples).sum(), w)
    (expected,) = pb.grad((pb.sin(w * samples) * w).sum(), w)
    same(found, expected)


def test_mapped_function_inside_of_a_checkpoint_has_the_gradients_of_the_plain_one(pb):
    w, x = pb.leaf(*POINT), pb.leaf(*POINT)

    def mapped(x):
        samples = pb.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        return func(pb).vmap(lambda v: pb.sin(w * v) * w * x)(samples)

    found = pb.grad((Functions(pb).checkpoint(mapped, x) ** 2).sum(), (w, x))
    for first, second in zip(found, pb.grad((mapped(x) ** 2).sum(), (w, x)), strict=True):
        same(first, second)
