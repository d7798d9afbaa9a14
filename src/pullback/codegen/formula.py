"""The :class:`Dialect` protocol of formula languages, and the values in formulas.

Everything that depends on how a formula is *written* stands behind this protocol. Our tables are
in the dialect of ``python_dialect``, PyTorch's in that of ``tools/torchgen`` of the repository;
``derive``, ``match`` and ``foreach`` work on either and never look into a formula themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pullback.schema import FunctionSchema, Type

__all__ = ["GRADIENT_WORDS", "Dialect", "SavedAttribute", "Value"]

GRADIENT_WORDS = frozenset({"grad", "grads", "grad_input_mask", "retain_variables"})
"""The words of a backward formula that name neither an argument nor an output."""


@dataclass(frozen=True, slots=True)
class Value:
    """Something a formula may read by name: an argument or an output."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class SavedAttribute:
    """A value that a node keeps from the forward call for its backward formula.

    ``name`` is the field of the node, ``expr`` what is evaluated to fill it, and ``source`` the
    argument or output that ``expr`` reads. A whole tensor has ``name == expr == source``.

    >>> from pullback.schema import BaseTy, BaseType
    >>> SavedAttribute("self_ndim", BaseType(BaseTy.int), "self.ndim", "self").source
    'self'
    """

    name: str
    type: Type
    expr: str
    source: str


class Dialect(Protocol):
    """A language that formulas are written in.

    Methods raise ``CodegenError`` with ``offset`` set to the faulty character of the formula.
    """

    @property
    def name(self) -> str:
        """Return the word that selects this dialect."""

    def values(self, func: FunctionSchema) -> tuple[Value, ...]:
        """Return the arguments of an operator as its formulas see them."""

    def names(self, formula: str) -> frozenset[str]:
        """Return every name that is read as a value: no function, attribute or part of a text."""

    def calls(self, formula: str) -> frozenset[str]:
        """Return the name of every function that is called; methods are none."""

    def gradient_uses(self, formula: str) -> tuple[int | None, ...]:
        """Return one element for each use of ``grads``: its index, or None where it has none."""

    def check(self, formula: str, known: Collection[str]) -> None:
        """Refuse a formula that uses forbidden forms or reads a name that is not ``known``."""

    def save(
        self, formula: str, values: Sequence[Value], var_names: tuple[str, ...]
    ) -> tuple[str, tuple[SavedAttribute, ...]]:
        """Rewrite a formula to read fields of a node, and return the fields."""

    def substitute(self, formula: str, replacements: Mapping[str, str]) -> str:
        """Put an expression in the place of each given name."""

    def elementwise(self, formula: str, name: str) -> str:
        """Turn the backward formula of an element-wise function into the forward one."""

    def call(self, func: FunctionSchema, values: Mapping[str, str], *, method: bool) -> str:
        """Write a call of the operator itself, with some arguments replaced."""

    def write_in_place(self, formula: str, op: str) -> str:
        """Make the forward formula of ``op`` write into an existing tangent of ``self``."""
