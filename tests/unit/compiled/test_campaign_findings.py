"""Programs that a campaign of random programs has found: each had raised, or was wrong."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")


def assert_compiled(function, *args):
    expected = function(*args)
    compiled = pb.compile(function, backend="llvm")
    for _ in range(2):
        np.testing.assert_allclose(compiled(*args).numpy(), expected.numpy(), rtol=1e-13)


def test_stack_of_long_rows_from_a_loop():
    x = pb.asarray(np.linspace(-1, 1, 29))
    assert_compiled(lambda x: pb.stack([pb.sin(x * (0.3 * i + 1)) for i in range(9)]) * 0.7, x)


def test_write_of_a_number_to_complex_memory():
    def function(x):
        y = x * 1.0
        y.fill_diagonal_(0.5)
        return y

    assert_compiled(function, pb.asarray(np.array([[0.1 + 1j]])))


def test_real_part_of_a_captured_array_that_is_real():
    w = pb.asarray(np.array(0.1))
    assert_compiled(lambda x: (pb.real(w) - pb.imag(w * 1j)) * x, pb.asarray(np.array(0.1 + 1j)))


def test_an_error_of_the_code_generator_does_not_end_the_program(monkeypatch):
    def fail(*_):
        raise KeyError("planted")

    monkeypatch.setattr("pullback.compiled.function.native_code.compile_native", fail)
    function = pb.compile(lambda x: x * 2, backend="llvm")
    x = np.ones(2)
    with pytest.warns(UserWarning, match=r"internal error .* KeyError: 'planted'.* please report"):
        assert function(x).tolist() == [2.0, 2.0]
    assert function(x).tolist() == [2.0, 2.0]
    assert "internal error of the code generator" in function.explain(x)
