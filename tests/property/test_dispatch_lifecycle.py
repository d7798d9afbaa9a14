"""Registrations come and go in any order; what is left is what was never there otherwise.

The model is a plain list of the registrations in force. After every step the dispatcher's state
must be that of a fresh operator to which exactly this list is registered (rules 14.15, 14.27, 14.30
and 14.33).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
)

from pullback.dispatch import DispatchTable, Library, RegistrationHandle, registry
from pullback.dispatch.dump import dump_registrations
from pullback.errors import DestroyedLibraryError, RegistrationError

# Few keys, so that stacks grow: a backend, two with special rules, an autograd key, the composites.
KEYS = st.sampled_from(
    [
        *("CPU", "Meta", "FPGA", "AutogradCPU"),
        *("CompositeImplicitAutograd", "CompositeExplicitAutograd"),
    ]
)
FALLBACK_KEYS = st.sampled_from(["CPU", "Tracer"])
OPERATORS = st.sampled_from(["f", "g"])
KERNEL_LINE = re.compile(
    r"^(\w+)(?:\[alias\])?( \(inactive\))?: registered at (\w+):1 ::", re.MULTILINE
)
DEFINE, IMPLEMENT = "lib.define(op + '(Tensor x) -> str')", "lib.impl(op, str, key)"


@pytest.fixture(autouse=True, scope="module")
def silent() -> Iterator[None]:
    """As if the one warning about an overridden kernel had been given already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_override_warned", True)
        yield


@dataclass(eq=False)
class Owner:
    """A library; None once nobody holds it."""

    library: Library | None
    alive: bool = True


@dataclass(eq=False)
class Registration:
    """A kernel; a definition, if it has no key; a fallback, if it has no operator."""

    owner: Owner
    place: str  # the file name in its location, which makes it recognisable in a dump
    operator: str = ""
    key: str = ""
    handle: RegistrationHandle | None = None

    def register(self, expression: str, library: Library | None) -> Any:
        """Registers as if the expression stood in the first line of the file `place`."""
        names = {"lib": library, "op": self.operator, "key": self.key}
        return eval(compile(expression, self.place, "eval"), names)


def state_of(name: str) -> tuple[str, str] | None:
    """All that can be seen of an operator: its registrations and its table."""
    found = registry.find(name)
    return found and (dump_registrations(found), repr(DispatchTable(found)))


class Lifecycle(RuleBasedStateMachine):
    owners = Bundle("owners")
    handles = Bundle("handles")

    def __init__(self) -> None:
        super().__init__()
        self.fallbacks = registry.fallbacks()
        self.in_force: list[Registration] = []
        self.made: list[Owner] = []
        self.places = count()

    def having(self, operator: str, key: str) -> list[Registration]:
        """The registrations for an operator and a key, oldest first."""
        return [r for r in self.in_force if (r.operator, r.key) == (operator, key)]

    def add(self, owner: Owner, expression: str, refused: bool, **what: str) -> Any:
        """Registers; what the model refuses must be refused, and change nothing."""
        new = Registration(owner, f"place{next(self.places)}", **what)
        error = RegistrationError if owner.alive else DestroyedLibraryError
        with pytest.raises(error) if refused or not owner.alive else nullcontext():
            new.handle = new.register(expression, owner.library)
            self.in_force.append(new)
            return new
        return multiple()

    @rule(target=owners, what=st.sampled_from(["x FRAGMENT", "x IMPL", "_ IMPL"]))
    def make_library(self, what: str) -> Owner:
        namespace, kind = what.split()
        self.made.append(Owner(Library(namespace, kind)))
        return self.made[-1]

    @rule(owner=owners, operator=OPERATORS)
    def define(self, owner: Owner, operator: str) -> None:
        refused = owner.library.kind == "IMPL" or bool(self.having(operator, ""))
        self.add(owner, DEFINE, refused, operator=operator)

    @rule(target=handles, owner=owners, operator=OPERATORS, key=KEYS)
    def implement(self, owner: Owner, operator: str, key: str) -> Any:
        composite = self.having(operator, "CompositeImplicitAutograd")
        refused = owner.library.ns == "_" or (key == "Meta" and bool(composite))
        return self.add(owner, IMPLEMENT, refused, operator=operator, key=key)

    @rule(target=handles, owner=owners, key=FALLBACK_KEYS)
    def add_fallback(self, owner: Owner, key: str) -> Any:
        refused = owner.library.ns != "_" or bool(self.having("", key))
        return self.add(owner, "lib.fallback(str, key)", refused, key=key)

    @rule(registration=handles)
    def destroy_handle(self, registration: Registration) -> None:
        registration.handle.destroy()
        self.in_force = [r for r in self.in_force if r is not registration]

    @rule(owner=owners)
    def destroy_library(self, owner: Owner) -> None:
        owner.library._destroy()
        owner.alive = False
        self.in_force = [r for r in self.in_force if r.owner is not owner]

    @rule(owner=consumes(owners))
    def drop_library(self, owner: Owner) -> None:
        owner.library = None
        self.in_force = [r for r in self.in_force if r.owner is not owner]

    @invariant()
    def stacks_are_those_of_the_list(self) -> None:
        for name in ("f", "g"):
            found = registry.find(f"x::{name}")
            lines = KERNEL_LINE.findall(dump_registrations(found)) if found else []
            keys = {r.key for r in self.in_force if r.operator == name and r.key}
            assert {key for key, _, _ in lines} == keys
            for key in keys:
                newest, *older = [r.place for r in reversed(self.having(name, key))]
                expected = [("", newest), *((" (inactive)", place) for place in older)]
                assert [(mark, place) for k, mark, place in lines if k == key] == expected
        added = {r.key: f"{r.place}:1" for r in self.in_force if not r.operator}
        present = registry.fallbacks().items() - self.fallbacks.items()
        assert {key.name: kernel.location for key, kernel in present} == added

    @invariant()
    def dumps_and_tables_are_those_of_a_fresh_operator(self) -> None:
        with Library("y", "FRAGMENT") as fresh:
            for registration in self.in_force:
                if registration.operator:
                    registration.register(IMPLEMENT if registration.key else DEFINE, fresh)
            for name in ("f", "g"):
                expected = state_of(f"y::{name}")
                if expected is not None:
                    expected = (expected[0].replace("y::", "x::"), expected[1])
                assert state_of(f"x::{name}") == expected

    def teardown(self) -> None:
        for owner in self.made:
            if owner.library is not None:
                owner.library._destroy()
        assert registry.find("x::f") is registry.find("x::g") is None
        assert registry.fallbacks() == self.fallbacks


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = settings(deadline=None, max_examples=80, stateful_step_count=50)
