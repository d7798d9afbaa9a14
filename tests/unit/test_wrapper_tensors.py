"""Tensors of subclasses with ``__torch_dispatch__``."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import pullback as pb
from pullback.errors import AutogradError
from pullback.utils import _pytree
from pullback.utils._python_dispatch import (
    TorchDispatchMode,
    is_traceable_wrapper_subclass,
    return_and_correct_aliasing,
)
from pullback.utils._pytree import tree_map_only

LOG: list[str] = []


def _inner(value):
    if isinstance(value, list | tuple):
        return type(value)(_inner(item) for item in value)
    return value.inner if isinstance(value, Tagged) else value


class Tagged(pb.Tensor):
    def __new__(cls, inner, requires_grad=False):
        made = pb.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, requires_grad=requires_grad
        )
        made.inner = inner
        return made

    def __init__(self, inner, requires_grad=False):
        pass

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        LOG.append(func.name().removeprefix("pullback::"))
        result = func(*_inner(args), **(kwargs or {}))
        if func.schema.is_mutable:
            return args[0]
        if isinstance(result, list | tuple):
            return type(result)(cls(item) for item in result)
        return cls(result)


@pytest.fixture(autouse=True)
def _empty_log():
    LOG.clear()


def test_operators_call_the_class_and_give_its_tensors():
    x = Tagged(pb.tensor([1.0, 2.0]))
    y = pb.sin(x) * 2 + np.ones(2)
    assert type(y) is Tagged
    assert LOG == ["sin", "mul", "add"]
    assert y.shape == (2,)
    assert y.dtype == np.float64
    np.testing.assert_allclose(y.inner.numpy(), np.sin([1.0, 2.0]) * 2 + 1)


def test_gradients_are_tensors_of_the_class():
    x = Tagged(pb.tensor([1.0, 2.0]), requires_grad=True)
    (pb.sin(x) * x).sum().backward()
    assert type(x.grad) is Tagged
    values = np.array([1.0, 2.0])
    np.testing.assert_allclose(x.grad.inner.numpy(), np.cos(values) * values + np.sin(values))


def test_transforms_take_them():
    x = Tagged(pb.tensor([1.0, 2.0]))
    gradient = pb.func.grad(lambda t: (t**3).sum())(x)
    np.testing.assert_allclose(gradient.inner.numpy(), [3.0, 12.0])
    value, tangent = pb.func.jvp(pb.sin, (x,), (x,))
    assert type(value) is type(tangent) is Tagged


def test_views_detached_tensors_and_lists_keep_class_and_attributes():
    x = Tagged(pb.tensor([1.0, 2.0, 3.0]))
    assert type(x.detach()) is Tagged
    assert x.detach().inner is x.inner
    assert x[1:].inner.tolist() == [2.0, 3.0]
    assert pb.concatenate([x, x]).inner.shape == (6,)
    assert [type(part) for part in pb.unbind(x)] == [Tagged] * 3


def test_writes_through_views_count_in_the_version_of_the_whole():
    x = Tagged(pb.tensor([1.0, 2.0, 3.0]))
    part = x[1:]
    part += 10
    assert x.inner.tolist() == [1.0, 12.0, 13.0]
    assert x._version == part._version == 1


def test_a_mode_sees_them_first():
    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(types)
            return func(*args, **(kwargs or {}))

    with Log():
        pb.sin(Tagged(pb.ones(2)))
    assert (Tagged,) in seen
    assert "sin" in LOG


def test_a_subclass_is_asked_before_its_base():
    asked = []

    class Base(Tagged):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            asked.append((cls.__name__, [t.__name__ for t in types]))
            return NotImplemented

    class Derived(Base):
        pass

    with pytest.raises(TypeError, match="returned NotImplemented"):
        Base(pb.ones(1)) + Derived(pb.ones(1))
    assert asked == [("Derived", ["Derived", "Base"]), ("Base", ["Derived", "Base"])]


def test_values_are_refused_with_the_class_in_the_message():
    with pytest.raises(AutogradError, match="Tagged is a wrapper tensor"):
        Tagged(pb.ones(2)).numpy()


def test_vmap_is_refused():
    x = Tagged(pb.ones((2, 3)))
    with pytest.raises(AutogradError, match="vmap does not take tensors of classes"):
        pb.func.vmap(pb.sin)(x)
    with pytest.raises(AutogradError, match="vmap does not take tensors of classes"):
        pb.func.vmap(lambda row: row + x)(pb.ones((2, 3)))


def test_a_class_without_a_handler_is_refused():
    class Plain(pb.Tensor):
        pass

    with pytest.raises(TypeError, match="has no __torch_dispatch__"):
        pb.Tensor._make_wrapper_subclass(Plain, (2,))
    with pytest.raises(TypeError, match="must be a subclass of Tensor"):
        pb.Tensor._make_wrapper_subclass(pb.Tensor, (2,))


@pytest.mark.oracle
def test_the_same_calls_arrive_as_in_torch(torch):
    theirs = []

    class Other(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            theirs.append(func.overloadpacket.__name__)
            plain = [a.inner if isinstance(a, Other) else a for a in args]
            result = func(*plain, **(kwargs or {}))
            return Other(result)

    def program(library, x):
        return (library.sin(x) * x).sum()

    mine = program(pb, Tagged(pb.tensor([1.0, 2.0])))
    other = program(torch, Other(torch.tensor([1.0, 2.0], dtype=torch.float64)))
    assert theirs == LOG
    assert mine.inner.item() == pytest.approx(other.inner.item())


def test_the_cotangent_of_a_root_is_a_tensor_of_the_class():
    x = Tagged(pb.tensor([1.0, 2.0]), requires_grad=True)
    seen = []
    y = x * 2
    y.register_hook(lambda grad: seen.append(type(grad)))
    y.sum().backward()
    assert seen == [Tagged]
    assert type(x.grad) is Tagged
    assert "ones_like" in LOG
    np.testing.assert_array_equal(x.grad.inner, [2.0, 2.0])


def test_a_device_is_the_cpu():
    assert pb.Tensor._make_wrapper_subclass(Tagged, (2,), device="cpu").device == "cpu"
    with pytest.raises(ValueError, match="device must be 'cpu'"):
        pb.Tensor._make_wrapper_subclass(Tagged, (2,), device="cuda")


def test_a_deep_copy_has_memory_of_its_own():
    x = Tagged(pb.tensor([1.0, 2.0]), requires_grad=True)
    copied = copy.deepcopy({"x": x, "again": x})
    assert copied["x"] is copied["again"]
    assert type(copied["x"]) is Tagged
    with pb.no_grad():
        copied["x"].mul_(3)
    np.testing.assert_array_equal(copied["x"].inner.numpy(), [3.0, 6.0])
    np.testing.assert_array_equal(x.inner.numpy(), [1.0, 2.0])
    assert copied["x"].requires_grad


def test_the_text_has_the_name_of_the_class():
    x = Tagged(pb.tensor([1.0, 2.0]), requires_grad=True)
    assert repr(x) == "tensor(Tagged(shape=(2,), dtype=float64), requires_grad=True)"


def test_optimizers_refuse_them_by_name():
    x = Tagged(pb.tensor([1.0, 2.0]), requires_grad=True)
    (x * x).sum().backward()
    for kind in (pb.optim.SGD, pb.optim.Adam):
        with pytest.raises(TypeError, match=r"wrapper tensor, Tagged.*optimize the tensors"):
            kind([x], lr=0.1).step()


class Wrapped(Tagged):
    """As PyTorch's tutorials write it."""

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner, meta, size, stride):
        return Wrapped(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        plain, named = tree_map_only(Wrapped, lambda t: t.inner, (args, kwargs))
        out = tree_map_only(pb.Tensor, cls, func(*plain, **named))
        return return_and_correct_aliasing(func, args, kwargs, out)


def test_the_helpers_of_pytorch_programs():
    x = Wrapped(pb.tensor([1.0, 2.0, 3.0]))
    y = x.add_(1)
    assert y is x
    x[1:] *= 2
    assert x.inner.tolist() == [2.0, 6.0, 8.0]
    assert x._version == 3
    out = Wrapped(pb.zeros(3))
    assert pb.ops.pullback.sin.out(x, out=out) is out
    np.testing.assert_allclose(out.inner.numpy(), np.sin([2.0, 6.0, 8.0]))
    sign, logabsdet = pb.linalg.slogdet(Wrapped(pb.eye(2) * 2))
    assert type(sign) is type(logabsdet) is Wrapped
    assert is_traceable_wrapper_subclass(x)
    assert not is_traceable_wrapper_subclass(Tagged(pb.ones(1)))


@pytest.mark.oracle
def test_trees_are_those_of_torch(torch):
    theirs = torch.utils._pytree
    trees = [None, 1, (1, [2.0, None], {"b": "x", "a": ()}), [(), {"k": [None]}]]
    for tree in trees:
        assert _pytree.tree_leaves(tree) == theirs.tree_leaves(tree)
        assert _pytree.tree_map(repr, tree) == theirs.tree_map(repr, tree)
        assert _pytree.tree_map(_pair, tree, tree) == theirs.tree_map(_pair, tree, tree)
        for kinds in (int, (int, str), lambda leaf: leaf is None):
            ours = _pytree.tree_map_only(kinds, repr, tree)
            assert ours == theirs.tree_map_only(kinds, repr, tree)
        assert _pytree.tree_any(bool, tree) == theirs.tree_any(bool, tree)
        assert _pytree.tree_all(bool, tree) == theirs.tree_all(bool, tree)


def _pair(a, b):
    return a, b
