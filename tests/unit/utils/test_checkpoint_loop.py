"""Loops within a memory budget: gradients to the bit, recomputations to the formula."""

from __future__ import annotations

import functools
import gc
import tracemalloc

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional
from pullback.errors import AutogradError, CheckpointError
from pullback.utils.checkpoint import checkpoint, checkpoint_loop
from pullback.utils.checkpoint.budget import parse_bytes
from pullback.utils.checkpoint.schedule import best_split, kept_places, recomputations

SIZE = 8
STATE = SIZE * 8  # bytes


def plain_loop(step, state, n, budget=None):
    for _ in range(n):
        state = step(state)
    return state


class Problem:
    """A step with a parameter, a captured tensor with a history, and a count of its calls."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.weight = pb.tensor(rng.normal(size=(SIZE, SIZE)) * 0.3, requires_grad=True)
        self.bias = pb.tensor(rng.normal(size=SIZE), requires_grad=True)
        self.start = pb.tensor(rng.normal(size=SIZE), requires_grad=True)
        self.calls = 0

    def gradients(self, loop, n, budget=None, retain=0):
        shift = pb.exp(self.bias) * 0.1

        def step(x):
            self.calls += 1
            # The parameter is read twice, so that the order of sums matters to the last bit.
            return x + 0.1 * pb.tanh(self.weight @ x + shift * self.weight[0])

        result = loop(step, self.start, n, budget)
        loss = (result * result).sum()
        inputs = [self.weight, self.bias, self.start]
        for _ in range(retain):
            pb.autograd.grad(loss, inputs, retain_graph=True)
        found = pb.autograd.grad(loss, inputs)
        return [result.detach().numpy(), *(g.numpy() for g in found)]


@pytest.mark.parametrize(("n", "slots"), [(1, 1), (2, 1), (9, 1), (20, 3), (50, 4), (13, 99)])
def test_gradients_are_those_of_the_plain_loop_to_the_bit(n, slots):
    problem = Problem()
    expected = problem.gradients(plain_loop, n)
    for retain in (0, 1):
        found = problem.gradients(checkpoint_loop, n, slots * STATE, retain)
        for want, got in zip(expected, found, strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("n", "slots"), [(1, 1), (7, 2), (40, 3), (56, 5), (30, 30)])
def test_number_of_repeated_steps_is_that_of_the_formula(n, slots):
    problem = Problem()
    problem.gradients(checkpoint_loop, n, slots * STATE)
    assert problem.calls == 2 * n + recomputations(n, slots)


@functools.cache
def least(length, slots):
    """By trying every place: steps forward to run a stretch backwards from its first state."""
    if length == 1:
        return 0
    if slots == 1:
        return length * (length - 1) // 2
    return min(m + least(length - m, slots - 1) + least(m, slots) for m in range(1, length))


@functools.cache
def least_after_forward(length, slots):
    """By trying every place: the same for a loop whose forward run keeps states for nothing."""
    if slots == 1 or length == 1:
        return least(length, slots)
    return min(
        least(m, slots) + least_after_forward(length - m, slots - 1) for m in range(1, length)
    )


@pytest.mark.parametrize("slots", range(1, 6))
def test_no_other_schedule_runs_fewer_steps(slots):
    for length in range(slots, 45):
        assert recomputations(length, slots) == least_after_forward(length, slots)
        places = kept_places(length, slots)
        assert places[0] == 0
        assert sorted(set(places)) == places
        assert places[-1] < length


@pytest.mark.parametrize("slots", range(1, 6))
def test_the_best_split_is_best(slots):
    for length in range(2, 45):
        split = best_split(length, slots)
        rest = least(length - split, slots - 1) if slots > 1 else 0
        assert 1 <= split < length
        if slots > 1:
            assert split + rest + least(split, slots) == least(length, slots)
        else:
            assert split == length - 1


def test_states_that_are_kept_fit_into_the_budget():
    """The peak of the memory that Python traces, in states."""
    size, n, slots = 100_000, 60, 5
    start = pb.tensor(np.linspace(0.0, 1.0, size), requires_grad=True)

    def peak(loop):
        gc.collect()
        gc.disable()  # what the loop lets go of must not lie on a cycle
        tracemalloc.start()
        result = loop(lambda x: x + 0.01 * pb.sin(x), start, n, slots * size * 8)
        (found,) = pb.autograd.grad(result.sum(), start)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        gc.enable()
        return most / (size * 8), found.numpy()

    kept, found = peak(checkpoint_loop)
    everything, expected = peak(plain_loop)
    np.testing.assert_array_equal(found, expected)
    assert everything > n  # in states: the sine saves its argument at every step
    assert kept < slots + 9  # one step's own values, gradients and results on top


def test_the_state_may_be_any_tree_and_count_its_steps():
    layers = [pb.tensor(np.full(2, 0.1 * (i + 1)), requires_grad=True) for i in range(6)]
    x = pb.tensor([1.0, 2.0], requires_grad=True)

    def step(state):
        layer = layers[state["i"]]  # another parameter at every step
        first, kept = state["pair"]
        return {"i": state["i"] + 1, "pair": (pb.sin(first) * layer, kept), "none": None}

    found = []
    for loop in (plain_loop, checkpoint_loop):
        final = loop(step, {"i": 0, "pair": (x, x * 2), "none": None}, 6, 64)
        assert final["i"] == 6
        assert final["none"] is None
        total = (final["pair"][0] * final["pair"][1]).sum()
        found.append([g.numpy() for g in pb.autograd.grad(total, [x, *layers])])
    for want, got in zip(*found, strict=True):
        np.testing.assert_array_equal(got, want)


def test_leaves_get_their_grad_by_backward():
    problem = Problem()
    weight = problem.weight
    checkpoint_loop(lambda x: pb.tanh(weight @ x), problem.start, 10, 3 * STATE).sum().backward()
    assert weight.grad is not None
    assert problem.start.grad.shape == (SIZE,)


def test_a_result_that_does_not_require_grad_stays_plain():
    result = checkpoint_loop(lambda s: (s[0] * 2, s[1]), (pb.ones(2), pb.tensor(3)), 4)
    assert not result[0].requires_grad
    assert result[0].tolist() == [16.0, 16.0]
    with pb.no_grad():
        x = pb.ones(2, requires_grad=True)
        assert not checkpoint_loop(lambda x: x * 2, x, 3).requires_grad
    assert checkpoint_loop(lambda x: x * 2, 5, 0) == 5


def test_only_some_of_the_state_may_be_used_afterwards():
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    y = pb.tensor([3.0, 4.0], requires_grad=True)
    final = checkpoint_loop(lambda s: (s[0] * 2, s[1] * s[1]), (x, y), 3, 64)
    found = pb.autograd.grad(final[0].sum(), [x, y], allow_unused=True)
    assert found[0].tolist() == [8.0, 8.0]
    assert found[1] is None or not found[1].numpy().any()


@pytest.mark.parametrize("generator", [False, True], ids=["global", "generator"])
def test_random_numbers_are_drawn_again(generator):
    x = pb.tensor(np.ones(40), requires_grad=True)
    found = []
    for loop in (plain_loop, checkpoint_loop):
        rng = np.random.default_rng(5) if generator else None
        np.random.seed(5)

        def step(x, rng=rng):
            return pb.nn.functional.dropout(x * x, 0.1, generator=rng)

        result = loop(step, x, 12, 3 * x.nbytes)
        after = np.random.rand()
        (gradient,) = pb.autograd.grad(result.sum(), x)
        found.append((result.detach().numpy(), gradient.numpy(), after, np.random.rand()))
    for want, got in zip(*found, strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_loop_inside_a_loop_and_inside_a_checkpoint():
    w = pb.tensor([0.5, 0.25], requires_grad=True)
    x = pb.tensor([1.0, 2.0], requires_grad=True)

    def nested(loop):
        return lambda x: loop(lambda x: pb.sin(x * w) + x, x, 3, 32) * w

    found = []
    for loop in (plain_loop, checkpoint_loop):
        for outer in (plain_loop, checkpoint_loop):
            y = outer(nested(loop), x, 4, 32)
            found.append([g.tolist() for g in pb.autograd.grad(y.sum(), [x, w])])
        y = checkpoint(nested(loop), x, use_reentrant=False)
        pb.autograd.grad(y.sum(), [x, w])
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-14)


def test_transforms_run_the_plain_loop():
    x = pb.tensor([1.0, 2.0])
    with pb.autograd.forward_ad.dual_level():
        dual = pb.autograd.forward_ad.make_dual(x, pb.ones(2))
        with pytest.warns(UserWarning, match="keeps everything"):
            result = checkpoint_loop(lambda x: x * x, dual, 2)
        tangent = pb.autograd.forward_ad.unpack_dual(result).tangent
    assert tangent.tolist() == [4.0, 32.0]


def leaf():
    return pb.tensor([1.0, 2.0], requires_grad=True)


def test_a_second_pass_needs_retain_graph():
    x = leaf()
    y = checkpoint_loop(lambda x: x * x, x, 3).sum()
    pb.autograd.grad(y, x)
    with pytest.raises(RuntimeError, match="a second time"):
        pb.autograd.grad(y, x)


def test_a_tensor_that_leaves_a_step_by_another_door_is_refused():
    x, seen = leaf(), []

    def step(x):
        seen.append((x * x).sum())
        return x * 2

    checkpoint_loop(step, x, 3)
    with pytest.raises(CheckpointError, match="part of the state"):
        seen[0].backward()
    seen.clear()

    def remembering(x):
        seen.append(x * x)
        return x * seen[0]

    with pytest.raises(CheckpointError, match="an earlier step"):
        checkpoint_loop(remembering, x, 3)


def test_writes_to_the_state_are_refused():
    with pytest.raises(RuntimeError, match="in-place operation"):
        checkpoint_loop(lambda x: x.mul_(2), leaf(), 3)
    plain = pb.ones(2)
    with pytest.raises(RuntimeError, match="writes to the state"):
        checkpoint_loop(lambda x: x.mul_(2), plain, 3)
    x = leaf()
    start = x * 1
    y = checkpoint_loop(lambda x: x * x, start, 3).sum()
    with pb.no_grad():
        start.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_the_result_has_memory_of_its_own():
    x = leaf()
    start = x * 1
    result = checkpoint_loop(lambda s: s, start, 2)
    result.mul_(10)
    assert start.tolist() == [1.0, 2.0]
    (found,) = pb.autograd.grad(result.sum(), x)
    assert found.tolist() == [10.0, 10.0]


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (lambda x: (x, x), "return a state like the one that it gets"),
        (lambda x: x.sum(), "has to stay what it is"),
        (lambda x: x.astype("float32"), "has to stay what it is"),
        (lambda _: 3.0, "has to stay what it is"),
    ],
)
def test_steps_that_change_the_kind_of_state_are_refused(step, words):
    with pytest.raises(CheckpointError, match=words):
        checkpoint_loop(step, leaf(), 3)


def test_a_step_that_reads_something_else_the_second_time_is_refused():
    first, second = leaf(), leaf()
    calls = []

    def step(x):
        calls.append(1)
        return x * (first if len(calls) <= 3 else second)

    y = checkpoint_loop(step, leaf(), 3, 16).sum()
    with pytest.raises(CheckpointError, match="did not read at first"):
        y.backward()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((3, 1, 2), "step is of type int"),
        ((lambda x: x, 1, -1), "n is -1"),
        ((lambda x: x, 1, 2.5), "n is 2.5"),
        ((lambda x: x, 1, 2, "lots"), "budget is 'lots'"),
        ((lambda x: x, 1, 2, 1.5), "budget is 1.5"),
        ((lambda x: x, pb.ones(100), 2, "0.1KB"), "one state takes 800 bytes"),
    ],
)
def test_wrong_arguments(arguments, words):
    with pytest.raises(AutogradError, match=words):
        checkpoint_loop(*arguments)


def test_budgets():
    assert parse_bytes("500MB") == 500_000_000
    assert parse_bytes(" 1.5 gib ") == 3 * 2**29
    assert parse_bytes("12") == parse_bytes(12) == 12
