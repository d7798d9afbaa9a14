"""From schema text to ``FunctionSchema``, by recursive descent over the tokens of ``lexer.py``.

Two dialects share one grammar. The strict one is the code generator's: every blank is prescribed,
the text must print back to the letter, and the rules of ``validate.py`` hold. The loose one is for
operators that libraries define at run time: white space is free, alias names may be longer, and
only what would make a call ambiguous is refused. Whatever the input, the only exception is
``SchemaError``, with a caret under the first offending character.
"""

from __future__ import annotations

import difflib
from typing import Literal, NoReturn

from pullback.errors import SchemaError
from pullback.schema.arguments import Annotation, Argument, Arguments, Return
from pullback.schema.lexer import Lexer, shorten
from pullback.schema.literals import fits
from pullback.schema.model import FunctionSchema
from pullback.schema.names import OperatorName, is_dunder, split_base_name
from pullback.schema.types import (
    CUSTOM_CLASS_PREFIX,
    BaseTy,
    BaseType,
    CustomClassType,
    ListType,
    OptionalType,
    Type,
)
from pullback.schema.validate import Place, faults

__all__ = ["parse_operator_name", "parse_schema"]

# Real schemas nest two suffixes; without a bound, printing a type could exhaust the stack.
_DEEPEST_TYPE = 8
_LARGEST_INT = 2**63 - 1

_BASE_TYPES = {base.value: BaseType(base) for base in BaseTy}
_LOOSE_ONLY = BaseTy.complex.value
_LISTS_INSTEAD = "declare one argument per element, or a list such as Tensor[]"
_OTHER_NOTATIONS = {
    "Dict": "Dict types are not supported here; pass the keys and the values as two lists",
    "List": "a list is written with its element type first, as in int[]",
    "Optional": "an optional is written with a question mark, as in int?",
    "Tuple": f"tuple types are not supported here; {_LISTS_INSTEAD}",
    "Union": "Union types are not supported here; declare one overload per type",
}


def parse_schema(text: str, *, dialect: Literal["strict", "loose"] = "strict") -> FunctionSchema:
    """Read a schema; raise ``SchemaError`` with a caret at the fault if it is not valid.

    >>> schema = parse_schema("mul.Tensor(Tensor self, Tensor other) -> Tensor")
    >>> schema.name.overload_name, [argument.name for argument in schema.arguments.flat_all]
    ('Tensor', ['self', 'other'])
    >>> str(parse_schema("ns::f( Tensor(a0!) x )->(Tensor)", dialect="loose"))
    'ns::f(Tensor(a0!) x) -> Tensor'
    >>> parse_schema("f(Tensr x) -> Tensor")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.SchemaError: Invalid function schema: unrecognized type 'Tensr'; did you mean \
'Tensor'? (column 3)
        f(Tensr x) -> Tensor
          ^
    See ...
    """
    if not isinstance(text, str):
        raise SchemaError(f"Invalid function schema: expected a str, got {type(text).__name__}.")
    if dialect not in ("strict", "loose"):
        raise SchemaError(f"Unknown schema dialect {dialect!r}; choose 'strict' or 'loose'.")
    schema = _Parser(text, strict=dialect == "strict").schema()
    printed = str(schema)
    if printed != text and (
        dialect == "strict" or _Parser(printed, strict=False).schema() != schema
    ):
        raise SchemaError(
            f"Invalid function schema: it prints back as {printed!r}, which is not the same."
        )
    return schema


def parse_operator_name(text: str) -> OperatorName:
    """Read the name of an operator as a loose schema begins with it.

    >>> parse_operator_name("ns::add_.Tensor").overload_name
    'Tensor'
    """
    return _Parser(text, strict=False).operator_name()


class _Parser:
    """One run over one text; each method reads one production of the grammar."""

    __slots__ = ("_lexer", "_places", "_strict")

    def __init__(self, text: str, *, strict: bool) -> None:
        self._lexer = Lexer(text, strict=strict)
        self._strict = strict
        self._places: dict[Place, int] = {}

    def schema(self) -> FunctionSchema:
        name = self._operator_name()
        arguments = self._arguments()
        self._lexer.take("->", "'->'", " ")
        returns = self._returns()
        self._lexer.take("end", "the end of the schema")
        schema = FunctionSchema(name, arguments, returns)
        if self._strict:
            broken = [(self._places[fault.place], fault.message) for fault in faults(schema)]
            if broken:
                position, message = min(broken)
                self._lexer.fail(message, position)
        return schema

    def operator_name(self) -> OperatorName:
        name = self._operator_name()
        self._lexer.take("end", "the end of the name")
        return name

    def _operator_name(self) -> OperatorName:
        lexer = self._lexer
        namespace = None
        start = lexer.start
        word = lexer.take("word", "an operator name")
        if lexer.kind == "::":
            namespace = self._undotted(word, start, "a namespace")
            lexer.take("::", "'::'")
            start = lexer.start
            word = lexer.take("word", "an operator name")
        base, dot, overload = word.partition(".")
        self._places["name", 0] = start
        self._places["overload", 0] = overload_start = start + len(base) + 1
        if dot and not overload:
            lexer.fail("expected an overload name after '.'", overload_start)
        name = OperatorName(namespace, split_base_name(base), overload)
        if not name.name.base:
            lexer.fail("expected an operator name before the in-place mark '_'", start)
        if self._strict:
            self._check_base_name(base, start)
        elif overload:
            self._check_overload(overload, overload_start)
        return name

    def _check_base_name(self, base: str, start: int) -> None:
        end = start + len(base)
        if base.endswith("_out"):
            self._lexer.fail(
                "a name cannot end in '_out'; name the overload 'out' instead", end - len("_out")
            )
        if base.endswith("_functional_"):
            self._lexer.fail("a functional twin cannot be in-place", end - 1)
        if is_dunder(base) and base.startswith("__i") and not split_base_name(base).inplace:
            self._lexer.fail(
                f"'{shorten(base)}' is no augmented assignment, and other dunder names must not "
                "start with 'i'",
                start,
            )

    def _check_overload(self, overload: str, start: int) -> None:
        if "." in overload:
            self._lexer.fail("an overload name cannot contain a dot", start + overload.index("."))
        if overload[0].isdigit():
            self._lexer.fail("an overload name cannot start with a digit", start)
        if overload == "default" or overload.startswith("__"):
            self._lexer.fail(f"'{shorten(overload)}' is reserved, not a legal overload name", start)

    def _arguments(self) -> Arguments:
        lexer = self._lexer
        positional: list[Argument] = []
        kwarg_only: list[Argument] = []
        current = positional
        lexer.take("(", "'('")
        gap = ""
        while lexer.kind != ")" or gap:
            if lexer.kind == "*":
                if self._strict and current is kwarg_only:
                    lexer.fail("'*' can occur only once", lexer.start)
                lexer.take("*", "'*'", gap)
                current = kwarg_only
                if self._strict and lexer.kind == ")":
                    lexer.fail_expected("a keyword-only argument after '*'")
            else:
                current.append(self._argument(gap, current, keyword_only=current is kwarg_only))
            if lexer.kind != ",":
                break
            lexer.take(",", "','")
            gap = " "
        lexer.take(")", "',' or ')'")
        return Arguments.group(positional, kwarg_only)

    def _argument(self, gap: str, before: list[Argument], *, keyword_only: bool) -> Argument:
        lexer = self._lexer
        start = lexer.start
        type_, annotation = self._type(gap)
        name_start = lexer.start
        name = self._identifier("an argument name", " ")
        if ("argument", name) in self._places:
            lexer.fail(f"there are two arguments '{shorten(name)}'", name_start)
        self._places["argument", name] = start
        default = self._default(type_) if lexer.kind == "=" else None
        argument = Argument(name, type_, default, annotation)
        previous = before[-1] if before else None
        if previous is not None:
            if not keyword_only and default is None and previous.default is not None:
                lexer.fail(
                    f"argument '{shorten(name)}' needs a default, because "
                    f"'{shorten(previous.name)}' before it has one",
                    start,
                )
            if self._strict and keyword_only and previous.is_write and not argument.is_write:
                lexer.fail(
                    f"argument '{shorten(name)}' is not written to and must come before the "
                    f"output '{shorten(previous.name)}'",
                    start,
                )
        return argument

    def _returns(self) -> tuple[Return, ...]:
        lexer = self._lexer
        start = self._places["returns", 0] = lexer.start
        if lexer.kind != "(":
            return (self._return(" ", 0),)
        lexer.take("(", "a return", " ")
        returns: list[Return] = []
        if lexer.kind != ")":
            returns.append(self._return("", 0))
            while lexer.kind == ",":
                lexer.take(",", "','")
                returns.append(self._return(" ", len(returns)))
        lexer.take(")", "',' or ')'")
        if self._strict and len(returns) == 1:
            lexer.fail("a single return is written without parentheses", start)
        return tuple(returns)

    def _return(self, gap: str, index: int) -> Return:
        self._places["return", index] = self._lexer.start
        type_, annotation = self._type(gap)
        named = self._lexer.kind == "word"
        name = self._identifier("the name of a return", " ") if named else None
        return Return(name, type_, annotation)

    def _type(self, gap: str) -> tuple[Type, Annotation | None]:
        lexer = self._lexer
        start = lexer.start
        if lexer.kind == "(":
            lexer.fail(f"tuple types are not supported here; {_LISTS_INSTEAD}", start)
        if lexer.kind == "...":
            lexer.fail("'...' is not supported here; declare a list such as Tensor[]", start)
        word = lexer.take("word", "a type", gap)
        type_ = self._base_type(word, start)
        annotation = None
        if lexer.kind == "(":
            if word != BaseTy.Tensor.value:
                lexer.fail("only Tensor can have an alias annotation", lexer.start)
            annotation = self._annotation()
        depth = 0
        while lexer.kind == "?" or lexer.kind == "[":
            if self._strict and annotation is not None and depth == 1:
                lexer.fail("an annotated Tensor has at most one '?' or '[]'", lexer.start)
            if depth == _DEEPEST_TYPE:
                lexer.fail("this type is nested too deeply", lexer.start)
            type_ = self._suffix(type_, sized=annotation is None or not self._strict)
            depth += 1
        if lexer.kind == "(" or lexer.kind == "!":
            lexer.fail(
                "an alias annotation stands right after Tensor, as in Tensor(a!)[]", lexer.start
            )
        return type_, annotation

    def _base_type(self, word: str, start: int) -> Type:
        base = _BASE_TYPES.get(word)
        if base is not None and not (self._strict and word == _LOOSE_ONLY):
            return base
        class_name = word.removeprefix(CUSTOM_CLASS_PREFIX)
        if class_name and class_name != word:
            return CustomClassType(class_name)
        return self._fail_unrecognized(word, start)

    def _fail_unrecognized(self, word: str, start: int) -> NoReturn:
        hint = _OTHER_NOTATIONS.get(word)
        if hint is None:
            known = [name for name in _BASE_TYPES if not (self._strict and name == _LOOSE_ONLY)]
            lower = {name.lower(): name for name in known}
            close = difflib.get_close_matches(shorten(word).lower(), lower, n=1)
            hint = f"did you mean '{lower[close[0]]}'?" if close else f"use {', '.join(known)}"
        self._lexer.fail(f"unrecognized type '{shorten(word)}'; {hint}", start)

    def _suffix(self, elem: Type, *, sized: bool) -> Type:
        lexer = self._lexer
        if lexer.kind == "?":
            lexer.take("?", "'?'")
            return OptionalType(elem)
        lexer.take("[", "'['")
        size = None
        if sized and lexer.kind == "number":
            start = lexer.start
            digits = lexer.take("number", "a list size")
            canonical = digits.lstrip("0")
            if not canonical.isdigit() or (self._strict and digits != canonical):
                lexer.fail("a list size is a whole number of at least 1", start)
            size = self._int(digits, start)
        lexer.take("]", "']'")
        return ListType(elem, size)

    def _annotation(self) -> Annotation:
        lexer = self._lexer
        lexer.take("(", "'('")
        before = self._alias_set(most=2 if self._strict else None)
        write = lexer.kind == "!"
        if write:
            if self._strict and len(before) > 1:
                lexer.fail("a written tensor has only one alias before the call", lexer.start)
            lexer.take("!", "'!'")
        after: tuple[str, ...] = ()
        if lexer.kind == "->":
            lexer.take("->", "'->'", " ")
            if lexer.kind == "*":
                after = (lexer.take("*", "'*'", " "),)
            else:
                after = self._alias_set(
                    most=1 if self._strict and len(before) > 1 else None, gap=" "
                )
        lexer.take(")", "')'")
        return Annotation(before, write, after)

    def _alias_set(self, *, most: int | None, gap: str = "") -> tuple[str, ...]:
        lexer = self._lexer
        names = [self._alias(gap)]
        while lexer.kind == "|":
            if len(names) == most:
                lexer.fail(f"expected at most {most} alias name(s) here", lexer.start)
            lexer.take("|", "'|'")
            names.append(self._alias(""))
        return tuple(names)

    def _alias(self, gap: str) -> str:
        lexer = self._lexer
        if lexer.kind == "*" and not self._strict:
            return lexer.take("*", "'*'", gap)
        start = lexer.start
        name = self._identifier("an alias name", gap)
        if self._strict and not (name[0].islower() and len(name) == 1):
            lexer.fail(
                "an alias name is one lower-case letter", start + (1 if name[0].islower() else 0)
            )
        return name

    def _default(self, type_: Type) -> str:
        lexer = self._lexer
        lexer.take("=", "'='")
        start = lexer.start
        if lexer.kind == "[":
            lexer.take("[", "'['")
            items = [] if lexer.kind == "]" else [self._list_item()]
            while lexer.kind == "," and items:
                lexer.take(",", "','")
                items.append(self._list_item())
            lexer.take("]", "',' or ']'" if items else "']'")
            text = f"[{','.join(items)}]"
        elif lexer.kind == "string":
            text = lexer.take("string", "a default")
            for forbidden in (", ", "=") if self._strict else ():
                if forbidden in text:
                    lexer.fail(
                        f"a default cannot contain {forbidden!r}", start + text.index(forbidden)
                    )
        elif lexer.kind == "word":
            text = self._identifier("a default")
        else:
            text = self._number("a default")
        if not fits(type_, text):
            lexer.fail(f"the default {shorten(text)} is no value of type {type_}", start)
        return text

    def _list_item(self) -> str:
        if self._lexer.text in ("True", "False"):
            return self._lexer.take("word", "a list item")
        return self._number("a number")

    def _number(self, what: str) -> str:
        start = self._lexer.start
        text = self._lexer.take("number", what)
        if not set(text) & set(".eE"):
            self._int(text, start)
        return text

    def _int(self, digits: str, start: int) -> int:
        # The length is looked at first, because Python refuses to convert very long texts.
        if len(digits) > 40 or abs(value := int(digits)) > _LARGEST_INT:
            self._lexer.fail("this number does not fit in 64 bits", start)
        return value

    def _identifier(self, what: str, gap: str = "") -> str:
        start = self._lexer.start
        return self._undotted(self._lexer.take("word", what, gap), start, what)

    def _undotted(self, word: str, start: int, what: str) -> str:
        if "." in word:
            self._lexer.fail(f"{what} cannot contain a dot", start + word.index("."))
        return word
