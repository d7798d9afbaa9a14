"""Large arrays are computed by several threads, with the same results."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.kernels import threads


@pytest.fixture
def four_threads():
    before = pb.get_num_threads()
    pb.set_num_threads(4)
    yield
    pb.set_num_threads(before)


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_a_large_array_gives_what_numpy_gives(dtype, order):
    x = np.asarray(np.random.default_rng(0).normal(size=(300, 257)), dtype, order=order)
    found = threads.spread(np.tanh, x)
    assert found.dtype == x.dtype
    assert found.strides == x.strides
    np.testing.assert_array_equal(found, np.tanh(x))


@pytest.mark.usefixtures("four_threads")
def test_gradients_of_large_tensors():
    values = np.linspace(-2, 2, 3 * threads.LARGE)
    x = pb.tensor(values, requires_grad=True)
    pb.exp(pb.tanh(x)).sum().backward()
    expected = np.exp(np.tanh(values)) * (1 - np.tanh(values) ** 2)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12)


@pytest.mark.usefixtures("four_threads")
def test_the_callers_error_state_holds_in_every_thread():
    x = np.full(4 * threads.LARGE, -1.0)
    with np.errstate(invalid="ignore"):
        assert np.isnan(threads.spread(np.log, x)).all()
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        threads.spread(np.log, x)
    last = np.ones(4 * threads.LARGE)
    last[-1] = -1.0
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        threads.spread(np.log, last)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_a_bad_number_of_threads_is_refused(count):
    with pytest.raises(ValueError, match="set_num_threads"):
        pb.set_num_threads(count)
