"""Custom operators for tests: each test gets names of its own, and leaves no operator behind."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

import pullback as pb
from pullback.library.custom_op import CUSTOM_OPS

_numbers = itertools.count()


@pytest.fixture
def ns() -> Iterator[str]:
    """A namespace that no other test uses; its custom operators end with the test."""
    name = f"t{next(_numbers)}"
    yield name
    for qualname in [q for q in CUSTOM_OPS if q.startswith(f"{name}::")]:
        CUSTOM_OPS[qualname]._destroy()


@pytest.fixture
def lib(ns: str) -> Iterator[pb.library.Library]:
    """A library of the test's namespace."""
    with pb.library.Library(ns, "FRAGMENT") as library:
        yield library


@pytest.fixture
def leaf():
    """Makes a leaf that requires grad."""
    return lambda *values: pb.tensor(list(map(float, values)), requires_grad=True)


@pytest.fixture
def cube(ns: str) -> pb.library.CustomOp:
    """x cubed, with both rules."""

    @pb.library.custom_op(f"{ns}::cube", mutates_args=())
    def cube(x: pb.Tensor) -> pb.Tensor:
        return pb.asarray(x.numpy() ** 3)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad

    cube.register_autograd(backward, setup_context=setup)
    cube.register_jvp(backward)
    return cube
