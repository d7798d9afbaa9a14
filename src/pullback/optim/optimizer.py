"""`Optimizer`: parameter groups, state, hooks and saving; `ElementwiseOptimizer`: the update loop.

Names and behaviour are PyTorch's (``torch.optim.Optimizer``). An optimizer whose update treats
every element by itself derives from `ElementwiseOptimizer` and writes one function, `update`, on
arrays.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import wraps
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pullback.autograd import enable_grad, no_grad
from pullback.autograd.graph import increment_version
from pullback.autograd.graph.hooks import RemovableHandle
from pullback.fx.tracer import current_tracer, forbid_in_trace
from pullback.kernels.errstate import errstate
from pullback.optim.traced import Untraced, note_groups, trace_update
from pullback.tensor import Tensor
from pullback.tensor.tensor import TRACES, as_class_of, fresh
from pullback.tensor.wrapper import WrapperPayload

__all__ = [
    "Array",
    "ElementwiseOptimizer",
    "Group",
    "Optimizer",
    "Parameters",
    "State",
    "as_number",
    "as_real",
]

Group = dict[str, Any]
State = dict[str, Any]
Parameters = Iterable[Tensor] | Iterable[Group] | Iterable[tuple[str, Tensor]]
Array = NDArray[Any]
_Closure = Callable[[], Any]

_COUNTERS = ("step", "mu_product")  # numbers in the state, whatever the parameter's shape


class Optimizer:
    """Base class of all optimizers.

    Args:
        params: tensors, pairs of a name and a tensor, or dicts that each describe a group of
            parameters (key ``"params"``) with options of its own.
        defaults: options of groups that do not set them.

    A subclass defines ``step``; hooks registered on the optimizer run around it.

    >>> import pullback as pb
    >>> class SignDescent(pb.optim.Optimizer):
    ...     def __init__(self, params, lr=0.5):
    ...         super().__init__(params, {"lr": lr})
    ...
    ...     @pb.no_grad()
    ...     def step(self, closure=None):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p -= group["lr"] * pb.sign(p.grad)
    >>> x = pb.tensor([1.0, -2.0], requires_grad=True)
    >>> (x**2).sum().backward()
    >>> SignDescent([x]).step()
    >>> x.tolist()
    [0.5, -1.5]
    """

    defaults: Untraced[dict[str, Any]] = Untraced()
    state: Untraced[defaultdict[Tensor, State]] = Untraced()
    param_groups: Untraced[list[Group]] = Untraced()

    def __init__(self, params: Parameters, defaults: dict[str, Any]):
        forbid_in_trace(f"{type(self).__name__}() inside of a function")
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        self._was_stepped = False  # read by learning-rate schedules
        self._step_pre_hooks: dict[int, Any] = OrderedDict()
        self._step_post_hooks: dict[int, Any] = OrderedDict()
        self._state_dict_hooks: dict[str, dict[int, Any]] = defaultdict(OrderedDict)
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                "dicts, but got Tensor; put it into a list: [tensor]"
            )
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            cls.step = _with_hooks(vars(cls)["step"])  # type: ignore[method-assign]

    def step(self, closure: _Closure | None = None) -> Any:
        """Updates the parameters once. `closure` recomputes the loss, and its value is returned."""
        raise NotImplementedError(f"{type(self).__name__} defines no step()")

    # --- parameters --------------------------------------------------------------------------

    def add_param_group(self, param_group: Group) -> None:
        """Adds a group of parameters, with options of its own, to be optimized from now on.

        >>> import pullback as pb
        >>> optimizer = pb.optim.SGD([pb.zeros(1, requires_grad=True)], lr=0.1)
        >>> optimizer.add_param_group({"params": pb.zeros(1, requires_grad=True), "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        params = group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        params = [params] if isinstance(params, Tensor) else list(params)
        if params and isinstance(params[0], tuple):
            group["param_names"] = [name for name, _ in params]
            params = [param for _, param in params]
        for param in params:
            _require_leaf(param)
        for name, default in self.defaults.items():
            group.setdefault(name, default)
        self._require_new(params, group)
        group["params"] = params
        self.param_groups.append(group)

    def _require_new(self, params: list[Tensor], group: Group) -> None:
        if len({id(p) for p in params}) != len(params):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error",
                stacklevel=4,
            )
        if self.param_groups:
            is_named = "param_names" in self.param_groups[0]
            if is_named != ("param_names" in group):
                raise ValueError(
                    "all optimizer param groups should be with/without names; the groups so far "
                    f"are {'with' if is_named else 'without'} names"
                )
        known = {id(p) for other in self.param_groups for p in other["params"]}
        if any(id(p) in known for p in params):
            raise ValueError("some parameters appear in more than one parameter group")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes the gradients of all parameters, or sets them to zero.

        >>> import pullback as pb
        >>> x = pb.tensor(1.0, requires_grad=True)
        >>> (x * x).backward()
        >>> pb.optim.SGD([x]).zero_grad()
        >>> x.grad is None
        True
        """
        tracer = current_tracer() if TRACES else None
        if tracer is not None:
            note_groups(self, tracer)
        for group in vars(self)["param_groups"]:
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                elif param.grad is not None:
                    param.grad.detach_()
                    param.grad.zero_()

    # --- hooks -------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` before each step; it may return new arguments."""
        forbid_in_trace(f"a new hook of {type(self).__name__}")
        return RemovableHandle(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` after each step."""
        forbid_in_trace(f"a new hook of {type(self).__name__}")
        return RemovableHandle(self._step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(optimizer)`` before `state_dict`."""
        return RemovableHandle(self._state_dict_hooks["pre"], hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` after `state_dict`; it may return a new one."""
        return RemovableHandle(self._state_dict_hooks["post"], hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` before loading; it may return a new one."""
        return RemovableHandle(self._state_dict_hooks["load_pre"], hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(optimizer)`` after loading."""
        return RemovableHandle(self._state_dict_hooks["load_post"], hook)

    # --- saving ------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state of each parameter and the options of the groups; parameters are numbered.

        >>> import pullback as pb
        >>> optimizer = pb.optim.SGD([pb.zeros(2, requires_grad=True)], lr=0.1)
        >>> optimizer.state_dict()["param_groups"][0]["params"]
        [0]
        """
        for hook in list(self._state_dict_hooks["pre"].values()):
            hook(self)
        numbers: dict[int, int] = {}
        for param in chain.from_iterable(group["params"] for group in self.param_groups):
            numbers.setdefault(id(param), len(numbers))
        groups = []
        for group in self.param_groups:
            options = {key: value for key, value in group.items() if key != "params"}
            groups.append({**options, "params": [numbers[id(p)] for p in group["params"]]})
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        found = {"state": state, "param_groups": groups}
        for hook in list(self._state_dict_hooks["post"].values()):
            changed = hook(self, found)
            found = found if changed is None else changed
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Replaces state and options by those of `state_dict`; the parameters stay.

        >>> import pullback as pb
        >>> x = pb.zeros(2, requires_grad=True)
        >>> saved = pb.optim.SGD([x], lr=0.1).state_dict()
        >>> optimizer = pb.optim.SGD([x], lr=0.5)
        >>> optimizer.load_state_dict(saved)
        >>> optimizer.param_groups[0]["lr"]
        0.1
        """
        given = dict(state_dict)
        for hook in list(self._state_dict_hooks["load_pre"].values()):
            changed = hook(self, given)
            given = given if changed is None else changed
        saved = deepcopy(given["param_groups"])
        _require_same_groups(self.param_groups, saved)
        params = list(chain.from_iterable(group["params"] for group in self.param_groups))
        numbers = chain.from_iterable(group["params"] for group in saved)
        by_number = dict(zip(numbers, params, strict=True))
        state: defaultdict[Tensor, State] = defaultdict(dict)
        for key, value in given["state"].items():
            param = by_number.get(key)
            state[key if param is None else param] = _converted(value, param)
        for group, new in zip(self.param_groups, saved, strict=True):
            new["params"] = group["params"]
            if "param_names" in group and "param_names" not in new:
                new["param_names"] = group["param_names"]
        self.state, self.param_groups = state, saved
        for hook in list(self._state_dict_hooks["load_post"].values()):
            hook(self)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A ``step`` method that runs the hooks of its optimizer before and after."""
    if hasattr(step, "_runs_hooks"):
        return step

    @wraps(step)
    def run(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if TRACES:
            _require_traceable(self)
        for hook in list(self._step_pre_hooks.values()):
            changed = hook(self, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        f"{hook} must return None or a tuple of (new_args, new_kwargs), but got "
                        f"{changed}."
                    )
                args, kwargs = changed
        self._was_stepped = True
        result = step(self, *args, **kwargs)
        for hook in list(self._step_post_hooks.values()):
            hook(self, args, kwargs)
        return result

    run._runs_hooks = True  # type: ignore[attr-defined]
    return run


def _require_traceable(optimizer: Optimizer) -> None:
    """Raises in a traced program, before anything is changed: `compile` then calls it as it is.

    Updates of this library are traced as operators on tensors. Those of users may keep Python
    numbers, which a graph would not change.
    """
    kind = type(optimizer)
    methods = (getattr(kind, name, None) for name in ("step", "update", "init_state"))
    is_own = all(getattr(m, "__module__", "").startswith("pullback.optim.") for m in methods)
    if not is_own:
        forbid_in_trace(f"{kind.__name__}.step()")
    if optimizer._step_pre_hooks or optimizer._step_post_hooks:
        forbid_in_trace(f"{kind.__name__}.step() with hooks")


def _require_leaf(param: Any) -> None:
    if not isinstance(param, Tensor):
        raise TypeError(
            f"optimizer can only optimize Tensors, but one of the params is {type(param)}"
        )
    if not (param.is_leaf or param.retains_grad):
        raise ValueError("can't optimize a non-leaf Tensor")


def _require_same_groups(groups: list[Group], saved: list[Group]) -> None:
    if len(groups) != len(saved):
        raise ValueError(
            f"loaded state dict has a different number of parameter groups ({len(saved)}, and the "
            f"optimizer has {len(groups)})"
        )
    if any(len(a["params"]) != len(b["params"]) for a, b in zip(groups, saved, strict=True)):
        raise ValueError(
            "loaded state dict contains a parameter group that doesn't match the size of "
            "optimizer's group"
        )


def _converted(value: Any, param: Tensor | None, key: str = "") -> Any:
    """A copy of loaded state; floating-point tensors get the dtype of their parameter."""
    if isinstance(value, Tensor):
        is_like = param is not None and key not in _COUNTERS and param.dtype.kind in "fc"
        # Real state of a complex parameter stays real.
        is_cast = is_like and (value.dtype.kind == "c" or param.dtype.kind == "f")  # type: ignore[union-attr]
        dtype = param.dtype if param is not None and is_cast else value.dtype
        made = fresh(np.array(value.detach().numpy(), dtype=dtype))
        return made if param is None else as_class_of(param, made)
    if isinstance(value, dict):
        return {name: _converted(item, param, name) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_converted(item, param) for item in value)
    return deepcopy(value)


class ElementwiseOptimizer(Optimizer):
    """An optimizer that updates each element of a parameter by itself.

    A subclass has `state_names`, the arrays of zeros that a parameter's state begins with, and
    `update`, which writes the new values into the arrays. Complex parameters are updated as pairs
    of real numbers.
    """

    state_names: ClassVar[tuple[str, ...]] = ()

    def update(self, param: Array, grad: Array, state: State, group: Group) -> None:
        """Writes new values into `param` and into the arrays of `state`, all of one shape.

        ``state["step"]`` counts the updates of this parameter, this one included. In a program that
        is traced (`compile`) the arrays are tensors, and numbers are traced.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no update()")

    def init_state(self, param: Tensor, group: Group) -> State:  # noqa: ARG002 - for subclasses
        """The state of a parameter before its first update."""
        return {"step": fresh(np.zeros(()))} | {
            name: fresh(np.zeros_like(param._array)) for name in self.state_names
        }

    def step(self, closure: _Closure | None = None) -> Any:
        """Updates every parameter that has a gradient.

        Args:
            closure: recomputes the loss with its gradients, and returns it.

        >>> import pullback as pb
        >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = pb.optim.SGD([x], lr=0.25)
        >>> (x**2).sum().backward()
        >>> optimizer.step()
        >>> x.tolist()
        [0.5, 1.0]
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        tracer = current_tracer() if TRACES else None
        if tracer is not None:
            trace_update(self, tracer)
            return loss
        written = []
        with no_grad(), errstate(all="ignore"):
            for group in self.param_groups:
                options = {**group, "lr": as_number(group["lr"])}
                for param in group["params"]:
                    grad = param.grad
                    if grad is not None:
                        self._update_one(param, grad, options)
                        written.append(param)
        increment_version(written)
        return loss

    def state_of(self, param: Tensor, group: Group) -> State:
        """The state of a parameter, which is made before its first update."""
        state = self.state[param]
        if not state:
            if isinstance(param._array, WrapperPayload):
                raise TypeError(
                    f"{type(self).__name__}.step(): a parameter is a wrapper tensor, "
                    f"{param._array!r}, whose memory cannot be updated; optimize the tensors that "
                    f"it wraps"
                )
            made = self.init_state(param, group)
            state.update({name: as_class_of(param, value) for name, value in made.items()})
        return state

    def _update_one(self, param: Tensor, grad: Tensor, group: Group) -> None:
        state = self.state_of(param, group)
        arrays = {key: v._array for key, v in state.items() if isinstance(v, Tensor)}
        arrays["step"] += 1
        value, slope = param._array, grad._array
        if value.dtype.kind == "c":
            value, slope, arrays = as_real(value), as_real(slope), _map(as_real, arrays)
        elif value.ndim == 0:  # ufuncs return numbers for arrays without axes
            value, slope, arrays = value.reshape(1), slope.reshape(1), _map(_with_axis, arrays)
        if group["maximize"]:
            slope = -slope
        self.update(value, slope, {**arrays, "step": float(arrays["step"])}, group)


def as_real(array: Array) -> Array:
    """A view of complex numbers as pairs of real numbers, along a new last axis."""
    return array[..., None].view(array.real.dtype) if array.dtype.kind == "c" else array


def _with_axis(array: Array) -> Array:
    return array.reshape(1)


def _map(function: Callable[[Array], Array], arrays: dict[str, Array]) -> dict[str, Array]:
    return {k: a if k in _COUNTERS else function(a) for k, a in arrays.items()}


def as_number(value: Any) -> float:
    """A number that may be a tensor, such as a loss, as a float."""
    return float(value.item() if isinstance(value, Tensor) else value)
