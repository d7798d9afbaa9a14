"""Gradients by name: ``impl_save_for_backward`` and ``impl_backward``.

`save(inputs, output)` returns any nested structure of tensors and plain objects; `backward(ctx,
saved, *grads)` gets it back and returns a dict with a gradient for every tensor argument.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from pullback.errors import AutogradError
from pullback.library.rules import Rules
from pullback.tensor.tensor import Tensor
from pullback.utils import pytree

__all__ = ["SavedTree", "call_named", "saved_tree"]


class SavedTree:
    """Result of `save`: its tensors are saved with versions, the rest as it is."""

    __slots__ = ("_places", "_spec", "_values")

    def __init__(self, tree: Any):
        self._values, self._spec = pytree.flatten(tree, none_is_leaf=True)
        self._places = [i for i, value in enumerate(self._values) if isinstance(value, Tensor)]

    def keep(self, node: Any) -> None:
        """Saves the tensors with the node, which checks and releases them."""
        node._to_save = tuple(self._values[place] for place in self._places)
        node._keep_saved()
        node._to_save = None
        for place in self._places:
            self._values[place] = None

    def load(self, node: Any) -> Any:
        """The structure as it was saved."""
        values = list(self._values)
        for place, tensor in zip(self._places, node.saved_tensors, strict=True):
            values[place] = tensor
        return pytree.unflatten(self._spec, values)


class _Context:
    """The `ctx` of a backward by name: any attribute may be set on it."""


def saved_tree(rules: Rules, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    """Calls the first half with the arguments by name."""
    assert rules.save is not None
    return SavedTree(rules.save(_inputs_type(rules)(*args, **kwargs), result))


def _inputs_type(rules: Rules) -> Any:
    found = rules.inputs_type
    if found is None:
        names = [argument.name for argument in rules.schema.arguments.flat_all]
        base = rules.name.partition("::")[2].replace(".", "_")
        found = rules.inputs_type = namedtuple(f"{base}_args", names)
    return found


def call_named(rules: Rules, node: Any, saved: SavedTree, grads: list[Any]) -> list[Any]:
    """Calls the second half, and checks the dict that it returns."""
    if rules.named_backward is None:
        raise AutogradError(
            f"Trying to backward through {rules.name} but no autograd formula was registered any "
            f"more"
        )
    returned = rules.named_backward(_Context(), saved.load(node), *grads)
    where = (
        f"In the backward function defined for {rules.name} at {rules.places['named_backward']}: "
    )
    if not isinstance(returned, dict):
        raise AutogradError(
            f"{where}expected the output of the backward function to be a dict of gradients by "
            f"argument name, but got {type(returned).__name__}"
        )
    arguments = rules.schema.arguments.flat_positional
    expected = [a.name for a in arguments if a.type.is_tensor_like()]
    if set(returned) != set(expected):
        raise AutogradError(
            f"{where}expected the returned grad_input dict to have keys {sorted(expected)}, one "
            f"for each tensor argument, but got {sorted(map(str, returned))}. Say None where "
            f"there is no gradient."
        )
    flat: list[Any] = []
    for argument, given in zip(arguments, node._given, strict=True):
        if argument.type.is_tensor_like():
            _check(where, argument.name, given, returned[argument.name], flat, argument.type)
    return flat


def _check(where: str, name: str, given: Any, grad: Any, flat: list[Any], type_: Any) -> None:
    if type_.is_list_like() is not None:
        _check_list(where, name, given or (), grad, flat)
        return
    if grad is not None and not isinstance(grad, Tensor):
        raise AutogradError(
            f"{where}got object of type {type(grad)} as the gradient of {name!r}; expected None or "
            f"a Tensor"
        )
    if given:
        flat.append(grad)
    elif grad is not None:
        raise AutogradError(
            f"{where}expected None as the gradient because input {name!r} was not a Tensor, but "
            f"got a Tensor"
        )


def _check_list(
    where: str, name: str, given: tuple[bool, ...], grads: Any, flat: list[Any]
) -> None:
    if not isinstance(grads, list | tuple):
        raise AutogradError(
            f"{where}expected {name!r} to hold a list of gradients, one for each tensor of the "
            f"list, but got {type(grads).__name__}"
        )
    if len(grads) != len(given):
        raise AutogradError(
            f"{where}expected {name!r} to hold a list of {len(given)} gradients but got "
            f"{len(grads)}"
        )
    for index, (was_tensor, grad) in enumerate(zip(given, grads, strict=True)):
        if grad is not None and not isinstance(grad, Tensor):
            raise AutogradError(
                f"{where}expected {name!r} to hold a list of None or Tensor gradients, but got "
                f"object of type {type(grad)} at index {index}"
            )
        if was_tensor:
            flat.append(grad)
        elif grad is not None:
            raise AutogradError(
                f"{where}expected None because the {index}-th value was not a Tensor, but "
                f"{name!r} has a Tensor gradient at index {index}"
            )
