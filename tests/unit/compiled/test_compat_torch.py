"""Compiled programs under PyTorch's names: tensors of a subclass, whose results stay in it."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
import pullback.compat.torch as torch

BACKENDS = ["llvm", "eager"]
F = torch.nn.functional


def _normal(seed, *shape):
    return torch.tensor(np.random.default_rng(seed).normal(size=shape).astype("f"))


def _train(is_compiled):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(8, 4)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        scores = model(x)
        loss = F.cross_entropy(scores, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss, scores.argmax(dim=1), x.shape

    run = torch.compile(step) if is_compiled else step
    found = [run(_normal(n, 6, 3), torch.arange(6) % 4) for n in range(5)]
    return found, [*model.parameters()], run


def test_a_training_step_is_one_program():
    expected, parameters, _ = _train(False)
    found, ours, run = _train(True)
    assert run.stats == {"traces": 1, "hits": 4, "eager": 0, "changes": 0}
    for (loss, best, shape), (other, places, size) in zip(found, expected, strict=True):
        assert type(loss) is type(best) is torch.Tensor
        np.testing.assert_allclose(loss.item(), other.item(), rtol=1e-5)
        assert torch.equal(best, places)
        assert type(shape) is torch.Size
        assert shape == size
    for one, other in zip(ours, parameters, strict=True):
        np.testing.assert_allclose(one.detach(), other.detach(), rtol=1e-4, atol=1e-6)


def test_a_compiled_module_has_the_attributes_of_the_module():
    model = torch.nn.Linear(3, 2)
    compiled = torch.compile(model, mode="max-autotune")
    compiled(_normal(0, 4, 3)).sum().backward()
    assert type(compiled(_normal(0, 4, 3))) is torch.Tensor
    assert compiled.stats["eager"] == 0
    assert all(p is q for p, q in zip(compiled.parameters(), model.parameters(), strict=True))
    assert torch.equal(model.bias.grad, torch.full((2,), 4.0))


def _dtypes(x):
    count = (x > 0).int()
    return torch.arange(3) / 2, count / 3, count.mean(dtype=torch.float32), x * 2.5, x.long() * x


def _copies(x):
    turned = x.t().contiguous()
    turned.add_(1)
    return turned, x, torch.tensor(x), torch.tensor([x.sum(), 2.0])


def _counts(x):
    return x.histc(3, -2, 2), torch.unique(x > 0), torch.searchsorted(_EDGES, x), x[x > 0].sum()


_EDGES = _normal(9, 5).sort().values


@pytest.mark.parametrize("function", [_dtypes, _copies, _counts])
@pytest.mark.parametrize("backend", BACKENDS)
def test_results_are_those_of_the_function(function, backend):
    compiled = pb.compile(function, backend=backend)
    for seed in range(3):
        found, expected = compiled(_normal(seed, 2, 2)), function(_normal(seed, 2, 2))
        for ours, theirs in zip(found, expected, strict=True):
            assert type(ours) is torch.Tensor
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert compiled.stats["eager"] == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_captured_tensor_that_numpy_reads_is_compared(backend):
    w = _normal(0, 4)
    compiled = pb.compile(lambda x: x * w.histc(3, -3, 3), backend=backend)
    x = _normal(1, 3)
    for seed in range(3):
        w.copy_(_normal(seed, 4))
        np.testing.assert_allclose(compiled(x), x * w.histc(3, -3, 3))


def _draws(x):
    torch.nn.functional.gumbel_softmax(x, hard=True)
    return (
        *(torch.rand(3), torch.randn_like(x), torch.randperm(5), torch.randint(2, 7, (4,))),
        *(torch.bernoulli(torch.full((4,), 0.3)), torch.normal(x, 2.0)),
        *(torch.empty(3).uniform_(-1, 1), torch.zeros(3).normal_(1.0, 2.0)),
        torch.nn.functional.gumbel_softmax(x, tau=0.5),
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_numbers_are_drawn_in_each_call(backend):
    compiled, found = pb.compile(_draws, backend=backend), []
    for call in (_draws, compiled):
        torch.manual_seed(0)
        found.append([call(_normal(n, 2, 3)) for n in range(3)])
    assert compiled.stats == {"traces": 1, "hits": 2, "eager": 0, "changes": 0}
    for expected, ours in zip(*found, strict=True):
        for one, other in zip(expected, ours, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(other, one, rtol=1e-5)
