"""The ``cpp`` dialect: derivative formulas as PyTorch writes them.

Works on tokens, so a name inside of a string, a comment, a longer name or behind a dot is never
rewritten. On PyTorch's own tables the result is, to the letter, what its generator makes with
regular expressions; ``tests/oracle`` compares all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pullback.codegen.formula import SavedAttribute, Value
from pullback.codegen.load_yaml import nearest
from pullback.errors import CodegenError
from pullback.schema import (
    BaseTy,
    BaseType,
    CustomClassType,
    FunctionSchema,
    ListType,
    OptionalType,
    Type,
)
from tools.torchgen.cpp_tokens import Edit, Token, apply_edits, is_free_name, tokenize, words

__all__ = ["CPP", "CppDialect"]

_INT = BaseType(BaseTy.int)
_SYMINT = BaseType(BaseTy.SymInt)
_SCALAR_TYPE = BaseType(BaseTy.ScalarType)
_SYMINTS = ListType(_SYMINT, None)
_OPTIONAL_STRING = OptionalType(BaseType(BaseTy.str))

_Form = Literal["method", "arrow", "indexed", "call"]


@dataclass(frozen=True, slots=True)
class _Rule:
    """What may be saved in the place of a whole value.

    With N for the name of the value, the forms are ``N.word()``, ``N->word()``, ``N.word(i)`` and
    ``word(N)``.
    """

    form: _Form
    word: str
    suffix: str
    type: Type
    expr: Callable[[str], str] | None = None  # None: evaluate what was written
    rest: str = ""  # put behind the field where it is read


_RULES = (
    _Rule("method", "sym_sizes", "_sym_sizes", _SYMINTS),
    _Rule(
        "arrow",
        "sym_sizes",
        "_sym_sizes_opt",
        OptionalType(_SYMINTS),
        lambda n: f"{n}.has_value() ? std::optional({n}->sym_sizes()) : std::nullopt",
    ),
    _Rule(
        "method",
        "sym_blocksize",
        "_self_sym_blocksize_opt",
        OptionalType(_SYMINTS),
        lambda n: f"at::sparse_csr::getSymIntBlockSize({n})",
    ),
    _Rule("method", "options", "_options", CustomClassType("TensorOptions")),
    _Rule("call", "zeros_like", "_info", CustomClassType("TypeAndSize"), lambda n: n, ".zeros()"),
    _Rule("indexed", "sym_size", "_sym_argsize_", _SYMINT),
    _Rule("method", "numel", "_numel", _INT),
    _Rule("method", "sym_numel", "_sym_numel", _SYMINT),
    _Rule("call", "to_args_sizes", "_args_sizes", ListType(ListType(_INT, None), None)),
    _Rule("call", "to_args_sizes_symint", "_args_sizes_symint", ListType(_SYMINTS, None)),
    _Rule("call", "to_args_scalartypes", "_args_scalartypes", ListType(_SCALAR_TYPE, None)),
    _Rule("call", "TensorGeometry", "_geometry", CustomClassType("TensorGeometry")),
    _Rule("method", "scalar_type", "_scalar_type", _SCALAR_TYPE),
    _Rule("method", "dim", "_dim", _INT),
    _Rule(
        "method", "sym_strides", "_sym_strides", _SYMINTS, lambda n: f'strides_or_error({n}, "{n}")'
    ),
    _Rule("method", "layout", "_layout", BaseType(BaseTy.Layout)),
    _Rule("method", "is_conj", "_conjugate", BaseType(BaseTy.bool)),
)

_FORBIDDEN = {"sizes": "sym_sizes", "size": "sym_size", "strides": "sym_strides"}
_KEYWORDS = frozenset({"true", "false", "nullptr", "return", "auto", "const"})


@dataclass(frozen=True, slots=True)
class CppDialect:
    """Formulas as C++ expressions.

    >>> sorted(CPP.names('mul(grad, self.dim(), "other")'))
    ['grad', 'self']
    """

    name: str = "cpp"

    def values(self, func: FunctionSchema) -> tuple[Value, ...]:
        """Return the arguments, with the four tensor options as the one value ``options``."""
        arguments = func.arguments
        found: list[Value] = []
        options = arguments.tensor_options
        names = {a.name for a in options.all()} if options else set()
        for argument in arguments.flat_non_out:
            if argument.name not in names:
                found.append(Value(argument.name, argument.type))
            elif options and argument.name == options.dtype.name:
                found.append(Value("options", CustomClassType("TensorOptions")))
        return tuple(found)

    def names(self, formula: str) -> frozenset[str]:
        """Return every free name that is not called; types are among them."""
        tokens = tokenize(formula)
        return frozenset(
            token.text
            for i, token in enumerate(tokens)
            if is_free_name(tokens, i) and not _is_called(tokens, i)
        )

    def calls(self, formula: str) -> frozenset[str]:
        """Return every free name that is called."""
        tokens = tokenize(formula)
        return frozenset(
            token.text
            for i, token in enumerate(tokens)
            if is_free_name(tokens, i) and _is_called(tokens, i)
        )

    def gradient_uses(self, formula: str) -> tuple[int | None, ...]:
        """Return the index of each ``grads[i]``, and None for each other use of ``grads``."""
        tokens = tokenize(formula)
        uses: list[int | None] = []
        for i, token in enumerate(tokens):
            if token.text == "grads" and is_free_name(tokens, i):
                inside = tokens[i + 1 : i + 4]
                indexed = len(inside) == 3 and inside[0].text == "[" and inside[2].text == "]"
                whole = indexed and inside[1].text.isdecimal()
                uses.append(int(inside[1].text) if whole else None)
        return tuple(uses)

    def check(self, formula: str, known: Collection[str]) -> None:
        """Refuse unbalanced brackets and names that name nothing."""
        tokens = tokenize(formula)
        if not tokens:
            raise CodegenError("the formula is empty")
        _check_brackets(tokens)
        local = {t.text for i, t in enumerate(tokens) if _declares(tokens, i)}
        for i, token in enumerate(tokens):
            text = token.text
            if text in known or text in local or text in _KEYWORDS or _is_constant(text):
                continue
            if is_free_name(tokens, i) and not (_is_called(tokens, i) or _is_type(tokens, i)):
                raise CodegenError(
                    f"the formula reads {text!r}, which names nothing{nearest(text, known)}",
                    token.start,
                )

    def save(
        self, formula: str, values: Sequence[Value], var_names: tuple[str, ...]
    ) -> tuple[str, tuple[SavedAttribute, ...]]:
        """Replace what can be evaluated at save time, and save whole values for the rest."""
        _check_symbolic(tokenize(formula))
        saved: list[SavedAttribute] = []
        for value in values:
            name = value.name
            if name not in words(formula):
                continue
            for rule in _RULES:
                edits: list[Edit] = []
                for start, end, index in _find(tokenize(formula), rule, name):
                    if rule.word == "sym_strides" and var_names != (name,):
                        raise CodegenError(
                            f"{name}.sym_strides() may stand only in a formula of {name!r} alone",
                            start,
                        )
                    field = name + rule.suffix + index.replace("-", "minus_")
                    expr = rule.expr(name) if rule.expr else formula[start:end]
                    saved.append(SavedAttribute(field, rule.type, expr, name))
                    edits.append(Edit(start, end, field + rule.rest))
                formula = apply_edits(formula, edits)
            if value.type == _OPTIONAL_STRING:
                # A node owns its string, but the function called takes a view of one.
                view = f"std::optional<std::string_view>({name}.value())"
                wrapped = f"{name}.has_value() ? {view} : std::nullopt"
                formula = self.substitute(formula, {name: wrapped})
            # PyTorch saves a value if its name occurs anywhere, be it as a member or in a string.
            if name in words(formula):
                saved.append(SavedAttribute(name, value.type, name, name))
        return formula, tuple(saved)

    def substitute(self, formula: str, replacements: Mapping[str, str]) -> str:
        """Replace free names and keep everything else to the letter.

        One name after the other, as PyTorch does. So a foreach formula that reads both ``N`` and a
        field of it gets ``N[i][i].scalar_type()``: wrong, but that is what PyTorch's nodes run.
        """
        for name, text in replacements.items():
            tokens = tokenize(formula)
            edits = [
                Edit(token.start, token.end, text)
                for i, token in enumerate(tokens)
                if token.text == name and is_free_name(tokens, i)
            ]
            formula = apply_edits(formula, edits)
        return formula

    def elementwise(self, formula: str, name: str) -> str:
        """Conjugate around the backward formula, applied to the tangent."""
        replaced = self.substitute(formula, {"grad": f"{name}_t.conj()", name: f"{name}_p"})
        return f"({replaced}).conj()"

    def call(self, func: FunctionSchema, values: Mapping[str, str], *, method: bool) -> str:
        """Write the call as a function in namespace ``at``, or as a method."""
        arguments = [values.get(value.name, value.name) for value in self.values(func)]
        symbolic = any(a.type.is_symint_like() for a in func.arguments.flat_non_out)
        name = f"{func.name.name}{'_symint' if symbolic else ''}"
        if method:
            return f"{arguments[0]}.{name}({', '.join(arguments[1:])})"
        return f"at::{name}({', '.join(arguments)})"

    def write_in_place(self, formula: str, op: str) -> str:
        """Use the in-place method where the formula is one method call on ``self_t``."""
        inside = _single_method_call(formula, "self_t", op)
        written = f"copy_({formula})" if inside is None else f"{op}_({inside})"
        return f"self_t_raw.defined() ? self_t_raw.{written} : {formula}"


CPP = CppDialect()
"""The one instance: the dialect has no state."""


def _find(tokens: tuple[Token, ...], rule: _Rule, name: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and index text of each place where a rule applies to a name."""
    for i, token in enumerate(tokens):
        if token.text != name or not is_free_name(tokens, i):
            continue
        if rule.form == "call":
            around = [t.text for t in tokens[max(i - 2, 0) : i + 2]]
            if around == [rule.word, "(", name, ")"]:
                yield tokens[i - 2].start, tokens[i + 1].end, ""
            continue
        dot = "->" if rule.form == "arrow" else "."
        if [t.text for t in tokens[i + 1 : i + 4]] != [dot, rule.word, "("]:
            continue
        inside = tokens[i + 4 : i + 7]
        close = next((k for k, t in enumerate(inside) if t.text == ")"), -1)
        index = "".join(t.text for t in inside[:close]) if close > 0 else ""
        is_index = index.removeprefix("-").replace("_", "a").isalnum()
        if (rule.form == "indexed" and is_index) or (rule.form != "indexed" and close == 0):
            yield token.start, inside[close].end, index


def _check_brackets(tokens: tuple[Token, ...]) -> None:
    pairs = {")": "(", "]": "[", "}": "{"}
    open_: list[Token] = []
    for token in tokens:
        if token.kind == "mark" and token.text in "([{":
            open_.append(token)
        elif token.kind == "mark" and token.text in pairs:
            opened = open_.pop().text if open_ else None
            if opened != pairs[token.text]:
                raise CodegenError(f"{token.text!r} closes nothing", token.start)
    if open_:
        raise CodegenError(f"{open_[-1].text!r} is never closed", open_[-1].start)


def _check_symbolic(tokens: tuple[Token, ...]) -> None:
    """Refuse ``.sizes()``, ``.size(0)`` and ``.strides()``: a saved size has to be symbolic."""
    for i, token in enumerate(tokens):
        if token.text not in _FORBIDDEN or i == 0 or tokens[i - 1].text not in (".", "->"):
            continue
        after = [t.text for t in tokens[i + 1 : i + 5]]
        inside = (
            "".join(after[1 : after.index(")")]) if after[:1] == ["("] and ")" in after else "?"
        )
        is_number = inside.removeprefix("-").isdecimal()
        if is_number if token.text == "size" else inside == "":
            raise CodegenError(
                f".{token.text}() is not supported in derivative formulas; "
                f"use .{_FORBIDDEN[token.text]}()",
                token.start,
            )


def _is_called(tokens: tuple[Token, ...], index: int) -> bool:
    return index + 1 < len(tokens) and tokens[index + 1].text == "("


def _is_type(tokens: tuple[Token, ...], index: int) -> bool:
    """Whether a name stands right before another one, as in a declaration."""
    return index + 1 < len(tokens) and tokens[index + 1].kind == "name"


def _declares(tokens: tuple[Token, ...], index: int) -> bool:
    """Whether a name directly follows a type, as a parameter of a lambda does."""
    before = tokens[index - 1] if index else None
    return (
        tokens[index].kind == "name"
        and before is not None
        and before.kind == "name"
        and before.text != "return"
    )


def _is_constant(name: str) -> bool:
    """Whether a name is spelt like a C++ type or constant (``Tensor``, ``kLong``)."""
    return name[0].isupper() or (name[0] == "k" and name[1:2].isupper())


def _single_method_call(formula: str, target: str, method: str) -> str | None:
    """Return the text between the parentheses if the formula is ``target.method(...)``."""
    tokens = tokenize(formula)
    if [t.text for t in tokens[:4]] != [target, ".", method, "("]:
        return None
    depth = 0
    for token in tokens[3:]:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0:
            return formula[tokens[3].end : token.start] if token is tokens[-1] else None
    return None
