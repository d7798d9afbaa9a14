"""Tensors in shared memory, and training by several processes and threads at once."""

from __future__ import annotations

import gc
import importlib.util
import multiprocessing
import subprocess
import sys
from multiprocessing import shared_memory
from pathlib import Path

import numpy as np
import pytest

import pullback as pb

ROOT = Path(__file__).parents[2]
# Python 3.12 and later warn about a fork of a process with threads, such as that of the tests.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def write(parameter, view):
    assert isinstance(parameter, pb.nn.Parameter)
    assert parameter.requires_grad
    optimizer = pb.optim.SGD([parameter], lr=0.5)
    parameter.sum().backward()
    optimizer.step()
    view[1:] += 5


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_writes_of_another_process_are_seen(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no start method {method}")
    layer = pb.nn.Linear(2, 1).share_memory()
    before = layer.weight.detach().numpy().copy()
    x = pb.zeros(4).share_memory_()
    process = multiprocessing.get_context(method).Process(target=write, args=(layer.weight, x[1:]))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    np.testing.assert_allclose(layer.weight.detach().numpy(), before - 0.5)
    assert layer.weight.grad is None
    assert x.tolist() == [0.0, 0.0, 5.0, 5.0]


def test_sharing_keeps_values_identity_and_history():
    x = pb.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    (x * x).sum().backward()
    assert x.share_memory_() is x
    assert x.is_shared()
    assert x[0].detach().is_shared()
    assert x.grad.tolist() == [[2.0, 4.0], [6.0, 8.0]]
    data = x.detach().numpy()
    assert x.share_memory_().detach().numpy().ctypes.data == data.ctypes.data
    assert not pb.zeros(2).is_shared()
    assert pb.zeros(0).share_memory_().shape == (0,)
    flipped = pb.asarray(np.arange(6.0).reshape(2, 3).T).share_memory_()
    np.testing.assert_array_equal(flipped.numpy(), np.arange(6.0).reshape(2, 3).T)
    with pytest.raises(pb.errors.AutogradError, match=r"share x.detach\(\) or a leaf"):
        (x * 2).share_memory_()
    with pytest.raises(pb.errors.AutogradError, match="no array that could be shared"):
        pb.zeros(2, device="meta").share_memory_()


def test_memory_is_released_with_the_last_array():
    from pullback.kernels.shared_memory import find_part

    x = pb.ones(1000).share_memory_()
    name = find_part(x.numpy()).name
    view = x.numpy()[10:]
    del x
    gc.collect()
    assert view.sum() == 990
    shared_memory.SharedMemory(name).close()
    del view
    gc.collect()
    with pytest.raises(FileNotFoundError):
        shared_memory.SharedMemory(name)


def test_process_that_ends_leaves_no_memory_and_no_warning():
    program = "import pullback as pb; x = pb.ones(9).share_memory_(); print(x.sum().item())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("9.0\n", "")


@pytest.fixture(scope="module")
def hogwild():
    pytest.importorskip("matplotlib")
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("the example forks")
    spec = importlib.util.spec_from_file_location("hogwild", ROOT / "examples/hogwild.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_hogwild_does_not_crash_in_fifty_runs(hogwild):
    x, y = hogwild.make_data(800)
    for _ in range(50):
        _, _, losses = hogwild.run("processes", x, y, epochs=4)
        assert np.isfinite(losses[-1])
        assert losses[-1] < 0.8 * losses[0]
    assert not multiprocessing.active_children()
