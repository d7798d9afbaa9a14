"""``scan`` and ``fori_loop``: loops with a carry and a known number of steps.

A loop runs step by step, and its derivatives are those of its steps: reverse and forward mode,
``vmap`` and second derivatives need no rule of their own. With ``checkpoint=`` the steps are those
of a checkpointed loop (``utils/checkpoint/loop.py``), which keeps few carries and computes the
others again.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any

from pullback._generated.public import stack
from pullback.errors import AutogradTypeError, AutogradValueError, TraceError
from pullback.fx.tracer import Tracer
from pullback.loops.carry import Carry, as_tensor, check_callable, kind_of, structure_error
from pullback.loops.traced import (
    in_mode,
    loop_tracer,
    promote_traced,
    trace_chunks,
    without_effects,
)
from pullback.operators.array_functions import unstack
from pullback.operators.creation.functions import arange, zeros
from pullback.tensor.tensor import Tensor
from pullback.utils import pytree
from pullback.utils.checkpoint.budget import slots_for
from pullback.utils.checkpoint.loop import run_checkpointed

__all__ = ["fori_loop", "scan"]

_Step = Callable[[Any, Any], Any]


def scan(
    step: _Step,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    *,
    reverse: bool = False,
    checkpoint: int | str | None = None,
) -> tuple[Any, Any]:
    """Runs ``carry, y = step(carry, x)`` for each `x` along the first axis of `xs`.

    As ``jax.lax.scan``. Returns the last carry and all `y`, stacked along a new first axis. `init`,
    `xs` and `y` are trees: tensors, arrays and numbers in containers, or None. It can be
    differentiated in reverse and forward mode, any number of times, and be used inside ``vmap``.

    Args:
        step: takes the carry and one slice of `xs`, returns the next carry and `y`. The carry
            has to keep its structure, shapes and dtypes.
        init: the first carry. A Python number in it takes the dtype of the first result.
        xs: arrays with the same first axis; None if there are none, and `length` is given.
        length: the number of steps; needed without `xs`.
        reverse: begin with the last slice; the order of `y` is that of `xs` all the same.
        checkpoint: a budget for the carries that are kept for ``backward()``, in bytes or as text
            such as ``"500MB"``: the others are computed again by the binomial schedule of
            ``pullback.utils.checkpoint.checkpoint_loop``. By default all steps are recorded.

    >>> import pullback as pb
    >>> total, sums = pb.scan(lambda c, x: (c + x, c + x), 0.0, pb.asarray([1.0, 2.0, 3.0]))
    >>> total, sums
    (tensor(6.), tensor([1., 3., 6.]))
    """
    check_callable("scan: step", step)
    tensors, spec, length = _leaves(xs, length)
    order = range(length - 1, -1, -1) if reverse else range(length)
    carry = Carry("scan", init)
    tracer = loop_tracer()
    if tracer is not None and length:
        return _trace(tracer, in_mode(step), carry, tensors, spec, (length, reverse, checkpoint))
    slices = [unstack(tensor) for tensor in tensors]

    def run(leaves: list[Tensor], place: int) -> tuple[list[Tensor], Any]:
        x = pytree.unflatten(spec, [parts[place] for parts in slices])
        return _split(carry, step(carry.tree(leaves), x))

    last, outputs, out_spec = _loop(run, carry, order, checkpoint)
    if out_spec is None:
        outputs, out_spec = _empty_outputs(carry, step, xs)
    elif reverse and checkpoint is None:
        outputs = [parts[::-1] for parts in outputs]
    stacked = [parts if isinstance(parts, Tensor) else stack(parts) for parts in outputs]
    if reverse and checkpoint is not None:
        stacked = [parts[::-1] for parts in stacked]
    return carry.tree(last), pytree.unflatten(out_spec, stacked)


def fori_loop(
    lower: int,
    upper: int,
    body: Callable[[int, Any], Any],
    init: Any,
    *,
    checkpoint: int | str | None = None,
) -> Any:
    """Runs ``carry = body(i, carry)`` for `i` from `lower` to `upper` without it; returns the last.

    As ``jax.lax.fori_loop``, with derivatives of all kinds. `i` is an integer, and the carry a tree
    that keeps its structure, shapes and dtypes. `checkpoint` is that of ``scan``.

    >>> import pullback as pb
    >>> pb.fori_loop(1, 6, lambda i, c: c * i, 1)
    tensor(120)
    """
    check_callable("fori_loop: body", body)
    bounds = []
    for name, bound in (("lower", lower), ("upper", upper)):
        try:
            bounds.append(index(bound))
        except TypeError:
            raise AutogradTypeError(
                f"fori_loop: {name} is of type {type(bound).__name__}; an integer is expected"
            ) from None
    carry = Carry("fori_loop", init)
    tracer = loop_tracer()
    if tracer is not None and bounds[0] < bounds[1]:
        return _trace_range(tracer, in_mode(body), carry, range(*bounds), checkpoint)

    def run(leaves: list[Tensor], place: int) -> tuple[list[Tensor], Any]:
        return carry.leaves(body(place, carry.tree(leaves))), None

    last, _, _ = _loop(run, carry, range(*bounds), checkpoint)
    return carry.tree(last)


def _leaves(xs: Any, length: int | None) -> tuple[list[Tensor], pytree.Spec, int]:
    """The leaves of `xs` as tensors, its structure, and the number of steps."""
    if length is not None:
        try:
            length = index(length)
        except TypeError:
            raise AutogradTypeError(
                f"scan: length is of type {type(length).__name__}; an integer is expected"
            ) from None
        if length < 0:
            raise AutogradValueError(f"scan: length is {length}; at least 0 is expected")
    leaves, spec = pytree.flatten(xs)
    tensors = []
    for leaf, path in zip(leaves, spec.paths(), strict=True):
        tensor = as_tensor(leaf, f"scan: xs{path}")
        if not tensor.ndim:
            raise AutogradValueError(f"scan: xs{path} has no axis; the first one is the loop's")
        given = tensor.shape[0]
        if length is not None and given != length:
            raise AutogradValueError(
                f"scan: xs{path} has {given} slices along its first axis, but {length} steps are "
                f"expected from length and the leaves before it"
            )
        length = given
        tensors.append(tensor)
    if length is None:
        raise AutogradValueError("scan: without xs, length has to be given")
    return tensors, spec, length


def _trace(
    tracer: Tracer,
    step: _Step,
    carry: Carry,
    tensors: list[Tensor],
    spec: pytree.Spec,
    form: tuple[int, bool, int | str | None],
) -> tuple[Any, Any]:
    """A scan in a traced program: one loop, whose step is traced once."""
    length, reverse, checkpoint = form
    outputs: _Outputs | None = None

    def call(leaves: list[Tensor], x: list[Tensor]) -> tuple[list[Tensor], Any]:
        return _split(carry, step(carry.tree(leaves), pytree.unflatten(spec, x)))

    def run(leaves: list[Tensor], x: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        nonlocal outputs
        after, y = call(leaves, x)
        carry.check(leaves, after)
        outputs = outputs or _Outputs(y)
        return after, outputs.leaves(y)

    if any(carry.is_number):
        promote_traced(tracer, carry, tensors, lambda leaves, x: call(leaves, x)[0])
    depth = _depth(carry, length, checkpoint)
    last, stacked = trace_chunks(run, carry.first, tensors, length, reverse, depth)
    assert outputs is not None
    return carry.tree(last), pytree.unflatten(outputs.spec, stacked)


def _depth(carry: Carry, length: int, checkpoint: int | str | None) -> int:
    """The number of loops inside each other that keep to a budget, of which there are at most 3."""
    if checkpoint is None:
        return 1
    state = sum(leaf.nbytes for leaf in carry.first)
    slots = slots_for(checkpoint, state, f"{carry.name}: checkpoint")
    return next((depth for depth in (1, 2) if depth * length ** (1 / depth) <= slots), 3)


def _trace_range(
    tracer: Tracer,
    body: Callable[..., Any],
    carry: Carry,
    order: range,
    checkpoint: int | str | None,
) -> Any:
    """A ``fori_loop`` in a traced program: `i` is a tensor, where results have the same dtypes."""
    kinds: list[str] = []

    def first(leaves: list[Tensor], _: Any) -> list[Tensor]:
        after = carry.leaves(body(order[0], carry.tree(leaves)))
        kinds[:] = map(kind_of, after)
        return after

    def run(leaves: list[Tensor], x: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        after = carry.leaves(body(x[0], carry.tree(leaves)))
        carry.check(leaves, after)
        if kinds != list(map(kind_of, after)):
            raise TraceError("fori_loop: i as a tensor gives other dtypes than as a number")
        return after, []

    numbers = [arange(order.start, order.stop)]
    promote_traced(tracer, carry, numbers, first)
    depth = _depth(carry, len(order), checkpoint)
    last, _ = trace_chunks(run, carry.first, numbers, len(order), False, depth)
    return carry.tree(last)


def _split(carry: Carry, returned: Any) -> tuple[list[Tensor], Any]:
    """Carry and `y` of what a step has returned."""
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise AutogradTypeError(
            f"scan: step has to return a carry and y as a tuple of two, not "
            f"{type(returned).__name__}"
            + (f" of {len(returned)}" if isinstance(returned, tuple) else "")
        )
    return carry.leaves(returned[0]), returned[1]


_Run = Callable[[list[Tensor], int], tuple[list[Tensor], Any]]


class _Outputs:
    """The structure of `y`, which each step has to keep."""

    def __init__(self, y: Any):
        self.spec = pytree.flatten(y)[1]
        self.kinds: list[str] = []

    def leaves(self, y: Any) -> list[Tensor]:
        """The leaves of `y` as tensors, checked."""
        found, spec = pytree.flatten(y)
        if spec != self.spec:
            raise structure_error("scan", "y", self.spec, spec)
        paths = self.spec.paths()
        made = [as_tensor(leaf, f"scan: y{path}") for leaf, path in zip(found, paths, strict=True)]
        kinds = [kind_of(leaf) for leaf in made]
        self.kinds = self.kinds or kinds
        if kinds != self.kinds:
            place = next(n for n, kind in enumerate(kinds) if kind != self.kinds[n])
            raise AutogradTypeError(
                f"scan: y{paths[place]} is {self.kinds[place]} in the first step and "
                f"{kinds[place]} in a later one; shape and dtype have to stay the same"
            )
        return made


def _loop(
    run: _Run, carry: Carry, order: range, checkpoint: int | str | None
) -> tuple[list[Tensor], list[Any], pytree.Spec | None]:
    """The last carry, all `y` by leaf in the order of the steps, and the structure of `y`."""
    outputs: _Outputs | None = None

    def step(leaves: list[Tensor], place: int) -> tuple[list[Tensor], list[Tensor]]:
        nonlocal outputs
        after, y = run(leaves, place)
        if outputs is None:
            if carry.promote(carry.promotions(after)):
                leaves = carry.first
                after, y = run(leaves, place)
            outputs = _Outputs(y)
        carry.check(leaves, after)
        return after, outputs.leaves(y)

    if not order:
        return carry.first, [], None
    if checkpoint is not None:
        last, found = _run_checkpointed(step, carry, order, checkpoint)
    else:
        last, steps = carry.first, []
        for place in order:
            last, y = step(last, place)
            steps.append(y)
        found = [list(parts) for parts in zip(*steps, strict=True)]
    assert outputs is not None
    return last, found, outputs.spec


def _run_checkpointed(
    step: Callable[..., Any], carry: Carry, order: range, budget: int | str
) -> tuple[list[Tensor], list[Any]]:
    def counted(state: Any) -> Any:
        count, leaves = state
        after, y = step(leaves, order[count])
        return (count + 1, after), y

    (_, last), outputs = run_checkpointed(counted, (0, carry.first), len(order), budget, carry.name)
    return last, outputs


def _empty_outputs(carry: Carry, step: _Step, xs: Any) -> tuple[list[Any], pytree.Spec]:
    """The `y` of a loop without steps, from the shapes of one step, whose writes are undone."""
    x = pytree.map(lambda leaf: zeros(leaf.shape[1:], leaf.dtype), pytree.map(_tensor, xs))

    def call() -> tuple[list[Tensor], Any]:
        return _split(carry, step(carry.tree([t.detach().clone() for t in carry.first]), x))

    def check() -> tuple[list[tuple[Any, Any]], pytree.Spec]:
        after, y = call()
        carry.check(carry.first, after)
        outputs = _Outputs(y)
        return [(leaf.shape, leaf.dtype) for leaf in outputs.leaves(y)], outputs.spec

    if any(carry.is_number):
        carry.promote(without_effects(lambda: carry.promotions(call()[0])))
    found, spec = without_effects(check)
    return [zeros((0, *shape), dtype) for shape, dtype in found], spec


def _tensor(leaf: Any) -> Tensor:
    return as_tensor(leaf, "scan: xs")
