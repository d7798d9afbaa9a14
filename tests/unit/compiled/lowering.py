"""Tracing and lowering of a function, and its results by the interpreter."""

from __future__ import annotations

import numpy as np

import pullback as pb
from pullback.compiled.lowering.interpret import interpret
from pullback.compiled.lowering.lower import Output, lower
from pullback.compiled.results import result_node
from pullback.fx.tracer import Tracer
from pullback.tensor.tensor import wrap
from pullback.utils import pytree


def traced(function, *args):
    """The tracer of a run of a function of arrays and numbers, and the nodes of its results."""
    tracer = Tracer(allows_reads=True)
    given = []
    for place, value in enumerate(args):
        if isinstance(value, np.ndarray):
            given.append(wrap(tracer.input(f"x{place}", value)))
        else:
            given.append(tracer.input_number(f"x{place}", value))
    with tracer.running():
        returned = function(*given)
    found, _ = pytree.flatten(returned, none_is_leaf=True)
    return tracer, [result_node(tracer, value) for value in found]


def lowered(function, *args):
    """The lowered program of a function; arrays are copied, so that writes do not change them."""
    copies = [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in args]
    return lower(*traced(function, *copies))


def inputs_of(program, tracer, args):
    """The arrays that a lowered program gets."""
    return [
        np.asarray(args[source.name] if source.kind == "argument" else tracer.captured[source.name])
        for source in program.sources
    ]


def lowered_results(function, *args, transform=None):
    """The results of the lowered program of a function, computed by the interpreter."""
    copies = [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in args]
    tracer, outputs = traced(function, *copies)
    program = lower(tracer, outputs)
    graph = program.graph if transform is None else transform(program.graph)
    values, holds = interpret(graph, inputs_of(program, tracer, args))
    assert holds
    results = [values[r.output] if isinstance(r, Output) else r for r in program.results]
    return results, [values[w.output] for w in program.writes], graph


def eager_results(function, *args):
    """The results of a function as arrays."""
    given = [pb.asarray(a.copy(order="K")) if isinstance(a, np.ndarray) else a for a in args]
    found, _ = pytree.flatten(function(*given), none_is_leaf=True)
    return [np.asarray(value) for value in found]
