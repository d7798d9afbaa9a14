"""Objects with parameters as functions: ``functional_call``, ``stack_module_state``.

A module is any object that can be called and that holds tensors in its attributes, or in those of
the objects, lists and dicts that it holds. A tensor's name is the path to it, as in
``"layers.0.weight"``. An object with ``named_parameters()`` and ``named_buffers()`` lists them
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pullback.autograd.namespaces import tensors
from pullback.errors import AutogradError, AutogradValueError
from pullback.func.arguments import require_function
from pullback.interrupts import run_to_end
from pullback.tensor.tensor import Tensor

__all__ = ["functional_call", "stack_module_state"]


def functional_call(
    module: Callable[..., Any],
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with some of its tensors replaced for the time of the call.

    Args:
        module: an object that can be called.
        parameter_and_buffer_dicts: tensors by name, or several dicts of them.
        args: the arguments of the call; a single one needs no tuple.
        kwargs: the keyword arguments of the call.
        tie_weights: replace a tensor under every name that it has.
        strict: refuse names that the module does not have, or that are missing.

    >>> import pullback as pb
    >>> class Scale:
    ...     def __init__(self):
    ...         self.factor = pb.tensor(2.0)
    ...     def __call__(self, x):
    ...         return self.factor * x
    >>> functional_call(Scale(), {"factor": pb.tensor(5.0)}, (pb.tensor(3.0),))
    tensor(15.)
    """
    require_function("functional_call: module", module)
    held = dict(_named_tensors(module))
    replaced = _replacements(module, held, _merged(parameter_and_buffer_dicts), tie_weights, strict)
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    begun: list[str] = []
    try:
        for name, tensor in replaced.items():
            begun.append(name)  # first: an interrupt could come between the two
            try:
                _put(module, name, tensor)
            except Exception:
                begun.pop()
                raise
        return module(*positional, **(kwargs or {}))
    finally:
        run_to_end(_put_back, module, held, begun)


def _put_back(module: Any, held: dict[str, Tensor], names: list[str]) -> None:
    for name in names:
        _put(module, name, held[name])


def _replacements(
    module: Any, held: dict[str, Tensor], given: dict[str, Tensor], tie_weights: bool, strict: bool
) -> dict[str, Tensor]:
    """The replacement of each tensor."""
    replaced = {name: tensor for name, tensor in given.items() if name in held}
    if tie_weights:
        by_identity = {id(held[name]): tensor for name, tensor in replaced.items()}
        for name, tensor in held.items():
            if name not in replaced and id(tensor) in by_identity:
                replaced[name] = by_identity[id(tensor)]
    unexpected = [repr(name) for name in given if name not in held]
    missing = [repr(name) for name in held if name not in replaced]
    if strict and (unexpected or missing):
        problems = [f"Unexpected key(s): {', '.join(unexpected)}."] if unexpected else []
        problems += [f"Missing key(s): {', '.join(missing)}."] if missing else []
        raise AutogradError(
            f"functional_call: error in the tensors given for {type(module).__name__}: "
            f"{' '.join(problems)}"
        )
    return replaced


def _merged(dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    several = isinstance(dicts, Sequence) and not isinstance(dicts, str)
    parts: Sequence[Any] = dicts if several else [dicts]  # type: ignore[assignment]
    merged: dict[str, Tensor] = {}
    for part in parts:
        if not isinstance(part, Mapping):
            raise AutogradValueError(
                f"functional_call: Expected parameter_and_buffer_dicts to be a dict, or a sequence "
                f"of dicts, but got a {type(part).__name__}"
            )
        for name in part.keys() & merged.keys():
            raise AutogradValueError(
                f"functional_call: {name!r} appears in several dicts, and it is not clear which "
                f"tensor is meant"
            )
        for name, tensor in part.items():
            if not isinstance(tensor, Tensor):
                raise AutogradValueError(
                    f"functional_call: {name!r} is to be replaced by a {type(tensor).__name__}, "
                    f"and a tensor is expected"
                )
        merged.update(part)
    return merged


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The tensors of several modules of one kind, stacked: parameters, and buffers.

    Parameters are the tensors that require grad, or what ``named_parameters()`` gives. They come as
    new leaves with one more axis in front, ready for ``vmap`` over ``functional_call``.

    >>> import pullback as pb
    >>> class Scale:
    ...     def __init__(self, factor):
    ...         self.factor = pb.tensor(factor, requires_grad=True)
    >>> parameters, buffers = stack_module_state([Scale(2.0), Scale(3.0)])
    >>> parameters["factor"], buffers
    (tensor([2., 3.], requires_grad=True), {})
    """
    if not models:
        raise AutogradError("stack_module_state: Expected at least one model, got 0.")
    kinds = {type(model) for model in models}
    if len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise AutogradError(
            f"stack_module_state: Expected all models to be of the same class, got {names}."
        )
    first = list(_named_tensors(models[0]))
    parameter_names = _parameter_names(models[0], first)
    held = [dict(_named_tensors(model)) for model in models]
    stacked: tuple[dict[str, Tensor], dict[str, Tensor]] = ({}, {})
    for name, _ in first:
        for model in held:
            if name not in model:
                raise AutogradError(f"stack_module_state: a model has no tensor {name!r}")
        parts = [model[name].detach() for model in held]
        whole = tensors.stack(parts)
        whole.requires_grad = name in parameter_names and any(m[name].requires_grad for m in held)
        stacked[name not in parameter_names][name] = whole
    return stacked


def _parameter_names(module: Any, held: Iterable[tuple[str, Tensor]]) -> set[str]:
    if hasattr(module, "named_parameters"):
        return {name for name, _ in module.named_parameters()}
    return {name for name, tensor in held if tensor.requires_grad}


def _named_tensors(module: Any) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a module with its name; one that has several names comes several times."""
    if hasattr(module, "named_parameters"):
        yield from module.named_parameters()
        if hasattr(module, "named_buffers"):
            yield from module.named_buffers()
        return
    yield from _walk(module, "", set())


def _walk(holder: Any, prefix: str, above: set[int]) -> Iterator[tuple[str, Tensor]]:
    if id(holder) in above:  # an object that holds itself
        return
    for name, value in _members(holder):
        if isinstance(value, Tensor):
            yield prefix + name, value
        else:
            yield from _walk(value, f"{prefix}{name}.", above | {id(holder)})


def _members(holder: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(holder, dict):
        yield from ((str(key), value) for key, value in holder.items())
    elif isinstance(holder, list):
        yield from ((str(place), value) for place, value in enumerate(holder))
    elif not isinstance(holder, type) and hasattr(holder, "__dict__"):
        yield from vars(holder).items()


def _put(module: Any, name: str, tensor: Tensor) -> None:
    """Puts a tensor in its place in a module."""
    *path, last = name.split(".")
    holder = module
    for step in path:
        holder = _member(holder, step)
    if isinstance(holder, dict):
        holder[_key(holder, last)] = tensor
    elif isinstance(holder, list):
        holder[int(last)] = tensor
    elif last in (registered := _registry_of(holder, last)):
        registered[last] = tensor
    else:
        setattr(holder, last, tensor)


def _registry_of(holder: Any, name: str) -> dict[str, Any]:
    """The dict in which an ``nn.Module`` has registered a name; empty for other objects."""
    registries = (vars(holder).get(key, {}) for key in ("_parameters", "_buffers"))
    return next((registry for registry in registries if name in registry), {})


def _member(holder: Any, step: str) -> Any:
    if isinstance(holder, dict):
        return holder[_key(holder, step)]
    return holder[int(step)] if isinstance(holder, list) else getattr(holder, step)


def _key(holder: dict[Any, Any], step: str) -> Any:
    return next(key for key in holder if str(key) == step)
