"""NumPy-style derivatives: ``grad``, ``value_and_grad``, ``jacobian`` and more.

The transforms of ``pullback.func`` with arguments of any kind: what is differentiated by may be a
tensor, an array or a float, or a tree of them, and derivatives come back as what went in. Gradients
of arrays are arrays, those of floats are floats. The function always gets tensors in their place.
What can be differentiated further, because the function uses something else that requires grad,
stays a tensor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback._lazy import lazy_module
from pullback.autograd.forward.tangents import tangents_of
from pullback.autograd.graph.views import EDGED, requires_grad
from pullback.dispatch.keys import DUAL
from pullback.errors import AutogradTypeError, AutogradValueError
from pullback.func.arguments import Argnums, positions, require_function
from pullback.func.hvp import curvature
from pullback.func.jacobians import hessian as hessian_of_tensors
from pullback.func.jacobians import jacfwd, jacrev
from pullback.func.reverse import grad as grad_of_tensors
from pullback.func.reverse import grad_and_value, pulled, vjp
from pullback.tensor.tensor import Tensor, fresh
from pullback.utils import pytree

if TYPE_CHECKING:
    from pullback.interop import mode as numpy_mode
else:
    numpy_mode = lazy_module("pullback.interop.mode")

__all__ = ["elementwise_grad", "grad", "hessian", "hvp", "jacobian", "value_and_grad"]

_Function = Callable[..., Any]
_SINGLE = (Tensor, np.ndarray, float)  # the types of arguments that are no trees


class _Call:
    """Arguments of one call as tensors; converts results back to the arguments' types."""

    def __init__(self, name: str, argnums: Argnums, args: tuple[Any, ...]):
        self.args = list(args)
        self._kinds: dict[int, list[type]] = {}
        for place in positions(name, argnums, len(args)):
            value = args[place]
            kind = type(value)
            if kind in _SINGLE:  # nearly always, and then there is no tree to take apart
                if kind is not Tensor or value._array.dtype.kind not in "fc":
                    self.args[place] = _tensor(f"{name}: argument {place}", value)
                self._kinds[place] = [kind]
                continue
            leaves, spec = pytree.flatten(value)
            pairs = zip(leaves, spec.paths(), strict=True)
            made = [_tensor(f"{name}: argument {place}{path}", leaf) for leaf, path in pairs]
            self.args[place] = pytree.unflatten(spec, made)
            self._kinds[place] = [type(leaf) for leaf in leaves]

    def like_arguments(self, gradients: Any, argnums: Argnums) -> Any:
        """Converts each gradient to the type of its argument."""
        if type(gradients) is Tensor:
            ((kind,),) = self._kinds.values()
            return gradients if kind is Tensor else _back(gradients, kind, is_new=True)
        several = isinstance(argnums, tuple)
        parts = gradients if several else (gradients,)
        found = []
        for part, kinds in zip(parts, self._kinds.values(), strict=True):
            leaves, spec = pytree.flatten(part)
            values = [
                _back(leaf, kind, is_new=True) for leaf, kind in zip(leaves, kinds, strict=True)
            ]
            found.append(pytree.unflatten(spec, values))
        return tuple(found) if several else found[0]

    def result(self, tree: Any) -> Any:
        """Converts results to arrays and floats if no argument was a tensor."""
        if any(issubclass(kind, Tensor) for found in self._kinds.values() for kind in found):
            return tree
        if type(tree) is Tensor:
            return _back(tree, np.ndarray if tree.ndim else float)
        return pytree.map(lambda t: _back(t, np.ndarray if t.ndim else float), tree)


def _tensor(what: str, value: Any) -> Tensor:
    """A leaf of an argument as a tensor that can be differentiated by."""
    if isinstance(value, Tensor):
        made = value
    elif hasattr(value, "__pullback_tensor__"):  # a number of a program that is traced
        made = value.__pullback_tensor__()
    elif isinstance(value, np.ndarray | np.generic | float | complex | int):
        made = fresh(np.asarray(value).view())  # the tensor owns its array object
    else:
        raise AutogradTypeError(
            f"{what} must be a tensor, an array or a number to be differentiated by, not "
            f"{type(value).__name__}"
        )
    if made._array.dtype.kind not in "fc":
        kind = f"{type(value).__name__} of dtype {made.dtype}" if made.ndim else repr(value)
        raise AutogradValueError(
            f"{what} is an integer or bool ({kind}), which has no derivative; make it floating "
            f"point, or choose other argnums"
        )
    return made


def _back(tensor: Any, kind: type, is_new: bool = False) -> Any:
    """Converts a derivative to the type of its argument, unless it is in a graph or batched.

    `is_new` says that no node has saved the tensor's array, as none has saved a gradient's.
    """
    if issubclass(kind, Tensor) or not isinstance(tensor._array, np.ndarray):
        return tensor
    if tensor._flags & (EDGED | DUAL) and (requires_grad(tensor) or tangents_of(tensor)):
        return tensor
    if not issubclass(kind, np.ndarray):
        return tensor.item()
    array = tensor._array
    if is_new and array.base is None:
        tensor._array = array.view()  # the caller gets the owner, and each side its own object
        return array
    return tensor.numpy()


def _in_mode(name: str, func: Any, mode: bool) -> _Function:
    """The function, which runs in `numpy_mode` if `mode` says so."""
    require_function(name, func)
    return numpy_mode.run_in_mode(func) if mode else func


def grad(
    func: _Function, argnums: Argnums = 0, has_aux: bool = False, *, mode: bool = True
) -> _Function:
    """A function that computes the gradient of a function with a scalar result.

    Args:
        func: takes trees of anything, returns a tensor without axes.
        argnums: the positions of the arguments to differentiate by; for a tuple of them the result
            is a tuple.
        has_aux: `func` returns ``(output, aux)``, and the new function ``(gradient, aux)``.
        mode: run the function in `numpy_mode`, so that it may be written for NumPy: arrays that it
            creates are tensors, and may be written to. False makes it see NumPy as it is.

    >>> import math
    >>> import numpy as np
    >>> import pullback as pb
    >>> pb.grad(lambda x: (x**2).sum())(np.array([1.0, 2.0]))
    array([2., 4.])
    >>> def program(x):
    ...     made = np.zeros(2)
    ...     for i in range(2):
    ...         made[i] = x[i] ** 2
    ...     return made.sum() + math.exp(x[0])
    >>> pb.grad(program)(np.array([0.0, 2.0]))
    array([1., 4.])
    >>> pb.grad(pb.tanh)(0.0), pb.grad(pb.grad(pb.sin))(0.5)
    (1.0, -0.479425538604203)
    >>> pb.grad(lambda p: p["w"] * p["b"])({"w": 2.0, "b": 3.0})
    {'w': 3.0, 'b': 2.0}
    """
    func = _in_mode("grad", func, mode)
    inner = grad_of_tensors(func, argnums, has_aux)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        call = _Call("grad", argnums, args)
        found = inner(*call.args, **kwargs)
        if has_aux:
            return call.like_arguments(found[0], argnums), found[1]
        return call.like_arguments(found, argnums)

    return run


def value_and_grad(
    func: _Function, argnums: Argnums = 0, has_aux: bool = False, *, mode: bool = True
) -> _Function:
    """A function that computes the value and the gradient of a function with a scalar result.

    Takes what ``grad`` takes. Returns ``(value, gradient)``, with `has_aux`
    ``((value, aux), gradient)``. For an array it returns a float and an array, which is what
    ``scipy.optimize.minimize(..., jac=True)`` wants.

    >>> import numpy as np
    >>> import pullback as pb
    >>> pb.value_and_grad(lambda x: (x**2).sum())(np.array([1.0, 2.0]))
    (5.0, array([2., 4.]))
    """
    func = _in_mode("value_and_grad", func, mode)
    inner = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        call = _Call("value_and_grad", argnums, args)
        found, value = inner(*call.args, **kwargs)
        gradient = call.like_arguments(found, argnums)
        if has_aux:
            return (call.result(value[0]), value[1]), gradient
        return call.result(value), gradient

    return run


def elementwise_grad(func: _Function, argnums: Argnums = 0, *, mode: bool = True) -> _Function:
    """A function that computes the derivative of a function that works element by element.

    It is the gradient of the sum of all results.

    >>> import numpy as np
    >>> import pullback as pb
    >>> pb.elementwise_grad(lambda x: x**3)(np.array([1.0, 2.0]))
    array([ 3., 12.])
    """
    func = _in_mode("elementwise_grad", func, mode)

    def total(*args: Any, **kwargs: Any) -> Tensor:
        returned = func(*args, **kwargs)
        if not isinstance(returned, Tensor):
            raise AutogradTypeError(
                f"elementwise_grad: the function must return a tensor, not "
                f"{type(returned).__name__}"
            )
        return returned.sum()

    inner = grad_of_tensors(total, argnums)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        call = _Call("elementwise_grad", argnums, args)
        return call.like_arguments(inner(*call.args, **kwargs), argnums)

    return run


def jacobian(func: _Function, argnums: Argnums = 0, *, mode: bool = True) -> _Function:
    """A function that computes the Jacobian of a function.

    Forward mode is taken where there are more results than arguments, else reverse mode;
    ``func.jacfwd`` and ``func.jacrev`` are the explicit choices.

    >>> import numpy as np
    >>> import pullback as pb
    >>> pb.jacobian(lambda x: x * x.sum())(np.array([1.0, 2.0]))
    array([[4., 1.],
           [2., 5.]])
    """
    func = _in_mode("jacobian", func, mode)
    forward, reverse = jacfwd(func, argnums), jacrev(func, argnums)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        call = _Call("jacobian", argnums, args)
        of = pulled("jacobian", func, argnums, tuple(call.args), kwargs, False, False)
        results = sum(result.size for result in of.results)
        arguments = sum(alias.tensor.size for alias in of.pull.aliases)
        of.end()
        compute = forward if results > arguments else reverse
        return call.result(compute(*call.args, **kwargs))

    return run


def hessian(func: _Function, argnums: Argnums = 0, *, mode: bool = True) -> _Function:
    """A function that computes the Hessian of a function.

    >>> import numpy as np
    >>> import pullback as pb
    >>> pb.hessian(lambda x: (x**3).sum())(np.array([1.0, 2.0]))
    array([[ 6.,  0.],
           [ 0., 12.]])
    """
    func = _in_mode("hessian", func, mode)
    inner = hessian_of_tensors(func, argnums)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        call = _Call("hessian", argnums, args)
        return call.result(inner(*call.args, **kwargs))

    return run


def hvp(func: _Function, argnums: int = 0, *, vector: int = -1, mode: bool = True) -> _Function:
    """A function that computes the product of a scalar function's Hessian with a vector.

    It takes the arguments of `func` and then the vector, with the structure of the argument that is
    differentiated by. The Hessian itself is never made. `vector` is another position of the vector
    among the arguments: with 1, the result is SciPy's ``hessp(x, p, *args)``.

    >>> import numpy as np
    >>> import pullback as pb
    >>> pb.hvp(lambda x: (x**3).sum())(np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    array([  6., 120.])
    """
    func = _in_mode("hvp", func, mode)
    inner = grad_of_tensors(func, argnums)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        if len(args) < 2:
            raise AutogradTypeError(
                f"hvp: takes the arguments of the function and then the vector; got {len(args)}"
            )
        given = list(args)
        direction = given.pop(vector)
        (place,) = positions("hvp", argnums, len(given))
        argument = given[place]
        call: _Call | None = None
        if type(argument) in _SINGLE:  # nearly always, and then there is no tree to take apart
            is_tensor = type(argument) is Tensor and argument._array.dtype.kind in "fc"
            leaf = argument if is_tensor else _tensor(f"hvp: argument {place}", argument)
            leaves, spec = [leaf], pytree.LEAF
        else:
            call = _Call("hvp", argnums, tuple(given))
            leaves, spec = pytree.flatten(call.args[place])
        parts_of_vector = _direction(leaves, spec, direction)

        def value(parts: list[Tensor]) -> Any:
            given[place] = parts[0] if spec is pytree.LEAF else pytree.unflatten(spec, parts)
            return func(*given, **kwargs)

        found = curvature(value, leaves, parts_of_vector, by_tangents=True)
        if found is not None and call is None:
            (product,) = found[1]
            return product if type(argument) is Tensor else _back(product, type(argument))
        call = _Call("hvp", argnums, tuple(given)) if call is None else call
        if found is not None:
            return call.like_arguments(pytree.unflatten(spec, found[1]), argnums)
        arguments = call.args

        def slope(value: Any) -> Any:
            return inner(*arguments[:place], value, *arguments[place + 1 :], **kwargs)

        # The Hessian is symmetric, and two backward passes are quicker than a tangent through one.
        (product,) = vjp(slope, arguments[place])[1](pytree.unflatten(spec, parts_of_vector))
        return call.like_arguments(product, argnums)

    return run


def _direction(leaves: list[Tensor], spec: pytree.Spec, vector: Any) -> list[Tensor]:
    """A vector as tensors, which fit those of the argument."""
    if spec is pytree.LEAF and type(vector) is Tensor:  # as it should be
        array = vector._array
        if array.dtype.kind in "fc" and array.shape == leaves[0]._array.shape:
            return [vector]
    given = pytree.flatten_like(spec, vector, "hvp: the vector")
    made = []
    for leaf, part, path in zip(leaves, given, spec.paths(), strict=True):
        tensor = _tensor(f"hvp: the vector{path}", part)
        if tensor.shape != leaf.shape:
            raise AutogradValueError(
                f"hvp: the vector{path} has a different size than the argument: "
                f"{list(tensor.shape)} instead of {list(leaf.shape)}"
            )
        made.append(tensor)
    return made
