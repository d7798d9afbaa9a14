"""Copies and pickles: what has one identity keeps it, what is a value keeps its value."""

from __future__ import annotations

import copy
import pickle

import pytest

import pullback.ops
from pullback.dispatch import DispatchKey, DispatchKeySet
from pullback.errors import OperatorNotFoundError

COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
}


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_operators_and_packets_are_themselves(lib, value, duplicate):
    lib.define("f(Tensor x) -> Tensor")
    lib.define("f.two(Tensor x, int n) -> Tensor")
    lib.impl("f", lambda x: x, "CPU")
    f = lib.operator("f")
    assert duplicate(f) is f
    f(value("inference"))  # now of a class of its own
    assert duplicate(f) is f
    assert duplicate(lib.operator("f.two")) is lib.operator("f.two")
    assert duplicate(f.overloadpacket) is f.overloadpacket
    assert duplicate(getattr(pullback.ops, lib.ns)).f is f.overloadpacket


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_key_sets_are_equal(duplicate):
    keys = DispatchKeySet("CPU", "AutogradCPU")
    assert duplicate(keys) == keys
    assert type(duplicate(keys)) is DispatchKeySet
    assert duplicate(DispatchKey.CPU) is DispatchKey.CPU


def test_a_pickle_outlives_its_operator_only_as_a_name(lib):
    lib.define("f(Tensor x) -> Tensor")
    stored = pickle.dumps(lib.operator("f"))
    lib._destroy()
    with pytest.raises(OperatorNotFoundError, match=r"no operator '.*::f' is defined"):
        pickle.loads(stored)


@pytest.mark.parametrize("other", ["XLA", DispatchKey.XLA, None])
def test_key_sets_combine_with_key_sets_only(other):
    keys = DispatchKeySet("CPU")
    for combine in (lambda: keys | other, lambda: keys & other, lambda: keys - other):
        with pytest.raises(TypeError, match="unsupported operand"):
            combine()
