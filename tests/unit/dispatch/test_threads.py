"""Calls in several threads while registrations come and go, and thread-local guards."""

from __future__ import annotations

import inspect
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest

from pullback.dispatch import (
    AutoDispatchBelowAutograd,
    AutoGradMode,
    ExcludeDispatchKeyGuard,
    IncludeDispatchKeyGuard,
    InferenceModeGuard,
    Kernel,
    Library,
    fallthrough_kernel,
    find_dangling_impls,
    is_grad_enabled,
    registry,
)
from pullback.dispatch.modes import DEFAULT_STATE, get_state
from pullback.dispatch.table import LOCK
from pullback.errors import DestroyedLibraryError, KernelNotFoundError

THREADS = 6
ROUNDS = 150


@pytest.fixture(autouse=True)
def hectic(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Threads change as often as Python lets them; overriding a kernel does not warn."""
    monkeypatch.setattr(registry, "_override_warned", True)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def run_together(*tasks: Callable[[], None]) -> None:
    """Starts all tasks at the same moment in threads of their own; the first error is raised."""
    start = threading.Barrier(len(tasks))
    errors: list[BaseException] = []

    def run(task: Callable[[], None]) -> None:
        try:
            start.wait(10)
            task()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


def run_during(change: Callable[[], None], use: Callable[[], None]) -> None:
    """Runs `use` again and again in several threads, for as long as `change` takes."""
    ended = threading.Event()

    def changing() -> None:
        try:
            change()
        finally:
            ended.set()

    def using() -> None:
        while not ended.is_set():
            use()

    run_together(changing, *[using] * THREADS)


class Versions:
    """Numbers of registrations: the last one begun, and the last one completed."""

    def __init__(self) -> None:
        self.begun = 0
        self.completed = 0

    def check(self, call: Callable[[], int], may_be_missing: bool = False) -> None:
        """A call sees whatever was completed before it, or something newer that had begun."""
        oldest = self.completed
        try:
            version = call()
        except KernelNotFoundError:
            assert may_be_missing
            assert self.begun > oldest, "the kernel was there all the time"
        else:
            assert oldest <= version <= self.begun


def kernel_of(version: int) -> Callable[..., int]:
    return lambda *_: version


@pytest.mark.parametrize("entry", ["operator", "call", "packet", "redispatch"])
def test_completed_registration_applies_to_the_next_call_of_every_thread(lib, value, entry):
    lib.define("f(Tensor x) -> int")
    f = lib.operator("f")
    x = value("cpu")
    keyset = f.explain(x).keyset
    call = {
        "operator": lambda: f(x),
        "call": lambda: f.call(x),
        "packet": lambda: f.overloadpacket(x),
        "redispatch": lambda: f.redispatch(keyset, x),
    }[entry]
    versions = Versions()
    handles = [lib.impl("f", kernel_of(0), "CPU")]

    def change() -> None:
        for version in range(1, ROUNDS):
            versions.begun = version
            handles.append(lib.impl("f", kernel_of(version), "CPU"))
            versions.completed = version
            handles.pop(0).destroy()

    run_during(change, lambda: versions.check(call))
    assert call() == ROUNDS - 1


def test_completed_fallback_applies_to_the_next_call_of_every_thread(lib, value):
    """Rule 14.19."""
    lib.define("f(Tensor x) -> int")
    f = lib.operator("f")
    x = value("XLA")
    versions = Versions()
    with Library("_", "IMPL") as everywhere:
        handles = [everywhere.fallback(kernel_of(0), "XLA")]

        def change() -> None:
            for version in range(1, ROUNDS):
                versions.begun = version
                handles.pop().destroy()
                handles.append(everywhere.fallback(kernel_of(version), "XLA"))
                versions.completed = version

        run_during(change, lambda: versions.check(lambda: f(x), may_be_missing=True))
        assert f(x) == ROUNDS - 1


@pytest.mark.parametrize("entry", ["operator", "redispatch"])
@pytest.mark.parametrize("change", ["kernel", "fallback"])
def test_a_registration_during_a_link_leaves_no_stale_link(lib, value, monkeypatch, entry, change):
    lib.define("f(Tensor x) -> int")
    f = lib.operator("f")
    x = value("XLA")
    call = {"operator": lambda: f(x), "redispatch": lambda: f.redispatch(x._flags, x)}[entry]
    linking, changed = threading.Event(), threading.Event()
    link = Kernel.link

    def pause(kernel: Kernel, operator: object, flags: int) -> Callable[..., int]:
        """Links, and then waits for the other thread, which must not get in between."""
        linked = link(kernel, operator, flags)
        linking.set()
        changed.wait(0.05)
        return linked

    with Library("_", "IMPL") as everywhere:
        handle = everywhere.fallback(kernel_of(0), "XLA")

        def register() -> None:
            linking.wait(10)
            if change == "kernel":
                lib.impl("f", kernel_of(1), "XLA")
            else:
                handle.destroy()
                everywhere.fallback(kernel_of(1), "XLA")
            changed.set()

        monkeypatch.setattr(Kernel, "link", pause)
        run_together(call, register)
        monkeypatch.setattr(Kernel, "link", link)
        assert call() == 1


def test_no_call_mixes_two_states_of_the_registry(lib, value):
    """Rule 14.15."""
    # At every moment a kernel stands at CPU or at Autograd. An autograd entry of one moment and a
    # backend entry of another would together find no kernel at all.
    lib.define("f(Tensor x) -> str")
    f = lib.operator("f")
    x = value("cpu")
    kernels = {"CPU": lambda x: "cpu", "Autograd": lambda x: "autograd"}
    handles = {"Autograd": lib.impl("f", kernels["Autograd"], "Autograd")}
    seen = set()

    def change() -> None:
        for _ in range(ROUNDS):
            for new, old in (("CPU", "Autograd"), ("Autograd", "CPU")):
                handles[new] = lib.impl("f", kernels[new], new)
                handles.pop(old).destroy()

    run_during(change, lambda: seen.add(f(x)))
    assert seen <= {"cpu", "autograd"}


def test_fallthrough_comes_and_goes_without_an_error(lib, value):
    """Rule 14.20."""
    lib.define("f(Tensor x) -> str")
    f = lib.operator("f")
    x = value("CPU", "Tracer")
    lib.impl("f", lambda x: "cpu", "CPU")
    lib.impl("f", lambda x: "tracer", "Tracer")
    seen = set()

    def change() -> None:
        for _ in range(ROUNDS):
            lib.impl("f", fallthrough_kernel, "Tracer").destroy()

    run_during(change, lambda: seen.add(f(x)))
    assert seen <= {"cpu", "tracer"}
    assert f(x) == "tracer"


def test_call_of_ending_operator_runs_or_raises(value):
    """Rule 14.33."""
    x = value("cpu")
    held = []

    def change() -> None:
        for _ in range(ROUNDS // 3):
            with Library("passing", "DEF") as library:
                library.define("f(Tensor x) -> int")
                library.impl("f", kernel_of(1), "CPU")
                held[:] = [library.operator("f")]

    def use() -> None:
        for operator in held:
            try:
                assert operator(x) == 1
            except AttributeError as error:
                assert "no longer defined" in str(error)  # noqa: PT017 - the other outcome is fine

    run_during(change, use)


def test_a_printed_table_is_that_of_one_moment(lib):
    lib.define("f(Tensor x) -> int")
    f = lib.operator("f")
    expected = {len(f.dispatch_table())}
    with lib.impl("f", kernel_of(0), "CompositeExplicitAutograd"):
        expected.add(len(f.dispatch_table()))
    seen = set()

    def change() -> None:
        for _ in range(ROUNDS):
            lib.impl("f", kernel_of(0), "CompositeExplicitAutograd").destroy()

    run_during(change, lambda: seen.add(len(f.dispatch_table())))
    assert seen <= expected


def test_an_explanation_is_that_of_one_moment(lib, value):
    lib.define("f(Tensor x) -> int")
    f = lib.operator("f")
    x = value("CPU", "Tracer")
    for key in ("CPU", "Tracer", "XLA", "Lazy", "FPGA", "Python"):
        lib.impl("f", kernel_of(0), key)
    seen = set()

    def change() -> None:
        for _ in range(ROUNDS):
            lib.impl("f", fallthrough_kernel, "Tracer").destroy()
            lib.impl("f", kernel_of(0), "Autograd").destroy()

    def use() -> None:
        explained = f.explain(x)
        seen.add((explained.key.name, explained.kernel.fallthrough))

    run_during(change, use)
    assert seen <= {("Tracer", False), ("CPU", False)}


def test_names_can_be_listed_while_operators_are_defined(lib):
    def change() -> None:
        for _ in range(30):
            with Library(lib.ns, "FRAGMENT") as library:
                for number in range(10):
                    library.define(f"f{number}(Tensor x) -> int")

    run_during(change, lambda: set(registry.namespace_operators(lib.ns)))
    assert registry.namespace_operators(lib.ns) == []


def call_in_threads_at_once(library: Library, x: object) -> list[int]:
    f = library.operator("f")
    packet = f.overloadpacket
    calls = [f, packet, lambda x: f.call(x), lambda x: packet(x, n=2)] * 2
    results: list[int] = []
    run_together(*(lambda entry=entry: results.append(entry(x)) for entry in calls))
    return results


def test_concurrent_first_calls_of_a_fresh_operator_all_succeed(value):
    for _ in range(40):
        with Library("fresh", "DEF") as library:
            library.define("f(Tensor x, int n=2, *, float[] s=[]) -> int")
            library.impl("f", lambda x, n, s: n, "CPU")
            assert call_in_threads_at_once(library, value("cpu")) == [2] * 8


def test_guards_hold_in_their_own_thread_only(lib, value):
    """Rule 14.11."""
    lib.define("f(Tensor x) -> str")
    for key in ("CPU", "AutogradCPU", "Tracer"):
        lib.impl("f", lambda x, key=key: key, key)
    f = lib.operator("f")
    x = value("cpu")
    settings = [
        (nullcontext, "AutogradCPU"),
        (lambda: IncludeDispatchKeyGuard("Tracer"), "Tracer"),
        (lambda: ExcludeDispatchKeyGuard("AutogradCPU"), "CPU"),
        (AutoDispatchBelowAutograd, "CPU"),
        (InferenceModeGuard, "CPU"),
        (lambda: AutoGradMode(False), "AutogradCPU"),
    ]
    inside = threading.Barrier(len(settings))

    def task(guard: Callable[[], object], expected: str) -> Callable[[], None]:
        def run() -> None:
            for _ in range(50):
                assert get_state() is DEFAULT_STATE
                with guard():
                    inside.wait(10)  # now every guard is in force in its thread
                    mine = get_state()
                    for _ in range(5):
                        assert f(x) == expected
                    assert get_state() is mine
                    assert is_grad_enabled() is not (guard is settings[-1][0])
                    inside.wait(10)

        return run

    run_together(*(task(guard, expected) for guard, expected in settings))
    assert get_state() is DEFAULT_STATE


def test_a_library_that_ends_during_a_registration_leaves_nothing_behind() -> None:
    """Rule 14.33."""
    looking, ended = threading.Event(), threading.Event()

    class Slow:
        """A kernel whose parameters take a while to find out."""

        def __call__(self, x: object) -> object:
            return x

        @property
        def __signature__(self) -> inspect.Signature:
            looking.set()
            ended.wait(0.1)
            return inspect.signature(lambda x: x)

    library = Library("race", "DEF")
    with Library("race", "IMPL") as other:
        # Came first, so that the definition looks at its parameters.
        other.impl("f", Slow(), "CPU")

        def define() -> None:
            library.define("f(Tensor x) -> Tensor")

        def end() -> None:
            looking.wait(10)
            library._destroy()
            ended.set()

        run_together(define, end)
        assert find_dangling_impls() == ["race::f"]
        with pytest.raises(DestroyedLibraryError):
            define()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_that_is_forked_while_a_thread_loads_kernels_can_load_its_own() -> None:
    loads = threading.Event()

    def hold() -> None:
        with LOCK:
            loads.set()
            time.sleep(0.1)

    thread = threading.Thread(target=hold)
    thread.start()
    loads.wait()
    child = os.fork()
    if not child:
        os._exit(0 if LOCK.acquire(timeout=1.0) else 1)
    assert os.waitpid(child, 0)[1] == 0
    thread.join()
