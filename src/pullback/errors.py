"""Every exception that Pullback raises on purpose.

A user error derives from ``PullbackError`` and from the built-in type that PyTorch raises in the
same situation, so both ``except PullbackError`` and code written for PyTorch catch it::

    PullbackError
    ├── SchemaError                 RuntimeError, AssertionError  text that is no valid schema
    ├── BindError                   RuntimeError                  arguments that do not fit a schema
    ├── AutogradError               RuntimeError                  about graphs and gradients
    │   ├── GraphFreedError                                       saved values that are gone
    │   ├── SavedVersionError                                     a saved value was written over
    │   ├── InplaceError                                          a write that autograd forbids
    │   ├── InferenceError                                        an inference tensor misused
    │   ├── AutogradTypeError       TypeError                     an argument of the wrong type
    │   ├── AutogradValueError      ValueError                    an argument with no such meaning
    │   │   └── AutogradIndexError  IndexError                    an axis that is out of range
    │   ├── AutogradUsageError      AssertionError                a call in the wrong place
    │   ├── NotFiniteError          FloatingPointError            inf or NaN, where it is looked for
    │   ├── GradcheckError                                        a derivative found to be wrong
    │   ├── CheckpointError                                       a recomputation that differs
    │   ├── GradientLostError                                     a number taken out of a tensor
    │   └── DerivativeMissingError  NotImplementedError           a derivative that does not exist
    ├── GraphError                  RuntimeError                  a graph of pullback.fx misused
    ├── TraceError                  RuntimeError                  a program that cannot be traced
    ├── FileFormatError             ValueError                    a file that is damaged
    ├── PartitionLostError          RuntimeError                  data lost with its worker
    ├── MissingPackageError         ImportError                   an optional package is needed
    ├── ModuleInputError            RuntimeError, ValueError      an input that a module refuses
    ├── CodegenError                RuntimeError                  a table or formula refused
    ├── OpCheckError                AssertionError                an operator that opcheck refuses
    ├── UnsupportedDtypeError       TypeError                     a dtype an operator is not for
    ├── ViewError                   RuntimeError, ValueError      a view that does not exist
    ├── NoDataError                 NotImplementedError           values of a tensor without data
    │   └── DataDependentError                                    a shape that depends on values
    └── DispatchError               RuntimeError                  about operators and their tables
        ├── DispatchKeyError        ValueError                    a key that is unknown or misused
        ├── RegistrationError                                     a definition or kernel refused
        │   ├── KernelTypeError     TypeError                     a kernel that cannot be called
        │   ├── LibraryKindError    ValueError                    a library kind or name refused
        │   ├── OperatorDefinitionError ValueError                a custom operator refused
        │   └── UnsupportedSchemaError NotImplementedError        a schema without such a rule
        ├── DestroyedLibraryError   AssertionError                a library used after its end
        ├── OperatorNotFoundError   AttributeError                no operator of that name
        ├── KernelNotFoundError     NotImplementedError           a call that reaches no kernel
        ├── AmbiguousKernelError                                  two kernels claim AutogradOther
        ├── KernelResultError                                     a result that breaks the schema
        └── AutogradNotRegisteredError                            no derivative, in mode "error"

This module imports nothing, so that every layer may use it.
"""

from __future__ import annotations

__all__ = [
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
]


class PullbackError(Exception):
    """The root of all errors that Pullback raises on purpose."""


class SchemaError(PullbackError, RuntimeError, AssertionError):
    """A text is no valid operator schema; the message quotes it with a caret at the fault.

    Two built-in bases, because PyTorch's two parsers differ: the code generator's raises
    ``AssertionError`` and the runtime's raises ``RuntimeError`` for the same text.
    """


class BindError(PullbackError, RuntimeError):
    """The arguments of a call do not fit the operator's schema."""


class GraphError(PullbackError, RuntimeError):
    """A graph of ``pullback.fx`` was changed or read in a way that makes no sense."""


class TraceError(PullbackError, RuntimeError):
    """A program cannot be traced, or a value of a traced program was used outside of it."""


class FileFormatError(PullbackError, ValueError):
    """A file that is damaged or of an unknown format, or data that no file can hold."""


class MissingPackageError(PullbackError, ImportError):
    """Something needs a package that is optional, and that is not installed."""


class PartitionLostError(PullbackError, RuntimeError):
    """A partition of data was in the memory of a worker that is gone, and has no origin."""


class ModuleInputError(PullbackError, RuntimeError, ValueError):
    """An input that a module cannot take; the message begins with the module's path."""

    def set_path(self, path: str) -> None:
        """Puts the path of the module in front of the message, or replaces the one there."""
        self.message = getattr(self, "message", str(self))
        self.args = (f"{path}: {self.message}",)


class CodegenError(PullbackError, RuntimeError):
    """An operator table or a formula was refused.

    Once the place is known the message begins with it, as ``file:line:column``. Before that, while
    a formula is looked at by itself, ``offset`` says where in its text the fault is.
    """

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.offset = offset


class AutogradError(PullbackError, RuntimeError):
    """The root of errors about graphs, gradients and what may be done to tensors in a graph."""


class GraphFreedError(AutogradError):
    """A backward pass needs saved values that an earlier one released."""


class SavedVersionError(AutogradError):
    """A value that was saved for the backward pass has been modified in place."""


class InplaceError(AutogradError):
    """An in-place operation that would make gradients wrong, or that cannot be recorded."""


class InferenceError(AutogradError):
    """A tensor that was made in inference mode is used where history or versions are needed."""


class AutogradTypeError(AutogradError, TypeError):
    """An argument or a result of a hook or a backward has the wrong type."""


class AutogradValueError(AutogradError, ValueError):
    """An argument has the right type, but no value that has a meaning here."""


class AutogradIndexError(AutogradValueError, IndexError):
    """An axis is out of range."""


class AutogradUsageError(AutogradError, AssertionError):
    """A call where it makes no sense, and where PyTorch asserts."""


class NotFiniteError(AutogradError, FloatingPointError):
    """Inf or NaN, found by anomaly mode."""


class GradcheckError(AutogradError):
    """A derivative differs from finite differences, or breaks another promise."""

    def _repr_html_(self) -> str:
        import html  # here: the import of the package does without it

        lines = [html.escape(line) for line in str(self).splitlines() or [""]]
        return f"<b>GradcheckError</b>: {lines[0]}<pre>{chr(10).join(lines[1:])}</pre>"


class CheckpointError(AutogradError):
    """A checkpointed function did something else when it was run again."""


class GradientLostError(AutogradError):
    """Library code takes a number out of a tensor that carries a gradient."""


class DerivativeMissingError(AutogradError, NotImplementedError):
    """An operator has no derivative of the requested kind."""


class OpCheckError(PullbackError, AssertionError):
    """``opcheck`` found something wrong with an operator; the message is its table."""


class UnsupportedDtypeError(PullbackError, TypeError, NotImplementedError):
    """An operator is not defined for the data type of an argument.

    Two built-in bases: NumPy raises ``TypeError`` here, and PyTorch ``NotImplementedError``.
    """


class ViewError(PullbackError, RuntimeError, ValueError):
    """A tensor's memory cannot be seen in that shape.

    Two built-in bases: NumPy raises ``ValueError`` here, and PyTorch ``RuntimeError``.
    """


class NoDataError(PullbackError, NotImplementedError):
    """A tensor has no value to return: it has no data (meta), or is one of a batch."""


class DataDependentError(NoDataError):
    """The shape of a result depends on values that a tensor without data does not have."""


class DispatchError(PullbackError, RuntimeError):
    """The root of errors about operators, registrations and dispatch tables."""


class DispatchKeyError(DispatchError, ValueError):
    """A dispatch key is unknown, or used where its kind (alias or runtime) is not allowed."""


class RegistrationError(DispatchError):
    """A definition or a kernel was refused; the registry is as it was before the call."""


class KernelTypeError(RegistrationError, TypeError):
    """Something that cannot be called was given as a kernel."""


class LibraryKindError(RegistrationError, ValueError):
    """A library's kind or namespace is not allowed."""


class OperatorDefinitionError(RegistrationError, ValueError):
    """The name, hints, schema or tags of a custom operator are not allowed."""


class UnsupportedSchemaError(RegistrationError, NotImplementedError):
    """A rule was registered for an operator whose schema cannot have one."""


class DestroyedLibraryError(DispatchError, AssertionError):
    """A library was used after it had been destroyed."""


class OperatorNotFoundError(DispatchError, AttributeError):
    """No operator, overload or namespace of that name is defined."""


class KernelNotFoundError(DispatchError, NotImplementedError):
    """A call reached a dispatch key for which the operator has no kernel."""


class AmbiguousKernelError(DispatchError):
    """A composite kernel and a backend kernel both claim ``AutogradOther``."""


class KernelResultError(DispatchError):
    """A kernel returned something that the operator's schema does not allow."""


class AutogradNotRegisteredError(DispatchError):
    """An operator without an autograd kernel was differentiated while that is forbidden."""
