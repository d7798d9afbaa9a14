"""Memory order of copies: that of PyTorch, so that later reshapes are views where its are."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.kernels.layout import copy_in_order

COPIES = {
    "clone": lambda x: x.clone(),
    "astype": lambda x: x.astype("float32"),
    "zeros_like": pb.zeros_like,
    "index_put": lambda x: x.index_put([pb.tensor([0])], 1.0),
}


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", COPIES)
def test_copies_of_expanded_tensors_are_contiguous(name, device):
    x = pb.broadcast_to(pb.ones(3), (4, 3)).to(device)
    copy = COPIES[name](x)
    assert copy._array.strides == (3 * copy.itemsize, copy.itemsize)
    assert copy.reshape(12)._is_view()


def test_a_write_through_a_reshape_reaches_the_copy_of_an_expanded_tensor():
    w = pb.tensor([1.0, 2.0], requires_grad=True)
    y = pb.broadcast_to(w, (2, 2)).clone()
    y.reshape(4)[:2].mul_(10)
    y.sum().backward()
    assert w.grad.tolist() == [11.0, 11.0]


def test_random_layouts_equal_those_of_torch(torch):
    rng = np.random.default_rng(0)
    for _ in range(300):
        ndim = int(rng.integers(1, 5))
        x = torch.zeros(tuple(map(int, rng.integers(1, 5, ndim))), dtype=torch.float64)
        x = x.permute(tuple(map(int, rng.permutation(ndim))))
        x = x[tuple(slice(None, None, int(step)) for step in rng.integers(1, 3, ndim))]
        x = x.expand([n if n > 1 else int(rng.integers(1, 4)) for n in x.shape])
        x = x.permute(tuple(map(int, rng.permutation(ndim))))
        found = copy_in_order(x.numpy())
        wanted = [8 * stride for stride in x.clone().stride()]
        pairs = zip(found.strides, wanted, x.shape, strict=True)
        assert all(ours == theirs for ours, theirs, n in pairs if n > 1), (x.shape, x.stride())
