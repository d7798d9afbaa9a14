"""Ctrl-C while machine code runs in several threads."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

pytest.importorskip("llvmlite")

PROGRAM = """
import os, signal, threading, time
import numpy as np
import pullback as pb

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in jobs of a shell script
pb.set_num_threads(2)
x = np.random.rand(2_000_000)
f = pb.compile(lambda x: pb.tanh(pb.exp(pb.sin(x))) * pb.cos(x))
expected = f(x), f(x)
caught = 0
for delay in (0.01, 0.013, 0.017, 0.023):
    timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    end = time.monotonic() + 20.0
    try:
        while time.monotonic() < end:
            f(x)
    except KeyboardInterrupt:
        caught += 1
    timer.join()
assert np.array_equal(f(x), expected[1])
print("caught", caught)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="machine code is tested on Linux")
def test_an_interrupt_is_raised_in_the_caller():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode in (0, -signal.SIGINT), done.stderr
    assert done.stdout.strip() == "caught 4", done.stderr
