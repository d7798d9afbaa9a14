"""One run of a user's function on inputs of its own, and the gradients that it gives.

What the functions of this folder share: checks of inputs, outputs and vectors, and strict mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.autograd.api import grad
from pullback.autograd.graph.views import requires_grad
from pullback.autograd.levels import forbid_in_transform
from pullback.autograd.modes import enable_grad
from pullback.autograd.namespaces import tensors
from pullback.autograd.tensor_data import detach
from pullback.errors import AutogradError, AutogradTypeError
from pullback.tensor.tensor import Tensor
from pullback.utils import pytree

__all__ = [
    "Function",
    "Run",
    "Tensors",
    "as_tuple",
    "check_scalar",
    "checked_inputs",
    "independent",
    "vectors_of",
    "zeros_for",
    "zeros_that_require_grad",
]

Function = Callable[..., Any]
Tensors = tuple[Tensor, ...]


class Run:
    """One run of a function on inputs that require grad."""

    def __init__(
        self,
        name: str,
        func: Function,
        inputs: Any,
        create_graph: bool,
        strict: bool,
        *,
        pushed: bool = False,
    ) -> None:
        """`pushed` says that we run inside a transform of our own, which pushes tangents."""
        self.create_graph = create_graph
        self.strict = strict
        self.takes_tuple, given = checked_inputs(name, inputs, pushed=pushed)
        with enable_grad():
            self.inputs = tuple(_own(tensor, create_graph) for tensor in given)
            returned = func(*self.inputs)
            self.returns_tuple, self.outputs = as_tuple(returned, name, "outputs")
        for number, output in enumerate(self.outputs):
            if strict and not requires_grad(output):
                raise AutogradError(
                    f"Output {number} of the user-provided function does not require gradients. "
                    f"The outputs must be computed in a differentiable manner from the input when "
                    f"running in strict mode."
                )

    def gradients(
        self, outputs: Tensors, vectors: Tensors | None, what: str, twice: bool = False
    ) -> list[Tensor]:
        """The gradients of the inputs; zeros where there is none, or in strict mode an error."""
        places = [n for n, output in enumerate(outputs) if requires_grad(output)]
        seeds = None if vectors is None else [vectors[n] for n in places]
        create_graph = self.create_graph or twice
        found: tuple[Tensor | None, ...] = (None,) * len(self.inputs)
        if places:
            with enable_grad():
                found = grad(
                    [outputs[n] for n in places],
                    self.inputs,
                    seeds,
                    retain_graph=True,
                    create_graph=create_graph,
                    allow_unused=True,
                )
        for number, part in enumerate(found):
            if self.strict and part is None:
                raise independent(f"{what} of the user-provided function", number)
            if self.strict and twice and part is not None and not requires_grad(part):
                raise AutogradError(
                    f"found that the jacobian of the user-provided function with respect to input "
                    f"{number} is independent of the input. This is not "
                    f"allowed in strict mode: the function has to be twice differentiable."
                )
            if self.strict and create_graph and part is not None and not requires_grad(part):
                raise independent(
                    "The jacobian of the user-provided function", number, create_graph=True
                )
        return [
            zeros_for(given) if part is None else part
            for part, given in zip(found, self.inputs, strict=True)
        ]

    def like_inputs(self, found: list[Tensor]) -> Any:
        """A tensor for each input, in the form in which the inputs were given."""
        return tuple(found) if self.takes_tuple else found[0]

    def value(self) -> Any:
        """The result of the function."""
        return self.finished(self.outputs if self.returns_tuple else self.outputs[0])

    def finished(self, tree: Any) -> Any:
        """Detaches results unless `create_graph` is True."""
        return tree if self.create_graph else pytree.map(detach, tree)


_IN_FUNC = {"jacobian": "jacrev", "hvp": "jvp of func.grad", "vhp": "vjp of func.grad"}


def checked_inputs(name: str, inputs: Any, *, pushed: bool = False) -> tuple[bool, Tensors]:
    """Whether the inputs are a tuple, and all of them as one; refused inside other transforms."""
    if not pushed:
        forbid_in_transform(
            f"Tensor.requires_grad_() by autograd.functional.{name}",
            f"use func.{_IN_FUNC.get(name, name)}",
        )
    return as_tuple(inputs, name, "inputs")


def independent(what: str, number: int, *, create_graph: bool = False) -> AutogradError:
    """The error of strict mode for an input without a gradient."""
    when = " when create_graph=True" if create_graph else ""
    return AutogradError(
        f"{what} is independent of input {number}. This is not allowed in strict mode{when}."
    )


def zeros_for(tensor: Tensor) -> Tensor:
    """Zeros of the same kind."""
    return tensors.zeros_like(detach(tensor))  # type: ignore[no-any-return]


def zeros_that_require_grad(tensor: Tensor) -> Tensor:
    """A leaf of the same kind, in which something is linear."""
    made = zeros_for(tensor)
    made.requires_grad = True
    return made


def _own(tensor: Tensor, create_graph: bool) -> Tensor:
    """Makes a new input; connected to the given one with `create_graph`."""
    if create_graph and requires_grad(tensor):
        return tensors.reshape(tensor, list(tensor.shape))  # type: ignore[no-any-return]
    own = detach(tensor)
    own.requires_grad = True
    return own


def as_tuple(value: Any, name: str, what: str) -> tuple[bool, Tensors]:
    """Whether the inputs, the outputs or the vector `v` are a tuple, and all of them as one."""
    if isinstance(value, Tensor):
        return False, (value,)
    whose = f"{what} of the user-provided function" if what == "outputs" else what
    if not isinstance(value, tuple):
        raise AutogradTypeError(
            f"The {whose} given to {name} must be either a Tensor or a tuple of Tensors but the "
            f"given {whose} has type {type(value).__name__}."
        )
    for place, item in enumerate(value):
        if not isinstance(item, Tensor):
            raise AutogradTypeError(
                f"The {whose} given to {name} must be either a Tensor or a tuple of Tensors but "
                f"the value at index {place} has type {type(item).__name__}."
            )
    return True, value


def check_scalar(name: str, run: Run) -> None:
    """Refuses a function that returns more than one number."""
    if run.returns_tuple:
        raise AutogradError(f"The function given to {name} should return a single Tensor")
    if run.outputs[0].size != 1:
        raise AutogradError(
            f"The Tensor returned by the function given to {name} should contain a single element, "
            f"and its shape is {list(run.outputs[0].shape)}"
        )


def vectors_of(name: str, v: Any, like: Tensors, is_tuple: bool, whose: str) -> Tensors | None:
    """The vector of a product, checked; None for a single element."""
    if v is None:
        if len(like) != 1 or like[0].size != 1:
            raise AutogradError(
                f"{name}: The vector v can only be None if {whose} a single Tensor with a single "
                f"element."
            )
        return None
    _, vectors = as_tuple(v, name, "v")
    if len(vectors) != len(like):
        raise AutogradError(
            f"{name}: v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}."
            if is_tuple
            else f"{name}: The given v should contain a single Tensor."
        )
    for place, (vector, tensor) in enumerate(zip(vectors, like, strict=True)):
        if vector.shape != tensor.shape:
            where = f"Entry {place} in v" if is_tuple else "v"
            raise AutogradError(
                f"{name}: {where} has invalid size: should be {list(tensor.shape)} but got "
                f"{list(vector.shape)}."
            )
    return vectors
