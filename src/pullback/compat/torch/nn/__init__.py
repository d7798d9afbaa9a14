"""``torch.nn``: the modules of ``pullback.nn``, with parameters in the default dtype.

Each class of ``pullback.nn`` has a subclass here that makes its parameters instances of
``pullback.compat.torch.Tensor``; ``isinstance`` counts the modules of ``pullback.nn`` as well,
which some modules make inside.
"""

from __future__ import annotations

import inspect as _inspect
from typing import Any as _Any

from pullback import nn as _nn
from pullback.compat.torch.dtypes import device as _device
from pullback.compat.torch.dtypes import get_default_dtype as _get_default_dtype
from pullback.compat.torch.nn import functional, init, utils
from pullback.compat.torch.tensor import convert as _convert

__all__ = ["Buffer", "Module", "Parameter", "functional", "init", "utils"]


class Module(_nn.Module):
    """The base class of modules.

    >>> import pullback.compat.torch as torch
    >>> torch.nn.Linear(2, 3).weight.dtype
    dtype('float32')
    """

    def to(self, *args: _Any, **kwargs: _Any) -> _Any:
        """Converts parameters and buffers; a device must be the CPU."""
        return super().to(*_checked(args, kwargs), **kwargs)

    def cpu(self) -> _Any:
        """The module itself."""
        return self

    def cuda(self, *_: _Any) -> _Any:
        """Always raises: there is no CUDA device."""
        return _device("cuda")

    def type(self, dst_type: _Any) -> _Any:
        """Converts parameters and buffers to a dtype."""
        return super().to(getattr(dst_type, "tensor_dtype", dst_type))


class _InstancesOfBoth(type):
    """Counts the modules of ``pullback.nn`` as instances, see the module's docstring."""

    def __instancecheck__(cls, value: _Any) -> bool:
        plain = cls.__dict__.get("_plain")
        return isinstance(value, plain) if plain is not None else type.__instancecheck__(cls, value)


def _checked(args: tuple[_Any, ...], kwargs: dict[str, _Any]) -> list[_Any]:
    """Arguments of ``to`` without what has no meaning here."""
    kwargs.pop("non_blocking", None)
    if kwargs.get("device") is not None:
        kwargs["device"] = _device(kwargs["device"])
    return [_device(a) if isinstance(a, str) else a for a in args if not isinstance(a, bool)]


def _adapt(plain: _Any) -> type:
    """The subclass of a module of ``pullback.nn``."""
    signature = _inspect.signature(plain.__init__)
    takes_dtype = "dtype" in signature.parameters

    def __init__(self: _Any, *args: _Any, **kwargs: _Any) -> None:  # noqa: N807 - Python's name
        if kwargs.get("device") is not None:
            _device(kwargs["device"])
        plain.__init__(self, *args, **kwargs)
        if takes_dtype:
            given = signature.bind_partial(self, *args, **kwargs).arguments.get("dtype")
            if given is None:
                _nn.Module.to(self, _get_default_dtype())
        for tensor in (*self.parameters(), *self.buffers()):
            _convert(tensor)

    members = {
        "__init__": __init__,
        "__doc__": plain.__doc__,
        "__module__": __name__,
        "_plain": plain,
    }
    return _InstancesOfBoth(plain.__name__, (plain, Module), members)


class Parameter(_nn.Parameter):
    """A tensor that is a parameter of the module that it is assigned to.

    >>> import pullback.compat.torch as torch
    >>> isinstance(torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter)
    True
    """

    def __new__(cls, data: _Any = (), requires_grad: bool = True) -> _Any:
        """Marks a tensor as a parameter."""
        return _convert(_nn.Parameter(data, requires_grad))


class Buffer(_nn.Buffer):
    """A tensor of a module's state that is no parameter."""

    def __new__(cls, data: _Any = (), *, persistent: bool = True) -> _Any:
        """Marks a tensor as a buffer."""
        return _convert(_nn.Buffer(data, persistent=persistent))


def _causal_mask(sz: int, device: _Any = None, dtype: _Any = None) -> _Any:
    """The additive mask in which each place sees itself and the places before it."""
    dtype = _get_default_dtype() if dtype is None else dtype
    return _convert(_nn.Transformer.generate_square_subsequent_mask(sz, device, dtype))


for _name in _nn.__all__:
    _found = getattr(_nn, _name)
    if _name in __all__:
        continue
    if isinstance(_found, type) and issubclass(_found, _nn.Module):
        _found = _adapt(_found)
        if _name == "Transformer":
            setattr(_found, "generate_square_subsequent_mask", staticmethod(_causal_mask))  # noqa: B010
    globals()[_name] = _found
    __all__ += [_name]


def __getattr__(name: str) -> _Any:
    raise AttributeError(
        f"torch.nn.{name} is not part of pullback.compat.torch: pullback.nn has no such module"
    )
