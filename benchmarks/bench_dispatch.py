"""What a call through the dispatcher costs on top of the kernel that it runs.

    python benchmarks/bench_dispatch.py [--json PATH] [--check]

The kernels do nothing, so that every nanosecond is the call's own. All cases are measured in turn,
round by round, and the fastest round of each counts: whatever slows the machine down for a while
hits all of them alike. PyTorch takes part if it is installed, with the same Python kernel.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
import timeit
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pullback.dispatch import DispatchKeySet, Library, after_autograd

ROUNDS = 25
CALLS = 20_000  # a round
LIMIT = 250.0  # ns over the kernel, for --check
CHECKED = ("op.call(x)", "op(x)")


class Value:
    """As a plain tensor looks to the dispatcher."""

    __slots__ = ("_flags",)

    def __init__(self) -> None:
        self._flags = int(DispatchKeySet("CPU", "ADInplaceOrView", "AutogradCPU"))


def empty() -> None:
    pass


def kernel(x: Any) -> Any:
    return x


def kernel2(x: Any, y: Any) -> Any:  # noqa: ARG001 - kernels have the schema's arguments
    return x


def kernel3(x: Any, n: int, a: float) -> Any:  # noqa: ARG001
    return x


def keyset_kernel(keyset: DispatchKeySet, x: Any) -> Any:  # noqa: ARG001
    return x


@dataclass(frozen=True)
class Case:
    """A statement to measure, and the statement that calls its kernel directly."""

    label: str
    statement: str
    kernel: str


@dataclass(frozen=True)
class Result:
    case: str
    ns: float
    over_kernel: float
    ratio_to_empty: float


CASES = (
    Case("an empty Python call", "empty()", "empty()"),
    Case("kernel(x)", "kernel(x)", "kernel(x)"),
    Case("op.call(x)", "call(x)", "kernel(x)"),
    Case("op(x)", "op(x)", "kernel(x)"),
    Case("packet(x)", "packet(x)", "kernel(x)"),
    Case("op(x, n=2, a=0.5)", "op3(x, n=2, a=0.5)", "kernel3(x, 2, 0.5)"),
    Case("op.redispatch(keyset, x)", "redispatch(below, x)", "kernel(x)"),
    Case("the same, to an autograd key", "redispatch(keyset, x)", "kernel(x)"),
    Case("op.call(x, y), two tensors", "call2(x, x)", "kernel2(x, x)"),
    Case("op.call(x, 2, 0.5)", "call3(x, 2, 0.5)", "kernel3(x, 2, 0.5)"),
    Case("op.call(x), kernel with key set", "keyset_call(x)", "keyset_kernel(keyset, x)"),
)
TORCH_CASE = Case("torch.ops packet(x), same kernel", "torch_packet(tensor)", "kernel(tensor)")


def make_operators(libraries: ExitStack) -> dict[str, Any]:
    """The names that the statements use."""
    lib = libraries.enter_context(Library("bench", "DEF"))
    for schema, fn in (
        ("f(Tensor x) -> Tensor", kernel),
        ("f2(Tensor x, Tensor y) -> Tensor", kernel2),
        ("f3(Tensor x, int n, float a) -> Tensor", kernel3),
        ("fk(Tensor x) -> Tensor", keyset_kernel),
    ):
        name = lib.define(schema)
        lib.impl(name, fn, "CPU", with_keyset=fn is keyset_kernel)
    op = lib.operator("f")
    x = Value()
    keyset = op.explain(x).keyset
    return {
        **globals(),
        "x": x,
        "keyset": keyset,
        "below": keyset & after_autograd,
        "op": op,
        "packet": op.overloadpacket,
        "call": op.call,
        "redispatch": op.redispatch,
        "call2": lib.operator("f2").call,
        "call3": lib.operator("f3").call,
        "op3": lib.operator("f3"),
        "keyset_call": lib.operator("fk").call,
    }


def make_torch_operator(libraries: ExitStack) -> dict[str, Any]:
    """The same operator in PyTorch; nothing, if it is not installed."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return {}
    lib = torch.library.Library("bench", "DEF")
    libraries.callback(lib._destroy)
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", kernel, "CPU")
    return {"torch_packet": torch.ops.bench.f, "tensor": torch.ones(2)}


def fastest(statements: list[str], names: dict[str, Any]) -> dict[str, float]:
    """Nanoseconds of one execution of each statement, in its fastest round."""
    timers = {statement: timeit.Timer(statement, globals=names) for statement in statements}
    best = dict.fromkeys(timers, float("inf"))
    for _ in range(ROUNDS):
        for statement, timer in timers.items():
            best[statement] = min(best[statement], timer.timeit(CALLS) / CALLS * 1e9)
    return best


def measure() -> Iterator[Result]:
    with ExitStack() as libraries:
        names = make_operators(libraries)
        torch_names = make_torch_operator(libraries)
        cases = (*CASES, TORCH_CASE) if torch_names else CASES
        statements = [text for case in cases for text in (case.statement, case.kernel)]
        best = fastest(statements, names | torch_names)
        for case in cases:
            ns = best[case.statement]
            yield Result(case.label, ns, ns - best[case.kernel], ns / best["empty()"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results there")
    parser.add_argument(
        "--check",
        action="store_true",
        help=f"fail if {' or '.join(CHECKED)} costs more than {LIMIT:.0f} ns over the kernel",
    )
    options = parser.parse_args()
    results = list(measure())
    print(f"{'case':<34}{'ns':>8}{'- kernel':>10}{'/ empty':>9}")
    for result in results:
        print(
            f"{result.case:<34}{result.ns:>8.0f}{result.over_kernel:>10.0f}"
            f"{result.ratio_to_empty:>9.1f}"
        )
    if options.json:
        report = {
            "benchmark": "dispatch",
            "python": platform.python_version(),
            "results": [asdict(result) for result in results],
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    slow = [r for r in results if r.case in CHECKED and r.over_kernel > LIMIT]
    for result in slow if options.check else []:
        print(f"too slow: {result.case}, {result.over_kernel:.0f} ns", file=sys.stderr)
    return int(options.check and bool(slow))


if __name__ == "__main__":
    sys.exit(main())
