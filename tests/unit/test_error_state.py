"""Array functions without floating-point warnings, by a context that is made once."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pullback as pb
from pullback.kernels.errstate import (
    errstate,
    get_settings,
    make_settings,
    set_settings,
    without_warnings,
)


def test_nothing_warns_inside_and_everything_outside():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert without_warnings(np.exp, np.array([1000.0]))[0] == np.inf
        with pytest.raises(RuntimeWarning, match="overflow"):
            np.exp(np.array([1000.0]))


def test_a_call_inside_a_call_has_a_context_of_its_own():
    inner = lambda x: without_warnings(np.exp, x) + without_warnings(np.log, 0 * x)  # noqa: E731
    assert np.isnan(without_warnings(inner, np.array([1000.0]))[0])


def test_an_error_gives_the_context_back():
    for _ in range(3):
        with pytest.raises(TypeError):
            without_warnings(np.exp)
    assert without_warnings(np.exp, 0.0) == 1


def test_short_buffers_leave_the_error_state_alone_and_are_given_back():
    before = np.getbufsize()
    with np.errstate(divide="raise"):
        settings = get_settings()
        try:
            set_settings(make_settings(bufsize=256))
            assert np.getbufsize() == 256
            with pytest.raises(FloatingPointError, match="divide"):
                np.ones(2) / np.zeros(2)
        finally:
            set_settings(settings)
    assert np.getbufsize() == before


def test_errstate_changes_what_is_named_for_a_block_or_a_function():
    before = np.geterr()
    with np.errstate(over="raise"), errstate(divide="ignore"):
        assert np.geterr()["divide"] == "ignore"
        assert np.geterr()["over"] == "raise"
    assert np.geterr() == before
    logarithm = errstate(divide="ignore")(np.log)
    assert logarithm(np.array([0.0]))[0] == -np.inf
    assert np.geterr() == before


def test_threads_do_not_meet_in_one_context():
    x = np.full(1000, 1000.0)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: without_warnings(np.exp, x)[0], range(200)))
    assert results == [np.inf] * 200


def test_sigmoid_is_silent_also_where_overflow_would_raise():
    x = pb.tensor([-1000.0, 0.0, 1000.0])
    with np.errstate(all="raise"):
        assert pb.sigmoid(x).tolist() == [0.0, 0.5, 1.0]
