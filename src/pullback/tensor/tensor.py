"""``Tensor``: the data type. Imports neither operators nor autograd.

Five slots, because a program makes millions of tensors: the array, the flags that dispatch reads,
the edge into the graph, the version counter and, in ``_meta``, everything rare. The last three are
None until they are needed. ``_counter`` is a list, which a tensor and its views share: the number
of writes, and for memory that was made inside a transform the transform's number. Inside a function
that vmap maps, weak references to the tensors in the memory follow, because it may have to be
allocated again with a batch dimension. Instead of an array a tensor may hold a ``Payload``, which
stands for one.

Operators come as methods from ``pullback._generated.methods``, and methods of the graph
(``backward``, ``grad_fn``, hooks) from ``pullback.autograd.tensor_methods``.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache
from math import isqrt
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from pullback._lazy import lazy_module
from pullback.dispatch.keys import (
    AUTOGRAD_BITS,
    DUAL,
    KEY_BITS,
    NO_KEY_BITS,
    PLAIN_VIEW,
    REQUIRES_GRAD,
    SUBCLASS,
    DispatchKey,
)
from pullback.dispatch.modes import (
    INFERENCE,
    MAPPING,
    NUMBER_MODES,
    NUMBERS,
    NUMPY,
    TRACE,
    TRANSFORM,
    get_state,
)
from pullback.dispatch.operator import set_number_as_tensor
from pullback.errors import InferenceError, UnsupportedDtypeError
from pullback.tensor.meta import Meta
from pullback.tensor.method_types import TensorMethods
from pullback.tensor.payload import Payload

if TYPE_CHECKING:
    from pullback.tensor import wrapper
else:
    wrapper = lazy_module("pullback.tensor.wrapper")

__all__ = [
    "CLASS",
    "COUNTING",
    "CPU_FLAGS",
    "MUTABLE",
    "NO_COUNTER",
    "SUBCLASSES",
    "TENSOR_TYPES",
    "TRACES",
    "TRACKED",
    "ContentVersion",
    "Tensor",
    "adopt",
    "as_class_of",
    "as_inference",
    "as_operand",
    "as_subclass",
    "constant_tensor",
    "current_level_id",
    "exposes_subclass",
    "fresh",
    "has_numbers",
    "has_values",
    "holds_number",
    "is_constant_number",
    "is_true",
    "meta_of",
    "note_data",
    "note_flag",
    "note_grad",
    "note_hook",
    "note_literal",
    "note_made",
    "note_property",
    "note_read",
    "numeric",
    "register_alias",
    "set_trace_hooks",
    "share_counter",
    "tag_level",
    "version_of",
    "wrap",
    "zeros_beside",
]


# A tensor is tracked, that is, has a version and may have a history, unless inference mode made it.
TRACKED = KEY_BITS[DispatchKey.ADInplaceOrView]
CPU_FLAGS = KEY_BITS[DispatchKey.CPU] | TRACKED | KEY_BITS[DispatchKey.AutogradCPU]
_INFERENCE_FLAGS = ~(TRACKED | AUTOGRAD_BITS | NO_KEY_BITS)


class _NoCounter(list[Any]):
    """The counter of inference tensors, which have no version: reading it raises.

    Versions are read to save a tensor. In inference mode only a transform does that, and its graph
    ends before the mode does; there the version is 0.
    """

    def __getitem__(self, place: Any) -> Any:
        if get_state().modes & (INFERENCE | TRANSFORM):
            return 0
        raise InferenceError(
            "Inference tensors cannot be saved for backward. Save a clone() made outside of "
            "inference mode instead."
        )


NO_COUNTER: list[Any] = _NoCounter()


class ContentVersion(list[Any]):
    """The counter of a large plain array: its version is a hash of a sample of its elements.

    A program may write to an array between an operation and its backward pass, and no version
    counter counts that. The version check of saved values raises where the sampled elements have
    changed; a write that changes none of them is not found.
    """

    __slots__ = ("_sample",)

    def __init__(self, array: np.ndarray[Any, Any]):
        self.append(0)
        self._sample = array[_sampling_index(array.shape)]

    def __getitem__(self, place: Any) -> Any:
        return hash(self._sample.tobytes())


@lru_cache(maxsize=1024)
def _sampling_index(shape: tuple[int, ...]) -> tuple[slice, ...]:
    """An index of the sample: the ends of leading axes, evenly spaced places of the last two."""
    ends = [slice(None, None, max(1, n - 1)) for n in shape[:-2]]
    most = _SAMPLES if len(shape) == 1 else isqrt(_SAMPLES)
    steps = [slice(None, None, -(-n // most) or 1) for n in shape[-2:]]
    return (*ends, *steps)


# The number of the innermost transform that this thread is in.
current_level_id: ContextVar[int] = ContextVar("pullback_level_id", default=0)

_new = object.__new__
_ndarray = np.ndarray
_asarray = np.asarray  # a global: looking up a name in NumPy's module is slow
_PYTHON_NUMBERS = (bool, int, float, complex)
_NUMERIC_KINDS = "biufc"  # booleans, integers, floating-point and complex numbers
# Larger arrays are shared: copies of them in a long loop would take more memory than the graph,
# which has some 220 bytes an operation.
_SMALL_BYTES = 1024
_SAMPLES = 36  # elements at most, of one axis or six by six of two; leading axes double it each

MUTABLE = frozenset({list, _ndarray})  # sequences of numbers that a caller may change afterwards

TRACES: list[Any] = []  # the traces that are running, in all threads


def note_grad(leaf: Tensor, *, reads: bool) -> None:
    """Notes in the traces that are running that ``leaf.grad`` is read or set."""
    for trace in list(TRACES):
        trace.note_grad(leaf, reads=reads)


def note_read(tensor: Tensor, what: str, *, shares: bool = False) -> None:
    """Notes that Python reads the values of a tensor, or gets an array that `shares` its memory."""
    for trace in list(TRACES):
        trace.note_read(tensor, what, shares=shares)


def note_flag(tensor: Tensor, value: bool) -> None:
    """Notes in the traces that are running that ``requires_grad`` of a tensor is set."""
    for trace in list(TRACES):
        trace.note_flag(tensor, value)


def note_hook(tensor: Tensor) -> None:
    """Notes that a hook is registered on a tensor, before it is."""
    for trace in list(TRACES):
        trace.note_hook(tensor)


def note_property(tensor: Tensor, name: str, value: Any) -> None:
    """Notes in the traces that are running that Python reads a property of a tensor's history."""
    for trace in list(TRACES):
        trace.note_property(tensor, name, value)


def note_data(tensor: Tensor, new: Tensor) -> bool:
    """Whether a trace that is running records that ``tensor.data`` is set."""
    return any(trace.replaced.note(tensor, new) for trace in list(TRACES))


def note_made(tensor: Tensor, source: Tensor) -> None:
    """Notes that the program itself has made a tensor of the memory of another one, `source`."""
    for trace in list(TRACES):
        trace.note_made(tensor, source)


_LITERALS = frozenset({bool, int, float, complex, str, type(None), type})


def _is_literal(data: Any) -> bool:
    if isinstance(data, list | tuple | dict):
        return all(map(_is_literal, data.values() if isinstance(data, dict) else data))
    return type(data) in _LITERALS or isinstance(data, np.dtype)


def note_literal(array: Any, data: Any) -> None:
    """Notes an array that is made of Python's numbers alone, and of no other array."""
    if _is_literal(data):
        for trace in list(TRACES):
            trace.literals[id(array)] = array


COUNTING = RLock()  # held while the first counter of a memory is made, by one of several threads


# What ``isinstance`` reads; a trace of a function of arrays gives it another getter for a time
# (``compiled/array_classes.py``). ``type`` as the getter costs 30 ns where a tensor is no instance.
CLASS = property(type, object.__dict__["__class__"].__set__)


class Tensor(TensorMethods):
    """An n-dimensional array that can record how it was computed.

    Made by ``pullback.tensor``, ``pullback.asarray`` and the creation functions.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> x * 2
    tensor([2., 4.], grad_fn=<MulBackward0>)
    """

    __slots__ = ("_array", "_flags", "_edge", "_counter", "_meta", "__weakref__")

    _array: Any  # an ndarray or a payload; inside one call, also a Python number
    _flags: int
    _edge: Any  # a node, or one of its further outputs
    _counter: list[Any] | None
    _meta: Meta | None

    # Makes NumPy return NotImplemented from binary operators with a tensor on the right.
    __array_priority__ = 1000.0

    def __new__(cls, *_: Any, **__: Any) -> Tensor:
        """Tensors are made by functions, which say what happens to the data."""
        raise TypeError(
            "Tensor is not called directly; use pullback.tensor(data), which copies, or "
            "pullback.asarray(data), which shares memory where it can"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        array = self._array
        if type(array) is _ndarray:
            return array.shape  # type: ignore[no-any-return]
        return () if type(array) in _PYTHON_NUMBERS else array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy data type of the elements."""
        array = self._array
        if type(array) is _ndarray:
            return array.dtype  # type: ignore[no-any-return]
        return array.dtype if isinstance(array, Payload) else np.result_type(array)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        array = self._array
        if type(array) is _ndarray:
            return array.ndim
        return 0 if type(array) in _PYTHON_NUMBERS else array.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        array = self._array
        return 1 if type(array) in _PYTHON_NUMBERS else array.size

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._array.itemsize  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._array.nbytes  # type: ignore[no-any-return]

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, for each axis."""
        return self._array.strides  # type: ignore[no-any-return]

    @property
    def device(self) -> str:
        """The device of the data: ``"cpu"``, unless the tensor holds a payload."""
        array = self._array
        return array.device if isinstance(array, Payload) else "cpu"

    @staticmethod
    def _make_wrapper_subclass(cls: type[Tensor], size: Any, **options: Any) -> Any:
        """A tensor of a subclass with ``__torch_dispatch__``: see ``pullback.tensor.wrapper``."""
        return wrapper.make_wrapper_subclass(cls, size, **options)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without axes: its shape is ()")
        return self.shape[0]

    def __bool__(self) -> bool:
        if TRACES:
            note_read(self, "bool()")
        return bool(self._array)

    def _only_element(self) -> Any:
        """The element of a tensor that has just one, whatever its shape."""
        if self.size != 1:
            raise ValueError(
                f"only a tensor with one element is a number, and this one has shape {self.shape}"
            )
        if TRACES:
            note_read(self, "item()")
        array = self._array
        return array.item() if isinstance(array, Payload) else np.asarray(array).item()

    def __index__(self) -> int:
        if TRACES:
            note_read(self, "use as an index")
        return self._array.__index__()  # type: ignore[no-any-return]

    def item(self, *place: Any) -> Any:
        """The only element, or the one at a place, as a Python number."""
        if not place:
            held = self._array
            number = held.take_number() if TRACES and isinstance(held, Payload) else None
            return self._only_element() if number is None else number
        if TRACES:
            note_read(self, "item()")
        return np.asarray(self._array).item(*place)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        if TRACES:
            note_read(self, "tolist()")
        return self._array.tolist()

    __hash__ = object.__hash__  # == compares elements, so identity has to serve
    __class__ = CLASS


# The classes whose instances are ordinary tensors: also the subclass of `pullback.tensor.subclass`.
TENSOR_TYPES: set[type] = {Tensor}
SUBCLASSES: list[type[Tensor]] = []  # the registered one

# Whether a backward pass exposes gradients to user code as instances of the registered subclass.
exposes_subclass: ContextVar[bool] = ContextVar("pullback_exposes_subclass", default=False)


def as_subclass(tensor: Tensor) -> Tensor:
    """Makes a tensor an instance of the registered subclass, in place; a wrapper stays as it is."""
    cls, kind = SUBCLASSES[0], type(tensor)
    if kind is Tensor:
        tensor.__class__ = cls
    elif kind is not cls:
        return tensor
    tensor._flags |= SUBCLASS
    return tensor


def as_class_of(tensor: Tensor, value: Any) -> Any:
    """A value that belongs to a tensor: where both are tensors, in the tensor's subclass."""
    is_instance = tensor._flags & SUBCLASS and isinstance(value, Tensor)
    return as_subclass(value) if is_instance else value


def wrap(array: Any) -> Tensor:
    """A tensor without history around an array or payload; scalars become arrays without axes."""
    tensor = _new(Tensor)
    tensor._flags = CPU_FLAGS
    if type(array) is _ndarray:
        tensor._array = array
    elif isinstance(array, Payload):
        if array.tensor_class is not None:  # a tensor of a subclass, with its attributes
            tensor = _new(array.tensor_class)
            tensor.__dict__ = array.attributes
        tensor._array = array
        tensor._flags = array.flags
    else:
        tensor._array = _asarray(array)
    tensor._edge = tensor._counter = tensor._meta = None
    return tensor


def fresh(array: Any) -> Tensor:
    """A new tensor as the thread's mode has it: in inference mode, an inference tensor."""
    modes = get_state().modes
    if type(array) is _ndarray and (not modes or modes == NUMPY):
        tensor = _new(Tensor)
        tensor._array = array
        tensor._flags = CPU_FLAGS
        tensor._edge = tensor._counter = tensor._meta = None
        return tensor
    if modes & TRACE and type(array) is _ndarray:
        array = _trace_hook(array)
    tensor = wrap(array)
    if modes & INFERENCE:
        return as_inference(tensor)
    return tag_level(tensor) if modes & (TRANSFORM | MAPPING) else tensor


_DIFFERENTIABLE = REQUIRES_GRAD | PLAIN_VIEW | DUAL
_NUMBER_BITS = NUMBERS | TRANSFORM | MAPPING


def has_numbers(tensor: Tensor, modes: int) -> bool:
    """Whether elements of a tensor are numbers for the program, as those of arrays in NumPy.

    They are in `numpy_mode`, and in a traced program of arrays outside of transforms, where a
    tensor that holds an array is a captured one.
    """
    if modes & NUMPY:
        return True
    return modes & _NUMBER_BITS == NUMBERS and type(tensor._array) is not _ndarray


def is_constant_number(tensor: Tensor) -> bool:
    """Whether a tensor without axes is a number of a NumPy program, without a derivative.

    It is printed as the number, and repeats a list.
    """
    modes = get_state().modes
    return bool(
        modes & NUMBER_MODES
        and not tensor.ndim
        and has_numbers(tensor, modes)
        and (not tensor._flags & _DIFFERENTIABLE or tensor.dtype.kind in "bui")
    )


def _as_it_is(array: Any) -> Any:
    return array


_trace_hook: Callable[[Any], Any] = _as_it_is
_scalar_hook: Callable[[Any], Any] = _as_it_is


def set_trace_hooks(new: Callable[[Any], Any], scalar: Callable[[Any], Any]) -> None:
    """Sets what makes payloads while a program is traced: of new arrays, of scalar operands."""
    global _trace_hook, _scalar_hook
    _trace_hook, _scalar_hook = new, scalar


def adopt(array: Any) -> Tensor:
    """As `fresh`, for memory that other objects may hold; no other may hold `array` itself."""
    tensor = wrap(array)
    return as_inference(tensor) if get_state().modes & INFERENCE else tensor


def tag_level(tensor: Tensor, is_own: bool = False) -> Tensor:
    """Records beside a new tensor's version in which transform it was made: there, and in the
    transforms inside, it may be written to. `is_own` says that a counter which it has already is
    not that of a base."""
    counter = tensor._counter
    if counter is None:  # it is new: no other thread has it
        counter = tensor._counter = [0, current_level_id.get()]
        if tensor._edge is not None:
            tensor._edge.shared_counter(counter)
    elif not is_own or len(counter) != 1:
        return tensor
    else:
        counter.append(current_level_id.get())
    if get_state().modes & MAPPING:
        counter.append(ref(tensor))
    return tensor


def as_inference(tensor: Tensor) -> Tensor:
    """Makes a tensor an inference tensor: without version and without a place in the graph."""
    tensor._flags &= _INFERENCE_FLAGS
    tensor._counter = NO_COUNTER
    return tensor


_PLAIN_SUBCLASSES = (np.memmap, np.recarray)  # whose results are plain arrays, or as good


def numeric(value: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """An array of numbers: what a tensor can hold without a loss.

    A given array is never returned itself but as a view, so that the tensor owns its array object:
    setting the shape or dtype of the given one changes no tensor.
    """
    if type(value) is _ndarray:
        if dtype is None and not copy and value.dtype.kind in _NUMERIC_KINDS:
            return value.view()  # half the time of np.array(value, copy=None)
    elif isinstance(value, _ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise UnsupportedDtypeError(
                "a masked array would lose its mask in a tensor; use array.filled(value), and the "
                "mask in np.where"
            )
        if isinstance(value, np.matrix):
            raise UnsupportedDtypeError(
                "np.matrix means another product by *; use np.asarray(matrix) and @"
            )
        if TRACES and get_state().modes & NUMBERS and type(value) not in _PLAIN_SUBCLASSES:
            raise UnsupportedDtypeError(
                f"NumPy's results of a {type(value).__name__} are of this class, too; use "
                f"np.asarray(array)"
            )
    array = np.array(value, dtype=dtype, copy=copy)
    if array.dtype.kind not in _NUMERIC_KINDS:
        raise UnsupportedDtypeError(
            f"tensors hold booleans, integers, floating-point and complex numbers, not "
            f"{array.dtype} (from {type(value).__name__})"
        )
    # What `__array__` of another object returned may be an array that this object keeps.
    return array if copy or isinstance(value, list | tuple) else array.view()


def constant_tensor(value: np.ndarray[Any, Any]) -> Tensor:
    """A plain array as an argument: a constant whose values may be needed again in backward.

    Indices, masks, counts and small arrays are copied, because programs write to them afterwards
    (``places += 1``, ``weights *= 0.9``). A large array, which may be the data of a whole program,
    is shared; the version check of saved values finds most writes to it (`ContentVersion`).

    >>> import numpy as np, pullback as pb
    >>> weights, x = np.array([1.0, 2.0]), pb.tensor([3.0, 4.0], requires_grad=True)
    >>> y = x * weights
    >>> weights *= 100.0
    >>> y.sum().backward()
    >>> x.grad.tolist()
    [1.0, 2.0]
    """
    if type(value) is not _ndarray or value.dtype.kind not in _NUMERIC_KINDS:
        value = numeric(value)
    if TRACES and get_state().modes & TRACE:  # read from its own memory whenever the graph runs
        array = value.view()
        tensor = wrap(array)
        tensor._counter = ContentVersion(array)
        return tensor
    if value.nbytes <= _SMALL_BYTES or value.dtype.kind in "biu":
        return wrap(value.copy("K"))
    array = value.view()
    tensor = wrap(array)
    tensor._counter = ContentVersion(array)
    return tensor


def as_operand(value: Any) -> Tensor:
    """An argument of an operator as a tensor.

    A Python number is kept as it is inside the tensor, so that NumPy promotes it weakly:
    ``float32 * 2.0`` stays float32. Such tensors are made for one call and never returned.
    """
    if type(value) in _PYTHON_NUMBERS:  # the most frequent operands besides tensors
        tensor = _new(Tensor)
        tensor._array = value
        tensor._flags = CPU_FLAGS
        tensor._edge = tensor._counter = tensor._meta = None
        return tensor
    if type(value) is _ndarray:
        return constant_tensor(value)
    if isinstance(value, Tensor):
        return value
    if hasattr(value, "__pullback_operand__"):  # a number of a program that is traced
        operand: Tensor = value.__pullback_operand__()
        return operand
    if isinstance(value, np.generic) and TRACES and get_state().modes & TRACE:
        return wrap(_scalar_hook(numeric(value)))
    if isinstance(value, _ndarray | np.generic | list | tuple | numbers.Number):
        return wrap(numeric(value))
    kind = type(value)
    place = "" if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}."
    way = "; convert it with pb.from_dlpack" if hasattr(value, "__dlpack__") else ""
    raise TypeError(
        f"a tensor, an array or a number is expected, not {place}{kind.__name__}{way}: "
        f"{value!r:.60}"
    )


set_number_as_tensor(as_operand)


def holds_number(tensor: Tensor) -> bool:
    """Whether an operand is a Python number, which has no dtype of its own."""
    return type(tensor._array) in _PYTHON_NUMBERS


def has_values(tensor: Tensor) -> bool:
    """Whether a tensor's elements can be looked at: it holds an array or a number, no payload."""
    return not isinstance(tensor._array, Payload)


def is_true(condition: Tensor) -> bool | None:
    """The truth value on which a function raises, or chooses a dtype; None where it is unknown.

    A compiled program compares it in each run, and is not valid where it is another one.
    """
    held = condition._array
    return held.is_true() if isinstance(held, Payload) else bool(held)


def zeros_beside(tensor: Tensor | None, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """Zeros that can be computed with together with a tensor, whatever that holds."""
    held = None if tensor is None else tensor._array
    return fresh(held.zeros(shape, dtype) if isinstance(held, Payload) else np.zeros(shape, dtype))


def meta_of(tensor: Tensor) -> Meta:
    """The tensor's rare state, made if it has none yet."""
    meta = tensor._meta
    if meta is None:
        meta = tensor._meta = Meta()
    return meta


def version_of(tensor: Tensor) -> list[Any]:
    """The tensor's version counter, made if it has none yet; views share it."""
    counter = tensor._counter
    return _begin_counter(tensor) if counter is None else counter


def _begin_counter(tensor: Tensor) -> list[Any]:
    """Gives a tensor a version counter: that of its memory, which its node may have already."""
    with COUNTING:
        counter = tensor._counter
        if counter is None:
            edge = tensor._edge
            counter = tensor._counter = [0] if edge is None else edge.shared_counter([0])
    return counter


def share_counter(tensor: Tensor, other: Tensor) -> None:
    """Makes a tensor share the version counter of another one, in whose memory it lies."""
    counter = tensor._counter = version_of(other)
    if len(counter) > 2:
        register_alias(counter, tensor)


def register_alias(counter: list[Any], tensor: Tensor) -> None:
    """Adds a tensor to the version counter's list of aliases; removes dead ones."""
    if not len(counter) & 1023:
        counter[2:] = [known for known in counter[2:] if known() is not None]
    counter.append(ref(tensor))
