"""``profile``: what it measures, that it leaves nothing behind, and its forms."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

import pullback as pb
from pullback.autograd.graph.node import Node
from pullback.dispatch import table
from pullback.errors import AutogradError, AutogradValueError
from pullback.profiler import profile
from pullback.profiler.events import profile_of


def leaf(*values: float) -> pb.Tensor:
    return pb.tensor(list(values), requires_grad=True)


def names(measured: profile, phase: str) -> list[str]:
    return [event.name for event in measured.events() if event.phase == phase]


def test_forward_calls_and_backward_nodes_are_measured():
    x = leaf(1.0, 2.0)
    with profile() as measured:
        y = (pb.sin(x) * x).sum()
        y.backward()
    assert names(measured, "forward") == ["sin", "mul", "sum"]
    assert names(measured, "backward") == ["SumBackward0", "MulBackward0", "SinBackward0"]
    assert np.allclose(x.grad.numpy(), np.cos([1, 2]) * [1, 2] + np.sin([1, 2]))
    for event in measured.events():
        assert 0 < event.self_duration <= event.duration
        assert "test_profile.py" in event.line


def test_nothing_is_left_behind():
    x = leaf(1.0)
    assert table._observers == ()
    with profile() as measured:
        y = pb.sin(x)
    assert table._observers == ()
    before = len(measured.events())
    pb.sin(x)
    y.backward()
    assert len(measured.events()) == before
    hooks = y.grad_fn._hooks
    assert not hooks.pre
    assert not hooks.post


def test_an_error_in_the_block_ends_the_profile():
    with pytest.raises(ZeroDivisionError), profile():
        1 / 0  # noqa: B018 - raises
    assert table._observers == ()


def test_a_kernel_that_raises_is_no_event():
    a, b = pb.ones(2), pb.ones(3)
    with profile() as measured:
        with pytest.raises(ValueError, match="do not match"):
            pb.matmul(a, b)
        pb.sin(leaf(1.0))
    assert names(measured, "forward") == ["sin"]


def test_operators_inside_of_others_do_not_count_twice():
    x = leaf(1.0, 2.0, 3.0)
    with profile() as measured:
        pb.var(x)
    total = sum(event.self_duration for event in measured.events())
    assert total <= max(event.duration for event in measured.events()) * 1.001


def test_new_memory_counts_and_views_do_not():
    x = leaf(*np.ones(10))
    with profile() as measured:
        pb.reshape(pb.exp(x), (5, 2))
    rows = {row.name: row.nbytes for row in measured.key_averages()}
    assert rows == {"exp": 80, "reshape": 0}


def test_cotangents_and_finite_results_are_recorded():
    x = leaf(4.0, 9.0)
    with profile(check_finite=True):
        y = pb.sqrt(x)
        (y * pb.tensor([3.0, 4.0])).sum().backward()
    record = profile_of(y.grad_fn)
    assert record.cotangent_norm == 5.0
    assert record.is_finite is True
    assert record.backward_time > 0


def test_a_write_to_a_view_is_measured_at_the_base():
    x = leaf(1.0, 2.0)
    with profile():
        a = x * 1
        a[:1].mul_(3.0)
        a.sum().backward()
    assert a.grad_fn.name() == "CopySlices"
    assert profile_of(a.grad_fn).backward_time > 0
    assert x.grad.tolist() == [3.0, 1.0]


def test_values_and_second_derivatives_are_the_same():
    def gradients():
        x = leaf(0.3, 0.7)
        (first,) = pb.autograd.grad((pb.exp(x) * pb.sin(x)).sum(), x, create_graph=True)
        (second,) = pb.autograd.grad(first.sum(), x)
        return first.detach().numpy(), second.numpy()

    plain = gradients()
    with profile() as measured:
        found = gradients()
    assert all(map(np.array_equal, plain, found))
    assert "mul" in names(measured, "backward")  # formulas of a recorded pass


def test_threads_are_told_apart():
    def work():
        pb.sin(leaf(1.0))

    with profile() as measured:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        work()
    assert len({event.thread for event in measured.events()}) == 2


def test_anomaly_mode_around_a_profile_stays():
    x = leaf(1.0)
    with pb.autograd.set_detect_anomaly(True):
        outer = table._observers
        with profile() as measured:
            y = pb.sin(x.detach() * x)
        assert table._observers == outer
    assert table._observers == ()
    assert names(measured, "forward") == ["mul", "sin"]
    assert isinstance(y.grad_fn, Node)


def test_anomaly_mode_inside_of_a_profile_leaves_it_active():
    x = leaf(1.0)
    with profile() as measured:
        with pb.autograd.set_detect_anomaly(True):
            pb.sin(x).backward()
        pb.cos(x)
    assert table._observers == ()
    assert names(measured, "forward") == ["sin", "cos"]
    assert names(measured, "backward") == ["SinBackward0"]


def test_nested_profiles_measure_both_passes():
    x = leaf(1.0)
    with profile() as outer:
        with profile() as inner:
            pb.sin(x).backward()
        pb.cos(x)
    assert [event.name for event in inner.events()] == ["sin", "SinBackward0"]
    assert sorted(event.name for event in outer.events()) == ["SinBackward0", "cos", "sin"]


def test_profiles_end_in_any_order():
    first, second = profile(), profile()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    pb.sin(leaf(1.0))
    second.__exit__(None, None, None)
    assert table._observers == ()
    assert [len(first.events()), len(second.events())] == [0, 1]


def test_profiles_of_several_threads_leave_nothing_behind():
    barrier, counts = threading.Barrier(4), []

    def work():
        x = leaf(1.0)
        barrier.wait()
        for _ in range(20):
            with profile() as measured:
                pb.sin(x).backward()
            counts.append(len(measured.events()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert table._observers == ()
    assert len(counts) == 80
    assert min(counts) >= 2


def test_a_profile_is_not_entered_twice():
    with profile() as measured:
        with pytest.raises(AutogradError, match="active already"), measured:
            pass
        assert len(table._observers) == 1


def test_the_table_is_sorted():
    x = leaf(1.0)
    with profile() as measured:
        for _ in range(3):
            pb.sin(x)
        pb.cos(x)
    averages = measured.key_averages()
    assert [row.name for row in averages.sorted_by("calls")] == ["sin", "cos"]
    assert len(averages.table(row_limit=1).splitlines()) == 2
    assert "<td>sin</td>" in measured._repr_html_()
    with pytest.raises(AutogradValueError, match="key is 'x'"):
        averages.sorted_by("x")


def test_the_trace_is_that_of_chrome(tmp_path):
    with profile() as measured:
        pb.sin(leaf(1.0)).backward()
    measured.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert [event["name"] for event in trace["traceEvents"]] == ["sin", "SinBackward0"]
    for event in trace["traceEvents"]:
        assert event["ph"] == "X"
        assert event["ts"] >= 0
        assert event["dur"] > 0
        assert {"pid", "tid", "cat", "args"} <= event.keys()
