"""A process that interrupts programs and looks at what the interrupts leave behind.

CPython runs a signal handler only where its evaluation loop looks for pending work: at the entry of
a Python function, after a call of a C function, at a jump backwards. `sweep` interrupts a program
once at every such place that one run of it passes. A trace function makes the interrupt *pending*
before an instruction; the interpreter itself delivers it at the next place, as it would deliver a
signal. `storm` sends real signals at random moments.

After each interrupt the state of the thread and of the process must be what it was, and the program
must give the right numbers again. ``test_interrupts.py`` runs this file and reads its report.
"""

from __future__ import annotations

import _thread
import dis
import functools
import gc
import json
import math
import operator
import os
import random
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from contextvars import copy_context
from types import CodeType, FrameType, ModuleType
from typing import Any

import numpy as np
from numpy import zeros

import pullback as pb
from pullback.autograd import forward_ad
from pullback.autograd.debug import anomaly
from pullback.autograd.engine import root_lock
from pullback.autograd.graph import accumulate_grad, payload_nodes
from pullback.autograd.levels import current_level, process_levels
from pullback.compiled import hidden_inputs, recorded
from pullback.dispatch.modes import get_state
from pullback.dispatch.table import LOCK
from pullback.fx.experimental.proxy_tensor import make_fx
from pullback.interop import in_numpy_mode, mode
from pullback.kernels import threads
from pullback.tensor import levels
from pullback.tensor import tensor as tensor_module
from pullback.utils._python_dispatch import TorchDispatchMode

warnings.simplefilter("ignore")
fwd = pb.autograd.forward_ad
graph = pb.autograd.graph

# --- programs ------------------------------------------------------------------------------------


def _tensor(*values: float) -> Any:
    return pb.tensor(list(values or (0.5, 0.7)), requires_grad=True)


def _cube(x: Any) -> Any:
    return (x * x * x).sum()


def _quiet(x: Any) -> Any:
    return pb.logsumexp(pb.sigmoid(x) * x, 0)


def backward() -> Any:
    x = _tensor()
    _cube(x).backward()
    return x.grad


def backward_of_quiet_kernels() -> Any:
    x = _tensor()
    _quiet(x).backward()
    return x.grad


def backward_twice() -> Any:
    x = _tensor()
    (slope,) = pb.autograd.grad(_cube(x), [x], create_graph=True)
    slope.sum().backward()
    return x.grad


def backward_with_hooks() -> Any:
    x = _tensor()
    y = x * x
    y.register_hook(lambda grad: grad * 2)
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 0.5,))
    y.retain_grad()
    graph.register_multi_grad_hook([x, y], lambda grads: None)
    (y * x).sum().backward()
    return x.grad


class _Square(pb.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * grads[0]


def custom_function() -> Any:
    x = _tensor()
    _Square.apply(_Square.apply(x)).sum().backward()
    return x.grad


def writes_and_views() -> Any:
    x = _tensor()
    y = x.clone()
    first = y[:1]
    first.mul_(3.0)
    (y * first).sum().backward()
    return x.grad


def no_grad() -> Any:
    x = _tensor()
    with pb.no_grad():
        y = x * 2
        with pb.enable_grad(), pb.set_grad_enabled(True):
            z = x * 3
    return (z * y).sum().detach()


def inference_mode() -> Any:
    with pb.inference_mode():
        y = pb.tensor([1.0, 2.0]) * 2
        with pb.inference_mode(False):
            return (pb.tensor([1.0, 2.0]) * 3).sum() + y.numpy().sum()


@pb.no_grad()
def _decorated(x: Any) -> Any:
    return x * 2


def decorated() -> Any:
    return _decorated(_tensor())


def dual_level() -> Any:
    x = pb.tensor([0.5, 0.7])
    with fwd.dual_level():
        y = _cube(fwd.make_dual(x, pb.tensor([1.0, 2.0])))
        return fwd.unpack_dual(y).tangent


def saved_hooks() -> Any:
    x = _tensor()
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = _cube(x)
    with graph.disable_saved_tensors_hooks("no hooks"):
        y.backward()
    return x.grad


def allowed_mutation() -> Any:
    x = _tensor()
    with graph.allow_mutation_on_saved_tensors():
        y = x.clone()
        z = (y * y).sum()
        y.add_(10)
        z.backward()
    return x.grad


def checkpointed() -> Any:
    x = _tensor()
    pb.utils.checkpoint.checkpoint(_cube, x, use_reentrant=False).backward()
    return x.grad


def anomaly_mode() -> Any:
    x = _tensor()
    with pb.autograd.detect_anomaly():
        _cube(x).backward()
    return x.grad


def grad() -> Any:
    return pb.grad(_cube)(np.array([0.5, 0.7]))


def grad_of_quiet_kernels() -> Any:
    return pb.func.grad(_quiet)(pb.tensor([0.5, 0.7]))


def grad_of_grad() -> Any:
    return pb.func.grad(pb.func.grad(lambda x: x * x * x))(pb.tensor(0.5))


def vjp() -> Any:
    return pb.func.vjp(_cube, pb.tensor([0.5, 0.7]))[1](pb.tensor(1.0))[0]


def vmap_grad() -> Any:
    return pb.func.vmap(pb.func.grad(_cube))(pb.tensor([[0.5, 0.7], [1.0, 2.0]]))


def vmap_of_custom_function() -> Any:
    return pb.func.vmap(_Mapped.apply)(pb.tensor([[0.5, 0.7], [1.0, 2.0]]))


class _Mapped(pb.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return x * x, in_dims[0]


def jvp() -> Any:
    return pb.func.jvp(_cube, (pb.tensor([0.5, 0.7]),), (pb.tensor([1.0, 2.0]),))[1]


def linearize() -> Any:
    return pb.func.linearize(_cube, pb.tensor([0.5, 0.7]))[1](pb.tensor([1.0, 2.0]))


def jacfwd() -> Any:
    return pb.func.jacfwd(lambda x: x * x.sum())(pb.tensor([0.5, 0.7]))


def jacrev() -> Any:
    return pb.func.jacrev(lambda x: x * x.sum())(pb.tensor([0.5, 0.7]))


def hessian() -> Any:
    return pb.hessian(_cube)(np.array([0.5, 0.7]))


def hessian_of_tensors() -> Any:
    return pb.func.hessian(_cube)(pb.tensor([0.5, 0.7]))


def hessian_by_two_transforms() -> Any:
    return pb.func.jacfwd(pb.func.jacrev(_cube))(pb.tensor([0.5, 0.7]))


def hvp() -> Any:
    return pb.hvp(_cube)(np.array([0.5, 0.7]), np.array([1.0, 2.0]))


def _filling(x: Any) -> Any:
    made = zeros(3)  # under an imported name
    made[0] = x[0]
    for i in range(1, 3):
        made[i] = math.exp(made[i - 1]) * x[1]
    kept = made * made
    made *= 2.0
    return np.array([kept.sum(), made[2]]).sum()


def numpy_mode() -> Any:
    x = _tensor()
    with pb.numpy_mode(), pb.numpy_mode():
        y = _filling(x)
    y.backward()
    return x.grad


def grad_in_mode() -> Any:
    return pb.grad(_filling)(np.array([0.5, 0.7]))


def hessian_in_mode() -> Any:
    return pb.hessian(_filling)(np.array([0.5, 0.7]))


_LARGE = np.linspace(0.0, 1.0, 2 * threads.MIN_THREADED_HEAVY_SIZE)


def shared_among_threads() -> Any:
    return pb.tanh(pb.tensor(_LARGE)).sum()


def compiled() -> Any:
    """The first call of a compiled function, which traces it, and a second one."""
    scale = np.array([1.0, 2.0])

    def function(x: Any) -> Any:
        last, _ = pb.scan(lambda c, _: (pb.tanh(c * x) * scale, None), x, None, 3)
        return (last * x).sum()

    slope = pb.compile(pb.grad(function), backend="eager")
    return slope(np.array([0.5, 0.7])) + slope(np.array([0.5, 0.7]))


def graph_of_a_function() -> Any:
    """A graph by make_fx, below a dispatch mode."""
    with _Quiet():
        module = make_fx(pb.func.grad(_cube))(pb.ones(2))
        return module(pb.tensor([0.5, 0.7]))


class _Quiet(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


PROGRAMS: dict[str, Callable[[], Any]] = {
    program.__name__: program
    for program in (
        backward,
        backward_of_quiet_kernels,
        backward_twice,
        backward_with_hooks,
        custom_function,
        writes_and_views,
        no_grad,
        inference_mode,
        decorated,
        dual_level,
        saved_hooks,
        allowed_mutation,
        checkpointed,
        anomaly_mode,
        grad,
        grad_of_quiet_kernels,
        grad_of_grad,
        vjp,
        vmap_grad,
        vmap_of_custom_function,
        jvp,
        linearize,
        jacfwd,
        jacrev,
        hessian,
        hessian_of_tensors,
        hessian_by_two_transforms,
        hvp,
        numpy_mode,
        grad_in_mode,
        hessian_in_mode,
        shared_among_threads,
        compiled,
        graph_of_a_function,
    )
}

# --- what an interrupt may not change ------------------------------------------------------------


def state() -> dict[str, Any]:
    """Every mode, level and setting of this thread and of the process, and the locks in use."""
    found = {
        var.name: value
        for var, value in copy_context().items()
        if var.name.startswith("pullback") and var.name != "pullback_sequence"
    }
    # A variable that was never set and one that was set to its default are the same.
    defaults = {
        "pullback_level": None,
        "pullback_graph_task": None,
        "pullback_vmap_levels": (),
        "pullback_vmap_numbers": (),
        "pullback_level_id": 0,
        "pullback_saved_hooks": (),
        "pullback_saved_hooks_disabled": None,
        "pullback_allow_mutation": None,
        "pullback_multithreading": True,
        "pullback_random_watchers": (),
        "pullback_early_stop": None,
        "pullback_checkpoint_debug": None,
        "pullback_tracer": None,
        "pullback_dispatch_modes": (),
        "pullback_entered_modes": (),
        "pullback_object_cache": True,
    }
    seen = {name: repr(found.get(name, default)) for name, default in defaults.items()}
    now = get_state()
    seen["dispatcher"] = repr((now.include, now.keep, now.modes))
    seen["level"] = repr(current_level())
    seen["NumPy"] = repr((np.geterr(), np.getbufsize(), np.geterrcall()))
    modules = (np, np.linalg, np.fft, np.random, math)
    seen["modules"] = repr([type(module) is ModuleType for module in modules])
    seen["names"] = repr((type(zeros(1)), in_numpy_mode(), zeros is np.zeros, mode._users))
    seen["anomaly"] = repr(anomaly._switches)
    seen["forward levels"] = repr((process_levels, forward_ad._level, forward_ad._current_level))
    seen["roots"] = repr(root_lock.LOCKED)
    seen["traces"] = repr((len(tensor_module.TRACES), len(hidden_inputs._replaced)))
    seen["collector"] = repr(gc.isenabled())
    seen["live maps"] = repr(levels._alive)
    locks = {"registry": LOCK, "leaves": accumulate_grad._lock, "counters": tensor_module.COUNTING}
    locks["substitutions"] = hidden_inputs._locks[-1]
    locks["loops"] = recorded._STANDING_IN
    seen["locks"] = repr({name: _is_free(lock) for name, lock in locks.items()})
    return seen


def _is_free(lock: Any) -> bool:
    """Whether another thread could take a lock now."""
    answer: list[bool] = []

    def ask() -> None:
        if lock.acquire(timeout=5):
            lock.release()
            answer.append(True)

    if hasattr(lock, "locked") and not lock.locked():
        return True
    if hasattr(lock, "_is_owned") and not lock._is_owned():
        return True
    asking = threading.Thread(target=ask)
    asking.start()
    asking.join()
    return bool(answer)


def number(result: Any) -> list[float]:
    return np.asarray(getattr(result, "_array", result), dtype=float).ravel().tolist()


# --- interrupts ----------------------------------------------------------------------------------


class _Pending:
    """Reading `interrupt` makes an interrupt pending without a call that would deliver it."""

    fire = functools.partial(_thread.interrupt_main, signal.SIGINT)
    interrupt = property(operator.methodcaller("fire"))


PENDING = _Pending()


def _raise(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


_CHECKED = ("CALL", "RESUME", "JUMP_BACKWARD", "INSTRUMENTED")  # where handlers run, or may


@functools.cache
def _instructions(code: CodeType) -> dict[int, str]:
    return {step.offset: step.opname for step in dis.get_instructions(code)}


class _Tracer:
    """Counts the instructions of a run, and makes an interrupt pending before one of them."""

    def __init__(self, target: int | None):
        self.target = target
        self.count = 0
        # Two lists, not one of tuples: the collector would see those, and so would programs that
        # search its objects for tensors, which then take more steps.
        self.codes: list[CodeType] = []
        self.offsets: list[int] = []

    def start(self) -> None:
        if sys.version_info < (3, 12):
            sys.settrace(self._trace)
        else:
            tool, events = sys.monitoring.DEBUGGER_ID, sys.monitoring.events
            if sys.monitoring.get_tool(tool) is None:
                sys.monitoring.use_tool_id(tool, "interrupts")
            sys.monitoring.register_callback(tool, events.INSTRUCTION, self._step)
            sys.monitoring.set_events(tool, events.INSTRUCTION)

    def stop(self) -> None:
        """Ends counting: a further step, a Python function, would deliver the interrupt."""
        if sys.version_info < (3, 12):
            sys.settrace(None)
        else:
            tool, events = sys.monitoring.DEBUGGER_ID, sys.monitoring.events
            sys.monitoring.register_callback(tool, events.INSTRUCTION, None)
            sys.monitoring.set_events(tool, 0)

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode":
            self._step(frame.f_code, frame.f_lasti)
        return self._trace

    def _step(self, code: CodeType, offset: int) -> None:
        self.count += 1
        if self.target is None:
            self.codes.append(code)
            self.offsets.append(offset)
        elif self.count == self.target:
            self.stop()
            PENDING.interrupt  # noqa: B018 - see there


def positions(program: Callable[[], Any]) -> list[int]:
    """The instructions of a run after which there is another place to deliver an interrupt."""
    tracer = _Tracer(None)
    tracer.start()
    program()
    tracer.stop()
    found = [1]
    for place in range(1, len(tracer.codes)):
        code, offset = tracer.codes[place - 1], tracer.offsets[place - 1]
        name = _instructions(code).get(offset, "CALL")
        if name.startswith(_CHECKED) or tracer.codes[place] is not code:
            found.append(place + 1)
    return found


def _report(name: str, where: str, before: dict[str, Any], expected: list[float]) -> str | None:
    after = state()
    if after != before:
        changed = {k: (before[k], after[k]) for k in before if before[k] != after[k]}
        return f"{name}: interrupted {where}: changed {changed}"
    result = number(PROGRAMS[name]())
    if not np.allclose(result, expected):
        return f"{name}: interrupted {where}: then {result} instead of {expected}"
    return None


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    inner = [f"{f.filename.rsplit('/', 1)[-1]}:{f.lineno} {f.name}" for f in frames[-3:]]
    return " > ".join(inner)


def _attempt(name: str, target: int, before: dict[str, Any], expected: list[float]) -> str | None:
    """One interrupted run; "" if it left nothing, None if it ended before the interrupt."""
    program = PROGRAMS[name]
    tracer = _Tracer(target)
    where = ""
    try:
        tracer.start()
        program()
        tracer.stop()
        time.sleep(0)  # one that is still pending is delivered here
    except KeyboardInterrupt as error:
        where = _where(error)
    finally:
        tracer.stop()
    return (_report(name, where, before, expected) or "") if where else None


def sweep(name: str, at_most: int) -> dict[str, Any]:
    """Interrupts a program once at every place, or at so many of them, evenly chosen."""
    program = PROGRAMS[name]
    signal.signal(signal.SIGINT, _raise)
    for _ in range(20):
        expected = number(program())
    gc.collect()
    gc.disable()
    before = state()
    leaks: list[str] = []
    interrupts = 0
    places = positions(program)
    for target in places[:: max(1, len(places) // at_most)]:
        # In a context of its own: what leaks ends there, and the next leak is found, too.
        found = copy_context().run(_attempt, name, target, before, expected)
        interrupts += found is not None
        if found:
            leaks.append(found)
            root_lock.LOCKED.clear()
    gc.enable()
    gc.collect()
    nodes = (*payload_nodes.marked, *accumulate_grad.ended)
    leaks += [f"{name}: {len(nodes)} nodes are still listed"] if nodes else []
    return {"interrupts": interrupts, "leaks": leaks}


def storm(count: int, seed: int, names: list[str]) -> dict[str, Any]:
    """Interrupts programs by a timer, at random moments, until so many have been interrupted."""
    chance = random.Random(seed)
    expected, durations = {}, {}
    for name in names:
        for _ in range(20):
            start = time.perf_counter()
            expected[name] = number(PROGRAMS[name]())
            durations[name] = time.perf_counter() - start
    before = state()
    leaks: list[str] = []
    is_armed = False

    def alarm(signum: int, frame: FrameType | None) -> None:
        nonlocal is_armed
        if is_armed:
            is_armed = False
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, alarm)
    interrupts = 0
    while interrupts < count and not leaks:
        name = chance.choice(names)
        where = ""
        try:
            is_armed = True
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, durations[name]))
            PROGRAMS[name]()
            is_armed = False
        except KeyboardInterrupt as error:
            where = _where(error)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if where:
            interrupts += 1
            found = _report(name, where, before, expected[name])
            leaks += [found] if found else []
    return {"interrupts": interrupts, "leaks": leaks}


def first_use(count: int, seed: int, names: list[str]) -> dict[str, Any]:
    """Interrupts the first run of a program in a process, which loads modules and links kernels.

    Each one in a copy of this process, which must not have used anything yet.
    """
    chance = random.Random(seed)
    interrupts = 0
    leaks: list[str] = []
    for name in names:
        duration, expected = json.loads(_in_copy(functools.partial(_first, name, None, None)))
        for _ in range(count):
            moment = chance.uniform(1e-6, duration)
            is_hit, leak = json.loads(
                _in_copy(functools.partial(_first, name, moment, expected)) or '[true, "died"]'
            )
            interrupts += is_hit
            leaks += [f"{name}: {leak}"] if leak else []
    return {"interrupts": interrupts, "leaks": leaks}


def _in_copy(task: Callable[[], str]) -> str:
    """What a function returns in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, task().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


def _first(name: str, moment: float | None, expected: list[float] | None) -> str:
    """The first run of a program, interrupted at a moment, and a second one."""
    program = PROGRAMS[name]
    before = state()
    start = time.perf_counter()
    if moment is None:
        result = number(program())
        return json.dumps([time.perf_counter() - start, result])
    signal.signal(signal.SIGALRM, _raise)
    is_hit = False
    try:
        signal.setitimer(signal.ITIMER_REAL, moment)
        program()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        is_hit = True
    try:
        leak = _report(name, "at its first run", before, expected or [])
    except Exception:
        leak = traceback.format_exc()
    return json.dumps([is_hit, leak])


def main() -> None:
    """Arguments: the task; how many interrupts (of each program, for a sweep); names."""
    task, count, *names = sys.argv[1:]
    names = names or [*PROGRAMS]
    if task == "sweep":
        report = {name: sweep(name, int(count)) for name in names}
    elif task == "storm":
        report = {task: storm(int(count), 0, names)}
    else:
        report = {task: first_use(int(count), 0, names)}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
