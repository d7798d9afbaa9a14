"""State of objects whose methods the library calls: every change between calls is seen."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.fx.experimental.proxy_tensor import make_fx
from pullback.utils._python_dispatch import TorchDispatchMode

pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")

X = pb.tensor([0.5, -1.0, 2.0])


class Scaled(pb.autograd.Function):
    rate = 2.0

    @staticmethod
    def forward(x):
        return x * Scaled.rate

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad * Scaled.rate * 10


class Wrapper(pb.Tensor):
    def __new__(cls, held, rate):
        made = pb.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype)
        made.held, made.rate = held, rate
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [a.held * a.rate if isinstance(a, cls) else a for a in args]
        return func(*plain, **(kwargs or {}))


class Mode(TorchDispatchMode):
    rate = 2.0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {})) * self.rate


class Interpreter(pb.fx.Interpreter):
    rate = 2.0

    def call_function(self, target, args, kwargs):
        return super().call_function(target, args, kwargs) * self.rate


class World:
    """A function, and a change of what its objects hold."""

    def custom_function(self):
        def change(n):
            Scaled.rate = 1.0 + n

        return pb.func.grad(lambda x: Scaled.apply(x).sum()), change

    def wrapper_tensor(self):
        wrapper = Wrapper(pb.tensor([1.0, 2.0, 3.0]), 2.0)
        return (lambda x: x * wrapper), lambda n: setattr(wrapper, "rate", 1.0 + n)

    def tensor_of_a_wrapper(self):
        wrapper = Wrapper(pb.tensor([1.0, 2.0, 3.0]), 2.0)
        return (lambda x: x * wrapper), lambda n: setattr(wrapper, "held", pb.full((3,), n))

    def mode(self):
        mode = Mode()

        def f(x):
            with mode:
                return pb.sin(x)

        return f, lambda n: setattr(mode, "rate", 1.0 + n)

    def interpreter(self):
        module = make_fx(lambda x: pb.sin(x) * 2)(X)
        return lambda x: Interpreter(module).run(x), lambda n: setattr(Interpreter, "rate", 1.0 + n)

    def graph_of_a_module(self):
        module = make_fx(lambda x: pb.sin(x) * 2)(X)

        def change(n):
            _, node = module.graph.find_nodes(op="call_function")
            node.update_arg(1, 1.0 + n)
            module.recompile()

        return module, change

    def captured_value_of_a_module(self):
        held = pb.tensor(2.0)
        module = make_fx(lambda x: pb.sin(x) * held)(X)
        (name,) = module.captured()
        return (lambda x: module(x)), lambda n: setattr(module, name, pb.tensor(1.0 + n))


NAMES = [name for name in vars(World) if not name.startswith("_")]


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize("name", NAMES)
def test_changes_are_seen(name, backend):
    function, change = getattr(World(), name)()
    compiled = pb.compile(function, backend=backend)
    for number in range(4):
        if number:
            change(number)
        for _ in range(2):
            np.testing.assert_allclose(compiled(X), function(X))
    assert compiled.stats["hits"] >= 3
    assert compiled.stats["eager"] == 0
