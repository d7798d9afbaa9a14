"""Every exception that Pullback raises on purpose.

A user error derives from ``PullbackError`` and from the built-in type that PyTorch raises in the
same situation, so both ``except PullbackError`` and code written for PyTorch catch it.
``python -m pullback error`` prints the tree of classes, ``python -m pullback error saved-version``
the cause and the fix of one; each message ends with the address of that page.

This module imports nothing, so that every layer may use it.
"""

from __future__ import annotations

__all__ = [
    "SITE",
    "AmbiguousKernelError",
    "AutogradError",
    "AutogradIndexError",
    "AutogradNotRegisteredError",
    "AutogradTypeError",
    "AutogradUsageError",
    "AutogradValueError",
    "BindError",
    "CheckpointError",
    "CodegenError",
    "DaskError",
    "DataDependentError",
    "DerivativeMissingError",
    "DestroyedLibraryError",
    "DispatchError",
    "DispatchKeyError",
    "FileFormatError",
    "GradcheckError",
    "GradientLostError",
    "GraphError",
    "GraphFreedError",
    "InferenceError",
    "InplaceError",
    "KernelNotFoundError",
    "KernelResultError",
    "KernelTypeError",
    "LibraryKindError",
    "MissingPackageError",
    "ModuleInputError",
    "NoDataError",
    "NotFiniteError",
    "OpCheckError",
    "OperatorDefinitionError",
    "OperatorNotFoundError",
    "PartitionLostError",
    "PullbackError",
    "RegistrationError",
    "SavedVersionError",
    "SchemaError",
    "TraceError",
    "UnsupportedDtypeError",
    "UnsupportedSchemaError",
    "ViewError",
    "error_page",
    "message_of",
]

SITE = "https://pullback.readthedocs.io/en/stable"  # where the documentation is published


class PullbackError(Exception):
    """The root of all errors that Pullback raises on purpose.

    Cause: any mistake that this library finds. Fix: catch it to catch them all; the subclass says
    what happened.

    >>> import pullback as pb
    >>> try:
    ...     pb.func.grad(3)
    ... except pb.errors.PullbackError as error:
    ...     print(type(error).__name__)
    AutogradTypeError
    """

    def __str__(self) -> str:
        message = super().__str__()
        if SITE in message:  # of an error that this one quotes
            return message
        page = error_page(type(self))
        link = f"See {SITE}/errors/{page}.html or run: python -m pullback error {page}"
        return f"{message}\n{link}" if message else link


def error_page(kind: type[PullbackError]) -> str:
    """The name of the page about a class of errors; of a user's class, that of its nearest base.

    >>> error_page(SavedVersionError)
    'saved-version'
    """
    documented = next(base for base in kind.__mro__ if base.__module__ == __name__)
    name = documented.__name__.removesuffix("Error")
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in name).removeprefix("-")


def message_of(error: BaseException) -> str:
    """The message of an error without the address of its page, for an error that quotes it.

    >>> message_of(BindError("f: wrong"))
    'f: wrong'
    """
    plain = super(PullbackError, error) if isinstance(error, PullbackError) else error
    return plain.__str__()


class SchemaError(PullbackError, RuntimeError, AssertionError):
    """A text is no valid operator schema; the message quotes it with a caret at the fault.

    Two built-in bases, because PyTorch's two parsers differ: the code generator's raises
    ``AssertionError`` and the runtime's raises ``RuntimeError`` for the same text.

    Cause: a missing type, bracket or arrow, or an unknown type. Fix: correct the text at the
    caret.

    >>> import pullback as pb
    >>> pb.schema.parse_schema("f(Tensor x -> Tensor")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.SchemaError: Invalid function schema: expected ',' or ')' but found ...
    """


class BindError(PullbackError, RuntimeError):
    """The arguments of a call do not fit the operator's schema.

    Cause: a missing, unknown or doubled argument. Fix: compare the call with the schema, `python
    -m pullback op NAME`.

    >>> import pullback as pb
    >>> pb.ops.pullback.sin.default()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.BindError: pullback::sin() is missing value for argument 'self'...
    """


class GraphError(PullbackError, RuntimeError):
    """A graph of ``pullback.fx`` was changed or read in a way that makes no sense.

    Cause: a node is used after its removal, or before it exists. Fix: insert nodes with
    `inserting_before` and `inserting_after`, and erase users first.

    >>> import pullback as pb
    >>> graph = pb.fx.Graph()
    >>> node = graph.placeholder("x")
    >>> _ = graph.output(node)
    >>> graph.erase_node(node)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.GraphError: erase_node: tried to erase x, but it still has users in ...
    """


class TraceError(PullbackError, RuntimeError):
    """A program cannot be traced, or a value of a traced program was used outside of it.

    Cause: a branch on a value in a program that has to be one graph. Fix: `pb.where`, a static
    argument, or no `fullgraph=True`.

    >>> import pullback as pb
    >>> f = pb.compile(lambda x: x if x.sum() > 0 else -x, fullgraph=True, backend="eager")
    >>> f(pb.ones(2))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.TraceError: bool(): the program reads a value while it is traced ...
    """


class FileFormatError(PullbackError, ValueError):
    """A file that is damaged or of an unknown format, or data that no file can hold.

    Cause: a damaged file, or one that could run code. Fix: write it again with `pb.save`, as
    safetensors or npz.

    >>> import pullback as pb
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "w.npz"
    >>> _ = path.write_bytes(b"no archive")
    >>> pb.load(path)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.FileFormatError: load: ...
    """


class MissingPackageError(PullbackError, ImportError):
    """Something needs a package that is optional, and that is not installed.

    Cause: an extra is not installed. Fix: `pip install pullback[NAME]`; the message has the name.

    >>> issubclass(MissingPackageError, ImportError)
    True
    """


class PartitionLostError(PullbackError, RuntimeError):
    """A partition of data was in the memory of a worker that is gone, and has no origin.

    Cause: data was scattered by hand to a worker that died. Fix: pass paths, keys or delayed
    objects, which can be loaded again.

    >>> issubclass(PartitionLostError, RuntimeError)
    True
    """


class DaskError(PullbackError, RuntimeError):
    """Something that tensors on dask arrays do not support; the message names the operator.

    Cause: an in-place write to a lazy array, or an operator that would gather too much data. Fix:
    compute a new tensor, call `pb.dask.compute` first, or raise `pb.dask.gather_limit`.

    >>> issubclass(DaskError, RuntimeError)
    True
    """


class ModuleInputError(PullbackError, RuntimeError, ValueError):
    """An input that a module cannot take; the message begins with the module's path.

    Cause: an input of another shape or dtype than the module's parameters. Fix: the message names
    the module, what it expected and what it got.

    >>> import pullback as pb
    >>> pb.nn.Linear(3, 2)(pb.ones(4))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.ModuleInputError: expected last dimension 3, got 4 (shape (4,))...
    """

    def set_path(self, path: str) -> None:
        """Puts the path of the module in front of the message, or replaces the one there."""
        self.unplaced = getattr(self, "unplaced", message_of(self))
        self.args = (f"{path}: {self.unplaced}",)


class CodegenError(PullbackError, RuntimeError):
    """An operator table or a formula was refused.

    Once the place is known the message begins with it, as ``file:line:column``. Before that, while
    a formula is looked at by itself, ``offset`` says where in its text the fault is.

    Cause: an unknown key, a schema that does not fit, a formula with an unknown name. Fix:
    correct the table at the place that the message names.

    >>> import pullback as pb
    >>> from pullback.codegen.load_ops import read_ops
    >>> from pullback.codegen.load_yaml import parse_yaml
    >>> read_ops([parse_yaml("- func: f(Tensor self) -> Tensor")])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.CodegenError: <string>:1:3: an operator needs the key 'doc'...
    """

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.offset = offset


class AutogradError(PullbackError, RuntimeError):
    """The root of errors about graphs, gradients and what may be done to tensors in a graph.

    Cause: a graph or a gradient is used in a way that cannot work. Fix: the message says which,
    and how to do it.

    >>> import pullback as pb
    >>> try:
    ...     pb.grad(lambda x: x)(1)
    ... except pb.errors.AutogradError as error:
    ...     print(type(error).__name__)
    AutogradValueError
    """


class GraphFreedError(AutogradError):
    """A backward pass needs saved values that an earlier one released.

    Cause: `backward` ran twice over one graph. Fix: `retain_graph=True` in the first pass.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> y = (x * x).sum()
    >>> y.backward()
    >>> y.backward()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.GraphFreedError: MulBackward0: Trying to backward through the graph ...
    """


class SavedVersionError(AutogradError):
    """A value that was saved for the backward pass has been modified in place.

    Cause: an in-place write between the operation and the backward pass. Fix: write to a copy (`y
    = y + 1`), or let `pb.grad` run the function, which keeps old values.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> y = pb.exp(x)
    >>> _ = y.add_(1.0)
    >>> y.sum().backward()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.SavedVersionError: ExpBackward0: one of the variables needed for ...
    """


class InplaceError(AutogradError):
    """An in-place operation that would make gradients wrong, or that cannot be recorded.

    Cause: a leaf that requires grad, or a view of one, is written to. Fix: write to `x * 1`, or
    inside `pb.no_grad()`.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> x.add_(1.0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.InplaceError: a leaf Variable that requires grad is being used in ...
    """


class InferenceError(AutogradError):
    """A tensor that was made in inference mode is used where history or versions are needed.

    Cause: a tensor made in `inference_mode` takes part in a recorded operation. Fix: `x.clone()`
    outside of the mode, or `pb.no_grad()` in its place.

    >>> import pullback as pb
    >>> with pb.inference_mode():
    ...     made = pb.ones(2)
    >>> made.requires_grad_()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.InferenceError: Setting requires_grad=True on inference tensor ...
    """


class AutogradTypeError(AutogradError, TypeError):
    """An argument or a result of a hook or a backward has the wrong type.

    Cause: an argument or the result of a hook has another type. Fix: the type in the message.

    >>> import pullback as pb
    >>> pb.grad(lambda x: x)("text")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.AutogradTypeError: grad: argument 0 must be a tensor, an array or a ...
    """


class AutogradValueError(AutogradError, ValueError):
    """An argument has the right type, but no value that has a meaning here.

    Cause: a value that has no derivative, such as an integer. Fix: make it floating point, or
    choose other `argnums`.

    >>> import pullback as pb
    >>> pb.grad(lambda x: x * 2)(1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.AutogradValueError: grad: argument 0 is an integer or bool (1), ...
    """


class AutogradIndexError(AutogradValueError, IndexError):
    """An axis is out of range.

    Cause: an axis beyond the number of axes. Fix: axes are 0 to ndim - 1, or -ndim to -1.

    >>> import pullback as pb
    >>> pb.func.vmap(pb.sin, out_dims=5)(pb.ones(2))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.AutogradIndexError: vmap(sin): Dimension out of range (expected to ...
    """


class AutogradUsageError(AutogradError, AssertionError):
    """A call where it makes no sense, and where PyTorch asserts.

    Cause: a call outside of the context that it needs. Fix: call it inside, as its example shows.

    >>> issubclass(AutogradUsageError, RuntimeError)
    True
    """


class NotFiniteError(AutogradError, FloatingPointError):
    """Inf or NaN, found by anomaly mode.

    Cause: a formula gave inf or NaN, for example the slope of a root at 0. Fix: the message has
    the line of the forward call; see the page on NaN.

    >>> import pullback as pb
    >>> import warnings
    >>> x = pb.tensor(0.0, requires_grad=True)
    >>> with warnings.catch_warnings(), pb.autograd.set_detect_anomaly(True):  # doctest: +ELLIPSIS
    ...     warnings.simplefilter("ignore")
    ...     (pb.sqrt(x) * 0.0).backward()
    Traceback (most recent call last):
    pullback.errors.NotFiniteError: Function 'SqrtBackward0' returned nan values in its ...
    """


class GradcheckError(AutogradError):
    """A derivative differs from finite differences, or breaks another promise.

    Cause: a wrong formula, or a function that is not smooth or not deterministic. Fix: compare
    the two Jacobians in the message.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> pb.autograd.gradcheck(lambda x: x.detach() * x, (x,))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.GradcheckError: Jacobian mismatch for output 0 with respect to ...
    """

    def _repr_html_(self) -> str:
        import html  # here: the import of the package does without it

        lines = [html.escape(line) for line in str(self).splitlines() or [""]]
        return f"<b>GradcheckError</b>: {lines[0]}<pre>{chr(10).join(lines[1:])}</pre>"


class CheckpointError(AutogradError):
    """A checkpointed function did something else when it was run again.

    Cause: a checkpointed function takes another path when it runs again. Fix: make it depend on
    its arguments only.

    >>> import pullback as pb
    >>> from pullback.utils.checkpoint import checkpoint
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> f = lambda x, paths=iter([pb.sin, pb.negative]): next(paths)(x)
    >>> checkpoint(f, x, use_reentrant=False).sum().backward()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.CheckpointError: checkpoint: A different number of tensors was ...
    """


class GradientLostError(AutogradError):
    """Library code takes a number out of a tensor that carries a gradient.

    Cause: library code calls `float(x)` or `x.item()` on a value that carries a gradient. Fix: a
    function of Pullback or SciPy with a rule, or `x.detach()`.

    >>> import pullback as pb
    >>> import math
    >>> math.sin(pb.tensor(1.0, requires_grad=True))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.GradientLostError: math.sin takes a number out of a tensor that ...
    """


class DerivativeMissingError(AutogradError, NotImplementedError):
    """An operator has no derivative of the requested kind.

    Cause: a function of NumPy or SciPy, or an operator, has no rule. Fix: `x.detach()` if no
    gradient is wanted, or a rule by `pb.library.custom_op`.

    >>> issubclass(DerivativeMissingError, NotImplementedError)
    True
    """


class OpCheckError(PullbackError, AssertionError):
    """``opcheck`` found something wrong with an operator; the message is its table.

    Cause: a registration does not hold what it promises. Fix: the table of the report names each
    check, its cause and the fix.

    >>> import pullback as pb
    >>> @pb.library.custom_op("errors_page::double", mutates_args=())
    ... def double(x: pb.Tensor) -> pb.Tensor:
    ...     return x
    >>> pb.library.opcheck(double, (pb.ones(2),))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.OpCheckError: opcheck(op, ...): test_schema, test_faketensor, ...
    """


class UnsupportedDtypeError(PullbackError, TypeError, NotImplementedError):
    """An operator is not defined for the data type of an argument.

    Two built-in bases: NumPy raises ``TypeError`` here, and PyTorch ``NotImplementedError``.

    Cause: a bool or string where numbers are needed, a complex number where an order is. Fix:
    convert first, for example `x.astype(float)`.

    >>> import pullback as pb
    >>> pb.erf(pb.tensor([1j]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.UnsupportedDtypeError: erf: not implemented for complex128; real ...
    """


class ViewError(PullbackError, RuntimeError, ValueError):
    """A tensor's memory cannot be seen in that shape.

    Two built-in bases: NumPy raises ``ValueError`` here, and PyTorch ``RuntimeError``.

    Cause: memory that is not contiguous cannot be seen in the shape. Fix: `reshape`, which copies
    where it has to.

    >>> import pullback as pb
    >>> pb.ones((2, 3)).T.view(6)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.ViewError: view: view size is not compatible with input tensor's ...
    """


class NoDataError(PullbackError, NotImplementedError):
    """A tensor has no value to return: it has no data (meta), or is one of a batch.

    Cause: a value of a tensor on the meta device, or inside `vmap`, is read. Fix: compute with a
    tensor that has data; use `pb.where`

    >>> import pullback as pb
    >>> pb.empty((2,), device="meta").tolist()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.NoDataError: tolist(): a meta tensor has no data; it has shape (2,) ...
    """


class DataDependentError(NoDataError):
    """The shape of a result depends on values that a tensor without data does not have.

    Cause: `nonzero` or its kin on a tensor without data. Fix: give the size, or compute with data.

    >>> import pullback as pb
    >>> pb.nonzero(pb.empty((2,), device="meta"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.DataDependentError: pullback::argwhere: the shape of the result ...
    """


class DispatchError(PullbackError, RuntimeError):
    """The root of errors about operators, registrations and dispatch tables.

    Cause: operators and their tables. Fix: the subclass says what happened.

    >>> import pullback as pb
    >>> try:
    ...     pb.ops.pullback.no_such_operator
    ... except pb.errors.DispatchError as error:
    ...     print(type(error).__name__)
    OperatorNotFoundError
    """


class DispatchKeyError(DispatchError, ValueError):
    """A dispatch key is unknown, or used where its kind (alias or runtime) is not allowed.

    Cause: a misspelled key, or an alias where a runtime key is needed. Fix: `pb.DispatchKey`
    lists the keys.

    >>> import pullback as pb
    >>> make = pb.library.custom_op("errors_page::k", mutates_args=(), device_types="gpu")
    >>> def k(x: pb.Tensor) -> pb.Tensor:
    ...     return x
    >>> make(k)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.DispatchKeyError: errors_page::k: we only support device_type among ...
    """


class RegistrationError(DispatchError):
    """A definition or a kernel was refused; the registry is as it was before the call.

    Cause: a second definition of a name, or a kernel for a key that has one. Fix: destroy the
    first handle, or choose another name.

    >>> import pullback as pb
    >>> lib = pb.library.Library("pullback", "DEF")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.RegistrationError: Only a single TORCH_LIBRARY (a library of kind ...
    """


class KernelTypeError(RegistrationError, TypeError):
    """Something that cannot be called was given as a kernel.

    Cause: a kernel that is no function. Fix: pass a function.

    >>> import pullback as pb
    >>> lib = pb.library.Library("errors_page", "FRAGMENT")
    >>> _ = lib.define("f(Tensor x) -> Tensor")
    >>> lib.impl("f", 3, "CPU")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.KernelTypeError: a kernel is required to be a callable but found ...
    >>> lib._destroy()
    """


class LibraryKindError(RegistrationError, ValueError):
    """A library's kind or namespace is not allowed.

    Cause: a kind other than DEF, IMPL and FRAGMENT, or a reserved name. Fix: one of these kinds.

    >>> import pullback as pb
    >>> pb.library.Library("errors_page", "NEW")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.LibraryKindError: Unsupported kind: 'NEW'. A library is of kind ...
    """


class OperatorDefinitionError(RegistrationError, ValueError):
    """The name, hints, schema or tags of a custom operator are not allowed.

    Cause: hints that are missing, or that no schema can express. Fix: annotate every argument and
    the result.

    >>> import pullback as pb
    >>> @pb.library.custom_op("errors_page::f", mutates_args=())  # doctest: +ELLIPSIS
    ... def f(x):
    ...     return x
    Traceback (most recent call last):
    pullback.errors.OperatorDefinitionError: infer_schema(func): f: Parameter x must ...
    """


class UnsupportedSchemaError(RegistrationError, NotImplementedError):
    """A rule was registered for an operator whose schema cannot have one.

    Cause: a rule for an operator that writes to arguments or returns a view. Fix: return a copy.

    >>> issubclass(UnsupportedSchemaError, NotImplementedError)
    True
    """


class DestroyedLibraryError(DispatchError, AssertionError):
    """A library was used after it had been destroyed.

    Cause: a library is used after its `_destroy`. Fix: make a new one.

    >>> import pullback as pb
    >>> lib = pb.library.Library("errors_page", "FRAGMENT")
    >>> lib._destroy()
    >>> lib.define("f(Tensor x) -> Tensor")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.DestroyedLibraryError: Library object has been destroyed: ...
    """


class OperatorNotFoundError(DispatchError, AttributeError):
    """No operator, overload or namespace of that name is defined.

    Cause: a misspelled name, or a module that defines it is not imported. Fix: the message has
    near names.

    >>> import pullback as pb
    >>> pb.ops.pullback.sine  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.OperatorNotFoundError: no operator pullback::sine is defined. Did ...
    """


class KernelNotFoundError(DispatchError, NotImplementedError):
    """A call reached a dispatch key for which the operator has no kernel.

    Cause: a tensor of a backend for which the operator has no kernel. Fix: `op.dispatch_table()`
    shows the kernels; register one.

    >>> import pullback as pb
    >>> @pb.library.custom_op("errors_page::g", mutates_args=(), device_types="xla")
    ... def g(x: pb.Tensor) -> pb.Tensor:
    ...     return x
    >>> g(pb.ones(2))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.KernelNotFoundError: errors_page::g: there is no cpu impl ...
    """


class AmbiguousKernelError(DispatchError):
    """A composite kernel and a backend kernel both claim ``AutogradOther``.

    Cause: a kernel at CompositeImplicitAutograd and one at a backend of AutogradOther. Fix:
    register a kernel at AutogradOther, or make the composite explicit.

    >>> issubclass(AmbiguousKernelError, RuntimeError)
    True
    """


class KernelResultError(DispatchError):
    """A kernel returned something that the operator's schema does not allow.

    Cause: a kernel returned another number or type of results than its schema has. Fix: return
    what the schema promises.

    >>> import pullback as pb
    >>> @pb.library.custom_op("errors_page::h", mutates_args=())
    ... def h(x: pb.Tensor) -> pb.Tensor:
    ...     return 3
    >>> h(pb.ones(2))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.KernelResultError: errors_page::h: Unable to cast 3 to Tensor: the ...
    """


class AutogradNotRegisteredError(DispatchError):
    """An operator without an autograd kernel was differentiated while that is forbidden.

    Cause: a custom operator without a formula is differentiated in mode "error". Fix:
    `register_autograd`.

    >>> issubclass(AutogradNotRegisteredError, RuntimeError)
    True
    """
