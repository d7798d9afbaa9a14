"""Reader of operator tables: one entry per operator, formulas in Python.

An entry has a schema, a line of documentation, kernels and derivatives::

    - func: mul(Tensor self, Tensor other) -> Tensor
      doc: Multiplies element by element, with broadcasting.
      tags: [elementwise]
      variants: [function, method, inplace, out]
      dispatch: {CPU: numpy.multiply, Meta: elementwise}
      derivatives:
        self: grad * conj(other)
        other: grad * conj(self)
        result: self_t * other_p + self_p * other_t

``lower`` is what the compiler of ``pb.compile`` makes of the operator: an expression in its
arguments, which may call the functions of ``pullback.compiled.lowering.expressions``. A function of
NumPy on elements implies it. ``Dask`` under ``dispatch`` is the rule for blocks of dask arrays: a
word, a word with names of arguments as in ``along(axis)``, or a function of ``pullback.dask`` as in
``by_hand.reshape``.

Under ``derivatives`` stand formulas by argument or output, or sections of them by autograd key
under ``dispatch``; ``output_differentiability`` stands beside ``derivatives``. What has no gradient
must say so: every tensor argument needs a formula or ``non_differentiable``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pullback.codegen.derive import derive
from pullback.codegen.entry import Entry, formula_sections, parse_func
from pullback.codegen.families import resolve
from pullback.codegen.load_yaml import Item, load_yaml, nearest
from pullback.codegen.model import DifferentiabilityInfo, Infos
from pullback.codegen.names import check_arguments
from pullback.codegen.native import (
    DASK_RULE,
    DASK_RULES,
    NativeFunction,
    dask_rule,
    is_abstract,
    is_foreach_func,
)
from pullback.codegen.python_dialect import Arity, PythonDialect
from pullback.codegen.tables import Tables, view_copy_infos
from pullback.codegen.variants import VARIANTS, with_variants
from pullback.schema import FunctionSchema, ListType

__all__ = ["load_ops", "read_ops"]

_FIELDS = (
    "func",
    "python",
    "doc",
    "example",
    "tags",
    "variants",
    "dispatch",
    "part",
    "lower",
    "derivatives",
    "output_differentiability",
)


@dataclass(frozen=True, slots=True)
class _Op:
    """An entry with the functions made from it; the first one is its own."""

    entry: Entry
    functions: tuple[NativeFunction, ...]
    part: Item | None


def load_ops(
    *paths: str | os.PathLike[str], functions: Mapping[str, Arity | None] | None = None
) -> Tables:
    """Read one or more files of our form.

    ``functions`` are what formulas may call besides the operators of the tables; None lets them
    call anything.
    """
    return read_ops([load_yaml(path) for path in paths], functions)


def read_ops(tables: Iterable[Item], functions: Mapping[str, Arity | None] | None = None) -> Tables:
    """Read tables of our form that are already parsed as YAML.

    >>> from pullback.codegen.load_yaml import parse_yaml
    >>> table = parse_yaml('''
    ... - func: exp(Tensor self) -> Tensor
    ...   doc: Raises e to each element.
    ...   dispatch: {CPU: numpy.exp}
    ...   derivatives: {self: grad * conj(result), result: auto_element_wise}
    ... ''')
    >>> [exp] = read_ops([table]).match()
    >>> exp.fw_derivatives["Default"][0].formula
    'conj(conj(self_t) * conj(result))'
    """
    ops = [_op(item) for table in tables for item in table.sequence("the table")]
    _check_unique(ops)
    dialect = PythonDialect(None if functions is None else {**_arities(ops), **functions})
    counter: Counter[str] = Counter()
    entries: Infos = {}
    for op in ops:
        own = op.functions[0]
        if op.entry.sections or op.entry.output_differentiability is not None:
            infos = derive(op.entry, own, dialect, counter)
            entries[own.func] = infos
        _check_stated(op, entries.get(own.func, {}))
        _check_part(op, dialect)
    made = tuple(function for op in ops for function in op.functions)
    return Tables(made, entries, view_copy_infos(entries, made))


def _op(item: Item) -> _Op:
    fields = item.mapping("an operator", _FIELDS)
    for needed in ("func", "doc"):
        if needed not in fields:
            raise item.error(f"an operator needs the key {needed!r}")
    func = parse_func(fields["func"])
    variants = _words(fields.get("variants"), "variants", VARIANTS) or frozenset({"function"})
    tags = _words(fields.get("tags"), "tags", None)
    dispatch = _dispatch(fields.get("dispatch"), func, item)
    _with_meta(dispatch, func, tags)
    function = NativeFunction(
        func=func,
        variants=variants & {"function", "method"},
        dispatch=dispatch,
        is_abstract=is_abstract(dispatch, None),
        tags=tags,
        doc=_doc(fields["doc"]),
        example=_example(fields.get("example")),
        python=fields["python"].text("'python'") if "python" in fields else None,
        part=fields["part"].text("'part'") if "part" in fields else None,
        lower=_lowering(fields.get("lower"), func, dispatch, tags),
        place=item.place(),
    )
    with fields["func"].locating():
        check_arguments(function)
    with fields.get("variants", fields["func"]).locating():
        functions = with_variants(function, variants)
    flags = fields.get("output_differentiability")
    formulas = fields.get("derivatives")
    sections = {} if formulas is None else formula_sections(formulas.mapping("the formulas"))
    if flags is not None and not sections:
        sections = {"Default": {}}
    return _Op(Entry(fields["func"], sections, flags), tuple(functions), fields.get("part"))


def _doc(item: Item) -> str:
    doc = item.text("'doc'").strip()
    if not doc or "\n" in doc:
        raise item.error("'doc' must be one line that says what the operator does")
    return doc


def _example(item: Item | None) -> str:
    if item is None:
        return ""
    text = item.text("'example'").strip()
    if not text.startswith(">>> "):
        raise item.error("'example' must be a call after '>>> ' and its result in the next lines")
    return text


def _words(item: Item | None, key: str, known: tuple[str, ...] | None) -> frozenset[str]:
    if item is None:
        return frozenset()
    words: set[str] = set()
    for element in item.sequence(f"{key!r}"):
        word = element.text(f"an element of {key!r}")
        if known is not None and word not in known:
            raise element.error(f"unknown element {word!r} of {key!r}{nearest(word, known)}")
        if word in words:
            raise element.error(f"{word!r} stands twice in {key!r}")
        words.add(word)
    return frozenset(words)


def _dispatch(item: Item | None, func: FunctionSchema, entry: Item) -> dict[str, str]:
    """Read the kernels; without any, the operator is made of others."""
    if item is None:
        return {"CompositeImplicitAutograd": str(func.name.name)}
    place = entry.place()
    table = place.file if place is not None else ""
    kernels = item.mapping("'dispatch'")
    if "Dask" in kernels:
        _check_dask(kernels["Dask"], func)
    return {
        key: resolve(kernel.text(f"the kernel for {key!r}"), table)
        for key, kernel in kernels.items()
    }


def _check_dask(item: Item, func: FunctionSchema) -> None:
    """Refuses a rule for blocks that is none, or that names an argument which does not exist."""
    text = item.text("the rule for 'Dask'")
    if not DASK_RULE.fullmatch(text):
        raise item.error(f"{text!r} is no rule for 'Dask': expected a word, or word(argument, …)")
    word, *arguments = dask_rule(text)
    if "." not in str(word) and word not in DASK_RULES:
        raise item.error(f"unknown rule {word!r} for 'Dask'{nearest(str(word), DASK_RULES)}")
    names = [argument.name for argument in func.arguments.flat_non_out]
    for argument in arguments:
        if isinstance(argument, str) and argument not in names:
            raise item.error(f"{func.name} has no argument {argument!r}{nearest(argument, names)}")


def _with_meta(dispatch: dict[str, str], func: FunctionSchema, tags: frozenset[str]) -> None:
    """Adds the rule for shapes where the entry implies it: views, and two tags."""
    if "CPU" not in dispatch or "Meta" in dispatch:
        return
    if func.is_view:
        dispatch["Meta"] = "view"
    for tag in tags & {"elementwise", "reduction"}:
        dispatch["Meta"] = tag


def _lowering(
    item: Item | None, func: FunctionSchema, dispatch: dict[str, str], tags: frozenset[str]
) -> str | None:
    """The expression of an operator for the compiler; that of NumPy's functions is implied."""
    if item is not None:
        return item.text("'lower'")
    module, _, name = dispatch.get("CPU", "").rpartition(".")
    if module != "numpy" or "elementwise" not in tags or len(func.returns) != 1:
        return None
    return f"{name}({', '.join(a.name for a in func.arguments.flat_non_out)})"


def _check_unique(ops: Iterable[_Op]) -> None:
    seen: dict[str, NativeFunction] = {}
    for op in ops:
        for function in op.functions:
            name = str(function.func.name)
            if name in seen:
                raise op.entry.schema.error(
                    f"{name} is declared twice; first by the entry at {seen[name].place}"
                )
            seen[name] = function


def _arities(ops: Iterable[_Op]) -> dict[str, Arity]:
    """Say how many arguments each operator takes, over all its overloads."""
    arities: dict[str, Arity] = {}
    for op in ops:
        func = op.functions[0].func
        arguments = func.arguments.flat_non_out
        least, most = sum(a.default is None for a in arguments), len(arguments)
        name = str(func.name.name)
        known = arities.get(name)
        if known is not None and known.most is not None:
            least, most = min(least, known.least), max(most, known.most)
        arities[name] = Arity(least, most)
    return arities


def _check_stated(op: _Op, infos: Mapping[str, DifferentiabilityInfo]) -> None:
    """Refuse a tensor argument whose derivative is neither given nor declared absent."""
    function = op.functions[0]
    if not function.is_abstract:
        return
    if not infos and not is_foreach_func(function):  # which may borrow from its reference
        _check_needs_none(op.entry.schema, function.func)
    for key, info in infos.items():
        if info.output_differentiability is not None and not any(info.output_differentiability):
            continue
        stated = {argument.name for argument in info.args_with_derivatives}
        for argument in function.func.arguments.flat_non_out:
            name = argument.name
            missing = name not in stated and name not in info.non_differentiable_arg_names
            if argument.type.is_tensor_like() and missing:
                raise op.entry.schema.error(
                    f"the argument {name!r} of {function.func.name} has no derivative under key "
                    f"{key!r}; give a formula, 'non_differentiable' or not_implemented('...')"
                )


def _check_part(op: _Op, dialect: PythonDialect) -> None:
    """Refuse an expression for one view where there are not several, or that cannot be read."""
    if op.part is None:
        return
    function = op.functions[0]
    returns = function.func.returns
    if not function.is_view_op or not isinstance(returns[0].type, ListType):
        raise op.part.error(f"'part' is for lists of views, and {function.func.name} makes none")
    assert function.part is not None
    with op.part.locating():
        dialect.check(function.part, {"number", *(v.name for v in dialect.values(function.func))})


def _check_needs_none(schema: Item, func: FunctionSchema) -> None:
    takes = any(a.type.is_tensor_like() for a in func.arguments.flat_non_out)
    if takes and any(ret.type.is_tensor_like() for ret in func.returns):
        raise schema.error(
            f"{func.name} has kernels but no 'derivatives'; give them, or say "
            "'output_differentiability: [False]'"
        )
