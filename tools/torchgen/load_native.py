"""Reader of ``native_functions.yaml``: the operators of PyTorch's two-file form.

Only what derivatives depend on is kept. Fields about C++ bindings are known by name, so that a
misspelt one is an error, and otherwise passed over.
"""

from __future__ import annotations

import os

from pullback.codegen.entry import parse_func
from pullback.codegen.load_yaml import Item, load_yaml, nearest
from pullback.codegen.native import NativeFunction, is_abstract
from pullback.errors import CodegenError
from pullback.schema import FunctionSchema, SchemaKind
from tools.torchgen.generated import generated_functions

__all__ = ["load_native_functions", "native_functions"]

_FIELDS = frozenset(
    {
        "autogen",
        "category_override",
        "cpp_no_default_args",
        "device_check",
        "device_guard",
        "dispatch",
        "func",
        "manual_cpp_binding",
        "manual_kernel_registration",
        "precomputed",
        "python_module",
        "structured",
        "structured_delegate",
        "structured_inherits",
        "tags",
        "ufunc_inner_loop",
        "use_const_ref_for_mutable_tensors",
        "variants",
    }
)
_VARIANTS = frozenset({"function", "method"})
_COMPOSITES = (
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "CompositeImplicitAutograd",
)


def load_native_functions(
    path: str | os.PathLike[str], tags_path: str | os.PathLike[str] | None = None
) -> list[NativeFunction]:
    """Read a file of operators, and add the generated ones; with ``tags_path``, check the tags."""
    tags = None if tags_path is None else _load_tags(load_yaml(tags_path))
    return native_functions(load_yaml(path), tags)


def native_functions(table: Item, known_tags: frozenset[str] | None = None) -> list[NativeFunction]:
    """Read a list of operators, and add the generated ones.

    >>> from pullback.codegen.load_yaml import parse_yaml
    >>> [function] = native_functions(parse_yaml("- func: f(Tensor self) -> Tensor"))
    >>> function.is_abstract, dict(function.dispatch)
    (False, {'CompositeImplicitAutograd': 'f'})
    """
    functions = [_function(entry, known_tags) for entry in table.sequence("the table")]
    by_name: dict[str, NativeFunction] = {}
    for function in functions:
        name = function.func.name.unqualified
        if name in by_name:
            raise CodegenError(
                f"{function.place}: {name} is declared twice; first at {by_name[name].place}"
            )
        by_name[name] = function
    for function in functions:
        _check_delegate(function, by_name)
    return functions + generated_functions(functions)


def _load_tags(table: Item) -> frozenset[str]:
    entries = [entry.mapping("a tag", {"tag", "desc"}) for entry in table.sequence("the tags")]
    return frozenset(entry["tag"].text("a tag") for entry in entries if "tag" in entry)


def _function(entry: Item, known_tags: frozenset[str] | None) -> NativeFunction:
    fields = entry.mapping("an operator", _FIELDS)
    if "func" not in fields:
        raise entry.error("an operator needs a schema under the key 'func'")
    func = parse_func(fields["func"])
    variants = _variants(fields.get("variants"), func)
    delegate = _text(fields, "structured_delegate")
    structured = "structured" in fields and fields["structured"].flag("'structured'")
    if structured and func.kind() is not SchemaKind.out:
        raise fields["structured"].key_error(
            "'structured' belongs on the out= function; others use 'structured_delegate'"
        )
    dispatch = _dispatch(fields.get("dispatch"))
    if "dispatch" not in fields and not structured and delegate is None:
        dispatch = {"CompositeImplicitAutograd": str(func.name.name)}
    if "ufunc_inner_loop" in fields:
        dispatch |= {"CPU": "ufunc", "CUDA": "ufunc"}
    manual = fields.get("manual_cpp_binding")
    autogen = _text(fields, "autogen")
    return NativeFunction(
        func=func,
        variants=variants,
        dispatch=dispatch,
        is_abstract=is_abstract(dispatch, delegate),
        structured=structured,
        structured_delegate=delegate,
        autogen=tuple(name.strip() for name in autogen.split(",")) if autogen else (),
        tags=_tags(fields.get("tags"), known_tags),
        manual_cpp_binding=manual is not None and manual.flag("'manual_cpp_binding'"),
        place=entry.place(),
    )


def _text(fields: dict[str, Item], key: str) -> str | None:
    return fields[key].text(f"{key!r}") if key in fields else None


def _variants(item: Item | None, func: FunctionSchema) -> frozenset[str]:
    if item is None:
        return frozenset({"function"})
    variants = frozenset(word.strip() for word in item.text("'variants'").split(","))
    for word in sorted(variants - _VARIANTS):
        raise item.error(f"unknown variant {word!r}{nearest(word, _VARIANTS)}")
    if func.is_out_fn() and variants != {"function"}:
        raise item.error("an out= function can only have the variant 'function'")
    return variants


def _dispatch(item: Item | None) -> dict[str, str]:
    if item is None:
        return {}
    dispatch: dict[str, str] = {}
    for keys, kernel in item.mapping("'dispatch'").items():
        for key in keys.split(","):
            if key.strip() in dispatch:
                raise kernel.key_error(f"the dispatch key {key.strip()!r} stands twice")
            dispatch[key.strip()] = kernel.text("a kernel name")
    composites = [key for key in _COMPOSITES if key in dispatch]
    if len(composites) > 1:
        raise item.error(f"only one composite kernel is allowed, not {' and '.join(composites)}")
    return dispatch


def _tags(item: Item | None, known: frozenset[str] | None) -> frozenset[str]:
    if item is None:
        return frozenset()
    items = [item] if item.kind() == "text" else item.sequence("'tags'")
    tags: set[str] = set()
    for each in items:
        tag = each.text("a tag")
        if known is not None and tag not in known:
            raise each.error(f"unknown tag {tag!r}{nearest(tag, known)}")
        tags.add(tag)
    return frozenset(tags)


def _check_delegate(function: NativeFunction, by_name: dict[str, NativeFunction]) -> None:
    delegate = function.structured_delegate
    if delegate is None:
        return
    if delegate not in by_name:
        raise CodegenError(
            f"{function.place}: {function.func.name} delegates to {delegate!r}, which is not "
            f"declared{nearest(delegate, by_name)}"
        )
    if not by_name[delegate].structured:
        raise CodegenError(
            f"{function.place}: {function.func.name} delegates to {delegate!r}, which is not "
            f"'structured'; see {by_name[delegate].place}"
        )
