"""Arguments and returns of an operator, with their alias annotations.

Everything is frozen and hashable, and ``str`` prints the canonical text. ``Arguments`` groups the
arguments by role; its ``flat_*`` properties give them back in the order of the schema. Built by
``parse.py``, which alone checks that the parts fit together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pullback.schema.literals import Literal, literal_value
from pullback.schema.types import BaseTy, BaseType, OptionalType, Type

__all__ = ["Annotation", "Argument", "Arguments", "Return", "TensorOptionsArguments"]


@dataclass(frozen=True, slots=True)
class Annotation:
    """Alias sets of a tensor before and after the call, and whether it is written to.

    >>> str(Annotation(("a",), is_write=True, alias_set_after=("a", "b")))
    'a! -> a|b'
    """

    alias_set: tuple[str, ...]
    is_write: bool
    alias_set_after: tuple[str, ...]

    def __str__(self) -> str:
        before = "|".join(self.alias_set) + ("!" if self.is_write else "")
        return f"{before} -> {'|'.join(self.alias_set_after)}" if self.alias_set_after else before


def _type_text(type_: Type, annotation: Annotation | None) -> str:
    text = str(type_)
    if annotation is None:
        return text
    base = BaseTy.Tensor.value
    return f"{base}({annotation}){text.removeprefix(base)}"


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument; ``default`` is the text of the default, or ``None`` where one is required.

    >>> argument = Argument("dim", BaseType(BaseTy.int), "-1", None)
    >>> str(argument), argument.default_value(), argument.is_write
    ('int dim=-1', -1, False)
    """

    name: str
    type: Type
    default: str | None
    annotation: Annotation | None

    def __str__(self) -> str:
        text = f"{_type_text(self.type, self.annotation)} {self.name}"
        return text if self.default is None else f"{text}={self.default}"

    @property
    def is_write(self) -> bool:
        """Whether the call writes to this argument."""
        return self.annotation is not None and self.annotation.is_write

    @property
    def takes_none(self) -> bool:
        """Whether ``None`` is a value though the type is not optional: a Tensor's default."""
        return self.default == "None" and self.type == BaseType(BaseTy.Tensor)

    def default_value(self) -> Literal:
        """The default as a Python value; names such as ``long`` or ``Mean`` come back as str."""
        assert self.default is not None, f"argument {self.name!r} has no default"
        return literal_value(self.default)


@dataclass(frozen=True, slots=True)
class Return:
    """One return, which need not have a name.

    >>> str(Return("values", BaseType(BaseTy.Tensor), Annotation(("a",), True, ())))
    'Tensor(a!) values'
    """

    name: str | None
    type: Type
    annotation: Annotation | None

    def __str__(self) -> str:
        text = _type_text(self.type, self.annotation)
        return text if self.name is None else f"{text} {self.name}"

    @property
    def is_write(self) -> bool:
        """Whether this return is an argument that the call has written to."""
        return self.annotation is not None and self.annotation.is_write


_TENSOR_OPTIONS = (
    ("dtype", (BaseTy.ScalarType, BaseTy.dtype)),
    ("layout", (BaseTy.Layout,)),
    ("device", (BaseTy.Device, BaseTy.device)),
    ("pin_memory", (BaseTy.bool,)),
)


@dataclass(frozen=True, slots=True)
class TensorOptionsArguments:
    """The four keyword-only arguments that say what kind of tensor a factory makes."""

    dtype: Argument
    layout: Argument
    device: Argument
    pin_memory: Argument

    def all(self) -> tuple[Argument, ...]:
        """The four in the order of the schema."""
        return (self.dtype, self.layout, self.device, self.pin_memory)


@dataclass(frozen=True, slots=True)
class Arguments:
    """All arguments by role: around ``self``, around the tensor options, and outputs.

    Without a ``self`` every positional argument counts as coming after it, and without tensor
    options every keyword-only argument as coming before them.

    >>> tensor = BaseType(BaseTy.Tensor)
    >>> arguments = Arguments.group(
    ...     [Argument("self", tensor, None, None)],
    ...     [Argument("out", tensor, None, Annotation(("a",), True, ()))],
    ... )
    >>> str(arguments), arguments.mutable_arg_names()
    ('Tensor self, *, Tensor(a!) out', ('out',))
    """

    pre_self_positional: tuple[Argument, ...]
    self_arg: Argument | None
    post_self_positional: tuple[Argument, ...]
    pre_tensor_options_kwarg_only: tuple[Argument, ...]
    tensor_options: TensorOptionsArguments | None
    post_tensor_options_kwarg_only: tuple[Argument, ...]
    out: tuple[Argument, ...]

    @staticmethod
    def group(positional: Sequence[Argument], kwarg_only: Sequence[Argument]) -> Arguments:
        """Sort arguments into their roles; ``out`` are the keyword-only ones that are written."""
        names = [argument.name for argument in positional]
        self_at = names.index("self") if "self" in names else None
        plain = tuple(argument for argument in kwarg_only if not argument.is_write)
        options_at = _find_tensor_options(plain)
        return Arguments(
            pre_self_positional=() if self_at is None else tuple(positional[:self_at]),
            self_arg=None if self_at is None else positional[self_at],
            post_self_positional=tuple(positional[0 if self_at is None else self_at + 1 :]),
            pre_tensor_options_kwarg_only=plain[:options_at],
            tensor_options=(
                None
                if options_at is None
                else TensorOptionsArguments(*plain[options_at : options_at + len(_TENSOR_OPTIONS)])
            ),
            post_tensor_options_kwarg_only=(
                () if options_at is None else plain[options_at + len(_TENSOR_OPTIONS) :]
            ),
            out=tuple(argument for argument in kwarg_only if argument.is_write),
        )

    @property
    def flat_positional(self) -> tuple[Argument, ...]:
        """The positional arguments."""
        middle = () if self.self_arg is None else (self.self_arg,)
        return self.pre_self_positional + middle + self.post_self_positional

    @property
    def positional(self) -> tuple[Argument, ...]:
        """The positional arguments; nothing is grouped among them, so this is the flat form."""
        return self.flat_positional

    @property
    def flat_kwarg_only(self) -> tuple[Argument, ...]:
        """The keyword-only arguments, without the outputs."""
        options = () if self.tensor_options is None else self.tensor_options.all()
        return self.pre_tensor_options_kwarg_only + options + self.post_tensor_options_kwarg_only

    @property
    def flat_non_out(self) -> tuple[Argument, ...]:
        """Every argument but the outputs."""
        return self.flat_positional + self.flat_kwarg_only

    @property
    def flat_all(self) -> tuple[Argument, ...]:
        """Every argument: positional, keyword-only, outputs."""
        return self.flat_non_out + self.out

    def mutable_arg_names(self) -> tuple[str, ...]:
        """The names of the arguments that the call writes to."""
        return tuple(argument.name for argument in self.flat_all if argument.is_write)

    def __str__(self) -> str:
        kwarg_only = self.flat_kwarg_only + self.out
        star = ["*"] if kwarg_only else []
        return ", ".join([*map(str, self.flat_positional), *star, *map(str, kwarg_only)])


def _find_tensor_options(kwarg_only: Sequence[Argument]) -> int | None:
    """Finds the index of the four adjacent tensor options, or None."""
    for start, argument in enumerate(kwarg_only):
        if argument.name == _TENSOR_OPTIONS[0][0]:
            window = kwarg_only[start : start + len(_TENSOR_OPTIONS)]
            if len(window) == len(_TENSOR_OPTIONS) and all(
                map(_is_option, window, _TENSOR_OPTIONS)
            ):
                return start
    return None


def _is_option(argument: Argument, option: tuple[str, tuple[BaseTy, ...]]) -> bool:
    name, base_types = option
    type_ = argument.type.elem if isinstance(argument.type, OptionalType) else argument.type
    return argument.name == name and isinstance(type_, BaseType) and type_.name in base_types
