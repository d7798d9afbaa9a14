"""PythonDispatcher's tables of all 1536 valid registration sets, as PyTorch 2.13 computes them.

The recorded file maps the registered keys, joined by commas in the order of ``keys()``, to the
lines of the computed table; a key without a kernel is absent.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from itertools import chain, combinations
from pathlib import Path

import pytest

from pullback.dispatch import PythonDispatcher

RECORDED: dict[str, dict[str, str]] = json.loads(
    gzip.decompress(Path(__file__).with_name("python_dispatcher_tables.json.gz").read_bytes())
)
KEYS = PythonDispatcher.supported_keys
PRINT_ORDER = (
    *("CPU", "XLA", "Lazy", "FPGA"),
    *("AutogradOther", "AutogradCPU", "AutogradXLA", "AutogradLazy"),
)


def text_of(table: dict[str, str]) -> str:
    """How a table is printed."""
    head = "\nComputed Dispatch Table\nkey             kernel\n---------------------------\n"
    return head + "".join(f"{key:<15} {kernel}\n" for key, kernel in table.items())


def computed(registered: str) -> str:
    """What a fresh dispatcher prints for the registered keys."""
    dispatcher = PythonDispatcher()
    dispatcher.register(registered.split(",") if registered else [])
    return dispatcher.dispatchTable()


def test_the_recorded_subsets_are_exactly_the_valid_ones():
    """Rule 14.49."""
    every = chain.from_iterable(combinations(KEYS, size) for size in range(len(KEYS) + 1))
    both = {"CompositeImplicitAutograd", "CompositeExplicitAutograd"}
    valid = {",".join(subset) for subset in every if not both <= set(subset)}
    assert set(RECORDED) == valid
    assert len(RECORDED) == 2**11 - 2**9 == 1536


def test_every_table_equals_the_recorded_one():
    """Rule 14.49."""
    different = {
        registered: text
        for registered, table in RECORDED.items()
        if (text := computed(registered)) != text_of(table)
    }
    assert different == {}


def test_totals_of_the_recorded_tables():
    """Rule 14.49."""
    kinds = Counter(
        text.rpartition("[")[2].rstrip("]")
        for table in RECORDED.values()
        for text in table.values()
    )
    entries = len(RECORDED) * len(PRINT_ORDER)
    assert entries == 12288
    assert entries - kinds.total() == 1024
    assert kinds == {
        "kernel": 8 * 768,
        "math kernel": 1536,
        "backend fallback": 1216,
        "autograd kernel": 1216,
        "default backend kernel": 1024,
        "ambiguous autogradother": 128,
    }


SHORT = {
    "M": "fn_CompositeImplicitAutograd [math kernel]",
    "D": "fn_CompositeExplicitAutograd [default backend kernel]",
    "A": "fn_Autograd [autograd kernel]",
    "F": "[backend fallback]",
    "X": "ambiguous_autogradother [ambiguous autogradother]",
}


@pytest.mark.parametrize(
    ("registered", "expected"),
    [
        ("", "- - - - F F F F"),
        ("CPU", "K - - - F F F F"),
        ("CPU,Autograd", "K - - - A A A A"),
        ("CIA", "M M M M M M M M"),
        ("CPU,XLA,Lazy,CIA", "K K K M M F F F"),
        ("FPGA,CIA", "M M M K X M M M"),
        ("CEA,Autograd", "D D D D A A A A"),
        ("CPU,AutogradCPU,XLA,Autograd,CIA", "K K M M M K A M"),
        ("FPGA,Autograd,CIA", "M M M K X M M M"),
        ("CPU,FPGA,AutogradOther,CEA", "K D D K K F F F"),
    ],
)
def test_sample_tables_of_python_dispatcher(registered, expected):
    """Rule 14.49."""
    registered = registered.replace("CIA", "CompositeImplicitAutograd")
    registered = registered.replace("CEA", "CompositeExplicitAutograd")
    table = {
        key: SHORT.get(letter, f"fn_{key} [kernel]")
        for key, letter in zip(PRINT_ORDER, expected.split(), strict=True)
        if letter != "-"
    }
    assert computed(registered) == text_of(table)


COMPUTED_SAMPLE = """
Computed Dispatch Table
key             kernel
---------------------------
CPU             fn_CPU [kernel]
XLA             fn_XLA [kernel]
Lazy            fn_Lazy [kernel]
FPGA            fn_CompositeImplicitAutograd [math kernel]
AutogradOther   fn_CompositeImplicitAutograd [math kernel]
AutogradCPU     [backend fallback]
AutogradXLA     [backend fallback]
AutogradLazy    [backend fallback]
"""
REGISTERED_SAMPLE = """
Registered Kernels
key             kernel
---------------------------
CPU             fn_CPU
XLA             fn_XLA
Lazy            fn_Lazy
CompositeImplicitAutograd[alias] fn_CompositeImplicitAutograd
"""


def test_the_full_sample_to_the_letter():
    """Rule 14.48."""
    dispatcher = PythonDispatcher()
    dispatcher.register(["CPU", "XLA", "Lazy", "CompositeImplicitAutograd"])
    assert dispatcher.dispatchTable() == COMPUTED_SAMPLE
    assert dispatcher.registrations() == REGISTERED_SAMPLE
