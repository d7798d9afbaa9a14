"""The rules of autograd run twice: with Pullback and, where it is installed, with PyTorch.

A test that takes the fixture ``lib`` states a rule that both libraries keep; one that takes ``pb``
states what Pullback does where it is better, or where PyTorch has no such thing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import pullback
import pullback.nn.functional


class Lib:
    """One of the two libraries, under names that both share."""

    def __init__(self, module: ModuleType):
        self.module = module
        self.autograd = module.autograd
        self.graph = module.autograd.graph
        self.function = module.autograd.function
        self.Function = module.autograd.Function
        self.grad = module.autograd.grad
        self.backward = module.autograd.backward
        self.no_grad = module.no_grad
        self.enable_grad = module.enable_grad
        self.set_grad_enabled = module.set_grad_enabled
        self.inference_mode = module.inference_mode
        self.is_grad_enabled = module.is_grad_enabled
        self.Tensor = module.Tensor
        self.F = module.nn.functional
        self.is_torch = module is not pullback

    def __getattr__(self, name: str) -> object:
        return getattr(self.module, name)

    def tensor(self, data: object, dtype: str = "float64", requires_grad: bool = False):
        """A tensor of this dtype."""
        kind = getattr(self.module, dtype) if self.is_torch else dtype
        return self.module.tensor(data, dtype=kind, requires_grad=requires_grad)

    def leaf(self, *values: object):
        """``L(...)`` of the rules: a leaf that requires grad, without axes for one number."""
        data = values[0] if len(values) == 1 else list(values)
        return self.tensor(data, requires_grad=True)

    def vector(self, *values: float):
        """A leaf with one axis, however many numbers it has."""
        return self.tensor(list(values), requires_grad=True)

    def dtype(self, name: str) -> object:
        return getattr(self.module, name) if self.is_torch else np.dtype(name)

    def cast(self, tensor, dtype: str):
        return tensor.to(self.dtype(dtype)) if self.is_torch else tensor.astype(dtype)

    def slopes(self, function, *points: object, **options: object):
        """The gradient of the sum of a function's values, for each of its arguments."""
        leaves = [self.tensor(p, requires_grad=True) for p in points]
        with np.errstate(all="ignore"):
            total = function(*leaves, **options).sum()
        grads = [g.tolist() for g in self.grad(total, leaves)]
        return grads[0] if len(grads) == 1 else grads

    def task_id(self) -> int:
        """The number of the running backward pass, or -1."""
        if self.is_torch:
            return self.module._C._current_graph_task_id()
        return self.graph.current_graph_task_id()

    def queue_callback(self, callback) -> None:
        if self.is_torch:
            self.autograd.Variable._execution_engine.queue_callback(callback)
        else:
            self.graph.queue_callback(callback)

    @staticmethod
    def raises(words: str, kind: type[BaseException] = RuntimeError):
        """An error whose message has these words; ``...`` stands for anything between them."""
        pattern = ".*".join(re.escape(part) for part in words.split(" ... "))
        return pytest.raises(kind, match=f"(?is){pattern}")


FREED = "backward through the graph a second time"
VERSION = "modified by an inplace operation"
LEAF = "leaf Variable that requires grad ... in-place operation"
VIEW_OF_LEAF = "a view of a leaf Variable that requires grad ... in-place operation"


@pytest.fixture(scope="session")
def words() -> SimpleNamespace:
    """The key words of errors that many rules share."""
    return SimpleNamespace(freed=FREED, version=VERSION, leaf=LEAF, view_of_leaf=VIEW_OF_LEAF)


@pytest.fixture(params=["pullback", pytest.param("torch", marks=pytest.mark.oracle)])
def lib(request: pytest.FixtureRequest) -> Iterator[Lib]:
    """Each library in turn."""
    if request.param == "pullback":
        yield Lib(pullback)
        return
    torch = pytest.importorskip("torch", reason="pip install torch==2.13.0 runs the oracle tests")
    torch.set_warn_always(
        True
    )  # else a warning comes once in a process, in whichever test is first
    yield Lib(torch)
    torch.set_warn_always(False)


@pytest.fixture
def pb() -> Lib:
    """Pullback alone."""
    return Lib(pullback)


@pytest.fixture(autouse=True)
def no_anomaly_left() -> Iterator[None]:
    """Fails a test that leaves anomaly mode on."""
    yield
    assert not pullback.autograd.is_anomaly_enabled()
    if "torch" in sys.modules:
        assert not sys.modules["torch"].is_anomaly_enabled()
