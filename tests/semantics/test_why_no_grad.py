"""Why a gradient is missing: exact in anomaly mode, honest without it."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import pullback as pb
from pullback.autograd import why_no_grad
from pullback.autograd.debug.forward_trace import _records


@pytest.fixture
def x():
    return pb.tensor([1.0, 2.0], requires_grad=True)


@pytest.fixture
def w():
    return pb.tensor([3.0, 4.0], requires_grad=True)


def no_grad(x, w):
    with pb.no_grad():
        scale = pb.exp(x)
    return (w * pb.sin(scale)).sum()


def inference(x, w):
    with pb.inference_mode():
        return x * 2.0


def written(x, w):
    y = w * 1.0
    with pb.no_grad():
        y.mul_(x)
    return y


CUTS = [
    (no_grad, "exp", "it ran in no_grad mode"),
    (inference, "mul", "it ran in inference_mode"),
    (written, "mul_", "it ran in no_grad mode"),
    (lambda x, w: (x.detach() * w).sum(), "detach", "that is what it is for"),
    (lambda x, w: x.data * w, "data", "that is what it is for"),
    (lambda x, w: w * x.astype(int), "astype", "its result is int64"),
    (lambda x, w: w * (x > 1), "gt", "its result is bool"),
    (lambda x, w: w[pb.argsort(x)], "argsort", "its result is int64"),
    (lambda x, w: w * pb.zeros_like(x), "zeros_like", "it has no derivative"),
]


@pytest.mark.parametrize(("compute", "operator", "reason"), CUTS)
def test_anomaly_mode_names_the_cut(x, w, compute, operator, reason):
    with pb.autograd.set_detect_anomaly(True):
        y = compute(x, w)
    answer = why_no_grad(y, x)
    assert f"the path is cut by {operator} at {__file__}:" in answer
    assert reason in answer
    lines, first = inspect.getsourcelines(compute)
    line = int(re.search(r":(\d+): ", answer)[1])
    assert first <= line < first + len(lines)


@pytest.mark.parametrize(("compute", "operator", "reason"), CUTS)
def test_without_anomaly_mode_the_answer_proposes_it(x, w, compute, operator, reason):
    answer = why_no_grad(compute(x, w), x)
    assert "the path is cut" not in answer
    assert "There is a path" not in answer
    assert "set_detect_anomaly(True)" in answer or "x.detach()" in answer or "x.data" in answer


def test_a_cut_further_back_is_followed(x, w):
    with pb.autograd.set_detect_anomaly(True):
        hidden = x.detach()
        for _ in range(50):
            hidden = hidden * 1.5
        y = (w * hidden).sum()
    answer = why_no_grad(y, x)
    assert "cut by detach" in answer
    assert "SumBackward0" in answer
    assert "more" in answer


def test_path_is_described(x, w):
    answer = why_no_grad((pb.sin(x) * w).sum(), x)
    assert answer.startswith(
        "There is a path from y to x: SumBackward0 <- MulBackward0 <- SinBackward0 <- Accumulate"
    )
    assert why_no_grad(x, x) == "There is a path: y is x."


def test_a_path_without_cuts_is_preferred(x, w):
    with pb.autograd.set_detect_anomaly(True):
        y = w * x.detach() + pb.sin(pb.cos(x))
    assert why_no_grad(y, x).startswith("There is a path")


def test_an_input_that_was_not_used(x, w):
    assert "Either x was not used, or where nothing is recorded" in why_no_grad(w * 2.0, x)
    with pb.autograd.set_detect_anomaly(True):
        y = w * 2.0
    answer = why_no_grad(y, x)
    assert "ends at a leaf of shape [2]. So x was not used to compute y" in answer


def test_shared_memory_is_named_where_the_graph_has_no_edge(x, w):
    assert "MulBackward0 uses a constant: it shares x's memory and version, as x.detach()" in (
        why_no_grad(w * x.detach(), x)
    )
    alias = pb.from_numpy(x.detach().numpy())
    assert "shares x's memory, as x.data" in why_no_grad(w * alias, x)
    assert why_no_grad(x.detach(), x).startswith("y has no history: it shares x's memory")


def test_a_result_without_history(x):
    assert "it is int64" in why_no_grad(x.astype(int), x)
    with pb.inference_mode():
        y = x * 2.0
    assert "made in inference_mode" in why_no_grad(y, x)
    y = x * 2.0
    y.detach_()
    assert "detach_() has cut it" in why_no_grad(y, x)
    with pb.no_grad():
        y = x * 2.0
    assert "it was made in no_grad mode, from tensors that do not" in why_no_grad(y, x)


def test_an_input_that_does_not_require_grad(x, w):
    plain, number = pb.tensor([1.0, 2.0]), pb.tensor([1, 2])
    assert "Call x.requires_grad_() before y is computed" in why_no_grad(w * plain, plain)
    assert "it is int64" in why_no_grad(w * number, number)
    assert "requires_grad_" not in why_no_grad(w * number, number)


def test_another_view_and_an_older_value(x):
    a = x * 1.0
    y = a * 2.0
    assert "the base that x is a view of" in why_no_grad(y, a[:1])
    a.mul_(3.0)
    assert "perhaps x was written to" in why_no_grad(y, a)


def test_an_operator_without_an_autograd_kernel(x):
    with pb.library.Library("why", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda t: pb.from_numpy(t.numpy(force=True) * 2), "CPU")
        y = pb.ops.why.twice(x)
        answer = why_no_grad(y, x)
    assert answer.startswith("There is a path, but gradients end on it: why::twice")


def test_wrong_arguments(x):
    with pytest.raises(TypeError, match="y must be a Tensor, not ndarray"):
        why_no_grad(np.zeros(2), x)


def test_records_of_cuts_end_with_their_tensors(x, w):
    before = len(_records)
    with pb.autograd.set_detect_anomaly(True):
        for _ in range(10):
            no_grad(x, w)
            x.detach()
    assert len(_records) == before


# --- numbers that are not finite -----------------------------------------------------------------


def test_forward_names_the_first_operation_that_is_not_finite(x):
    def compute():
        a = pb.sin(x)
        b = pb.log(a - a)
        return pb.exp(b).sum()

    with (
        pb.autograd.set_detect_anomaly(True, check_finite=True),
        np.errstate(all="ignore"),
        pytest.raises(FloatingPointError) as caught,
    ):
        compute()
    message = str(caught.value)
    line = inspect.getsourcelines(compute)[1] + 2
    assert message.startswith("log made inf out of finite numbers: inputs of shape [2], output 0")
    assert f"at {__file__}:{line}: b = pb.log(a - a)" in message


@pytest.mark.parametrize(
    ("compute", "words"),
    [
        (lambda x: (x - 1.0).div_(0.0), "div_ made nan"),
        (lambda x: pb.sqrt(-x.detach()), "sqrt made nan"),
        (lambda x: pb.mean(1 / (x - x)), "div made inf"),
    ],
)
def test_forward_is_checked_in_every_mode(x, compute, words):
    with (
        pb.autograd.set_detect_anomaly(True, check_finite=True),
        np.errstate(all="ignore"),
        pb.no_grad(),
        pytest.raises(FloatingPointError, match=words),
    ):
        compute(x)


def test_requested_infinity_does_not_raise(x):
    with pb.autograd.set_detect_anomaly(True, check_finite=True):
        mask = pb.full((2,), -np.inf)
        scores = pb.where(pb.tensor([True, False]), x, mask)
        assert pb.exp(scores).tolist() == [pytest.approx(np.e), 0.0]
        assert (x * np.inf).tolist() == [np.inf, np.inf]


def test_backward_names_inf_with_check_finite(x):
    zero = pb.tensor([0.0, 1.0], requires_grad=True)
    with pb.autograd.set_detect_anomaly(True, check_finite=True):
        y = pb.sqrt(zero).sum()
        with (
            pytest.warns(UserWarning, match="Traceback of forward call that caused the error"),
            pytest.raises(FloatingPointError, match="'SqrtBackward0' returned inf") as caught,
        ):
            y.backward()
    assert "The shape of that gradient is [2]. It was recorded at" in str(caught.value)
    assert __file__ in str(caught.value)
    with pb.autograd.set_detect_anomaly(True):
        pb.sqrt(zero).sum().backward()  # as in PyTorch, inf alone is no error
    assert pb.autograd.is_anomaly_check_finite_enabled() is False
