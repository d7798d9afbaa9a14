"""Puts the generated kernels into the operators' tables, and links those that keep the books.

At an autograd key the table holds one linked function: the kernel below when nothing is to be
recorded, the generated recording kernel when everything below it is ours, and one of ``around.py``
when something else computes, or when saved-tensor hooks or anomaly mode want to see what is
recorded. ADInplaceOrView is linked in the same way. So an ordinary call has no trace of any of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pullback._lazy import lazy_module
from pullback.autograd.debug.anomaly import is_anomaly_enabled
from pullback.autograd.forward.jvp_kernels import (
    make_array_kernel,
    make_jvp_kernel,
    make_view_kernel,
)
from pullback.autograd.forward.jvp_rule import JVP_RULES, JvpRule
from pullback.autograd.forward.tangents import follow_base, tangent_levels
from pullback.autograd.graph.views import requires_grad
from pullback.autograd.namespaces import arrays, tensors
from pullback.autograd.record.uncovering import uncover_all
from pullback.autograd.record.unfused import (
    Function,
    alone,
    record_around,
    record_view_around,
    record_write_around,
    view_around,
    write_around,
)
from pullback.batching.rules import declare, is_random, tensor_rule
from pullback.dispatch.keys import (
    DUAL,
    KEY_BITS,
    KEY_MASK,
    PLAIN_VIEW,
    REQUIRES_GRAD,
    DispatchKey,
    after_ADInplaceOrView,
    after_autograd,
    highest_key,
)
from pullback.dispatch.modes import (
    INFERENCE,
    MAPPING,
    NUMPY,
    SAVED_HOOKS,
    TAPE,
    TRANSFORM,
    get_state,
)
from pullback.dispatch.table import Kernel, OperatorEntry, fallthrough_kernel
from pullback.meta import RULES, meta_kernel
from pullback.tensor.meta import View
from pullback.tensor.tensor import CPU_FLAGS, Tensor, as_inference, tag_level

if TYPE_CHECKING:
    from pullback.autograd.linearize import tangent_tape
    from pullback.batching import random
else:
    tangent_tape = lazy_module("pullback.autograd.linearize.tangent_tape")
    random = lazy_module("pullback.batching.random")

__all__ = ["Function", "refreshing", "register", "register_composite", "unrecorded"]

_PYTHON = KEY_BITS[DispatchKey.Python]
_KEY = DispatchKey.Autograd


def register(
    entry: OperatorEntry,
    *,
    cpu: Function,
    function: Function,
    array_function: Function | None = None,
    record: Function | None = None,
    node: Function | None = None,
    view: Function | None = None,
    inplace: Function | None = None,
    jvp: Function | None = None,
    meta: str | Function | None = None,
    tangents: tuple[int, ...] = (),
    sums: bool = False,
    form: str | None = None,
    refused: tuple[tuple[int, str], ...] = (),
    differentiable: tuple[bool, ...] = (True,),
    factory: bool = False,
    batching: str | None = None,
    saves: Function | None = uncover_all,
) -> None:
    """Registers what the generator made for one operator; a factory takes no tensors.

    `form` says how the JVP formula treats batch axes, see ``forward/jvp_rule.py``. `refused` are
    the places of arguments that may have no tangent, each with the name of the missing derivative.
    `batching` is the class of operators whose batching rule serves this one. `saves` is put around
    kernels in `numpy_mode` if nodes save tensors, see ``uncovering.py``.
    """
    if batching is not None:
        declare(entry.name, batching, array_function)
    name = entry.name.removeprefix("pullback::").replace(".", "_")
    setattr(tensors, name, function)
    rule = JvpRule(entry, jvp, tangents, sums, refused, form, is_constant=record is None)
    if array_function is not None:
        setattr(arrays, name, array_function)
        JVP_RULES[name] = rule
    kernels = [plain := Kernel(cpu, DispatchKey.CPU, linker=_cpu_linker(cpu, entry.name))]
    if factory:
        kernels.append(Kernel(cpu, DispatchKey.BackendSelect, linker=_select_backend))
    if meta is not None:
        kernels.append(_meta_kernel(meta, cpu))
    stock = cpu
    around: Function = partial(record_around, differentiable=differentiable)
    if view is not None:
        stock = view
        around = partial(record_view_around, name=name)
        kernels.append(_books(plain, view, partial(view_around, name=name)))
    elif inplace is not None:
        stock = inplace
        around = record_write_around
        kernels.append(_books(plain, inplace, write_around))
    if record is None:
        kernels.append(Kernel(fallthrough_kernel, _KEY, fallthrough=True))
    else:
        dual = partial(_link_jvp, rule, stock, inplace is not None, view is not None)
        around = partial(around, make_node=node)
        tape = partial(_link_tape, record, name)
        link = _linker(entry.name, stock, record, around, dual, tape, stock is cpu, saves)
        kernels.append(Kernel(record, _KEY, linker=link, goes_on_with=after_autograd))
    entry.fill({kernel.key: [kernel] for kernel in kernels})


def _link_jvp(
    rule: JvpRule, stock: Function, is_inplace: bool, is_view: bool, base: Function
) -> Function:
    """The forward-mode kernel of an operator around `base`, which computes without tangents.

    Where our own kernel `stock` computes, tangents are computed on arrays.
    """
    general = make_jvp_kernel(rule, base, is_inplace)
    name = rule.entry.name
    if rule.batching is None or getattr(base, "marks", base) is not stock:
        return general
    # Names in formulas are those of our own operators, whose batching rules are known.
    if not (rule.batching == "elementwise" or name.startswith("pullback::")) or tensor_rule(name):
        return general
    make = make_view_kernel if is_view else make_array_kernel
    return make(rule, stock, general)


def _link_tape(record: Function, name: str) -> Function:
    """Our own kernel that records, on a tangent tape; in-place operators have no rule there."""
    return tangent_tape.make_tape_kernel(record, JVP_RULES.get(name))


def register_composite(entry: OperatorEntry, function: Function, kernel: Function) -> None:
    """Registers an operator that is made of others."""
    name = entry.name.removeprefix("pullback::").replace(".", "_")
    setattr(tensors, name, function)
    key = DispatchKey.CompositeImplicitAutograd
    entry.fill({key: [Kernel(kernel, key)]})


def _books(plain: Kernel, fused: Function, around: Function) -> Kernel:
    """The kernel that keeps versions and views: `fused` where ours computes, else `around` it."""

    def link(operator: Any, flags: int) -> Function:
        below = flags & after_ADInplaceOrView
        if operator.entry.entry(highest_key(below)).kernel is plain:
            return fused
        return around(alone(operator.below(below)))  # type: ignore[no-any-return]

    key = DispatchKey.ADInplaceOrView
    return Kernel(fused, key, linker=link, goes_on_with=after_ADInplaceOrView)


def _linker(
    name: str,
    stock: Function,
    record: Function,
    around: Function,
    dual: Function,
    tape: Function,
    makes_new: bool,
    saves: Function | None,
) -> Callable[[Any, int], Function]:
    def link(operator: Any, flags: int) -> Function:
        if flags & PLAIN_VIEW:
            return refreshing(operator)
        if flags & DUAL:
            return dual(link(operator, flags & ~DUAL))  # type: ignore[no-any-return]
        below = operator.below(flags & after_autograd)
        modes = get_state().modes
        if not flags & REQUIRES_GRAD:
            return unrecorded(_marking(below, name) if modes & _marked_in(flags) else below)
        watched = bool(modes & SAVED_HOOKS) or is_anomaly_enabled()
        below = getattr(below, "marks", below)
        in_map = bool(modes & MAPPING & _marked_in(flags))
        if in_map and is_random(name):
            below = _marking(below, name)
        elif below is stock and not watched:
            if in_map and makes_new:
                kernel = _marking(record, name, is_own=True)
            else:
                kernel = tape() if modes & TAPE else record
        else:
            below = below if below is stock else alone(below)
            kernel = around(below, marks=bool(flags & KEY_MASK & ~CPU_FLAGS))
        # In a mapped function nothing is covered, see `UndoLog.append`.
        is_logged = modes & (NUMPY | MAPPING) == NUMPY
        return saves(kernel) if is_logged and saves is not None else kernel

    return link


def unrecorded(kernel: Function) -> Function:
    """Links a kernel that does not record; on a tangent tape, the tape is left."""
    state = get_state()
    is_off = state.modes & TAPE and not state.keep & REQUIRES_GRAD
    return tangent_tape.make_leaving_kernel(kernel) if is_off else kernel


def _marked_in(flags: int) -> int:
    """The modes in which new tensors are marked; those that vary with the sample mark themselves
    where it matters to a mapped function."""
    return TRANSFORM if flags & _PYTHON else TRANSFORM | MAPPING


def _cpu_linker(cpu: Function, name: str) -> Callable[[Any, int], Function]:
    """Links the plain kernel; in some modes, what it makes is marked as made there."""
    marking = _marking(cpu, name)

    def link(operator: Any, flags: int) -> Function:  # noqa: ARG001 - any operator, any flags
        return marking if get_state().modes & (INFERENCE | TRANSFORM | MAPPING) else cpu

    return link


def _marking(kernel: Function, name: str, is_own: bool = False) -> Function:
    """A kernel whose new tensors say in which mode or transform they were made.

    With `is_own` the version counters of its results, if they have any, are theirs alone. Inside a
    mapped function, a random operator leaves the draw to another kernel.
    """
    if hasattr(kernel, "marks"):
        return kernel

    draws: bool | None = None

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal draws
        modes = get_state().modes  # the link may be used by a redispatch elsewhere
        if modes & MAPPING:
            draws = is_random(name) if draws is None else draws
            if draws:
                return random.random_kernel(name)(*args, **kwargs)
        results = kernel(*args, **kwargs)
        if type(results) is Tensor and modes & (TRANSFORM | MAPPING) and not modes & INFERENCE:
            # By far the most usual case, without a loop.
            return results if _is_among(results, args) else tag_level(results, is_own)
        if not modes & (INFERENCE | TRANSFORM | MAPPING):
            return results
        for result in results if isinstance(results, tuple | list) else (results,):
            if isinstance(result, Tensor) and not _is_among(result, args):
                if modes & INFERENCE:
                    as_inference(result)
                else:
                    tag_level(result, is_own)
        return results

    call.marks = kernel  # type: ignore[attr-defined]  # read by linkers above it
    return call


def _is_among(tensor: Tensor, args: tuple[Any, ...]) -> bool:
    for value in args:  # noqa: SIM110 - any() with a generator takes twice as long
        if value is tensor:
            return True
    return False


def _select_backend(operator: Any, flags: int) -> Function:
    """Links a call without tensors, whose flags name no backend, to the kernel for CPU."""
    own = flags & ~KEY_BITS[DispatchKey.BackendSelect]
    key = highest_key(own)
    if key is DispatchKey.Undefined:
        key, own = DispatchKey.CPU, KEY_BITS[DispatchKey.CPU]
    kernel = operator.entry.entry(key).kernel
    if kernel is None:
        return operator.below(own)  # type: ignore[no-any-return]  # raises, and says why
    return kernel.link(operator, own)  # type: ignore[no-any-return]


def _meta_kernel(rule: str | Function, cpu: Function) -> Kernel:
    def link(operator: Any, flags: int) -> Function:  # noqa: ARG001 - any flags
        return meta_kernel(rule, cpu, operator.schema)

    function = RULES[rule] if isinstance(rule, str) else rule
    return Kernel(function, DispatchKey.Meta, linker=link)


def _has_changed(tensor: Tensor) -> bool:
    """Whether the base of a view has become something to look after."""
    view = tensor._meta
    if type(view) is not View:
        return False
    flags = view.base._flags
    if flags & REQUIRES_GRAD or not flags & DUAL:
        return bool(flags & REQUIRES_GRAD)
    whole: Any = view.base._meta
    if whole.lazy_array is not None and view.lazy_array is not None:
        return view.lazy_level is not whole.lazy_level
    own, theirs = tangent_levels(view), tangent_levels(whole)
    if own is None or theirs is None:
        return True
    for level in theirs:  # noqa: SIM110 - one, as a rule, for which a loop is quickest
        if level not in own:
            return True
    return False


def refreshing(operator: Any) -> Function:
    """Looks after views whose base may have been written to, then calls what fits them now."""
    entry: OperatorEntry = operator.entry

    def call(*args: Any, **kwargs: Any) -> Any:
        flags = 0
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, Tensor):
                own = value._flags
                flags |= own
                if own & PLAIN_VIEW and _has_changed(value):
                    flags |= _looked_after(value)
            elif type(value) is list:
                for tensor in value:
                    if isinstance(tensor, Tensor):
                        flags |= tensor._flags
                        if tensor._flags & PLAIN_VIEW and _has_changed(tensor):
                            flags |= _looked_after(tensor)
        flags &= ~PLAIN_VIEW
        try:
            kernel = entry.calls[get_state()][flags]
        except KeyError:
            kernel = entry.link_call(flags)
        return kernel(*args, **kwargs)

    return call


def _looked_after(tensor: Tensor) -> int:
    """Brings a view up to date with its base; the flags that it then has."""
    wanted = requires_grad(tensor)  # brings the view's edge up to date, too
    follow_base(tensor)
    return tensor._flags | (REQUIRES_GRAD if wanted else 0)
