"""Other processors and interpreters, and forks: compiled functions work there, too."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

import pullback as pb
from pullback.compiled.llvm.compiler import has_avx512, is_supported

pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")
pytestmark = pytest.mark.skipif(not is_supported(), reason="machine code is not tested here")

rng = np.random.default_rng(0)


def functions(x, y):
    """Element-wise functions, sums, products, a loop and a sort, which is opaque."""
    z = x * 1.0
    for _ in range(20):
        z = pb.sin(z) * 0.9 + y * 0.1
    found = [pb.exp(x), pb.log(y), pb.tanh(x), pb.cos(x), y**x, pb.arctan2(x, y), pb.expm1(x)]
    return [*found, x.sum(), x @ y, pb.where(x > 0, x, y), x // y, x % y, z, pb.sort(x) * 2]


def check(dtype, size):
    x = rng.normal(size=size).astype(dtype)
    y = (np.abs(rng.normal(size=size)) + 0.1).astype(dtype)
    compiled = pb.compile(functions, cache=False)
    tolerance = 1e-12 if dtype == "f8" else 1e-4
    for _ in range(2):
        expected = functions(pb.asarray(x), pb.asarray(y))
        for ours, theirs in zip(compiled(x, y), expected, strict=True):
            np.testing.assert_allclose(ours, theirs.numpy(), rtol=tolerance, atol=tolerance)
    assert compiled.stats["hits"] == 1


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v2", "x86-64-v3"])
def test_older_processors(name, monkeypatch):
    monkeypatch.setenv("PULLBACK_CPU", name)
    assert not has_avx512()
    for dtype in ("f8", "f4"):
        for size in (13, 700):
            check(dtype, size)


def test_processors_that_code_cannot_be_made_for_are_refused(monkeypatch):
    monkeypatch.setenv("PULLBACK_CPU", "nonsense")  # LLVM itself would end the process
    with pytest.raises(ValueError, match=r"must be one of x86-64, x86-64-v2.* not 'nonsense'"):
        pb.compile(pb.sin)
    pb.compile(pb.sin, backend="eager")
    monkeypatch.setenv("PULLBACK_CPU", "x86-64-v3")
    monkeypatch.setattr("pullback.compiled.llvm.compiler._host", lambda: ("old", "+sse2,-avx2"))
    with pytest.raises(ValueError, match="this processor has no avx2"):
        pb.compile(pb.sin)


def test_an_interpreter_whose_objects_are_not_read(monkeypatch):
    monkeypatch.setattr("pullback.compiled.llvm.program.IS_TESTED", False)
    check("f8", 13)
    check("f8", 700)
    compiled = pb.compile(pb.value_and_grad(lambda x, t: (pb.sin(x) * t).sum()), cache=False)
    x = np.arange(3.0)
    for t in (0.5, 0.25):
        value, gradient = compiled(x, t)
        assert value == pytest.approx(np.sin(x).sum() * t)
        np.testing.assert_allclose(gradient, np.cos(x) * t, rtol=1e-14)
    assert compiled.stats["hits"] == 1
    assert not compiled._natives


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore")
def test_a_process_that_is_forked_while_another_thread_compiles():
    stop = threading.Event()
    pb.compile(lambda y: pb.sin(y), cache=False)(np.ones(3))  # imports all that is needed

    def work():
        n = 0
        while not stop.is_set():
            n += 1
            pb.compile(lambda y, n=n: pb.sin(y) * n, cache=False)(np.ones(3))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for n in range(4):
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # ends a child that waits for a lock
                found = pb.compile(lambda y, n=n: y * n, cache=False)(np.ones(3))
                os._exit(0 if found.tolist() == [n] * 3 else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()
