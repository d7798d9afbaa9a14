"""From a generated row to a working operator: node class, kernels, registration.

The generator writes the formulas of an operator as functions, and one call of `operator` with
everything else in the table. When the operator is first used, its kernels and its node class are
built from that: by ``operands.py`` where all arguments are tensors, up to four, and by
``generic.py`` otherwise. ``fused.py`` has hand-written forms of few operators.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, NamedTuple

from pullback._cpython import named_copy, with_array_constants
from pullback.autograd.graph.inplace import write_out
from pullback.autograd.graph.node import ManyEdges, OneEdge, OperatorNode, TwoEdges
from pullback.autograd.graph.slice_cotangent import SliceNode
from pullback.autograd.namespaces import Namespace
from pullback.autograd.record import generic, generic_backward, operands
from pullback.autograd.record.fused import FUSED
from pullback.autograd.record.register import register, register_composite
from pullback.autograd.record.uncovering import (
    uncover_all,
    uncover_one,
    uncover_others,
    uncover_two,
    uncover_written,
)
from pullback.autograd.record.unfused import Function
from pullback.dispatch.table import OperatorEntry

__all__ = [
    "BUILT",
    "Argument",
    "Built",
    "OperatorSpec",
    "composite",
    "foreach",
    "operator",
    "out_variant",
]

_BASES = (ManyEdges, OneEdge, TwoEdges)
_MOST_SLOTS = 2  # edges that have slots of their own
_KINDS = {"": "tensor", "?": "optional", "[]": "list", "[?]": "gaps"}


class Built(NamedTuple):
    """Parts built for one operator; None for what it does not have."""

    cpu: Function
    record: Function | None = None
    node: Function | None = None
    view: Function | None = None
    inplace: Function | None = None


BUILT: dict[str, tuple[OperatorSpec, Built]] = {}
"""The built-in operators that have been used so far, by name, as ``pullback::sin``."""


class Argument(NamedTuple):
    """One argument of an operator.

    Attributes:
        kind: ``"tensor"``, ``"optional"`` (a tensor or None), ``"list"`` of tensors, ``"gaps"`` (a
            list that may have None in it), or ``"option"``: anything else.
        is_named: whether it is given by keyword.
    """

    name: str
    place: int
    kind: str
    is_named: bool

    @property
    def is_list(self) -> bool:
        """Whether it holds several tensors."""
        return self.kind in ("list", "gaps")


def _parse_arguments(text: str) -> tuple[Argument, ...]:
    """Arguments as a row lists them: options in parentheses, after ``*`` those given by keyword.

    >>> [argument.kind for argument in _parse_arguments("self bias? tensors[] (axis) * (dtype)")]
    ['tensor', 'optional', 'list', 'option', 'option']
    """
    found: list[Argument] = []
    is_named = False
    for word in text.split():
        if word == "*":
            is_named = True
            continue
        if word.startswith("("):
            found.append(Argument(word[1:-1], len(found), "option", is_named))
            continue
        name = word.rstrip("?[]")
        found.append(Argument(name, len(found), _KINDS[word[len(name) :]], is_named))
    return tuple(found)


class OperatorSpec:
    """Row of one operator, and what follows from it."""

    def __init__(
        self,
        entry: OperatorEntry,
        function: Function,
        kernel: Function,
        arguments: str,
        *,
        node: str = "",
        differentiable: str | None = None,
        saves: str = "",
        save: Function | None = None,
        vjps: tuple[Function | str | None, ...] = (),
        traits: str = "",
        outputs: str = "result",
        returns: str = "tensor",
        differentiable_outputs: tuple[bool, ...] | None = (True,),
        jvp: Function | None = None,
        tangents: tuple[int, ...] | None = None,
        form: str | None = "",
        meta: str | Function | None = "",
        batching: str | None = "",
        keywords: str = "",
        again: Function | None = None,
        inplace: tuple[OperatorEntry, Function] | None = None,
    ):
        self.entry, self.function, self.kernel = entry, function, kernel
        self._arguments = arguments
        self.node_name = node
        self._differentiable = differentiable
        self._saves = saves
        self.save = save
        self._vjps = vjps
        self.traits = frozenset(traits.split())
        self.outputs = outputs.split()
        self.returns = returns
        self.differentiable_outputs = differentiable_outputs
        self.jvp = jvp
        self._tangents = tangents
        default = "elementwise" if self.is_elementwise else None
        self.form = default if form == "" else form
        self.meta = default if meta == "" else meta
        self.batching = default if batching == "" else batching
        self.keywords = keywords.split()
        self.again = again
        self.inplace = inplace
        self._class: type[OperatorNode] | None = None

    # --- arguments -------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name that formulas call the operator by."""
        return self.entry.name.removeprefix("pullback::").replace(".", "_")

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """All arguments, without ``out``."""
        return _parse_arguments(self._arguments)

    @cached_property
    def tensors(self) -> list[Argument]:
        """The arguments that hold tensors."""
        return [argument for argument in self.arguments if argument.kind != "option"]

    @cached_property
    def differentiable(self) -> list[Argument]:
        """The arguments that edges lead to."""
        if self._differentiable is None:
            return self.tensors
        names = self._differentiable.split()
        return [argument for argument in self.arguments if argument.name in names]

    @property
    def has_options(self) -> bool:
        """Whether not all arguments are tensors that are always given."""
        return any(argument.kind != "tensor" for argument in self.arguments)

    @property
    def has_lists(self) -> bool:
        """Whether a node has edges of a list."""
        return any(argument.is_list for argument in self.differentiable)

    @property
    def arity(self) -> int:
        """The number of edges with a slot of their own; 0 if all are in a tuple."""
        count = len(self.differentiable)
        return 0 if self.has_lists or count > _MOST_SLOTS else count

    @property
    def has_tensor_first(self) -> bool:
        """Whether the first argument, always given, is the only tensor."""
        return [a.place for a in self.tensors] == [0] and self.tensors[0].kind == "tensor"

    @property
    def takes_one_tensor(self) -> bool:
        """Whether the first argument is the only tensor, and differentiable."""
        return (
            self.has_tensor_first and self.tensors == self.differentiable and None not in self._vjps
        )

    @property
    def takes_two_tensors(self) -> bool:
        """Whether the arguments are two tensors, both differentiable and always given."""
        kinds = [argument.kind for argument in self.differentiable]
        return kinds == ["tensor", "tensor"] and len(self.arguments) == 2

    @property
    def takes_operands(self) -> bool:
        """Whether ``operands.py`` serves it."""
        return "operands" in self.traits

    # --- formulas and what they read -------------------------------------------------------------

    @cached_property
    def formulas(self) -> tuple[Function, ...]:
        """The VJP formula of each edge; a joint one stands at each of its edges."""
        return tuple(
            partial(_refuse, vjp) if isinstance(vjp, str) else vjp  # type: ignore[misc]
            for vjp in self._vjps
        )

    @property
    def formulas_of_few(self) -> tuple[Function, ...]:
        """The same for small float64 arrays."""
        if not self.has_numbers:
            return self.formulas
        return tuple(map(with_array_constants, self.formulas))

    @property
    def refused_edges(self) -> tuple[int, ...]:
        """The edges without a derivative."""
        return tuple(n for n, vjp in enumerate(self._vjps) if isinstance(vjp, str))

    @property
    def refused(self) -> tuple[tuple[int, str], ...]:
        """The same for JVP rules: places of arguments, with the name of the missing derivative."""
        pairs = zip(self.differentiable, self._vjps, strict=False)
        return tuple((a.place, vjp) for a, vjp in pairs if isinstance(vjp, str))

    @staticmethod
    def parameters(vjp: Function) -> tuple[str, ...]:
        """The parameters of a formula after the namespace; those that are not read begin with _."""
        if isinstance(vjp, partial):  # a refusal
            return ()
        code = vjp.__code__
        return code.co_varnames[1 : code.co_argcount]

    def reads(self, vjp: Function) -> tuple[str, ...]:
        """The saved values that a formula reads."""
        names = self._saves.split()
        return tuple(name for name in self.parameters(vjp) if name in names)

    def _users(self, name: str) -> list[int]:
        """The edges whose formulas read a saved value."""
        return [
            n for n, vjp in enumerate(self.formulas) if vjp is not None and name in self.reads(vjp)
        ]

    def guard(self, name: str) -> int | None:
        """The edge without which a saved value is not needed: one formula reads it, of many."""
        users = self._users(name)
        if len(self.differentiable) < 2 or self.has_lists or len(users) != 1:
            return None
        return users[0]

    def _needs(self, name: str) -> tuple[bool, ...]:
        """For each edge, whether a saved value is needed if that edge leads somewhere."""
        guard, users = self.guard(name), self._users(name)
        places = range(len(self.differentiable))
        if not users:
            return tuple(False for _ in places)
        return tuple(guard is None or place == guard for place in places)

    def needs(self, operand: int) -> tuple[bool, ...]:
        """For each edge, whether its gradient needs an operand."""
        return self._needs(self.arguments[operand].name)

    def needs_result(self) -> tuple[bool, ...]:
        """For each edge, whether its gradient needs the result."""
        return self._needs(self.result_name)

    @property
    def saved_tensors(self) -> list[str]:
        """The names of saved tensor arguments, in the order of saving."""
        names = {argument.name for argument in self.tensors}
        return [name for name in self._saves.split() if name in names]

    @property
    def saved_outputs(self) -> list[str]:
        """The names of saved results."""
        return [name for name in self._saves.split() if name in self.outputs]

    @property
    def freed(self) -> list[str]:
        """The names of all saved tensors, which are let go after the backward pass."""
        return self.saved_tensors + self.saved_outputs

    @property
    def saved_operands(self) -> frozenset[int]:
        """The places of saved tensor arguments."""
        return frozenset(a.place for a in self.tensors if a.name in self._saves.split())

    def uncovering(self, is_written: bool) -> Function | None:
        """The function that puts `uncover` around kernels; None if nothing of arguments is saved.

        `is_written` says that the kernels write to the first argument.
        """
        if is_written and self.saved_outputs:
            return uncover_written
        if not self.saved_tensors:
            return None
        if is_written:
            return uncover_others
        if self.takes_operands and len(self.arguments) == len(self.tensors) <= 2:
            if len(self.tensors) == 1:
                return uncover_one
            saved = [
                sum(2**edge for edge, is_needed in enumerate(self.needs(place)) if is_needed)
                if place in self.saved_operands
                else 0
                for place in (0, 1)
            ]
            return partial(uncover_two, self_for=saved[0], other_for=saved[1])
        return uncover_all

    @property
    def saves_result(self) -> bool:
        """Whether the result is saved."""
        return bool(self.saved_outputs)

    @property
    def result_name(self) -> str:
        """The name of the only result."""
        return self.outputs[0]

    @property
    def operand_names(self) -> tuple[str, ...]:
        """The names of all arguments."""
        return tuple(argument.name for argument in self.arguments)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The differentiable arguments, where one may be saved as a bare array; else nothing."""
        is_saved = any(
            argument.kind == "tensor" and argument.name in self.saved_tensors
            for argument in self.differentiable
        )
        return tuple(a.name for a in self.differentiable) if self.arity and is_saved else ()

    @property
    def gradient_names(self) -> list[str]:
        """The names that formulas have for the gradients of several outputs."""
        return [f"grad_{name}" for name in self.outputs]

    # --- traits ----------------------------------------------------------------------------------

    is_elementwise = property(lambda self: "elementwise" in self.traits)
    is_numpy = property(lambda self: "numpy" in self.traits)
    is_heavy = property(lambda self: "heavy" in self.traits)
    is_alike = property(lambda self: "alike" in self.traits)
    has_numbers = property(lambda self: "numbers" in self.traits)
    is_view = property(lambda self: "view" in self.traits)
    keeps_metadata = property(lambda self: "keeps" in self.traits)
    takes_undefined = property(lambda self: "undefined" in self.traits)
    returns_part = property(lambda self: "part" in self.traits)

    # --- what is built ---------------------------------------------------------------------------

    def slot(self, name: str) -> str:
        """The slot of a saved value."""
        for argument in self.tensors:
            if argument.name == name:
                return f"_saved{argument.place}"
        return "_result" if self.returns == "tensor" and name in self.outputs else name

    def node_class(self) -> type[OperatorNode]:
        """The class of the backward node."""
        if self._class is None:
            self._class = _make_class(self)
        return self._class


def _refuse(missing: str, xp: Namespace, *_: Any) -> Any:
    return xp.not_implemented(missing)


def _make_class(spec: OperatorSpec) -> type[OperatorNode]:
    """Makes the node class: slots for saved values, formulas around which values are loaded."""
    saved = spec._saves.split()
    tensors = {*spec.saved_tensors, *spec.saved_outputs}
    slots = {name: spec.slot(name) for name in saved}
    versions = {f"{name}_v": slots[name].replace("saved", "version") for name in spec.saved_tensors}
    module = operands if spec.takes_operands else generic_backward
    functions = {
        "backward": module.backward_function(spec),
        "run": module.run_function(spec),
        "release": generic_backward.release_function(spec),
        "save_outputs": generic.save_outputs_function(spec),
    }
    own = FUSED.get(spec.entry.name)
    if own is not None:
        functions["run"] = own.run or functions["run"]
        if own.backward is not None:
            functions["backward"] = own.backward(functions["backward"])
    runs = spec.returns == "tensor" and not spec.has_lists
    namespace: dict[str, Any] = {
        "__slots__": [*slots.values(), *versions.values()]
        + (["_outputs"] if spec.returns == "list" else []),
        "__module__": spec.function.__module__,
        "__doc__": str(spec.entry.declaration).rpartition("::")[2],
        "_operator": spec.entry.name,
        "_saves": tuple(saved),
        "_saves_tensors": tuple(name for name in saved if name in tensors),
        "_saves_results": tuple(spec.saved_outputs) if spec.returns == "tensor" else (),
        "_inputs": spec.inputs,
        "_edge_names": () if spec.has_lists else tuple(a.name for a in spec.differentiable),
        "_is_single": spec.returns == "tensor",
        "_is_exact": runs and "exact" in spec.traits,
        "_is_alike": runs and "alike" in spec.traits,
        "_makes_new": runs and "new" in spec.traits,
        "_only_sums": runs and "sums" in spec.traits,
        "_erases": "erases" in spec.traits,
    }
    if spec.returns == "tuple":
        namespace["_outputs"] = len(spec.outputs)
    for name, function in functions.items():
        if function is not None:
            namespace[name] = named_copy(function, f"{spec.node_name}.{name}")
    base = SliceNode if spec.returns_part else _BASES[spec.arity]
    cls = type(spec.node_name, (base,), namespace)
    for name, slot in {**slots, **versions}.items():
        if name != slot:
            setattr(cls, name, cls.__dict__[slot])  # one slot, by two names
    return cls


# --- registration --------------------------------------------------------------------------------


def operator(
    entry: OperatorEntry, function: Function, kernel: Function, arguments: str, **row: Any
) -> None:
    """Has an operator, and its in-place variant, built from a row when it is first used."""
    spec = OperatorSpec(entry, function, kernel, arguments, **row)
    entry.defer(partial(_build, spec))
    if spec.inplace is not None:
        entry, function = spec.inplace
        entry.defer(partial(_build_inplace, spec, entry, function))


def _build(spec: OperatorSpec) -> None:
    """Builds the kernels of an operator and registers them."""
    if "written" in spec.traits:  # without a variant that does not write
        _build_inplace(spec, spec.entry, spec.function)
        return
    module = operands if spec.takes_operands else generic
    made: dict[str, Function] = {"cpu": module.plain_kernel(spec)}
    cls = spec.node_class() if spec.node_name else None
    if cls is not None:
        made["node"] = generic.node_maker(spec, cls)
    if spec.is_view:
        again = spec.again or _again(spec)
        made["view"] = generic.view_kernel(spec, None, again)
        if cls is not None:
            made["record"] = generic.view_kernel(spec, made["node"], again)
    elif cls is not None:
        own = FUSED.get(spec.entry.name)
        record = module.record_kernel if own is None or own.record is None else own.record
        made["record"] = record(spec, cls)
    register(
        spec.entry,
        function=spec.function,
        array_function=spec.kernel,
        factory=not spec.tensors,
        differentiable=spec.differentiable_outputs or (True,),
        form=spec.form if spec.jvp and not spec.refused else None,
        batching=spec.batching,
        saves=spec.uncovering(is_written=False),
        **_named(spec, spec.entry, made),
        **_forward(spec),
    )


def _build_inplace(spec: OperatorSpec, entry: OperatorEntry, function: Function) -> None:
    """Builds the kernels of an operator that writes to its first argument."""
    name = entry.name.rpartition("::")[2].replace(".", "_")
    made: dict[str, Function] = {
        "cpu": generic.plain_inplace_kernel(spec, name),
        "inplace": generic.inplace_kernel(spec, name, None),
    }
    if spec.node_name:
        made["node"] = generic.node_maker(spec, spec.node_class(), is_written=True)
        made["record"] = generic.inplace_kernel(spec, name, made["node"])
    register(
        entry,
        function=function,
        saves=spec.uncovering(is_written=True),
        **_named(spec, entry, made),
        **_forward(spec),
    )


def _named(spec: OperatorSpec, entry: OperatorEntry, made: dict[str, Function]) -> dict[str, Any]:
    """The functions that were built, under names that show the operator."""
    name = entry.name.rpartition("::")[2].replace(".", "_")
    named = {key: named_copy(function, f"{name}_{key}") for key, function in made.items()}
    if entry.name.startswith("pullback::"):
        BUILT[entry.name] = spec, Built(**named)
    return named


def _forward(spec: OperatorSpec) -> dict[str, Any]:
    """Parts that variants of an operator share: its JVP rule and its shape function."""
    shared: dict[str, Any] = {"meta": spec.meta}
    if spec.jvp is not None:
        places = tuple(argument.place for argument in spec.differentiable)
        shared["jvp"] = spec.jvp
        shared["tangents"] = places if spec._tangents is None else spec._tangents
        shared["sums"] = "sums_terms" in spec.traits
        shared["refused"] = spec.refused
    return shared


def _again(spec: OperatorSpec) -> Function:
    """The function that makes a view once more from its base, in a namespace."""
    name = spec.name
    named = [argument.name for argument in spec.arguments if argument.is_named]
    count = len(spec.arguments) - 1 - len(named)

    def again(xp: Namespace, base: Any, *options: Any) -> Any:
        if not named:
            return getattr(xp, name)(base, *options)
        keywords = dict(zip(named, options[count:], strict=True))
        return getattr(xp, name)(base, *options[:count], **keywords)

    return again


def composite(entry: OperatorEntry, function: Function, kernel: Function) -> None:
    """Has an operator that is made of others registered when it is first used."""
    entry.defer(partial(register_composite, entry, function, kernel))


def out_variant(entry: OperatorEntry, function: Function) -> None:
    """The same for the variant of an operator that writes its result to ``out``."""
    name = entry.name.rpartition("::")[2].replace(".", "_")

    def call(*args: Any, out: Any, **named: Any) -> Any:
        return write_out(function(*args, **named), out, name)

    composite(entry, function, call)


def foreach(entry: OperatorEntry, own: Function, function: Function, lists: str) -> None:
    """The same for the variant that calls `function` for each tensor of the arguments in `lists`,
    which are places."""
    places = [int(place) for place in lists.split()]

    def call(*args: Any, **named: Any) -> Any:
        columns = [args[place] for place in places]
        results = []
        for values in zip(*columns, strict=True):
            each = list(args)
            for place, value in zip(places, values, strict=True):
                each[place] = value
            results.append(function(*each, **named))
        return results

    composite(entry, own, call)
