"""Kernels registered at the wrong keys, and the words by which ``opcheck`` finds them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import pullback as pb
from pullback.library import Library, opcheck

Function = Callable[..., Any]


@dataclass
class Registration:
    """Kernels of a library's operator at the wrong keys."""

    name: str
    test: str
    words: str
    kernels: Function
    schema: str = "f(Tensor x) -> Tensor"
    args: Function = lambda: (pb.tensor([0.5, 2.0], requires_grad=True),)


class Double(pb.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return pb.asarray(2 * x.numpy())

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return 2 * grad


def at(key: str, fn: Function) -> Function:
    def register(lib: Library) -> None:
        lib.impl("f", fn, key)

    return register


def both(first: Function, second: Function) -> Function:
    def register(lib: Library) -> None:
        first(lib)
        second(lib)

    return register


NO_KERNEL = "does not have an autograd kernel"
REGISTRATIONS = [
    Registration(
        "function_at_backend", "test_autograd_registration", NO_KERNEL, at("CPU", Double.apply)
    ),
    Registration(
        "composite_at_backend", "test_autograd_registration", NO_KERNEL, at("CPU", lambda x: x * 2)
    ),
    Registration(
        "composite_explicit",
        "test_autograd_registration",
        NO_KERNEL,
        at("CompositeExplicitAutograd", lambda x: x * 2),
    ),
    Registration(
        "view_at_backend", "test_autograd_registration", NO_KERNEL, at("CPU", lambda x: x[:1])
    ),
    Registration(
        "other_autograd_key",
        "test_autograd_registration",
        NO_KERNEL,
        both(at("CPU", lambda x: x * 2), at("AutogradXLA", lambda x: x)),
    ),
    Registration(
        "adinplace_only",
        "test_autograd_registration",
        NO_KERNEL,
        both(at("CPU", lambda x: x * 2), at("ADInplaceOrView", pb.library.fallthrough_kernel)),
    ),
    Registration(
        "undeclared_alias",
        "test_schema",
        "is not defined to alias output",
        at("CompositeImplicitAutograd", lambda x: x[:1]),
    ),
    Registration(
        "returns_input",
        "test_schema",
        "not allowed to directly return inputs",
        at("CPU", lambda x: x),
        "f(Tensor(a) x) -> Tensor(a)",
        lambda: (pb.tensor([1.0, 2.0]),),
    ),
    Registration(
        "outputs_alias",
        "test_schema",
        "Outputs 0 and 1 alias unexpectedly",
        at("CPU", lambda x: (lambda y: (y, y[:1]))(x + 1)),
        "f(Tensor x) -> (Tensor, Tensor)",
        lambda: (pb.tensor([1.0, 2.0]),),
    ),
    Registration(
        "undeclared_write",
        "test_schema",
        "not defined as mutable but was mutated",
        at("CPU", lambda x: x.mul_(2) + 1),
        args=lambda: (pb.tensor([1.0, 2.0]),),
    ),
]


@pytest.mark.parametrize("wrong", REGISTRATIONS, ids=lambda w: w.name)
def test_the_wrong_registration_is_found(lib, wrong):
    """Rules 16.4, 16.5."""
    lib.define(wrong.schema)
    wrong.kernels(lib)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = opcheck(lib.operator("f"), wrong.args(), raise_exception=False)
    assert wrong.words in str(report[wrong.test]), str(report)
