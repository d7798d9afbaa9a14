"""The call of the function on arrays that an operator's kernels are around.

What an operator computes stands in the table as the name of such a function. Called by the
emitters of kernels.
"""

from __future__ import annotations

from pullback.codegen.emit.model import (
    Emitted,
    has_gaps,
    is_tensor,
    is_tensor_list,
    is_tensor_value,
)
from pullback.codegen.families import module_alias
from pullback.schema import Argument, OptionalType

__all__ = ["array_call", "array_function", "array_of", "few_call"]


def array_function(kernel: str) -> str:
    """The expression of a kernel's name in a table, by names that the module looks up once.

    Modules that load some of their names late, as NumPy does, are slow to be asked for any.

    >>> array_function("numpy.sin"), array_function("operators.shape.kernels.reshape")
    ('np_sin', 'shape_kernels.reshape')
    """
    module, _, name = kernel.rpartition(".")
    if module == "numpy":
        return f"np_{name}"
    if module.startswith("operators."):
        return f"{module_alias(module)}.{name}"
    return kernel.replace("numpy.", "np.", 1) if kernel.startswith("numpy.") else kernel


def array_of(argument: Argument) -> str:
    """An argument as the array function gets it."""
    name = argument.name
    if has_gaps(argument.type):
        return f"[None if t is None else t._array for t in {name}]"
    if is_tensor_list(argument.type):
        return f"[t._array for t in {name}]"
    if isinstance(argument.type, OptionalType) and is_tensor(argument.type):
        return f"None if {name} is None else {name}._array"
    return f"{name}._array" if is_tensor(argument.type) else name


def array_call(op: Emitted, *, recording: bool = False) -> str:
    """The call of the array function; of a costly one by several threads, on large arrays.

    `recording` says that the arguments require grad.
    """
    kernel = op.function.dispatch["CPU"]
    texts = []
    for argument in op.arguments:
        by_keyword = argument in op.keyword_only or (
            kernel.startswith("numpy.") and not is_tensor_value(argument.type)
        )
        texts.append(f"{argument.name}={array_of(argument)}" if by_keyword else array_of(argument))
    function, passed = array_function(kernel), ", ".join(texts)
    if "heavy" not in op.function.tags:
        is_numpys = kernel.startswith("numpy.")
        return _arithmetic(op, texts) if is_numpys else f"{function}({passed})"
    # A Python number has no size; what requires grad is an array.
    is_large = f"{passed}.size >= MIN_THREADED_HEAVY_SIZE"
    if not recording:
        is_large = f"type({passed}) is ndarray and {is_large}"
    return f"spread({function}, {passed}) if {is_large} else {function}({passed})"


def few_call(op: Emitted) -> str:
    """The call of an array function of a few numbers, which has nothing to do with all that."""
    passed = ", ".join(map(array_of, op.arguments))
    return f"{array_function(op.function.dispatch['CPU'])}({passed})"


def _arithmetic(op: Emitted, texts: list[str]) -> str:
    """The call of a NumPy function, with another way for two arrays of unlike or large size."""
    kernel, arrays = op.function.dispatch["CPU"], list(map(array_of, op.tensors))
    function, passed = array_function(kernel), ", ".join(texts)
    call = f"{function}({passed})"
    if "elementwise" not in op.function.tags or arrays != texts or len(texts) != 2:
        return call
    a, b = texts  # either may be a Python number; both are read once, which is quicker
    are_arrays = f"type(first_array := {a}) is type(second_array := {b}) is ndarray"
    is_common = "first_array.size == second_array.size <= MAX_DIRECT_SIZE"
    have_axes = "first_array.ndim and second_array.ndim"
    both = "first_array, second_array"
    is_other = f"{are_arrays} and not {is_common} and {have_axes}"
    return f"broadcast_ufunc({function}, {both}) if {is_other} else {function}({both})"
