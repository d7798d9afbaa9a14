"""Threads, and anomaly mode."""

from __future__ import annotations

import sys
import threading

import pytest


def in_threads(count, function):
    """The results of a function in several threads that start together; errors as themselves."""
    results, barrier = [], threading.Barrier(count)

    def run():
        barrier.wait()
        try:
            results.append(function())
        except Exception as error:
            results.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_concurrent_backward_runs_in_calling_thread(lib):
    """Rule 5.36."""
    seen = []

    def run():
        x = lib.leaf(2.0)
        y = x * x
        y.register_hook(lambda _: seen.append(threading.get_ident() == me))
        me = threading.get_ident()
        y.backward()
        return x.grad.item()

    assert in_threads(4, run) == [4.0] * 4
    assert seen == [True] * 4


def test_only_one_thread_passes_shared_graph(lib, words):
    """Rule 5.37."""
    a = lib.leaf(1.0, 2.0)
    y = (a * a).sum()
    results = in_threads(4, y.backward)
    errors = [error for error in results if error is not None]
    assert len(errors) == 3
    assert all(words.freed in str(error) for error in errors)
    assert a.grad.tolist() == [2.0, 4.0]
    a.grad = None
    y = (a * a).sum()
    assert in_threads(4, lambda: y.backward(retain_graph=True)) == [None] * 4
    assert a.grad.tolist() == [8.0, 16.0]


def test_one_thread_passes_shared_graph_under_fast_switching(pb, words):
    """Rule 5.37. With threads that are interrupted all the time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(30):
            a = pb.leaf(1.0, 2.0)
            y = pb.exp(pb.sin(a) * a).sum()
            results = in_threads(4, y.backward)
            errors = [error for error in results if error is not None]
            assert len(errors) == 3
            assert all(words.freed in str(error) for error in errors)
            (once,) = pb.grad(pb.exp(pb.sin(a) * a).sum(), a)
            assert a.grad.tolist() == once.tolist()
            b = pb.leaf(1.0)
            nothing_saved = b + b
            assert in_threads(4, nothing_saved.backward) == [None] * 4
            assert b.grad.item() == 8.0
    finally:
        sys.setswitchinterval(interval)


def test_reentrant_pass_over_same_graph_raises_freed_error(pb):
    """Rule 5.37."""
    a = pb.leaf(1.0, 2.0)
    y = (a * 2).sum()
    seen = []

    def again(grad):
        if not seen:
            seen.append(True)
            y.backward()

    y.register_hook(again)
    with pb.raises("backward through the graph a second time"):
        y.backward()


def test_concurrent_accumulation_is_exact(lib):
    """Rule 5.38."""
    p = lib.leaf(1.0)

    def run():
        for _ in range(200):
            (p * 1).backward()

    assert in_threads(4, run) == [None] * 4
    assert p.grad.item() == 800.0


def test_thread_local_and_process_wide_state(lib):
    """Rule 5.39."""
    with lib.autograd.set_detect_anomaly(True):
        assert in_threads(1, lib.is_anomaly_enabled) == [True]
    assert in_threads(1, lib.is_anomaly_enabled) == [False]


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_dual_level_is_shared_by_threads(lib):
    """Rule 5.39."""
    forward_ad = lib.autograd.forward_ad
    seen = []

    def look():
        seen.append(forward_ad.unpack_dual(dual * 2).tangent.tolist())
        made = forward_ad.make_dual(lib.tensor([1.0]), lib.tensor([5.0]))
        seen.append(forward_ad.unpack_dual(made).tangent.tolist())

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(lib.tensor([1.0]), lib.tensor([3.0]))
        assert in_threads(1, look) == [None]
    assert seen == [[6.0], [5.0]]


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_modes_belong_to_their_thread(lib, mode):
    """Rule 5.39."""
    with getattr(lib, mode)():
        assert in_threads(1, lambda: (lib.leaf(1.0) * 2).requires_grad) == [True]


def test_multithreading_switch_is_thread_local(lib):
    """Rule 5.40."""
    enabled = lib.autograd.is_multithreading_enabled
    assert enabled()
    with lib.autograd.set_multithreading_enabled(False):
        assert not enabled()
        assert in_threads(1, enabled) == [True]
        (lib.leaf(1.0) * 2).backward()
    assert enabled()


def test_anomaly_mode_warns_and_restores(lib):
    """Rule 5.41."""

    def modes():
        return lib.is_anomaly_enabled(), lib.is_anomaly_check_nan_enabled()

    assert modes() == (False, True)
    with pytest.warns(UserWarning, match="Anomaly Detection"):
        block = lib.autograd.detect_anomaly(check_nan=False)
    with block:
        assert modes() == (True, False)
    assert modes() == (False, True)
    with lib.autograd.set_detect_anomaly(True, check_nan=False):
        assert modes() == (True, False)
    lib.autograd.set_detect_anomaly(True)
    assert modes() == (True, True)
    lib.autograd.set_detect_anomaly(False)
    assert modes() == (False, True)


def test_anomaly_mode_stores_forward_traceback(lib):
    """Rule 5.42."""
    a = lib.leaf(1.0, 2.0)
    with lib.autograd.set_detect_anomaly(True):
        nodes = [(a * 2).grad_fn, a[:1].grad_fn]
        written = a * 1
        written.mul_(2)
        nodes.append(written.grad_fn)
        written[:1].mul_(2)
        nodes.append(written.grad_fn)
    for node in nodes:
        text = "".join(node.metadata["traceback_"])
        assert "test_anomaly_mode_stores_forward_traceback" in text
    assert "traceback_" not in (a * 2).grad_fn.metadata


def test_anomaly_traceback_ends_at_user_line(pb):
    """Rule 5.42."""
    a = pb.leaf(1.0, 2.0)
    with pb.autograd.set_detect_anomaly(True):
        y = a * 2
    lines = "".join(y.grad_fn.metadata["traceback_"])
    assert "y = a * 2" in lines


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore:divide by zero:RuntimeWarning")
def test_anomaly_mode_raises_on_nan_gradient(lib):
    """Rule 5.43."""
    a = lib.leaf(0.0, 1.0)
    with lib.autograd.set_detect_anomaly(True):
        y = (lib.sqrt(a) * 0).sum()
        with lib.raises("Function 'SqrtBackward0' returned nan values in its 0th output."):
            y.backward()
        lib.log(a).sum().backward()  # inf is no NaN
        (a * float("nan")).detach()
        seed = lib.tensor([float("nan"), 1.0])
        with lib.raises("returned nan values in its 0th output"):
            (a * 2).backward(seed)


def test_anomaly_mode_warns_with_forward_traceback(lib):
    """Rule 5.44."""
    a = lib.leaf(0.0, 1.0)
    with lib.autograd.set_detect_anomaly(True):
        y = (lib.sqrt(a) * 0).sum()
        with (
            pytest.warns(UserWarning, match="test_anomaly_mode_warns_with_forward_traceback"),
            pytest.raises(RuntimeError),
        ):
            y.backward()
    y = (lib.sqrt(a) * 0).sum()
    with (
        lib.autograd.set_detect_anomaly(True),
        pytest.warns(UserWarning, match="No forward pass information available"),
        pytest.raises(RuntimeError),
    ):
        y.backward()


def test_anomaly_mode_shows_traceback_for_user_errors(lib):
    """Rule 5.44."""

    class Broken(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            raise ZeroDivisionError("mine")

    with lib.autograd.set_detect_anomaly(True):
        y = Broken.apply(lib.leaf(1.0))
        with (
            pytest.warns(UserWarning, match="test_anomaly_mode_shows_traceback_for_user_errors"),
            lib.raises("mine", ZeroDivisionError),
        ):
            y.backward()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_version_error_hint_depends_on_anomaly_mode(lib, words):
    """Rule 5.45."""
    x = lib.leaf(1.0, 2.0)

    def stale():
        y = x * x
        with lib.no_grad():
            x.add_(1)
        return y.sum()

    with lib.raises(words.version + " ... enable anomaly detection"):
        stale().backward()
    with lib.autograd.set_detect_anomaly(True):
        y = stale()
        with lib.raises(words.version + " ... the backtrace further above"):
            y.backward()


def test_anomaly_mode_check_nan_can_be_off(lib):
    """Rule 5.46."""
    a = lib.leaf(0.0, 1.0)
    with lib.autograd.set_detect_anomaly(True, check_nan=False):
        (lib.sqrt(a) * 0).sum().backward()
    found = a.grad.tolist()
    assert found[0] != found[0]
    assert found[1] == 0.0
