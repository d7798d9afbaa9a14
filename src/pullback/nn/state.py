"""State of modules: ``state_dict`` and ``load_state_dict``."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pullback.autograd import no_grad
from pullback.autograd.graph.hooks import RemovableHandle
from pullback.nn.parameter import Parameter
from pullback.tensor import Tensor

__all__ = ["IncompatibleKeys", "ModuleState"]

_EXTRA = "_extra_state"


class IncompatibleKeys(NamedTuple):
    """Result of ``load_state_dict``: keys that were missing, and keys without a place."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not (self.missing_keys or self.unexpected_keys):
            return "<All keys matched successfully>"
        missing, unexpected = self
        return f"IncompatibleKeys(missing_keys={missing}, unexpected_keys={unexpected})"


class ModuleState:
    """Saving and loading of a `Module`."""

    named_modules: Callable[..., Iterator[tuple[str, Any]]]

    def _hooks(self, kind: str) -> dict[int, Any]:
        return vars(self).setdefault("_state_hooks", {}).setdefault(kind, {})  # type: ignore[no-any-return]

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, prefix, keep_vars)`` before ``state_dict``."""
        return RemovableHandle(self._hooks("save_pre"), hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, state_dict, prefix, local_metadata)`` after ``state_dict``."""
        return RemovableHandle(self._hooks("save_post"), hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls a hook before the module's tensors are loaded, with PyTorch's arguments:
        ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)``."""
        return RemovableHandle(self._hooks("load_pre"), hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, incompatible_keys)`` after loading."""
        return RemovableHandle(self._hooks("load_post"), hook)

    def get_extra_state(self) -> Any:
        """Further state; a subclass that defines it defines `set_extra_state`."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: define get_extra_state")

    def set_extra_state(self, state: Any) -> None:  # noqa: ARG002 - for subclasses
        """Takes over what `get_extra_state` returned."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: define set_extra_state")

    def state_dict(
        self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by path; the tensors share memory with the module.

        Args:
            destination: a dict to add them to.
            prefix: what all keys begin with.
            keep_vars: the parameters themselves, and not detached from the graph.

        >>> import pullback as pb
        >>> list(pb.nn.Linear(2, 1).state_dict())
        ['weight', 'bias']
        """
        found: dict[str, Any] = OrderedDict() if destination is None else destination
        for hook in list(self._hooks("save_pre").values()):
            hook(self, prefix, keep_vars)
        for name, tensor in _own_tensors(self):
            found[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not ModuleState.get_extra_state:
            found[prefix + _EXTRA] = self.get_extra_state()
        for name, module in vars(self)["_modules"].items():
            if module is not None:
                module.state_dict(destination=found, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in list(self._hooks("save_post").values()):
            hook(self, found, prefix, {})
        return found

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copies tensors into the parameters and buffers of the same paths.

        All keys and shapes are checked first: where one does not fit, nothing is changed.

        Args:
            state_dict: what `state_dict` returned.
            strict: raises if a key is missing or has no place.
            assign: takes the tensors themselves, with their dtypes, instead of copying.

        >>> import pullback as pb
        >>> net = pb.nn.Linear(2, 1)
        >>> net.load_state_dict({"weight": pb.ones((1, 2)), "bias": pb.zeros(1)})
        <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        loading = _Loading(dict(state_dict), strict)
        loading.collect(self, "")
        loading.finish(type(self).__name__)
        with no_grad():
            for module, name, new in loading.copies:
                _load_one(module, name, new, assign)
            for module, extra in loading.extras:
                module.set_extra_state(extra)
        keys = IncompatibleKeys(loading.missing, loading.unexpected)
        for _, module in self.named_modules():
            for hook in list(module._hooks("load_post").values()):
                hook(module, keys)
        return keys


def _own_tensors(module: Any) -> Iterator[tuple[str, Tensor]]:
    """The parameters and persistent buffers of a module without its submodules."""
    held = vars(module)
    yield from ((name, p) for name, p in held["_parameters"].items() if p is not None)
    for name, buffer in held["_buffers"].items():
        if buffer is not None and name not in held["_transient_buffers"]:
            yield name, buffer


class _Loading:
    """The plan of a ``load_state_dict``, and its errors."""

    def __init__(self, state: dict[str, Any], strict: bool):
        self._state, self._strict = state, strict
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self._errors: list[str] = []
        self._used: set[str] = set()
        self.copies: list[tuple[Any, str, Any]] = []
        self.extras: list[tuple[Any, Any]] = []

    def collect(self, module: Any, prefix: str) -> None:
        """Finds the tensors of a module and of its submodules."""
        for hook in list(module._hooks("load_pre").values()):
            hook(
                module,
                self._state,
                prefix,
                {},
                self._strict,
                self.missing,
                self.unexpected,
                self._errors,
            )
        for name, tensor in _own_tensors(module):
            self._collect_one(module, name, tensor, prefix + name)
        if type(module).set_extra_state is not ModuleState.set_extra_state:
            key = prefix + _EXTRA
            if key in self._state:
                self._used.add(key)
                self.extras.append((module, self._state[key]))
            else:
                self.missing.append(key)
        for name, child in vars(module)["_modules"].items():
            if child is not None:
                self.collect(child, f"{prefix}{name}.")

    def _collect_one(self, module: Any, name: str, tensor: Tensor, key: str) -> None:
        if key not in self._state:
            self.missing.append(key)
            return
        new = self._state[key]
        self._used.add(key)
        shape = getattr(new, "shape", None)
        if shape is None:
            self._errors.append(
                f'While copying the parameter named "{key}", expected a tensor or an array from '
                f"checkpoint but received {type(new).__name__}"
            )
        elif tuple(shape) != tensor.shape:
            self._errors.append(
                f"size mismatch for {key}: copying a param with shape {tuple(shape)} from "
                f"checkpoint, the shape in current model is {tensor.shape}."
            )
        else:
            self.copies.append((module, name, new))

    def finish(self, name: str) -> None:
        """Raises if anything does not fit."""
        self.unexpected += [key for key in self._state if key not in self._used]
        found = list(self._errors)
        if self._strict:
            for kind, keys in (("Unexpected", self.unexpected), ("Missing", self.missing)):
                if keys:
                    listed = ", ".join(f'"{key}"' for key in keys)
                    found.insert(0, f"{kind} key(s) in state_dict: {listed}. ")
        if found:
            text = "\n\t".join(found)
            raise RuntimeError(f"Error(s) in loading state_dict for {name}:\n\t{text}")


def _load_one(module: Any, name: str, new: Any, assign: bool) -> None:
    registry = "_parameters" if name in vars(module)["_parameters"] else "_buffers"
    present = vars(module)[registry][name]
    if not assign:
        present.copy_(new if isinstance(new, Tensor) else present.new_tensor(new))
    elif registry == "_parameters" and not isinstance(new, Parameter):
        vars(module)[registry][name] = Parameter(new, present.requires_grad)
    else:
        vars(module)[registry][name] = new
