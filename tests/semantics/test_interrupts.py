"""A KeyboardInterrupt at any moment leaves modes, levels, locks and NumPy's settings as they were.

``interrupt_worker.py`` has the programs, and says how they are interrupted.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from contextvars import ContextVar
from pathlib import Path

import pytest

import pullback
from pullback.interrupts import VariableGuard, run_to_end, uninterrupted_entry

WORKER = Path(__file__).with_name("interrupt_worker.py")
MAIN = ["backward", "grad", "vmap_grad", "jacfwd", "hessian", "hvp"]
MODE = ["numpy_mode", "grad_in_mode"]
BLOCKS = ["no_grad", "inference_mode", "decorated", "dual_level", "saved_hooks", "allowed_mutation"]
TRACES = ["compiled", "graph_of_a_function"]
ALL = 10**6

pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 14) or sys.implementation.name != "cpython",
    reason="where interrupts come is known for CPython 3.11 to 3.13",
)


def interrupt(task: str, count: int, *names: str) -> dict[str, dict[str, object]]:
    """Runs the worker in a process of its own; its report by program."""
    source = Path(pullback.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, WORKER, task, str(count), *names],
        env={"PYTHONPATH": str(source), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def check(report: dict[str, dict[str, object]], at_least: int) -> None:
    for name, found in report.items():
        assert found["leaks"] == [], name
        assert found["interrupts"] >= at_least, name


@pytest.mark.parametrize("names", [("backward", "grad", "no_grad"), ("hvp", "dual_level")])
def test_interrupt_at_every_place_leaves_no_trace(names):
    check(interrupt("sweep", ALL, *names), at_least=100)


def test_interrupt_at_sampled_places_of_every_program_leaves_no_trace():
    check(interrupt("sweep", 30), at_least=20)


def test_interrupts_of_traces_leave_no_trace():
    check(interrupt("sweep", 100, *TRACES), at_least=90)


@pytest.mark.slow
def test_interrupts_of_traces_at_a_thousand_places_leave_no_trace():
    check(interrupt("sweep", 1000, *TRACES), at_least=400)


def test_interrupts_at_random_moments_leave_no_trace():
    check(interrupt("storm", 200, *MAIN), at_least=200)


def test_interrupts_at_random_moments_leave_numpy_as_it_was():
    check(interrupt("storm", 300, *MODE), at_least=300)


@pytest.mark.slow
def test_two_thousand_interrupts_leave_numpy_as_it_was():
    check(interrupt("storm", 2000, *MODE), at_least=2000)


@pytest.mark.slow
def test_two_thousand_interrupts_at_random_moments_leave_no_trace():
    check(interrupt("storm", 2000, *MAIN), at_least=2000)


@pytest.mark.slow
@pytest.mark.parametrize("names", [MAIN, BLOCKS])
def test_interrupt_at_every_place_of_more_programs_leaves_no_trace(names):
    check(interrupt("sweep", ALL, *names), at_least=90)


def test_interrupted_first_use_loads_the_rest_later():
    check(interrupt("first_use", 5, "grad", "hessian", "jacfwd"), at_least=5)


def test_uninterrupted_entry_changes_nothing_else():
    @uninterrupted_entry
    def plain(a, b=2, *rest, c, **more):
        return a, b, rest, c, more

    def closure(x):
        @uninterrupted_entry
        def inner(y):
            return lambda: x + y  # a cell, which is made before the function begins

        return inner

    assert plain(1, c=3, d=4) == (1, 2, (), 3, {"d": 4})
    assert closure(1)(2)() == 3


def test_run_to_end_raises_the_interrupt_after_the_work():
    calls = []

    def work(name):
        calls.append(name)
        if len(calls) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_to_end(work, "x")
    assert calls == ["x", "x"]


def test_variable_guard_puts_the_value_back_after_an_error():
    variable = ContextVar("variable", default=1)

    def fail():
        with VariableGuard(variable, 2):
            raise ValueError(variable.get())

    with pytest.raises(ValueError, match="2"):
        fail()
    assert variable.get() == 1


def test_no_module_uses_numpys_own_errstate_which_an_interrupt_can_leave_changed():
    package = Path(pullback.__file__).parent
    used = [
        f"{path.relative_to(package)}:{node.lineno}"
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in ("errstate", "seterr")
        and isinstance(node.value, ast.Name)
        and node.value.id == "np"
    ]
    assert [place for place in used if not place.startswith("kernels/errstate.py")] == []
