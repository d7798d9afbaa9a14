"""Containers: modules that hold modules or parameters in a sequence or by name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from pullback.nn.module import Module
from pullback.nn.parameter import Parameter
from pullback.tensor import Tensor

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _place(container: Any, index: int) -> int:
    count = len(container)
    if not -count <= index < count:
        raise IndexError(f"index {index} is out of range")
    return index % count


class Sequential(Module):
    """Modules that are called one after the other.

    Args:
        *args: the modules, or one ordered dict of named modules.

    >>> import pullback as pb
    >>> net = pb.nn.Sequential(pb.nn.Linear(2, 3), pb.nn.ReLU())
    >>> net(pb.ones((5, 2))).shape, net[1]
    ((5, 3), ReLU())
    """

    def __init__(self, *args: Any):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict | dict):
            named: Iterable[tuple[str, Any]] = args[0].items()
        else:
            named = ((str(i), module) for i, module in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        """Passes an input through all modules."""
        for module in self._modules.values():
            input = module(input)
        return input

    def _items(self) -> list[tuple[str, Any]]:
        return list(self._modules.items())

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(self._items()[index]))
        return self._items()[_place(self, index)][1]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._items()[_place(self, index)][0], module)

    def __delitem__(self, index: int | slice) -> None:
        doomed = self._items()[index] if isinstance(index, slice) else [self._items()[index]]
        kept = [(name, m) for name, m in self._items() if (name, m) not in doomed]
        self._modules.clear()
        for place, (_, module) in enumerate(kept):
            self._modules[str(place)] = module

    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Adds modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Adds a module before a place."""
        modules = list(self)
        modules.insert(index, module)
        self._modules.clear()
        return self.extend(modules)


class ModuleList(Sequential):
    """A list of modules, which is not called itself.

    Args:
        modules: the modules.

    >>> import pullback as pb
    >>> layers = pb.nn.ModuleList([pb.nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None):
        super().__init__(*(modules or ()))

    def forward(self, *_args: Any) -> Any:
        """A list is not called; its modules are."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return super().__getitem__(index)

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)


class ModuleDict(Module):
    """Modules by name.

    Args:
        modules: a mapping, or pairs of names and modules.

    >>> import pullback as pb
    >>> choices = pb.nn.ModuleDict({"relu": pb.nn.ReLU(), "tanh": pb.nn.Tanh()})
    >>> choices["tanh"], "relu" in choices
    (Tanh(), True)
    """

    def __init__(self, modules: Any = None):
        super().__init__()
        self.update(modules or {})

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def items(self) -> Any:
        """Pairs of names and modules."""
        return self._modules.items()

    def pop(self, key: str) -> Any:
        """Removes a module, and returns it."""
        return self._modules.pop(key)

    def clear(self) -> None:
        """Removes all modules."""
        self._modules.clear()

    def update(self, modules: Any) -> None:
        """Adds modules from a mapping or from pairs."""
        for name, module in modules.items() if isinstance(modules, Mapping) else modules:
            self[name] = module


def _as_parameter(value: Any) -> Any:
    is_plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
    return Parameter(value) if is_plain else value


class ParameterList(Module):
    """A list of parameters; tensors become parameters.

    Args:
        values: tensors.

    >>> import pullback as pb
    >>> weights = pb.nn.ParameterList([pb.ones(2), pb.ones(3)])
    >>> [tuple(w.shape) for w in weights]
    [(2,), (3,)]
    """

    def __init__(self, values: Iterable[Any] | None = None):
        super().__init__()
        self._size = 0
        self.extend(values or ())

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self._size))

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(self._size)[index]])
        return getattr(self, str(_place(self, index)))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(_place(self, index)), _as_parameter(value))

    def append(self, value: Any) -> Self:
        """Adds a parameter at the end."""
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Adds parameters at the end."""
        for value in values:
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def extra_repr(self) -> str:
        """One line for each parameter."""
        return "\n".join(_line(str(i), p) for i, p in enumerate(self))


class ParameterDict(Module):
    """Parameters by name; tensors become parameters.

    Args:
        parameters: a mapping, or pairs of names and tensors.

    >>> import pullback as pb
    >>> weights = pb.nn.ParameterDict({"left": pb.ones(2)})
    >>> weights["left"].requires_grad
    True
    """

    def __init__(self, parameters: Any = None):
        super().__init__()
        self.update(parameters or {})

    def __getitem__(self, key: str) -> Any:
        return self._parameters[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._parameters[key] = _as_parameter(value)

    def __delitem__(self, key: str) -> None:
        del self._parameters[key]

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __contains__(self, key: str) -> bool:
        return key in self._parameters

    def keys(self) -> Any:
        """The names."""
        return self._parameters.keys()

    def values(self) -> Any:
        """The parameters."""
        return self._parameters.values()

    def items(self) -> Any:
        """Pairs of names and parameters."""
        return self._parameters.items()

    def update(self, parameters: Any) -> None:
        """Adds parameters from a mapping or from pairs."""
        pairs = parameters.items() if isinstance(parameters, Mapping) else parameters
        for name, value in pairs:
            self[name] = value

    def extra_repr(self) -> str:
        """One line for each parameter."""
        return "\n".join(_line(name, p) for name, p in self.items())


def _line(name: str, parameter: Any) -> str:
    return f"({name}): Parameter containing: [{parameter.dtype} of size {parameter.shape}]"
