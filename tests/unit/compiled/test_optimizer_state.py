"""Compiled training steps whose optimizer is changed: state, groups and options."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

import pullback as pb

START = np.array([1.0, 2.0, 3.0])
X = np.array([1.0, 0.5, 2.0])
CALLS = 10
OPTIMIZERS = {
    "sgd": lambda params: pb.optim.SGD(params, lr=0.02, momentum=0.9),
    "adam": lambda params: pb.optim.Adam(params, lr=0.05),
}
optimizers = pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)


def _nothing(*_):
    return None


def _train(make, compiles, *, between=_nothing, before=_nothing, after=_nothing, result=None):
    """Losses and parameters of all calls, and the function; the hooks get the optimizer."""
    w = pb.tensor(START.copy(), requires_grad=True)
    optimizer = make([w])

    def step(x):
        optimizer.zero_grad()
        loss = ((w * x) ** 2).sum()
        loss.backward()
        before(optimizer)
        optimizer.step()
        after(optimizer)
        return loss if result is None else result(loss, optimizer)

    call = pb.compile(step) if compiles else step
    found = []
    for number in range(CALLS):
        between(number, optimizer, w)
        loss = call(pb.tensor(X))
        found.append([loss.item(), *w.tolist(), optimizer.param_groups[0]["lr"]])
    return found, call


def _compare(make, *, is_compiled, **hooks):
    expected, _ = _train(make, False, **hooks)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found, call = _train(make, True, **hooks)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    if is_compiled:
        assert not caught
        assert call.stats["traces"] == 2
        assert call.stats["hits"] == CALLS - 2
    else:
        assert len(caught) == 1
        assert "It is called as it is" in str(caught[0].message)
        assert call.stats["eager"] == CALLS


# --- changes between calls ------------------------------------------------------------------------


def _clear(optimizer, _):
    optimizer.state.clear()


def _clear_one(optimizer, w):
    optimizer.state[w].clear()


def _pop(optimizer, w):
    optimizer.state.pop(w)


def _replace_tensor(optimizer, w):
    name = next(key for key in optimizer.state[w] if key != "step")
    optimizer.state[w][name] = pb.tensor([0.1, 0.2, 0.3])


def _replace_state(optimizer, w):
    optimizer.state[w] = {key: value.clone() * 2 for key, value in optimizer.state[w].items()}


def _replace_group(optimizer, _):
    optimizer.param_groups[0] = dict(optimizer.param_groups[0], lr=0.03)


@optimizers
@pytest.mark.parametrize(
    "change", [_clear, _clear_one, _pop, _replace_tensor, _replace_state, _replace_group]
)
def test_changes_between_calls_are_seen(make, change):
    def between(number, optimizer, w):
        if number == 4:
            change(optimizer, w)

    _compare(make, is_compiled=True, between=between)


# --- options and state inside of the function -----------------------------------------------------


def _halve(optimizer):
    optimizer.param_groups[0]["lr"] *= 0.5


@optimizers
@pytest.mark.parametrize("place", ["before", "after"])
def test_a_step_that_sets_an_option_is_called_as_it_is(make, place):
    _compare(make, is_compiled=False, **{place: _halve})


@optimizers
def test_a_step_that_clears_the_state_is_called_as_it_is(make):
    _compare(make, is_compiled=False, before=lambda optimizer: optimizer.state.clear())


READS = {
    "param_groups": lambda optimizer: optimizer.param_groups[0]["lr"],
    "state_dict": lambda optimizer: optimizer.state_dict()["param_groups"][0]["lr"],
    "defaults": lambda optimizer: optimizer.defaults["lr"],
    "schedule": lambda optimizer: optimizer.schedule.get_last_lr()[0],
}


@optimizers
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_step_that_reads_an_option_is_called_as_it_is(make, read):
    def between(number, optimizer, _):
        if number == 0:
            optimizer.schedule = pb.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
        else:
            optimizer.schedule.step()
        optimizer.defaults["lr"] = 1.0 + number

    _compare(
        make,
        is_compiled=False,
        between=between,
        result=lambda loss, optimizer: loss * read(optimizer),
    )


@optimizers
def test_an_optimizer_made_inside_begins_anew_in_each_call(make):
    def run(compiles):
        w = pb.tensor(START.copy(), requires_grad=True)

        def step(x):
            optimizer = make([w])
            optimizer.zero_grad()
            loss = ((w * x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        call = pb.compile(step) if compiles else step
        return [[call(pb.tensor(X)).item(), *w.tolist()] for _ in range(CALLS)]

    with pytest.warns(UserWarning, match="called as it is"):
        found = run(True)
    np.testing.assert_allclose(found, run(False), rtol=1e-12)


def test_fullgraph_names_the_option():
    w = pb.tensor(START.copy(), requires_grad=True)
    optimizer = pb.optim.SGD([w], lr=0.1)

    @pb.compile(fullgraph=True)
    def f(x):
        return (x * w).sum() * optimizer.param_groups[0]["lr"]

    with pytest.raises(pb.errors.TraceError, match="'param_groups' of an optimizer"):
        f(pb.tensor(X))


@optimizers
def test_optimizers_are_copied_and_pickled_with_their_groups(make):
    w = pb.tensor(START.copy(), requires_grad=True)
    optimizer = make([w])
    (w**2).sum().backward()
    optimizer.step()
    assert {"param_groups", "state", "defaults"} <= vars(optimizer).keys()
    copied, loaded = copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))
    for other in (copied, loaded):
        assert other.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]
        assert len(other.state) == 1
    assert copy.copy(optimizer).param_groups is optimizer.param_groups
    with pytest.raises(AttributeError, match="'SGD' object has no attribute 'state'"):
        _ = pb.optim.SGD.__new__(pb.optim.SGD).state
