"""Where `numpy_mode` begins and ends: callers, modules, tasks, threads, pickles, reloads."""

from __future__ import annotations

import asyncio
import gc
import importlib
import math
import multiprocessing.reduction
import pickle
import sys
import threading
import types
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.interop import in_numpy_mode
from pullback.interop.callers import LIBRARY, ORIGINAL, USER, callers_of

V = np.array([0.3, -1.2, 2.5])
MODULES = (np, np.linalg, np.fft, math)


def _is_restored() -> bool:
    plain = all(type(module) is types.ModuleType for module in MODULES)
    return plain and type(np.zeros(1)) is np.ndarray and not in_numpy_mode()


def _library(source: str) -> dict[str, Any]:
    """The names of a module that counts as installed."""
    names: dict[str, Any] = {"np": np}
    exec(compile(source, f"{np.__path__[0]}/../some_library/part.py", "exec"), names)
    return names


# --- callers -------------------------------------------------------------------------------------


def test_files_are_user_code_library_code_or_our_own() -> None:
    callers = callers_of((), None)
    assert callers[__file__] == USER
    assert callers["<stdin>"] == callers["<ipython-input-1>"] == USER
    assert callers[pickle.__file__] == callers[pytest.__file__] == LIBRARY
    assert callers["<frozen importlib._bootstrap>"] == LIBRARY
    assert callers[np.linalg.__file__] == callers[pb.__file__] == ORIGINAL
    named = callers_of(["pytest"], None)
    assert named[pytest.__file__] == USER
    assert named[pickle.__file__] == LIBRARY
    with pytest.raises(ValueError, match="'sys' has no file"):
        callers_of(["sys"], None)


def test_library_code_gets_the_originals() -> None:
    names = _library("def make():\n    return np.zeros(2), np.zeros, np.sum")
    original = np.sum
    with pb.numpy_mode():
        made, zeros, total = names["make"]()
    assert type(made) is np.ndarray
    assert total is original
    assert type(zeros(2)) is np.ndarray


def test_library_code_passes_on_tensors_that_carry_a_gradient() -> None:
    names = _library("def convert(x):\n    return np.asarray(x), np.array([x[0], 1.0])")
    x = pb.tensor(V, requires_grad=True)
    with pb.numpy_mode():
        for made in names["convert"](x):
            assert made.requires_grad
        for made in names["convert"](pb.tensor(V)):
            assert type(made) is np.ndarray


def test_a_function_given_to_a_library_gives_it_arrays() -> None:
    names = _library("def apply(function, x):\n    return function(x)")
    with pb.numpy_mode():
        assert type(names["apply"](np.cumsum, V)) is np.ndarray
        assert type(np.cumsum(V)) is pb.Tensor


def test_the_package_of_the_differentiated_function_is_user_code() -> None:
    names = _library("def fill(x):\n    made = np.zeros(3)\n    made[:] = x * x\n    return made")
    x = pb.tensor(V, requires_grad=True)
    pb.differentiable(names["fill"])(x).sum().backward()
    assert x.grad.tolist() == (2 * V).tolist()


def test_replacements_equal_what_they_replace() -> None:
    table = {np.sum: "sum", math.exp: "exp"}
    with pb.numpy_mode():
        assert table[np.sum] == "sum"
        assert table[math.exp] == "exp"
        assert np.sum.__name__ == "sum"
        assert np.sum.__doc__


def test_attributes_of_numpy_can_be_set_in_the_mode(monkeypatch: Any) -> None:
    original = np.zeros
    with pb.numpy_mode():
        with monkeypatch.context() as patch:
            patch.setattr(np, "zeros", lambda n: n)
            assert np.zeros(3) == 3
        assert type(np.zeros(3)) is pb.Tensor
    assert vars(np)["zeros"] is original
    monkeypatch.setattr(np, "ones", lambda n: n)
    with pb.numpy_mode():
        assert np.ones(3) == 3


# --- pickles -------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [np.sum, np.zeros, np.eye, np.linalg.norm, math.exp])
def test_functions_are_pickled_in_the_mode(function: Any) -> None:
    module = sys.modules[function.__module__]
    with pb.numpy_mode():
        ours = getattr(module, function.__name__)
        assert ours is not function
        for dump in (pickle.dumps, multiprocessing.reduction.ForkingPickler.dumps):
            assert pickle.loads(dump(ours)) is function
    names = _library("import pickle\ndef dump(value):\n    return pickle.dumps(value)")
    with pb.numpy_mode():
        assert pickle.loads(names["dump"](function)) == function


# --- threads, tasks, generators ------------------------------------------------------------------


def test_a_task_that_outlives_the_mode_is_outside() -> None:
    async def main() -> list[Any]:
        ended, again, done = asyncio.Event(), asyncio.Event(), asyncio.Event()
        seen = []

        async def inner() -> None:
            seen.append(type(np.zeros(1)))
            await ended.wait()
            seen.append(type(np.zeros(1)))
            again.set()
            await done.wait()
            seen.append(type(np.zeros(1)))

        with pb.numpy_mode():
            task = asyncio.create_task(inner())
            await asyncio.sleep(0)
        ended.set()
        await again.wait()
        with pb.numpy_mode():
            done.set()
            await task
            seen.append(type(np.zeros(1)))
        return seen

    assert asyncio.run(main()) == [pb.Tensor, np.ndarray, np.ndarray, pb.Tensor]
    assert _is_restored()


def test_tasks_do_not_see_each_others_mode() -> None:
    async def maker(inside: bool, turns: list[type]) -> None:
        for _ in range(3):
            if inside:
                with pb.numpy_mode():
                    await asyncio.sleep(0)
                    turns.append(type(np.zeros(1)))
            else:
                await asyncio.sleep(0)
                turns.append(type(np.zeros(1)))

    async def main() -> list[list[type]]:
        turns: list[list[type]] = [[], [], []]
        await asyncio.gather(*(maker(i != 1, turns[i]) for i in range(3)))
        return turns

    assert asyncio.run(main()) == [[pb.Tensor] * 3, [np.ndarray] * 3, [pb.Tensor] * 3]
    assert _is_restored()


def test_an_abandoned_generator_ends_its_mode() -> None:
    def values() -> Any:
        with pb.numpy_mode():
            yield np.zeros(1)

    generator = values()
    assert type(next(generator)) is pb.Tensor
    del generator
    gc.collect()
    assert _is_restored()


def test_modes_may_end_in_any_order() -> None:
    first, second = pb.numpy_mode(), pb.numpy_mode()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert type(np.zeros(1)) is pb.Tensor
    second.__exit__(None, None, None)
    assert _is_restored()


def test_a_thread_that_outlives_the_mode_is_never_in_it() -> None:
    begun, ended, seen = threading.Event(), threading.Event(), []

    def work() -> None:
        seen.append(type(np.zeros(1)))
        begun.set()
        ended.wait(10)
        seen.append(type(np.zeros(1)))

    with pb.numpy_mode():
        thread = threading.Thread(target=work)
        thread.start()
        begun.wait(10)
    ended.set()
    thread.join()
    assert seen == [np.ndarray, np.ndarray]


# --- modules -------------------------------------------------------------------------------------


def test_names_imported_by_other_user_modules_are_replaced(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mode_helper.py").write_text(
        "from math import exp\nfrom numpy import zeros\n\n\n"
        "def fill(x):\n    made = zeros(2)\n    made[0] = exp(x)\n    return made\n"
    )
    helper = importlib.import_module("mode_helper")
    original = np.zeros

    @pb.differentiable
    def function(x: Any) -> Any:
        importlib.reload(helper)  # imports the names again, in the mode
        return helper.fill(x).sum()

    x = pb.tensor(0.5, requires_grad=True)
    function(x).backward()
    assert x.grad.item() == math.exp(0.5)
    assert helper.zeros is original
    assert helper.exp is math.exp
    del sys.modules["mode_helper"]


def test_a_module_first_imported_in_the_mode_keeps_the_originals(
    tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mode_late.py").write_text("from numpy import zeros\n")
    original = np.zeros
    with pb.numpy_mode():
        late = importlib.import_module("mode_late")
        assert type(late.zeros(2)) is pb.Tensor
    assert late.zeros is original
    del sys.modules["mode_late"]


def test_names_that_the_program_sets_in_the_mode_stay(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mode_set.py").write_text("from numpy import zeros\n")
    module: Any = importlib.import_module("mode_set")
    with pb.numpy_mode():
        module.zeros = 5
    assert module.zeros == 5
    del sys.modules["mode_set"]


def test_namespaces_that_are_no_module_are_searched() -> None:
    names: dict[str, Any] = {}
    exec(
        "from numpy import zeros\ndef fill(x):\n    a = zeros(1)\n    a[0] = x\n    return a", names
    )
    original = names["zeros"]
    assert pb.differentiable(names["fill"])(pb.tensor(1.0, requires_grad=True)).requires_grad
    assert names["zeros"] is original


def test_a_reload_of_numpys_modules_in_the_mode_leaves_no_trace() -> None:
    with pb.numpy_mode():
        importlib.reload(np.fft)
        importlib.reload(math)
    assert _is_restored()
    assert np.allclose(np.fft.ifft(np.fft.fft(V)), V)


def test_exceptions_end_the_mode() -> None:
    @pb.differentiable
    def function(x: Any) -> Any:
        raise KeyError(x)

    with pytest.raises(KeyError):
        function(1.0)
    assert _is_restored()
