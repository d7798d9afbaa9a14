"""`Module`: an object with parameters, buffers and submodules that are found by their names.

Names and behaviour are those of ``torch.nn.Module``. Three dicts of a module hold what it has
registered: ``_parameters``, ``_buffers`` and ``_modules``; attribute access reads them. Hooks are
in ``hooks.py``, saving and loading in ``state.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from pullback.errors import ModuleInputError
from pullback.nn.hooks import ModuleHooks
from pullback.nn.parameter import Buffer, Parameter, is_persistent
from pullback.nn.state import IncompatibleKeys, ModuleState
from pullback.nn.traced import trace_call
from pullback.tensor import Tensor
from pullback.tensor.tensor import TRACES

__all__ = ["IncompatibleKeys", "Module"]

_REGISTRIES = ("_parameters", "_buffers", "_modules")


class Module(ModuleHooks, ModuleState):
    """Base class of all modules: a subclass creates its parts in ``__init__`` and has ``forward``.

    >>> import pullback as pb
    >>> class Scale(pb.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = pb.nn.Parameter(pb.tensor([2.0]))
    ...
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> scale = Scale()
    >>> scale(pb.tensor([3.0])).tolist(), [name for name, _ in scale.named_parameters()]
    ([6.0], ['factor'])
    """

    training: bool

    def __init__(self) -> None:
        for name in _REGISTRIES:
            object.__setattr__(self, name, {})
        object.__setattr__(self, "_transient_buffers", set())
        object.__setattr__(self, "training", True)
        self._init_hooks()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the module's output; every subclass defines it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs `forward`, and the hooks around it."""
        try:
            if TRACES:
                trace_call(self)
            if self._has_hooks:
                return self._call_with_hooks(args, kwargs)
            return self.forward(*args, **kwargs)
        except Exception as error:
            _locate(error, self)
            raise

    # --- registration ------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Tensor | None) -> None:
        """Adds a parameter, or the name of one that is None.

        >>> import pullback as pb
        >>> module = pb.nn.Module()
        >>> module.register_parameter("bias", None)
        >>> module.bias is None
        True
        """
        self._require_free_name("parameter", name, self._parameters_or_raise())
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' "
                "(pullback.nn.Parameter or None required)"
            )
        if param is not None and not param.is_leaf:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly."
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a buffer: a tensor of the state that is no parameter.

        Args:
            name: the attribute.
            tensor: the buffer, or None.
            persistent: whether it is part of the ``state_dict``.

        >>> import pullback as pb
        >>> module = pb.nn.Module()
        >>> module.register_buffer("count", pb.zeros(1))
        >>> list(module.state_dict())
        ['count']
        """
        if "_buffers" not in vars(self):
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._require_free_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' "
                "(pullback.Tensor or None required)"
            )
        self._buffers[name] = tensor
        (self._transient_buffers.discard if persistent else self._transient_buffers.add)(name)

    def register_module(self, name: str, module: Module | None) -> None:
        """Adds a submodule, as an assignment to an attribute does."""
        self.add_module(name, module)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a submodule, as an assignment to an attribute does.

        >>> import pullback as pb
        >>> module = pb.nn.Module()
        >>> module.add_module("linear", pb.nn.Linear(2, 3))
        >>> module.linear
        Linear(in_features=2, out_features=3, bias=True)
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._require_free_name("module", name, self._modules)
        self._modules[name] = module

    def _parameters_or_raise(self) -> dict[str, Any]:
        if "_parameters" not in vars(self):
            raise AttributeError("cannot assign parameters before Module.__init__() call")
        return self._parameters  # type: ignore[no-any-return]

    def _require_free_name(self, kind: str, name: Any, registry: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."')
        if not name:
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in registry and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def __getattr__(self, name: str) -> Any:
        held = vars(self)
        for registry in _REGISTRIES:
            if registry in held and name in held[registry]:
                return held[registry][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._parameters_or_raise()
            self._forget(name, "_parameters")
            self.register_parameter(name, value)  # type: ignore[arg-type]
        elif isinstance(value, Module):
            if "_modules" not in vars(self):
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_modules")
            self._modules[name] = value
        elif isinstance(value, Buffer):
            self._forget(name, "_buffers")
            buffer: Any = value
            self.register_buffer(name, buffer, persistent=is_persistent(buffer))
        else:
            self._set_other(name, value)

    def _set_other(self, name: str, value: Any) -> None:
        """Sets an attribute to what is no part of a module; registered names accept None."""
        held = vars(self)
        if name in held.get("_parameters", ()):
            self._require_none_or_tensor(name, value, "parameter", "pullback.nn.Parameter")
            self._parameters[name] = value
        elif name in held.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as child module '{name}' "
                    "(pullback.nn.Module or None expected)"
                )
            self._modules[name] = value
        elif name in held.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                self._require_none_or_tensor(name, value, "buffer", "pullback.Tensor")
            self._buffers[name] = value
        else:
            object.__setattr__(self, name, value)

    @staticmethod
    def _require_none_or_tensor(name: str, value: Any, kind: str, expected: str) -> None:
        if value is not None:
            raise TypeError(
                f"cannot assign '{type(value).__name__}' as {kind} '{name}' "
                f"({expected} or None expected)"
            )

    def _forget(self, name: str, kept: str) -> None:
        """Removes a name from everything but one registry."""
        held = vars(self)
        held.pop(name, None)
        for registry in _REGISTRIES:
            if registry != kept:
                held[registry].pop(name, None)
        self._transient_buffers.discard(name)

    def __delattr__(self, name: str) -> None:
        for registry in _REGISTRIES:
            if name in vars(self)[registry]:
                del vars(self)[registry][name]
                self._transient_buffers.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        held = vars(self)
        return sorted({*super().__dir__(), *(n for r in _REGISTRIES for n in held.get(r, ()))})

    # --- iteration ---------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """All modules with their paths, this one first, each once.

        >>> import pullback as pb
        >>> net = pb.nn.Sequential(pb.nn.ReLU())
        >>> [name for name, _ in net.named_modules()]
        ['', '0']
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """All modules, this one first, each once."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that are attributes of this one, with their names, each once."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules that are attributes of this one, each once."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self, registry: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Tensor]]:
        seen: set[int] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules if recurse else [(prefix, self)]:
            for name, tensor in getattr(module, registry).items():
                if tensor is None or id(tensor) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(tensor))
                yield f"{path}.{name}" if path else name, tensor

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All parameters with their paths, each once.

        >>> import pullback as pb
        >>> [name for name, _ in pb.nn.Sequential(pb.nn.Linear(1, 1)).named_parameters()]
        ['0.weight', '0.bias']
        """
        yield from self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Tensor]:
        """All parameters, each once; what an optimizer takes."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their paths, each once."""
        yield from self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # --- access by path ----------------------------------------------------------------------

    def get_submodule(self, target: str) -> Module:
        """The module at a path such as ``"encoder.layers.2"``.

        >>> import pullback as pb
        >>> pb.nn.Sequential(pb.nn.ReLU()).get_submodule("0")
        ReLU()
        """
        found: Any = self
        for step in target.split(".") if target else []:
            if not hasattr(found, step):
                raise AttributeError(f"{type(found).__name__} has no attribute `{step}`")
            found = getattr(found, step)
            if not isinstance(found, Module):
                raise AttributeError(f"`{step}` is not an nn.Module")
        return found  # type: ignore[no-any-return]

    def _get_member(self, target: str, registry: str, kind: str) -> Tensor:
        path, _, name = target.rpartition(".")
        found = getattr(self.get_submodule(path), registry).get(name)
        if found is None:
            raise AttributeError(f"`{name}` is not {kind} of `{path or type(self).__name__}`")
        return found  # type: ignore[no-any-return]

    def get_parameter(self, target: str) -> Tensor:
        """The parameter at a path."""
        return self._get_member(target, "_parameters", "a parameter")

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path."""
        return self._get_member(target, "_buffers", "a buffer")

    # --- modes and conversions ---------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Sets training mode, in which Dropout and BatchNorm behave differently.

        >>> import pullback as pb
        >>> pb.nn.Dropout(0.5).train(False).training
        False
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Sets evaluation mode: the opposite of `train`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Sets whether gradients are computed for the parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes the gradients of all parameters, or sets them to zero."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad = parameter.grad.detach().zero_()

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Calls a function on every module, submodules first.

        >>> import pullback as pb
        >>> seen = []
        >>> _ = pb.nn.Sequential(pb.nn.ReLU()).apply(lambda m: seen.append(type(m).__name__))
        >>> seen
        ['ReLU', 'Sequential']
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Converts floating-point parameters and buffers: ``module.to(np.float32)``.

        Parameters keep their identity, so that optimizers go on with them.

        >>> import numpy as np, pullback as pb
        >>> pb.nn.Linear(1, 1).to(np.float32).weight.dtype
        dtype('float32')
        """
        for module in self.modules():
            for parameter in module._parameters.values():
                if parameter is not None:
                    _convert(parameter, args, kwargs)
            for buffer in module._buffers.values():
                if buffer is not None:
                    _convert(buffer, args, kwargs)
        return self

    def share_memory(self) -> Self:
        """Moves parameters and buffers into memory that processes share.

        >>> import pullback as pb
        >>> pb.nn.Linear(1, 1).share_memory().weight.is_shared()
        True
        """
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
        return self

    def float(self) -> Self:
        """Converts floating-point parameters and buffers to float32."""
        return self.to(np.float32)

    def double(self) -> Self:
        """Converts floating-point parameters and buffers to float64."""
        return self.to(np.float64)

    def half(self) -> Self:
        """Converts floating-point parameters and buffers to float16."""
        return self.to(np.float16)

    # --- text --------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """The text in the parentheses of the module's text; for subclasses."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_indent(repr(m))}" for name, m in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({extra})"
        if not lines and not children:
            return f"{self._get_name()}()"
        inside = "\n  ".join([*lines, *children])
        return f"{self._get_name()}(\n  {inside}\n)"


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")


def _convert(tensor: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Converts a tensor in place, and its gradient; integers keep their dtype."""
    if tensor.dtype.kind in "fc":
        tensor.data = tensor.detach().to(*args, **kwargs)
        if tensor.grad is not None:
            tensor.grad = tensor.grad.detach().to(*args, **kwargs)


def _locate(error: Exception, module: Module) -> None:
    """Adds the path of the module in which an error was raised to the error.

    Each module that the error passes runs this, so that the path begins at the outermost one.
    """
    held = vars(error)
    inner = held.setdefault("_pullback_module", module)
    path = next((name for name, found in module.named_modules() if found is inner), None)
    if not path:
        return
    if isinstance(error, ModuleInputError):
        error.set_path(path)
        return
    notes = [note for note in getattr(error, "__notes__", []) if not note.startswith("in module ")]
    error.__notes__ = [*notes, f"in module {path} ({type(inner).__name__})"]
