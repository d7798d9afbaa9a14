"""``compile`` and ``CompiledFunction``: trace once for each signature, then run the graph."""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback._lazy import lazy_module
from pullback.autograd.levels import run_outside_transforms
from pullback.compiled.aliasing import shares_written_memory
from pullback.compiled.array_classes import array_classes
from pullback.compiled.eager.program import MISS, Program, compile_program
from pullback.compiled.entries import CacheInfo, Entry, as_arrays, describe_entry
from pullback.compiled.hidden_inputs import (
    CHANGED,
    FLOATS,
    NO_ARRAYS,
    Attempt,
    ChangedArrays,
    Substitution,
    substitution_lock,
)
from pullback.compiled.llvm.compiler import is_supported, require_llvmlite
from pullback.compiled.llvm.object_cache import use_cache
from pullback.compiled.lowering.expressions import CannotLower
from pullback.compiled.outside import Effects, Outside
from pullback.compiled.paths import FAILED, Path, Trace, generator_note, recorded_path
from pullback.compiled.progress import show_progress
from pullback.compiled.reach import ID_OF_OBJECT
from pullback.compiled.recorded import attach_freed, trace_gradients
from pullback.compiled.report import (
    describe_kind,
    note_function,
    program_text,
)
from pullback.compiled.results import (
    as_array,
    build_result,
    require_known,
    require_same_containers,
    result_node,
    result_value,
)
from pullback.compiled.shared_results import find_shared
from pullback.compiled.side_effects import SideEffects, StoredError
from pullback.compiled.signatures import (
    Arguments,
    Static,
    constants_of,
    flatten_call,
    inputs_of,
    is_hashable,
    leaf_names,
    lift_array,
)
from pullback.compiled.watch import (
    Watch,
    find_change,
    is_flag,
    merge_watches,
    owners_of_arrays,
    require_unchanged,
)
from pullback.dispatch.modes import NUMBERS, NUMPY, TRACE, TRANSFORM, get_state
from pullback.errors import PullbackError, TraceError, message_of
from pullback.fx.graph import Graph
from pullback.fx.snapshots import WRITES_OUTSIDE
from pullback.fx.tracer import Tracer
from pullback.fx.user_code import warn_user
from pullback.inspector.html_repr import table_html, text_html
from pullback.interop.mode import run_in_mode
from pullback.kernels.random import watch_generators
from pullback.tensor.tensor import Tensor, as_class_of, wrap
from pullback.utils import pytree

if TYPE_CHECKING:
    from pullback.compiled.llvm import program as native_code
else:
    native_code = lazy_module("pullback.compiled.llvm.program")  # needs llvmlite

__all__ = ["CacheInfo", "CompiledFunction", "compile"]

_MOST_PATHS = 8
_MOST_TRACE_REASONS = 100
_MOST_OTHERS = 4  # values of flags outside whose graphs are kept
_MOST_CHANGES = 8  # in a row, without a call that a graph served
_BACKENDS = ("eager", "llvm")
_TRACED_MODES = TRANSFORM | NUMPY  # modes in which programs run as outside of them
_MOST_NATIVES = 8  # functions for whole calls that are tried before arguments are taken apart


def compile(
    func: Callable[..., Any] | None = None,
    *,
    backend: str = "llvm",
    fullgraph: bool = False,
    static_argnums: int | Sequence[int] = (),
    maxsize: int = 64,
    cache: bool = True,
) -> Any:
    """A function that records `func` once for each kind of arguments, and then runs the graph.

    `func` may be any function of arrays, tensors and numbers, and any transform of one. Results are
    those of `func`; they are tensors if an argument is one, and arrays and scalars otherwise.

    Args:
        func: the function; without it, a decorator with the other arguments.
        backend: ``"llvm"``: the graph becomes machine code (needs llvmlite); ``"eager"``: it runs
            as NumPy kernels, without dispatch and autograd.
        fullgraph: raise, instead of calling `func` itself, where it cannot be one graph.
        static_argnums: positions of arguments that are constants of a graph.
        maxsize: the number of signatures whose graphs are kept.
        cache: keep machine code on disk, for later processes.

    >>> import numpy as np
    >>> import pullback as pb
    >>> step = pb.compile(pb.value_and_grad(lambda w, x: ((w * x) ** 2).sum()))
    >>> value, gradient = step(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    >>> value, gradient
    (np.float64(73.0), array([18., 64.]))
    >>> step(np.array([1.0, 1.0]), np.array([3.0, 4.0]))[0], step.cache_info().hits
    (np.float64(25.0), 1)
    """
    static = [static_argnums] if isinstance(static_argnums, int) else sorted(static_argnums)
    options: dict[str, Any] = {"backend": backend, "fullgraph": fullgraph, "static_argnums": static}
    options |= {"maxsize": maxsize, "cache": cache}
    if func is None:
        return functools.partial(compile, **options)
    if not callable(func):
        raise TypeError(f"compile: func must be callable, not {type(func).__name__}")
    if backend not in _BACKENDS:
        raise ValueError(f"compile: backend must be one of {_BACKENDS}, not {backend!r}")
    if not isinstance(maxsize, int) or maxsize < 1:
        raise ValueError(f"compile: maxsize must be an integer of at least 1, not {maxsize!r}")
    if isinstance(func, CompiledFunction):
        return func
    if backend == "llvm":
        if is_supported():
            require_llvmlite()
        else:
            _warn_untested()
            options["backend"] = "eager"
    return CompiledFunction(func, options)


@functools.cache
def _warn_untested() -> None:
    """Warns once in a process."""
    warn_user(
        "compile: the code generator has not been tested on this platform; backend='eager' is used"
    )


class CompiledFunction:
    """Result of ``compile``: is called as the function, and has its graphs.

    ``stats`` counts ``traces``, ``hits``, calls that ran the function itself (``eager``) and names
    from outside that had another object (``changes``).

    >>> import pullback as pb
    >>> f = pb.compile(lambda x: pb.sin(x) * 2, backend="eager")
    >>> _ = f(pb.ones(2)), f(pb.ones(2))
    >>> f.cache_info().hits
    1
    """

    def __init__(self, func: Callable[..., Any], options: dict[str, Any]):
        # A class of its own: machine code for whole calls is the class's __call__, and is reached
        # without a frame of Python (the smallest program takes 0.2 us instead of 0.45).
        self.__class__ = type(
            "CompiledFunction",
            (CompiledFunction,),
            {"__doc__": CompiledFunction.__doc__, "__module__": CompiledFunction.__module__},
        )
        functools.update_wrapper(self, func, updated=())
        self._func = func
        self.options = options  # the arguments of ``compile`` besides the function
        self._backend = options["backend"]
        self._fullgraph = options["fullgraph"]
        self._static = frozenset(options["static_argnums"])
        self._entries: OrderedDict[Any, Entry] = OrderedDict()
        self._watches: list[Watch] = []
        self._changes_nothing = True  # no trace has changed a place that is watched
        self._own_change: Watch | None = None  # what the last trace has changed
        # graphs for other values of a flag outside, such as `training` of a module
        self._others: list[tuple[list[Watch], OrderedDict[Any, Entry]]] = []
        self._changed_arrays = ChangedArrays()
        self._changes_in_a_row = self._hits_before = 0  # calls that no graph served
        self._unsteady = ""  # why the function is called itself from now on
        self._warnings: set[str] = set()  # reasons that have been given
        # programs with a function for whole calls
        self._natives: list[native_code.NativeProgram] = []
        self._traces: list[str] = []  # why the function was traced, each time
        self._stats = {"traces": 0, "hits": 0, "eager": 0, "changes": 0}
        note_function(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program of the arguments' signature."""
        return self._call(*args, **kwargs)

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """The general path of a call."""
        state = get_state()
        traces = not state.modes & ~_TRACED_MODES
        given = flatten_call(args, kwargs, self._static) if traces else None
        if given is None:
            return self._call_in_trace(args, kwargs, state)
        entry = self._entry(given, state)
        if entry.returns_arrays:
            given = given._replace(returns_arrays=True)
        if entry.reason:
            return self._call_func(args, kwargs, given)
        inputs = inputs_of(given)
        paths = list(entry.paths)
        found = self._run_paths(entry, paths, given, inputs)
        if found is MISS:
            with substitution_lock() as is_alone:  # another thread may have traced meanwhile
                new = [path for path in entry.paths if all(path is not other for other in paths)]
                found = self._run_paths(entry, new, given, inputs)
                if found is MISS and is_alone and not entry.reason:
                    return self._trace_path(entry, given, args, kwargs)
        if found is MISS or found is FAILED:
            return self._call_func(args, kwargs, given)
        return found

    def _run_paths(self, entry: Entry, paths: list[Path], given: Arguments, inputs: Any) -> Any:
        """The result of the first path whose guards hold; MISS or FAILED if there is none."""
        for path in paths:
            found = self._run(path, given, inputs)
            if found is not MISS:
                if found is not FAILED:
                    entry.prefer(path)
                    self._stats["hits"] += 1
                return found
        return MISS

    def _trace_path(self, entry: Entry, given: Arguments, args: Any, kwargs: Any) -> Any:
        """Traces a further path; from a number of paths on, the function is called as it is."""
        if len(entry.paths) >= _MOST_PATHS:
            reason = f"{entry.describe_miss()} has taken {_MOST_PATHS} different values"
            self._refuse(entry, reason)
            return self._call_func(args, kwargs, given)
        self._note_trace(entry, given)
        with show_progress(getattr(self._func, "__name__", "function")):
            return self._trace(entry, given, args, kwargs)

    def _call_in_trace(self, args: Any, kwargs: Any, state: Any) -> Any:
        """Calls the function as part of what runs: of a trace, or in a mode."""
        leaves, spec = pytree.flatten((args, kwargs))
        lifted = list(map(lift_array, leaves))
        is_lifted = any(map(operator.is_not, lifted, leaves))
        if not state.modes & TRACE or not is_lifted:
            return self._call_func(args, kwargs)
        # Arrays from outside are part of the graph that is made.
        args, kwargs = pytree.unflatten(spec, lifted)
        result = self._call_func(args, kwargs)
        require_same_containers((args, kwargs), lifted, spec)
        return result

    def _run(self, path: Path, given: Arguments, inputs: list[Any]) -> Any:
        """Runs the program of a path; returns the function's result, MISS or FAILED."""
        again = functools.partial(self._leaves_of, given.spec, self._watches)
        found = path.run(inputs, given.leaves, again)
        if found is MISS or found is FAILED:
            return found
        return build_result(found, path.out_spec, given.returns_arrays)

    def _leaves_of(self, spec: pytree.Spec, watches: list[Watch], leaves: list[Any]) -> list[Any]:
        """Calls the function itself again, and returns the leaves of its results."""
        require_unchanged(watches)
        args, kwargs = pytree.unflatten(spec, leaves)
        returned = self._func(*map(Static.unwrap, args), **kwargs)
        return pytree.flatten(returned, none_is_leaf=True)[0]

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """The function as a method: the instance is its first argument, a constant of the graph."""
        return self if instance is None else MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        """Attributes of the function itself, such as ``parameters`` of a module."""
        if name.startswith("__") or "_func" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._func, name)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickled by name where a module holds it, else as its function; graphs stay here."""
        module, name = self.__module__, getattr(self, "__qualname__", "")
        if module != "__main__" and getattr(sys.modules.get(module), name, None) is self:
            return name
        return functools.partial(compile, **self.options), (self._func,)

    @property
    def stats(self) -> dict[str, int]:
        """Counts of traces, hits, calls of the function itself and changed names."""
        hits = sum(native.hits.value for native in self._natives)
        return {**self._stats, "hits": self._stats["hits"] + hits}

    def _next_call(self) -> Any:
        """The function that machine code for whole calls calls for other arguments."""
        if len(self._natives) >= _MOST_NATIVES:
            self._drop_natives()
        return self._natives[-1].call if self._natives else self._call

    def _drop_natives(self) -> None:
        self._stats["hits"] = self.stats["hits"]
        self._natives = []
        type(self).__call__ = CompiledFunction.__call__  # type: ignore[method-assign]

    # --- entries ----------------------------------------------------------------------------------

    def _entry(self, given: Arguments, state: Any) -> Entry:
        # What the function changes itself is a change even if it was undone since: a graph does
        # not repeat it.
        change = self._own_change or find_change(self._watches)
        if change is not None:
            self._forget(change)
        key = (given.spec, given.kinds, state)
        try:
            entry = self._entries.get(key)
        except TypeError:
            pairs = zip(given.leaves, given.kinds, strict=True)
            static = [x for x, kind in pairs if kind[0] == "static"]
            bad = next((x for x in static if not is_hashable(x)), None)
            if bad is None:
                raise
            raise TypeError(
                f"compile: an argument of type {type(Static.unwrap(bad)).__name__} is a constant "
                f"of the graph, and has to be hashable; pass arrays, tensors, numbers, or "
                f"containers of them"
            ) from None
        if entry is None:
            entry = self._entries[key] = Entry()
            if len(self._entries) > self.options["maxsize"]:
                self._entries.popitem(last=False)
                self._drop_natives()
            if self._unsteady:
                self._refuse(entry, self._unsteady)
        with contextlib.suppress(KeyError):  # another thread has dropped it
            self._entries.move_to_end(key)
        return entry

    def _forget(self, change: Watch) -> None:
        """Drops all graphs, because a place outside has changed; gives up if it always does.

        Those for another value of a flag are kept, and found again with it, if the function has
        changed nothing itself: a graph would not repeat that.
        """
        hits = self.stats["hits"]
        self._changes_in_a_row = self._changes_in_a_row + 1 if hits == self._hits_before else 1
        self._hits_before = hits
        if self._changes_in_a_row >= _MOST_CHANGES:
            self._unsteady = (
                f"{change} from outside changes from call to call; pass it as an argument"
            )
        self._stats["changes"] += 1
        self._changed_arrays.note(self._watches)
        if self._changes_nothing and is_flag(change):
            self._others = [*self._others[1 - _MOST_OTHERS :], (self._watches, self._entries)]
        self._drop_natives()
        self._watches, self._entries, self._changes_nothing = [], OrderedDict(), True
        self._own_change = None
        for place, (watches, entries) in enumerate(self._others):
            if find_change(watches) is None:
                self._watches, self._entries = watches, entries
                del self._others[place]
                break

    # --- tracing ----------------------------------------------------------------------------------

    def _note_trace(self, entry: Entry, given: Arguments) -> None:
        """Notes why the function is traced, for ``explain``."""
        if entry.paths:
            reason = f"another value at a guard, such as {entry.describe_miss()}"
        else:
            kinds = ", ".join(map(describe_kind, given.kinds)) or "none"
            reason = f"arguments {kinds}"
            if self.stats["changes"]:
                reason += f"; names had changed {self.stats['changes']} time(s)"
        if len(self._traces) < _MOST_TRACE_REASONS:
            self._traces.append(reason)

    def _trace(
        self,
        entry: Entry,
        given: Arguments,
        args: Any,
        kwargs: Any,
        attempt: Attempt = Attempt(),  # noqa: B008 - a tuple
    ) -> Any:
        self._stats["traces"] += attempt == Attempt()
        tracer = Tracer(allows_reads=not self._fullgraph, is_general=attempt.is_general)
        tracer.keeps_guards = tracer.takes_numbers = True
        effects = Effects(tracer, SideEffects(self._func, constants_of(given)))
        given = as_arrays(entry, given, effects.python)
        substitution = self._substitution(given, effects.python, attempt)
        try:
            effects.python.require_seen()
            trace = run_outside_transforms(
                lambda: self._record(tracer, given, effects, substitution)
            )
        except BaseException as error:
            effects.undo_all()
            has_inputs = bool(substitution) or bool(self._changed_arrays)
            attempt = attempt._replace(level=substitution.level)
            following = attempt.after_error(error, tracer, has_inputs)
            if following is None and (self._fullgraph or not isinstance(error, Exception)):
                raise
            failure: Exception | None = error if isinstance(error, Exception) else None
        else:
            failure, following = None, None
            if substitution.level == FLOATS and substitution.computes_constants(tracer):
                effects.undo_all()
                self._changed_arrays.note_written(effects.python.watches, tracer.written)
                following = attempt._replace(level=CHANGED)
        if following is not None:
            return self._trace(entry, given, args, kwargs, following)
        if failure is not None:
            return self._call_refused(entry, given, args, kwargs, failure)
        kept = substitution.choose_watches(effects.python.watches, tracer)
        tracer.snapshots.compared = [watch.owner for watch in kept if watch.kind == "content"]
        if shares_written_memory(tracer, given.leaves):
            effects.undo_all()  # a graph for other arguments may be right for these in part
            return self._call_func(args, kwargs, given)
        # A note has the value that was read, perhaps after the function has changed it.
        kept = merge_watches([Watch("item", *note) for note in tracer.notes.values()], kept)
        self._own_change = find_change(kept)
        self._changes_nothing &= self._own_change is None
        self._watches = merge_watches(self._watches, kept)
        if self._own_change is not None and trace.gradients is not None and trace.gradients.results:
            effects.undo_all()  # a derivative may call the function again, with another state
            return self._call_func(args, kwargs, given)
        found = self._first_run(entry, given, tracer, trace, effects)
        if self._own_change is not None:
            self._drop_natives()
        if found is not MISS and found is not FAILED:
            return found
        if tracer.has_loops and found is MISS:
            return self._trace(entry, given, args, kwargs, attempt._replace(is_general=False))
        return self._call_func(args, kwargs, given)

    def _first_run(
        self, entry: Entry, given: Arguments, tracer: Tracer, trace: Trace, effects: Effects
    ) -> Any:
        """Makes the path of a trace; returns the results of the traced call, MISS or FAILED."""
        values = list(map(result_value, trace.results.made, trace.outputs))
        with use_cache(self.options["cache"]):
            path, reason = self._path(tracer, trace, given)
        if reason:
            if self._fullgraph:
                effects.undo_all()
            self._refuse(entry, reason)
        else:
            entry.paths.insert(0, path)
        is_done = trace.gradients is None or not trace.gradients.results
        if is_done and not tracer.has_loops and not get_state().modes:
            effects.keep()
            values = trace.outside.share_gradients(trace.outputs, values)
            values = attach_freed(values, trace.gradients, given.leaves)
            values = trace.results.build(values, given.leaves)
            return build_result(values, trace.out_spec, given.returns_arrays)
        effects.undo()  # values behind a loop are not known yet, nor are residuals
        found = FAILED if reason else self._run(path, given, inputs_of(given))
        if found is not MISS and found is not FAILED:
            return found
        effects.undo_all()
        if tracer.has_loops and not reason:
            entry.paths = [other for other in entry.paths if other is not path]
            self._drop_natives()
            return MISS
        return FAILED

    def _substitution(
        self, given: Arguments, python: SideEffects, attempt: Attempt
    ) -> Substitution:
        """The captured arrays that are inputs: none where tensors differ from arrays."""
        has_arrays = given.returns_arrays
        level = NO_ARRAYS if ID_OF_OBJECT in python.names else attempt.level
        substitution = Substitution(python, self._changed_arrays, level, has_arrays=has_arrays)
        python.copy_large(substitution.arrays)
        return substitution

    def _call_refused(
        self, entry: Entry, given: Arguments, args: Any, kwargs: Any, error: Exception
    ) -> Any:
        """The function's own result, or its error; the trace's error is the reason to refuse."""
        result = self._call_func(args, kwargs, given)
        if isinstance(error, StoredError) and entry.stored < error.most:
            entry.stored += 1  # a cache is full now: the next call is traced again
            return result
        name = "" if isinstance(error, PullbackError) else f"{type(error).__name__}: "
        self._refuse(entry, f"{name}{message_of(error)}")
        return result

    def _record(
        self, tracer: Tracer, given: Arguments, effects: Effects, substitution: Substitution
    ) -> Trace:
        """Runs the function on traced arguments."""
        leaves = self._make_inputs(tracer, given)
        args, kwargs = pytree.unflatten(given.spec, leaves)
        # NumPy's functions are replaced, so that arrays which they make are part of the graph.
        function = run_in_mode(self._func) if given.returns_arrays else self._func
        modes = NUMBERS if given.returns_arrays else 0
        owners = tracer.snapshots.outside = owners_of_arrays(effects.python.watches)
        tracer.snapshots.compared = effects.python.compared
        with watch_generators(effects.generators), tracer.running(modes):
            before = get_state()
            with substitution.active(tracer), array_classes():
                returned = function(*map(Static.unwrap, args), **kwargs)
            if get_state() != before:
                raise TraceError("it leaves grad mode or another mode changed; use a with block")
            require_same_containers((args, kwargs), leaves, given.spec)
            found, out_spec = pytree.flatten(returned, none_is_leaf=True)
            tracer.picks.check_end()
            effects.require_no_draws()
            known = effects.python.outside
            for value in found:
                require_known(value, known)
            substitution.require_no_arrays(tracer, found)
            watches = [*effects.python.watches, *substitution.tensors]
            shared = find_shared(tracer, found, leaves, watches)
            recorded = [x for x in leaves if isinstance(x, Tensor) and x.requires_grad]
            gradients = trace_gradients(tracer, shared.made, recorded)
            outputs = [result_node(tracer, value, owners) for value in shared.made]
            tracer.settle_writes()
            substitution.require_hidden(tracer, gradients)
            outside = Outside(tracer, shared.made, substitution.inputs)
        if effects.python.find_written(tracer.written):
            self._changed_arrays.note(effects.python.watches)
            raise TraceError(WRITES_OUTSIDE)
        effects.python.require_nothing_stored(substitution, found)
        return Trace(shared, outputs, out_spec, gradients, outside)

    def _path(self, tracer: Tracer, trace: Trace, given: Arguments) -> tuple[Path, str]:
        """The program of a trace, and why it must not run again; or an empty string."""
        if trace.gradients is not None and trace.gradients.results:
            return recorded_path(tracer, trace, is_native=self._backend == "llvm")
        outputs = [*trace.outputs, *trace.outside.outputs]
        program = self._program(tracer, outputs, given, trace)
        path = Path(program, trace.results, trace.out_spec, trace.outside)
        path = path._replace(gradients=trace.gradients)
        return path, program.reason

    def _program(
        self, tracer: Tracer, outputs: list[Any], given: Arguments, trace: Trace
    ) -> Program:
        """The program of a trace: machine code, or kernels where there is none."""
        if self._backend == "llvm":
            tensors = trace.outside.captured
            makes_tensors = not given.returns_arrays
            is_plain = tensors is not None and not (get_state().modes and makes_tensors)
            is_plain = is_plain and not trace.results.shared and not trace.results.instances
            captured = tensors or [], trace.outside.inputs
            call = native_code.TracedCall(
                given, trace.out_spec, get_state(), self._watches, *captured, self._next_call()
            )
            try:
                native = native_code.compile_native(tracer, outputs, call if is_plain else None)
            except CannotLower as reason:
                return compile_program(tracer, outputs)._replace(note=str(reason))
            except Exception as error:  # a mistake of the code generator must not end the program
                return compile_program(tracer, outputs)._replace(note=generator_note(error))
            if native.call is not None:
                self._natives.append(native)
                type(self).__call__ = native.call  # type: ignore[method-assign]
            return native.as_program(outputs)
        return compile_program(tracer, outputs)

    def _make_inputs(self, tracer: Tracer, given: Arguments) -> list[Any]:
        names = leaf_names(self._func, given.spec)
        made: list[Any] = []
        for name, leaf, kind in zip(names, given.leaves, given.kinds, strict=True):
            if kind[0] == "tensor":
                tensor = as_class_of(leaf, wrap(tracer.input(name, leaf._array)))
                tracer.add_argument(tensor, kind[-1])
                made.append(tensor)
            elif kind[0] == "array":
                made.append(wrap(tracer.input(name, np.asarray(leaf))))
            elif kind[0] == "number":
                made.append(tracer.input_number(name, leaf))
            else:
                tracer.graph.placeholder(name)
                made.append(leaf)
        return made

    def _refuse(self, entry: Entry, reason: str) -> None:
        """Notes that the function is called itself for a signature; warns, or raises."""
        name = getattr(self._func, "__name__", repr(self._func))
        message = f"compile: {name} cannot be one graph: {reason}"
        if self._fullgraph:
            raise TraceError(f"{message}. It was compiled with fullgraph=True.")
        entry.reason = reason
        entry.paths.clear()
        if reason not in self._warnings:
            self._warnings.add(reason)
            warn_user(f"{message}. It is called as it is.")

    def _call_func(self, args: Any, kwargs: Any, given: Arguments | None = None) -> Any:
        """Calls the function itself; results are arrays where those of its programs are."""
        self._stats["eager"] += 1
        result = self._func(*args, **kwargs)
        return pytree.map(as_array, result) if given and given.returns_arrays else result

    # --- looking inside ---------------------------------------------------------------------------

    def _programs(self, args: Any, kwargs: Any) -> tuple[Entry, list[Program]]:
        given = flatten_call(args, kwargs, self._static)
        if given is None:
            raise TraceError("compile: these arguments are not traced: the function is called")
        entry = self._entry(given, get_state())
        if not entry.paths and not entry.reason:
            self._call(*args, **kwargs)
            entry = self._entry(given, get_state())
        return entry, [path.program for path in entry.paths]

    def graph(self, *args: Any, **kwargs: Any) -> str:
        """The graphs of a call as text, one for each path through its branches.

        The function runs once if it has not been traced for such arguments.
        """
        entry, programs = self._programs(args, kwargs)
        if entry.reason:
            return f"# called as it is: {entry.reason}"
        return "\n".join(program_text(program) for program in programs)

    def fx_graphs(self) -> list[Graph]:
        """The graphs of all calls that were traced, those of the last call at the end."""
        return [
            path.program.tracer.graph
            for entry in self._entries.values()
            for path in reversed(entry.paths)
        ]

    def _repr_html_(self) -> str:
        texts = [program_text(p.program) for e in self._entries.values() for p in e.paths]
        stats = table_html(list(self.stats), [list(self.stats.values())], repr(self))
        return stats + "".join(map(text_html, texts))

    def llvm_ir(self, *args: Any, **kwargs: Any) -> str:
        """The machine code of a call as LLVM's text; empty if it has none."""
        return "\n".join(program.llvm_ir() for program in self._programs(args, kwargs)[1])

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """A report about a call: segments, opaque operators and why, guards, memory, traces."""
        entry, programs = self._programs(args, kwargs)
        name = getattr(self._func, "__name__", repr(self._func))
        lines = [f"{name}: {len(programs)} graph(s), backend {self._backend}"]
        return "\n".join([*lines, *describe_entry(entry), *self._history()])

    def report(self) -> str:
        """The same about all signatures of the calls so far."""
        lines = [f"{len(self._entries)} signature(s), backend {self._backend}"]
        for (_, kinds, _), entry in self._entries.items():
            lines.append(f"arguments {', '.join(map(describe_kind, kinds))}:")
            lines += [f"  {line}" for line in describe_entry(entry)]
        return "\n".join([*lines, *self._history()])

    def _history(self) -> list[str]:
        """The reason for each trace, and the counts of calls."""
        lines = [f"trace {n}: {reason}" for n, reason in enumerate(self._traces, 1)]
        return [*lines, ", ".join(f"{count} {what}" for what, count in self.stats.items())]

    def cache_info(self) -> CacheInfo:
        """Hits, misses (traces), the bound and the number of signatures that are kept."""
        misses = self.stats["traces"]
        return CacheInfo(self.stats["hits"], misses, self.options["maxsize"], len(self._entries))

    def cache_clear(self) -> None:
        """Forgets all graphs."""
        self._entries.clear()
        self._others.clear()
        self._drop_natives()

    def __repr__(self) -> str:
        return f"<compiled {getattr(self._func, '__name__', self._func)!r}>"
