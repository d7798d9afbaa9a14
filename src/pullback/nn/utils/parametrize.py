"""Parametrizations: parameters that are computed from others whenever they are read.

A parametrized module gets a class of its own, a subclass of the one that it had, in which the
parameter is a property. The values that it is computed from are parameters of
``module.parametrizations.<name>``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pullback.autograd import no_grad
from pullback.nn.containers import ModuleDict, ModuleList
from pullback.nn.module import Module
from pullback.nn.parameter import Buffer, Parameter
from pullback.tensor import Tensor

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "type_before_parametrizations",
]

# By module, and not by its id: a module that is deleted in the block may leave its id to another.
_cache: dict[tuple[Module, str], Tensor] = {}
_cached_blocks = 0


@contextmanager
def cached() -> Iterator[None]:
    """A block in which each parametrized parameter is computed once.

    >>> import pullback as pb
    >>> layer = pb.nn.utils.parametrizations.weight_norm(pb.nn.Linear(2, 3))
    >>> with pb.nn.utils.parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    global _cached_blocks
    _cached_blocks += 1
    try:
        yield
    finally:
        _cached_blocks -= 1
        if not _cached_blocks:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of one parameter, applied one after the other.

    ``original``, or ``original0``, ``original1`` and so on where the last parametrization has
    several inputs, are the parameters that take the place of the parametrized one.
    """

    def __init__(self, modules: list[Module], original: Tensor, unsafe: bool = False):
        super().__init__(modules)
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        self.unsafe = unsafe
        new: Any = original
        with no_grad():
            for module in reversed(modules):
                if hasattr(module, "right_inverse"):
                    new = module.right_inverse(new)
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        kind = Parameter if isinstance(original, Parameter) else Buffer
        for name, values in zip(self._names(), [new] if self.is_tensor else new, strict=True):
            if not isinstance(values, Tensor):
                raise ValueError(
                    f"right_inverse must return a Tensor or a sequence of tensors, got "
                    f"{type(values).__name__}"
                )
            if kind is Parameter:
                setattr(self, name, Parameter(values.detach(), original.requires_grad))
            else:
                self.register_buffer(name, values.detach())
        if not unsafe:
            with no_grad():
                made = self()
            if made.shape != original.shape or made.dtype != original.dtype:
                raise ValueError(
                    f"a parametrization may not change the tensor's shape or dtype unless "
                    f"unsafe=True: it has {original.shape} and {original.dtype}, the result "
                    f"{made.shape} and {made.dtype}"
                )

    def _names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Sets the originals so that the parameter has given values."""
        with no_grad():
            new: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement "
                        "right_inverse, which assignment needs"
                    )
                new = module.right_inverse(new)
            for name, values in zip(self._names(), [new] if self.is_tensor else new, strict=True):
                getattr(self, name).copy_(values)

    def forward(self) -> Tensor:  # type: ignore[override]
        """The parameter."""
        first, *others = self
        result = first(*(getattr(self, name) for name in self._names()))
        for module in others:
            result = module(result)
        return result  # type: ignore[no-any-return]


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module, or one of its parameters, is parametrized.

    >>> import pullback as pb
    >>> pb.nn.utils.parametrize.is_parametrized(pb.nn.Linear(2, 3))
    False
    """
    found = vars(module)["_modules"].get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def type_before_parametrizations(module: Module) -> type:
    """The class that a module had before it was parametrized.

    >>> import pullback as pb
    >>> layer = pb.nn.utils.parametrizations.weight_norm(pb.nn.Linear(2, 3))
    >>> type_before_parametrizations(layer).__name__
    'Linear'
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def _property(name: str) -> property:
    def read(self: Any) -> Tensor:
        parametrization = self.parametrizations[name]
        if not _cached_blocks:
            return parametrization()  # type: ignore[no-any-return]
        key = (self, name)
        if key not in _cache:
            _cache[key] = parametrization()
        return _cache[key]

    def write(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)
        _cache.pop((self, name), None)

    return property(read, write)


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    """A copy with a class of its own, so that removal from one leaves the other."""
    made: Any = object.__new__(_new_class(type(self).__bases__[0], list(self.parametrizations)))
    memo[id(self)] = made
    vars(made).update(copy.deepcopy(vars(self), memo))
    return made


def _reduce(self: Any) -> Any:
    base = type(self).__bases__[0]
    return _rebuild, (base, list(self.parametrizations)), vars(self)


def _rebuild(base: type, names: list[str]) -> Any:
    return object.__new__(_new_class(base, names))


def _new_class(base: type, names: list[str]) -> type:
    members: dict[str, Any] = {name: _property(name) for name in names}
    members |= {"__deepcopy__": _deepcopy, "__reduce__": _reduce}
    return type(f"Parametrized{base.__name__}", (base,), members)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Computes a parameter or buffer from others by a module, whenever it is read.

    Args:
        module: the module with the parameter.
        tensor_name: its name.
        parametrization: a module; where it has ``right_inverse``, that gives the initial values of
            what it takes, and makes assignment to the parameter possible.
        unsafe: whether it may change shape and dtype.

    >>> import pullback as pb
    >>> class Symmetric(pb.nn.Module):
    ...     def forward(self, x):
    ...         return (x + x.mT) / 2
    >>> layer = pb.nn.Linear(3, 3)
    >>> _ = pb.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.mT).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _append(module.parametrizations[tensor_name], parametrization, unsafe)
        return module
    held = vars(module)
    if tensor_name not in held["_parameters"] and tensor_name not in held["_buffers"]:
        raise ValueError(
            f"Module '{type(module).__name__}' does not have a parameter, a buffer, or a "
            f"parametrized element with name '{tensor_name}'"
        )
    original = getattr(module, tensor_name)
    made = ParametrizationList([parametrization], original, unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.__class__ = _new_class(type(module), [])
        module.parametrizations = ModuleDict()
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = made
    return module


def _append(chain: ParametrizationList, parametrization: Module, unsafe: bool) -> None:
    with no_grad():
        before = chain()
        after = parametrization(before)
        if not (unsafe or chain.unsafe) and (before.shape, before.dtype) != (
            after.shape,
            after.dtype,
        ):
            raise ValueError(
                "a parametrization may not change the tensor's shape or dtype unless unsafe=True: "
                f"it has {before.shape} and {before.dtype}, the result {after.shape} and "
                f"{after.dtype}"
            )
        if hasattr(parametrization, "right_inverse"):
            chain.right_inverse(parametrization.right_inverse(before))
    chain.append(parametrization)


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Makes a parametrized parameter an ordinary one again.

    Args:
        module: the module.
        tensor_name: the parameter's name.
        leave_parametrized: keeps its present values; False keeps those of ``original``.

    >>> import pullback as pb
    >>> layer = pb.nn.utils.parametrizations.weight_norm(pb.nn.Linear(2, 3))
    >>> _ = pb.nn.utils.parametrize.remove_parametrizations(layer, "weight")
    >>> sorted(layer.state_dict())
    ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(
            f"Module {type(module).__name__} does not have a parametrization on {tensor_name}"
        )
    chain = module.parametrizations[tensor_name]
    if not leave_parametrized and not chain.is_tensor:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    original: Any = getattr(chain, "original" if chain.is_tensor else "original0")
    requires_grad = original.requires_grad
    with no_grad():
        values = chain().detach().clone() if leave_parametrized else original.detach()
    del module.parametrizations[tensor_name]
    delattr(type(module), tensor_name)
    if not len(module.parametrizations):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    if isinstance(original, Parameter):
        module.register_parameter(tensor_name, Parameter(values, requires_grad))
    else:
        module.register_buffer(tensor_name, values)
    return module
