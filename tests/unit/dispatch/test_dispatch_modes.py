"""Dispatch modes: what they see, how they nest, and what they leave behind."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import pullback as pb
from pullback.dispatch.modes import DEFAULT_STATE, get_state
from pullback.errors import DispatchError
from pullback.library import custom_op
from pullback.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode,
    _get_current_dispatch_mode_stack,
    _pop_mode_temporarily,
)


class Log(TorchDispatchMode):
    def __init__(self, names=None):
        self.names = [] if names is None else names

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name().removeprefix("pullback::"))
        return func(*args, **(kwargs or {}))


def _logged(function):
    with Log() as mode:
        result = function()
    return mode.names, result


def test_a_mode_sees_the_operators_below_autograd():
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    names, y = _logged(lambda: (pb.sin(x) * 3).sum())
    assert names == ["sin", "mul", "sum"]
    assert y.grad_fn.name() == "SumBackward0"


def test_a_mode_sees_the_backward_pass_of_a_graph_recorded_outside():
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    y = pb.sin(x).sum()
    names, _ = _logged(y.backward)
    assert set(names) == {"broadcast_to", "cos", "mul"}
    np.testing.assert_allclose(x.grad.numpy(), np.cos([1.0, 2.0]))


def test_composite_operators_arrive_as_what_they_are_made_of():
    x = pb.tensor([[1.0, 2.0], [3.0, 5.0]])
    composite = pb.ops.pullback.vstack.default
    names, _ = _logged(lambda: composite([x, x]))
    assert composite.has_kernel_for_dispatch_key("CompositeImplicitAutograd")
    assert names == ["concatenate"]


def test_a_mode_sees_creation_views_and_writes():
    def program():
        z = pb.zeros(3)
        z[1:] = 2.0
        z += 1
        return z

    names, z = _logged(program)
    assert names == ["zeros", "getitem", "copy_", "add_"]
    assert z.tolist() == [1.0, 3.0, 3.0]
    assert z._version == 2


def test_a_mode_sees_calls_through_numpy():
    names, _ = _logged(lambda: np.exp(pb.ones(2)))
    assert names[-1] == "exp"


def test_a_mode_sees_transforms():
    x = pb.tensor([0.5, 1.5])
    names, found = _logged(lambda: pb.func.hessian(lambda y: (y**3).sum())(x))
    assert "mul" in names
    np.testing.assert_allclose(found.numpy(), np.diag([3.0, 9.0]))
    names, found = _logged(lambda: pb.func.vmap(pb.sin)(x))
    assert "sin" in names
    np.testing.assert_allclose(found.numpy(), np.sin(x.numpy()))
    names, (_, tangent) = _logged(lambda: pb.func.jvp(pb.sin, (x,), (x,)))
    assert "cos" in names
    np.testing.assert_allclose(tangent.numpy(), x.numpy() * np.cos(x.numpy()))


def test_a_mode_sees_custom_operators():
    @custom_op("modes_test::twice", mutates_args=())
    def twice(x: pb.Tensor) -> pb.Tensor:
        return x * 2

    try:
        names, result = _logged(lambda: twice(pb.ones(2)))
        assert "modes_test::twice" in names
        assert result.tolist() == [2.0, 2.0]
    finally:
        twice._destroy()


def test_a_mode_can_change_the_result():
    class SinIsCos(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is pb.ops.pullback.sin.default:
                func = pb.ops.pullback.cos.default
            return func(*args, **(kwargs or {}))

    with SinIsCos():
        assert pb.sin(pb.tensor(0.0)).item() == 1.0
    assert pb.sin(pb.tensor(0.0)).item() == 0.0


def test_modes_nest_the_innermost_first():
    names = []

    class Named(TorchDispatchMode):
        def __init__(self, name):
            self.name = name

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(self.name)
            return func(*args, **(kwargs or {}))

    with Named("outer"), Named("inner"):
        pb.sin(pb.ones(1))
        assert len(_get_current_dispatch_mode_stack()) == 2
    assert names[-2:] == ["inner", "outer"]


def test_a_handler_runs_without_its_own_mode_and_below_autograd():
    class Twice(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is pb.ops.pullback.sin.default else result

    x = pb.tensor([0.5], requires_grad=True)
    with Twice():
        y = pb.sin(x)
    assert y.item() == 2 * np.sin(0.5)
    assert y.grad_fn.name() == "SinBackward0"  # the product was not recorded


def test_a_mode_may_be_entered_again():
    with Log() as mode, mode:
        pb.sin(pb.ones(1))
    assert mode.names[-2:] == ["sin", "sin"]


def test_the_state_is_restored_after_an_error_in_a_handler():
    class Broken(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise ZeroDivisionError

    def fail():
        with Broken():
            pb.sin(pb.ones(1))

    with pytest.raises(ZeroDivisionError):
        fail()
    assert get_state() is DEFAULT_STATE
    assert _get_current_dispatch_mode_stack() == []
    assert pb.sin(pb.tensor(0.0)).item() == 0.0


def test_a_mode_belongs_to_its_thread():
    seen = []
    with Log() as mode:
        thread = threading.Thread(target=lambda: seen.append(pb.sin(pb.ones(1)).item()))
        thread.start()
        thread.join()
    assert mode.names == []
    assert seen == [np.sin(1.0)]


def test_modes_can_be_disabled_in_a_block():
    with Log() as mode:
        with _disable_current_modes():
            pb.sin(pb.ones(1))
        pb.cos(pb.tensor(1.0))
    assert mode.names == ["cos"]


def test_a_mode_without_a_handler_says_so():
    with pytest.raises(NotImplementedError, match="has no __torch_dispatch__"), TorchDispatchMode():
        pb.sin(pb.tensor(1.0))


def test_a_handler_that_declines_everything_is_refused():
    class Declines(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="returned NotImplemented"), Declines():
        pb.sin(pb.tensor(1.0))


def test_leaving_a_mode_that_was_not_entered_is_refused():
    with pytest.raises(DispatchError, match="never began"):
        Log().__exit__(None, None, None)


def test_inference_mode_and_no_grad_are_kept():
    x = pb.tensor([1.0], requires_grad=True)
    with Log(), pb.no_grad():
        assert not pb.sin(x).requires_grad
    with Log(), pb.inference_mode():
        assert pb.sin(x).is_inference()


class TestAgainstTorch:
    """The same program in both libraries, below the same modes."""

    @pytest.mark.oracle
    def test_the_same_operators_arrive_in_the_same_order(self, torch):
        from torch.utils._python_dispatch import TorchDispatchMode as TorchMode

        theirs = []

        class TorchLog(TorchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                theirs.append(func.overloadpacket.__name__)
                return func(*args, **(kwargs or {}))

        def program(library, x):
            y = library.sin(x) * x
            z = y.clone()
            z.mul_(2)
            return library.exp(z).sum()

        ones = torch.ones(3)
        with TorchLog():
            program(torch, ones)
        x = pb.ones(3)
        ours, _ = _logged(lambda: program(pb, x))
        assert ours == theirs == ["sin", "mul", "clone", "mul_", "exp", "sum"]

    @pytest.mark.oracle
    def test_nesting_and_inner_calls_are_the_same(self, torch):
        from torch.utils._python_dispatch import TorchDispatchMode as TorchMode

        def events(mode_class, library, one):
            found = []

            class Named(mode_class):
                def __init__(self, name):
                    super().__init__()
                    self.name = name

                def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                    found.append((self.name, func.overloadpacket.__name__, types))
                    result = func(*args, **(kwargs or {}))
                    return -result if self.name == "inner" else result

            with Named("outer"), Named("inner"):
                result = library.sin(one)
            return [(name, op.split(".")[-1], tuple(types)) for name, op, types in found], result

        ours, mine = events(TorchDispatchMode, pb, pb.tensor(1.0))
        theirs, other = events(TorchMode, torch, torch.tensor(1.0, dtype=torch.float64))
        assert ours == theirs
        assert mine.item() == other.item()


def test_modes_that_end_in_another_order_leave_nothing():
    first, second = Log(), Log()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert len(_get_current_dispatch_mode_stack()) == 1
    second.__exit__(None, None, None)
    assert _get_current_dispatch_mode() is None
    pb.sin(pb.ones(2))
    assert not first.names
    with pytest.raises(DispatchError, match="never began"):
        first.__exit__(None, None, None)


def test_the_innermost_mode_can_be_switched_off():
    with Log() as outer, Log() as inner:
        with _pop_mode_temporarily():
            pb.sin(pb.ones(2))
        assert _get_current_dispatch_mode() is inner
    assert "sin" in str(outer.names)
    assert "sin" not in str(inner.names)


@pytest.mark.parametrize("needs_grad", [False, True])
def test_a_result_of_another_kind_is_refused(needs_grad):
    class Number(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return 3

    x, square = pb.tensor([1.0, 2.0], requires_grad=needs_grad), pb.eye(2)
    with Number(), pytest.raises(TypeError, match=r"sin\.default: .* returned int"):
        pb.sin(x)
    with Number(), pytest.raises(TypeError, match="a tuple of 2 tensors"):
        pb.linalg.slogdet(square)
    assert pb.ops.pullback.sin.default._schema is pb.ops.pullback.sin.default.schema


def test_blocks_without_modes_give_the_modes():
    class Mode(TorchDispatchMode):
        pass

    with Mode() as outer, Mode() as inner:
        with _pop_mode_temporarily() as found:
            assert found is inner
        with _disable_current_modes() as all_of_them:
            assert all_of_them == [outer, inner]
