"""``PythonDispatcher``: register keys for a demonstration operator, see what the table becomes.

A view on the real dispatcher, and no second implementation: the operator ``__test__::foo`` is
defined and registered like any other, and the tables are its own, printed in PyTorch's layout.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, ClassVar

from pullback.dispatch import registry
from pullback.dispatch.dump import DispatchTable, dump_registrations
from pullback.dispatch.keys import DispatchKey
from pullback.dispatch.registry import RegistrationHandle
from pullback.dispatch.table import Kernel, OperatorEntry
from pullback.errors import RegistrationError
from pullback.schema import parse_schema

__all__ = ["PythonDispatcher"]

_NOWHERE = "/dev/null:0"  # the demonstration operator stands in no file
_HEADER = f"{'key':<15} kernel\n{'-' * 27}\n"


def _demonstrate(x: Any) -> Any:
    return x


class PythonDispatcher:
    """Shows how the dispatch table of an operator is computed from its registrations.

    >>> dispatcher = PythonDispatcher()
    >>> dispatcher.register(["CPU", "CompositeImplicitAutograd"])
    >>> print(dispatcher.dispatchTable().splitlines()[4])
    CPU             fn_CPU [kernel]
    """

    namespace: ClassVar[str] = "__test__"
    name: ClassVar[str] = "foo"
    runtime_keys: ClassVar[list[str]] = [
        "CPU",
        "AutogradCPU",
        "FPGA",
        "AutogradOther",
        "XLA",
        "AutogradXLA",
        "Lazy",
        "AutogradLazy",
    ]
    alias_keys: ClassVar[list[str]] = [
        "CompositeExplicitAutograd",
        "Autograd",
        "CompositeImplicitAutograd",
    ]
    supported_keys: ClassVar[list[str]] = runtime_keys + alias_keys

    def __init__(self) -> None:
        self._operator = f"{self.namespace}::{self.name}"
        schema = parse_schema(f"{self._operator}(Tensor x) -> Tensor")
        self._handles: dict[RegistrationHandle, None] = {}
        registry.define(schema, self._operator, _NOWHERE).belong_to(self._handles)
        weakref.finalize(self, registry.destroy_all, self._handles)

    def keys(self) -> list[str]:
        """The keys that ``register`` takes."""
        return self.supported_keys

    def register(self, dispatchKeys: Iterable[str]) -> None:  # noqa: N803 - PyTorch's name
        """Registers a kernel named ``fn_<key>`` to each key."""
        if isinstance(dispatchKeys, str):
            raise RegistrationError(
                f"register: expected a list of keys such as ['CPU'], but got the str "
                f"{dispatchKeys!r}"
            )
        keys = list(dispatchKeys)
        if len(set(keys)) != len(keys):
            raise RegistrationError(f"Overridden is not allowed but found duplicates in {keys}.")
        if {"CompositeImplicitAutograd", "CompositeExplicitAutograd"} <= set(keys):
            raise RegistrationError(
                "Registration to both CompositeImplicitAutograd and CompositeExplicitAutograd is "
                "not allowed."
            )
        for key in keys:
            if key not in self.supported_keys:
                raise RegistrationError(
                    f"{key} is not supported, please select a dispatch key in "
                    f"{self.supported_keys}."
                )
            kernel = Kernel(_demonstrate, DispatchKey[key], _NOWHERE, debug=f"fn_{key}")
            registry.implement(self._operator, kernel).belong_to(self._handles)

    def rawRegistrations(self) -> str:  # noqa: N802 - PyTorch's name
        """Everything registered for the operator, as the dispatcher keeps it."""
        return dump_registrations(self._entry())

    def rawDispatchTable(self) -> str:  # noqa: N802 - PyTorch's name
        """The whole computed table, as the dispatcher keeps it."""
        return repr(DispatchTable(self._entry()))

    def _repr_html_(self) -> str:
        return DispatchTable(self._entry())._repr_html_()

    def registrations(self) -> str:
        """The registered kernels, as a table."""
        table = "\nRegistered Kernels\n" + _HEADER
        for line in self.rawRegistrations().splitlines():
            key = line.partition(":")[0]
            if key.startswith(tuple(self.supported_keys)):
                kernel = line.split("::")[0].split(" ")[1]
                table += f"{key:<15} {kernel}\n"
        return table

    def dispatchTable(self) -> str:  # noqa: N802 - PyTorch's name
        """The computed entries of the demonstrated runtime keys, as a table."""
        table = "\nComputed Dispatch Table\n" + _HEADER
        for key, entry in DispatchTable(self._entry()).items():
            if key.name in self.runtime_keys:
                fallback = entry.provenance == "backend fallback"
                kernel = "" if fallback else f"{entry.kernel} "
                table += f"{key.name:<15} {kernel}[{entry.provenance}]\n"
        return table

    def _entry(self) -> OperatorEntry:
        entry = registry.find(self._operator)
        assert entry is not None
        return entry
