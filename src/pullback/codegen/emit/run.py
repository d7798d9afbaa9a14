"""The formulas of a node once more, for raw arrays: what the engine runs.

``backward`` serves every namespace. ``run`` is the same mathematics with all that the common case
does not need taken out: the checks of saved values stand in line, a value is read only if a
gradient needs it, and releasing is part of the call. Nodes with lists have no ``run`` of their own.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from pullback.codegen.emit.model import Emitted, in_namespace, is_tensor, is_tensor_list
from pullback.codegen.emit.source import indent, tuple_text
from pullback.codegen.model import Derivative, SavedAttribute
from pullback.schema import OptionalType

__all__ = [
    "arity_of",
    "edge_text",
    "edges_text",
    "emit_run",
    "guard_of",
    "is_alike",
    "is_exact",
    "is_product",
    "makes_new",
    "only_sums",
    "place_of",
]

_MOST_SLOTS = 2  # the classes of nodes with edges in slots
# Each with what sums the gradient first, where that is all that is wanted of the product.
_PRODUCTS = {"matmul_to_first": "first_factor_to", "matmul_to_second": "second_factor_to"}
_IS_REAL = "node._output_metadata.dtype is FLOAT64"
# The flag holds nearly always.
_IS_FEW = "node._output_metadata.is_small_float64 or grad.size < MIN_FUSED_SIZE"
# A few float64 numbers, and no single one.
_HAS_AXES = "(metadata := node._output_metadata).is_small_float64 and metadata.shape"
_KEEP_DTYPE = {"conj", "cos", "cosh", "exp", "sin", "sinh"}


def arity_of(op: Emitted) -> int:
    """How many slots a node has for its edges; none if they are in a tuple."""
    differentiable = op.differentiable
    has_list = any(is_tensor_list(a.type) for a in differentiable)
    return 0 if has_list or len(differentiable) > _MOST_SLOTS else len(differentiable)


def edge_text(op: Emitted, place: int) -> str:
    """The expression for one edge of a node."""
    return f"node._edge{place}" if arity_of(op) else f"node._edges[{place}]"


def edges_text(op: Emitted) -> str:
    """The expression for all edges of a node."""
    places = range(arity_of(op))
    return ", ".join(edge_text(op, place) for place in places) if places else "node._edges"


def place_of(op: Emitted, attribute: SavedAttribute) -> int | None:
    """Which edge a saved input came by, if a kernel may save it as a bare array."""
    if attribute in op.saved("outputs") or attribute.expr != attribute.source:
        return None
    names = [a.name for a in op.differentiable]
    is_known = arity_of(op) and attribute.source in names and is_tensor(attribute.type)
    if not is_known or isinstance(attribute.type, OptionalType):
        return None
    return names.index(attribute.source)


def guard_of(op: Emitted, attribute: SavedAttribute) -> str | None:
    """When a saved tensor is needed: by one formula only, and only if that one will run."""
    differentiable = op.differentiable
    if len(differentiable) < 2 or any(is_tensor_list(a.type) for a in differentiable):
        return None
    users = [d for d in op.derivatives if attribute in (*d.saved_inputs, *d.saved_outputs)]
    if len(users) != 1 or len(users[0].var_names) != 1:
        return None
    place = [a.name for a in differentiable].index(users[0].var_names[0])
    return f"{edge_text(op, place)} is not None"


def makes_new(op: Emitted) -> bool:
    """Whether all formulas end in arithmetic or a product, so that they return a new array."""
    return all(len(d.var_names) == 1 and _is_new(d.formula) for d in op.derivatives)


def _is_new(formula: str) -> bool:
    body = ast.parse(formula, mode="eval").body
    if isinstance(body, ast.Call):
        return ast.unparse(body.func) in _PRODUCTS
    return isinstance(body, ast.BinOp | ast.UnaryOp)


def only_sums(op: Emitted) -> bool:
    """Whether gradients are the one that came in, or its negative, before they are fitted."""
    formulas = {derivative.formula for derivative in op.derivatives}
    return arity_of(op) == _MOST_SLOTS and is_alike(op) and formulas <= {"grad", "-grad"}


def is_exact(op: Emitted) -> bool:
    """Whether the gradient has the shape and dtype of the one that came in.

    So it is for element-wise functions of one tensor whose formula is arithmetic.
    """
    return is_alike(op) and len(op.tensors) == 1


def is_alike(op: Emitted) -> bool:
    """Whether gradients have the shape and dtype of the result before they are fitted to an edge.

    So it is for element-wise functions whose formulas are arithmetic.
    """
    if "elementwise" not in op.function.tags or any(len(d.var_names) > 1 for d in op.derivatives):
        return False
    if any("dtype" in str(argument.type) for argument in op.arguments):
        return False  # a cast: the gradient that came in has the other dtype
    return all(_is_arithmetic(derivative.formula) for derivative in op.derivatives)


def _is_arithmetic(formula: str) -> bool:
    """Whether a formula keeps the dtype of its operands."""
    for node in ast.walk(ast.parse(formula, mode="eval")):
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.func.id not in _KEEP_DTYPE:
                return False
        elif isinstance(node, ast.Constant):
            if type(node.value) not in (int, float):
                return False
        elif isinstance(node, ast.Attribute | ast.Subscript | ast.IfExp | ast.Compare):
            return False
    return True


def emit_run(op: Emitted, saved: list[SavedAttribute], tensors: list[str]) -> str | None:
    """The method ``run``, or None where ``backward`` has to serve."""
    returns = op.schema.returns
    if len(returns) != 1 or not is_tensor(returns[0].type):
        return None
    if any(is_tensor_list(a.type) for a in op.differentiable):
        return None
    names = [a.name for a in op.differentiable]
    guarded = {s.name: guard_of(op, s) for s in saved if s.name in tensors}
    lines = ["def run(node, xp, grad, keep):"]
    if len(names) > 1:
        lines.append(f"    {', '.join(f'to_{name}' for name in names)} = {edges_text(op)}")
        if any(_is_repeated(op, attribute) for attribute in saved):
            lines.append("    metadata = node._output_metadata")
    for attribute in saved:
        if not guarded.get(attribute.name):
            lines += map(indent, _load(op, attribute))
    if len(names) == 1:
        formula = _on_arrays(op, op.derivatives[0].formula)
        results = f"({formula},)"
    else:
        formulas = _square(op, saved)
        for derivative in op.derivatives:
            formulas += _gradient(op, derivative, saved, guarded)
        if any("is_few" in line for line in formulas):
            lines.append(f"    is_few = {_IS_FEW}")
        lines += map(indent, formulas)
        missing = set(names) - {name for d in op.derivatives for name in d.var_names}
        results = tuple_text(["None" if n in missing else f"grad_of_{n}" for n in names])
    if not tensors:
        return "\n".join([*lines, f"    return {results}"]) + "\n"
    freed = " = ".join(f"node.{name}" for name in tensors)
    if len(names) == 1:
        lines.append(f"    results = {results}")
        results = "results"
    lines += ["    if not keep:", f"        {freed} = FREED", f"    return {results}"]
    return "\n".join(lines) + "\n"


def _is_repeated(op: Emitted, attribute: SavedAttribute) -> bool:
    """Whether a saved operand may have another shape than the result, for arithmetic alone."""
    return arity_of(op) == _MOST_SLOTS and is_alike(op) and place_of(op, attribute) is not None


class _OnArrays(ast.NodeTransformer):
    def __init__(self, of_numpy: Mapping[str, str], is_real: bool, arrays: Collection[str]):
        self.of_numpy = of_numpy
        self.is_real = is_real
        self.arrays = arrays

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
            if _has_name(node.right, self.arrays):
                node.left = _as_array(node.left)
            elif _has_name(node.left, self.arrays):
                node.right = _as_array(node.right)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name):
            return node
        if node.func.id == "conj":
            if self.is_real:
                return node.args[0]
            return ast.Call(ast.Attribute(node.args[0], "conjugate", ast.Load()), [], [])
        if node.func.id in self.of_numpy:
            node.func.id = f"np_{self.of_numpy[node.func.id]}"
        return node


def _has_name(node: ast.expr, names: Collection[str]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(node))


def _as_array(node: ast.expr) -> ast.expr:
    """The array that the generated module has for a whole number; anything else as it is."""
    match node:
        case ast.Constant(int() | float() as value) if value == int(value) > 0:
            return ast.Name(f"number_{int(value)}", ast.Load())
    return node


def _on_arrays(op: Emitted, formula: str) -> str:
    """A formula for arrays and numbers; for real ones without a call that returns them as they are.

    A result of arithmetic is real only if its operands are. Where arrays are small, numbers beside
    them are arrays too, which NumPy reads in two thirds of the time.
    """
    text = _by_numpy(formula, op.of_numpy)
    if not is_alike(op) or not arity_of(op):
        return text
    real = _by_numpy(formula, op.of_numpy, is_real=True)
    tensors = {"grad", "result", *(tensor.name for tensor in op.tensors)}
    few = _by_numpy(formula, op.of_numpy, is_real=True, arrays=tensors)
    if real != text:  # a conjugate, which copies real arrays
        text = f"{real} if {_IS_REAL} else {text}"
    return text if few == real else f"{few} if {_HAS_AXES} else {text}"


def _by_numpy(
    formula: str, of_numpy: Mapping[str, str], is_real: bool = False, arrays: Collection[str] = ()
) -> str:
    """A formula for arrays and numbers, whose own method is their conjugate.

    Operators that are functions of NumPy are these themselves. The gradient of a slice is left a
    part; the engine puts it where it belongs. What is real is not conjugated, and whole numbers
    beside `arrays` are the module's arrays.

    >>> _by_numpy("grad * conj(sin(self)) + zeros_like(self)", {"sin": "sin"})
    'grad * np_sin(self).conjugate() + xp.zeros_like(self)'
    >>> _by_numpy("grad * conj(self + 1)", {}, is_real=True, arrays={"grad", "self"})
    'grad * (self + number_1)'
    """
    tree = _OnArrays(of_numpy, is_real, arrays).visit(ast.parse(formula, mode="eval"))
    if isinstance(tree.body, ast.Call) and ast.unparse(tree.body.func) == "getitem_backward":
        tree.body.func = ast.Name("SliceCotangent", ast.Load())
        return ast.unparse(tree)
    return in_namespace(ast.unparse(tree))


def _gradient(
    op: Emitted,
    derivative: Derivative,
    saved: list[SavedAttribute],
    guarded: dict[str, str | None],
) -> list[str]:
    """Lines for one formula, with the values that only it reads."""
    formula = _on_arrays(op, derivative.formula)
    names = derivative.var_names
    if "elementwise" in op.function.tags and len(names) == 1:
        formula = _summed(formula, f"to_{names[0]}")
    elif formula.partition("(")[0].removeprefix("xp.") in _PRODUCTS:
        formula = _summed_product(formula, f"to_{names[0]}")
    if len(names) > 1:
        lines = []
        if "grad_input_mask" in formula:
            mask = tuple_text([f"to_{name} is not None" for name in names])
            lines.append(f"grad_input_mask = {mask}")
        return [*lines, f"{', '.join(f'grad_of_{name}' for name in names)} = {formula}"]
    (name,) = names
    own = [*derivative.saved_inputs, *derivative.saved_outputs]
    loads = [line for s in saved if s in own and guarded.get(s.name) for line in _load(op, s)]
    return [
        f"if to_{name} is not None:",
        *map(indent, loads),
        f"    grad_of_{name} = {formula}",
        "else:",
        f"    grad_of_{name} = None",
    ]


def _summed(formula: str, target: str) -> str:
    """A formula of a function that broadcasts: what is large is summed early, or never made.

    >>> _summed("-grad", "to_other")
    '-(grad if grad.shape == to_other._output_metadata.shape else xp.grad_to(grad, to_other))'
    """
    fits = f"grad.shape == {target}._output_metadata.shape"
    if formula == "-grad":
        return f"-(grad if {fits} else xp.grad_to(grad, {target}))"
    factor = formula.rpartition(" else ")[2].removeprefix("grad * ")
    if factor != formula and factor.removesuffix(".conjugate()").isidentifier():
        few = f"({formula})" if " else " in formula else formula
        return f"{few} if is_few else xp.product_to(grad, {factor}, {target})"
    return formula


def _summed_product(formula: str, target: str) -> str:
    """A formula of a product of matrices, told where its gradient goes if it is large.

    >>> _summed_product("xp.matmul_to_first(grad, self_shape, other)", "to_self").split(" else ")[1]
    'xp.first_factor_to(grad, self_shape, other, to_self)'
    """
    name = formula.partition("(")[0].removeprefix("xp.")
    early = formula.replace(name, _PRODUCTS[name]).removesuffix(")")
    return f"{formula} if {_IS_FEW} else {early}, {target})"


def is_product(op: Emitted) -> bool:
    """Whether an operator is the product of two tensors, which may be one and the same."""
    formulas = {d.var_names: d.formula for d in op.derivatives}
    return formulas == {("self",): "grad * conj(other)", ("other",): "grad * conj(self)"}


def _square(op: Emitted, saved: list[SavedAttribute]) -> list[str]:
    """Lines for a value multiplied by itself, whose two gradients are one, doubled."""
    if not is_product(op):
        return []
    freed = ["    if not keep:", "        node.self = node.other = FREED"]
    return [
        "if to_self is to_other is not None and node.self is node.other:",
        *(indent(line) for s in saved if s.name == "self" for line in _load(op, s)),
        "    if is_few:",
        f"        both = {_on_arrays(op, 'grad * conj(self)')}",
        "        both += both",
        "    else:",
        "        both = xp.twice_product(grad, self.conjugate())",
        *freed,
        "    return (both,)",
    ]


def _load(op: Emitted, attribute: SavedAttribute) -> list[str]:
    """Lines that read a saved value, with the common case in line."""
    name = attribute.name
    if is_tensor_list(attribute.type):
        return [f"{name} = xp.load(node, node.{name}, node.{name}_v)"]
    if not is_tensor(attribute.type):
        return [f"{name} = node.{name}"]
    if attribute in op.saved("outputs"):
        return [
            f"{name} = node.{name}",
            f"if type({name}) is not ndarray or node._output_metadata.extras is not None:",
            f'    {name} = output_array(node, "{name}")',
        ]
    place = place_of(op, attribute)
    otherwise = [
        "else:",
        f"    {name} = xp.load(node, {name}, node.{name}_v)",
    ]
    first = []
    if place is not None:
        is_changed = f"{edge_text(op, place)}._output_metadata.extras is not None"
        if _is_repeated(op, attribute):
            # Two nodes share metadata only if neither has a version counter. A single element is
            # combined with an array sooner without its axes.
            edge = f"to_{op.differentiable[place].name}"
            first = [f"differs = {edge} is not None and {edge}._output_metadata is not metadata"]
            is_changed = f"(differs and {edge}._output_metadata.extras is not None)"
        otherwise = [
            f"elif type({name}) is not ndarray or {is_changed}:",
            f'    {name} = input_array(node, "{name}")',
        ]
        if first:
            otherwise += ["if differs:", f"    {name} = squeeze_singleton({name}, grad.ndim)"]
    return [
        *first,
        f"{name} = node.{name}",
        f"if (type({name}) is Tensor",
        f"    and ({name}._counter is None or {name}._counter[0] == node.{name}_v)",
        f"    and ({name}._meta is None or not {name}._meta.detached)",
        "):",
        f"    {name} = {name}._array",
        *otherwise,
    ]
