"""The schema of an operator: its name, arguments and returns, and what follows from them.

The vocabulary is that of PyTorch's code generator. ``str`` of a schema is its canonical text.
Schemas come from ``parse.py``, which checks the rules that tie the parts together; code that
derives a new schema from a parsed one should print and parse it to have it checked again.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from pullback.errors import SchemaError
from pullback.schema.arguments import Argument, Arguments, Return
from pullback.schema.names import BaseOperatorName, OperatorName
from pullback.schema.types import BaseTy, BaseType, ListType, OptionalType, Type

__all__ = ["SCRATCH_PREFIX", "FunctionSchema", "SchemaKind"]

SCRATCH_PREFIX = "_scratch_"


class SchemaKind(enum.Enum):
    """Kind of an operator, by the way it returns its result.

    >>> SchemaKind("out") is SchemaKind.out
    True
    """

    functional = "functional"
    inplace = "inplace"
    out = "out"
    mutable = "mutable"
    scratch = "scratch"


@dataclass(frozen=True, slots=True)
class FunctionSchema:
    """One operator overload as its schema declares it.

    >>> from pullback.schema import parse_schema
    >>> schema = parse_schema("add.out(Tensor self, int n=1, *, Tensor(a!) out) -> Tensor(a!)")
    >>> schema.kind().value, schema.return_names(), schema.dispatch_arguments
    ('out', ('out',), ('self', 'out'))
    >>> str(schema.signature())
    'add(Tensor self, int n=1) -> Tensor'
    """

    name: OperatorName
    arguments: Arguments
    returns: tuple[Return, ...]

    def __str__(self) -> str:
        returns = ", ".join(map(str, self.returns))
        if len(self.returns) != 1:
            returns = f"({returns})"
        return f"{self.name}({self.arguments}) -> {returns}"

    def in_namespace(self, namespace: str) -> FunctionSchema:
        """The same schema of an operator in another namespace."""
        return replace(self, name=replace(self.name, namespace=namespace))

    def kind(self) -> SchemaKind:
        """The kind; a written ``self`` alone does not make a schema mutable, only its name does."""
        if self.name.name.inplace:
            return SchemaKind.inplace
        if any(argument.name.startswith(SCRATCH_PREFIX) for argument in self.arguments.out):
            return SchemaKind.scratch
        if self.arguments.out:
            return SchemaKind.out
        if any(argument.is_write for argument in self.arguments.post_self_positional):
            return SchemaKind.mutable
        return SchemaKind.functional

    @property
    def is_mutable(self) -> bool:
        """Whether the call writes to any argument."""
        return any(argument.is_write for argument in self.arguments.flat_all)

    @property
    def is_view(self) -> bool:
        """Whether a return shares memory with an argument that is not written to."""
        return any(
            returned.annotation is not None and not returned.annotation.is_write
            for returned in self.returns
        ) or any(
            argument.annotation is not None and "*" in argument.annotation.alias_set_after
            for argument in self.arguments.flat_all
        )

    def is_out_fn(self) -> bool:
        """Whether the caller passes tensors for the results."""
        return bool(self.arguments.out)

    def is_functional_fn(self) -> bool:
        """Whether the overload name marks the functional variant of a mutating operator."""
        return "functional" in self.name.overload_name

    @property
    def dispatch_arguments(self) -> tuple[str, ...]:
        """The names of the arguments whose tensors decide which kernel runs."""
        return tuple(
            argument.name for argument in self.arguments.flat_all if _dispatches(argument.type)
        )

    def aliased_return_names(self) -> tuple[str | None, ...]:
        """For each return, the name of the argument with the same annotation, if there is one."""
        return tuple(map(self._aliased_name, self.returns))

    def _aliased_name(self, returned: Return) -> str | None:
        if returned.annotation is None:
            return None
        names = [
            argument.name
            for argument in self.arguments.flat_all
            if argument.annotation == returned.annotation
        ]
        if len(names) > 1:
            raise SchemaError(
                f"Invalid function schema: the return '{returned}' of '{self}' aliases several "
                f"arguments ({', '.join(names)}); give each its own alias letter."
            )
        return names[0] if names else None

    def return_names(self) -> tuple[str, ...]:
        """The names of the returns in formulas; never the name of an unrelated argument."""
        return tuple(map(self._return_name, range(len(self.returns))))

    def _return_name(self, index: int) -> str:
        returned = self.returns[index]
        passed_in: tuple[Argument, ...] = self.arguments.out
        if self.name.name.inplace and self.arguments.self_arg is not None:
            passed_in = (self.arguments.self_arg,)
        if index < len(passed_in) and passed_in[index].annotation == returned.annotation:
            return passed_in[index].name
        if returned.name is not None:
            taken = any(argument.name == returned.name for argument in self.arguments.flat_all)
            return f"{returned.name}_return" if taken else returned.name
        return "result" if len(self.returns) == 1 else f"result{index}"

    def signature(
        self,
        *,
        strip_default: bool = False,
        strip_view_copy_name: bool = False,
        keep_return_names: bool = False,
    ) -> FunctionSchema:
        """The functional schema that all variants of one operator have in common.

        Overload, variant marks, annotations, outputs, tensor options and (unless kept) return
        names go; a written argument that is not returned becomes an extra return. The namespace
        stays, because equal names in two namespaces are no family.
        """
        arguments = self.arguments
        name = self.name.name
        base = _view_name(name.base) if strip_view_copy_name else name.base
        returned = {r.annotation for r in self.returns}
        written = [
            argument
            for argument in (
                *(() if arguments.self_arg is None else (arguments.self_arg,)),
                *arguments.out,
                *arguments.post_self_positional,
            )
            if argument.is_write and argument.annotation not in returned
        ]
        return FunctionSchema(
            OperatorName(
                self.name.namespace,
                BaseOperatorName(base, inplace=False, dunder_method=name.dunder_method),
                overload_name="",
            ),
            _bare_arguments(arguments, strip_default=strip_default),
            tuple(Return(r.name if keep_return_names else None, r.type, None) for r in self.returns)
            + tuple(
                Return(f"{a.name}_out" if keep_return_names else None, a.type, None)
                for a in written
            ),
        )


def _dispatches(type_: Type) -> bool:
    if isinstance(type_, ListType):
        type_ = type_.elem
    if isinstance(type_, OptionalType):
        type_ = type_.elem
    return isinstance(type_, BaseType) and type_.name is BaseTy.Tensor


def _view_name(base: str) -> str:
    """The name of the view whose copying or scattering twin ``base`` is."""
    if base.endswith("_copy"):
        return base.removesuffix("_copy")
    if base.endswith("_scatter"):
        return base.removesuffix("_scatter") + "_inverse"
    return base


def _bare_arguments(arguments: Arguments, *, strip_default: bool) -> Arguments:
    def bare(items: tuple[Argument, ...]) -> tuple[Argument, ...]:
        return tuple(
            replace(a, annotation=None, default=None if strip_default else a.default) for a in items
        )

    self_arg = arguments.self_arg
    return Arguments(
        pre_self_positional=bare(arguments.pre_self_positional),
        self_arg=None if self_arg is None else bare((self_arg,))[0],
        post_self_positional=bare(arguments.post_self_positional),
        pre_tensor_options_kwarg_only=bare(
            arguments.pre_tensor_options_kwarg_only + arguments.post_tensor_options_kwarg_only
        ),
        tensor_options=None,
        post_tensor_options_kwarg_only=(),
        out=(),
    )
