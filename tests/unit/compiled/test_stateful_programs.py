"""Random programs with a state outside: a call returns and leaves what the function does.

The state is changed between calls, by element, by replacement and by aliases. Results, the state
and what shares memory with what are compared after each call.
"""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

import pullback as pb

CALLS = 7
STATE = """
import collections, copy, pickle
import numpy as np
Pair = collections.namedtuple("Pair", "u v")
class State:
    shared = np.array([0.1, 0.2, 0.3, 0.4])
s = State()
s.a, s.b = np.array([0.5, -1.0, 2.0, 0.25]), np.array([1.0, 2.0, -0.5, 0.75])
s.m = np.linspace(-1.0, 1.0, 12).reshape(3, 4)
s.v, s.w = s.m[1], s.m.T[1]
s.k, s.q = np.array([0, 3, 1, 2]), np.array([True, False, True, True])
s.d = {"x": np.array([1.0, 1.5, 0.5, -2.0]), "y": s.b}
s.l = [np.array([0.1, 0.2, 0.3, 0.4]), s.a]
s.p = Pair(np.array([0.3, 0.1, -0.2, 0.9]), np.ones(4))
s.n, s.r, s.flag, s.h = 1, 0.5, True, []
G, N = np.array([0.2, 0.4, 0.6, 0.8]), 2
"""
PLACES = ["s.a", "s.b", "s.v", "s.d['x']", "s.d['y']", "s.l[0]", "s.l[1]", "G", "s.shared"]
READS = [
    *PLACES,
    *["s.p.u", "x", "s.m[2]", "s.m.ravel()[4:8]", "s.m.T.ravel()[:4]", "s.m.T[:, 1]", "s.a[::-1]"],
    *["s.k", "s.q", "s.a[s.k]", "s.m[1, s.k]", "s.m.T.reshape(-1)[1:5]", "np.roll(s.a, s.n)"],
    *[
        "copy.copy(s.b)",
        "copy.deepcopy(s.d)['x']",
        "pickle.loads(pickle.dumps(s.b))",
        "np.array(s.v)",
    ],
    *[
        "s.m.sum(axis=0)",
        "np.where(s.q, s.a, s.b)",
        "np.sort(s.a)",
        "s.m[s.n % 3]",
        "s.w.sum() * s.b",
    ],
]
SCALARS = ["s.r", "s.n", "N", "0.5", "s.a[0]", "float(s.a[1])", "s.k[1]", "s.m.sum()", "len(s.h)"]
TESTS = ["s.flag", "s.a[0] > 0", "s.n > 2", "s.q[1]", "N > 2", "s.a is s.l[1]", "np.any(s.a > 1)"]
VIEWS = [
    "s.m.T[1]",
    "s.m.ravel()[2:5]",
    "s.m.T.ravel()[1:4]",
    "s.m[::-1][0]",
    "s.m.T.reshape(-1)[2:3]",
]
WRITES = [
    *[
        "{place}[1:3] {sign} s.r",
        "{place}[s.k[0]] {sign} x[1]",
        "{view} {sign} 0.5",
        "s.a {sign} {term}",
    ],
    *[
        "s.a = np.tanh({term})",
        "s.d['x'] = np.tanh({term})",
        "s.k[:] = s.k[::-1].copy()",
        "s.q ^= s.a > 0",
    ],
    *[
        "s.k = (s.k + 1) % 4",
        "np.add(s.a, s.r, out=s.b)",
        "np.copyto(s.v, np.tanh({term}))",
        "s.n += 1",
    ],
    *[
        "y = {read}; y = y * 1.0; y[0] {sign} x[3]; s.b[2] = y[0]",
        "s.flag = not s.flag",
        "s.l.reverse()",
    ],
    *["for z in (s.a, s.d['y']): z *= 0.9", "for i in range(2): s.b[i] += s.m[i, 1]"],
]
CHANGES = [
    *[
        "s.a[0] += 0.5",
        "s.a = s.a * 0.5",
        "s.m[1] += 0.1",
        "s.m = np.asfortranarray(s.m)",
        "s.v = s.m[2]",
    ],
    *[
        "s.k[:] = np.roll(s.k, 1)",
        "s.k = np.roll(s.k, 1)",
        "s.q = ~s.q",
        "s.d['y'] = s.a",
        "s.n = 1",
    ],
    *[
        "s.d['y'] = np.zeros(4)",
        "s.l[0] = s.l[0] * 2",
        "s.l.reverse()",
        "s.p.v[1] = 4",
        "s.r += 0.25",
    ],
    *["s.p = s.p._replace(u=np.ones(4))", "s.flag = True", "G[0] += 1", "G = G * 2", "N += 1"],
    *["State.shared = s.shared * 2", "s.a, s.b = s.b, s.a", "s.a = s.a.copy()", "s.w = s.w.copy()"],
    *["s.h.append(1)", "s.a = s.m[0]", "s.b = s.a[::-1]", "s.w[0] = 5"],
]


def _term(r, depth=2):
    if not depth or r.random() < 0.3:
        return r.choice(READS)
    first = _term(r, depth - 1)
    if r.random() < 0.3:
        return f"np.{r.choice(['sin', 'tanh', 'abs', 'square'])}({first} * 1.0)"
    return f"({first} {r.choice('+-*')} {r.choice([_term(r, depth - 1), r.choice(SCALARS)])})"


def _write(r):
    parts = {
        "place": r.choice(PLACES),
        "view": r.choice(VIEWS),
        "sign": r.choice(["=", "+=", "*="]),
    }
    text = r.choice(WRITES).format(term=f"({_term(r)})", read=r.choice(READS), **parts)
    return text.replace("s.a = (", "s.a += (").replace(
        f"{parts['view']} = ", f"{parts['view']} += "
    )


def _program(r):
    """The source of a function `step`, and the changes after each call."""
    lines = []
    for _ in range(r.randint(1, 4)):
        text = _write(r)
        if r.random() < 0.25 and not text.startswith("for"):
            text = f"if {r.choice(TESTS)}: {text}"
        lines.append(text)
    results = [_term(r), *r.choices([*PLACES, "s.a[::2]", "s.m[1]", "s.n", "s.a.sum()"], k=2)]
    body = "\n    ".join([*lines, f"return {', '.join(results)}"])
    changes = [r.choices(CHANGES, k=r.choice([0, 0, 1, 2])) for _ in range(CALLS)]
    return f"{STATE}\ndef step(x):\n    {body}\n", changes


def _outcome(step, x, space):
    """The results or the kind of error, all arrays, and the pairs that share memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            results = step(x.copy())
        except Exception as error:
            results = (type(error).__name__,)
    s = space["s"]
    held = {f"result {n}": value for n, value in enumerate(results)}
    held |= {**vars(s), "G": space["G"], "shared": s.shared, "u": s.p.u, "v": s.p.v}
    held |= {**{f"d {k}": v for k, v in s.d.items()}, **{f"l {k}": v for k, v in enumerate(s.l)}}
    held = {name: x for name, x in held.items() if not isinstance(x, (dict, list, tuple))}
    arrays = {name: x for name, x in held.items() if isinstance(x, np.ndarray)}
    shared = {
        (a, b) for a in arrays for b in arrays if a < b and np.shares_memory(arrays[a], arrays[b])
    }
    return held, shared


def _check(seed, backend):
    source, changes = _program(random.Random(seed))
    spaces = [{"__name__": "stateful_program"} for _ in range(2)]
    for space in spaces:
        exec(compile(source, f"<program {seed}>", "exec"), space)
    steps = [pb.compile(spaces[0]["step"], backend=backend), spaces[1]["step"]]
    numbers = np.random.default_rng(seed)
    for call in range(CALLS):
        x = numbers.normal(size=4)
        pairs = zip(steps, spaces, strict=True)
        (found, shared), (expected, known) = (_outcome(step, x, space) for step, space in pairs)
        where = f"call {call} of\n{source}"
        assert found.keys() == expected.keys(), where
        for name, value in expected.items():
            assert type(found[name]) is type(value), f"{name} in {where}"
            if isinstance(value, (str, bool)):
                assert found[name] == value, where
            else:
                np.testing.assert_allclose(found[name], value, 1e-9, 1e-12, err_msg=where)
        assert shared == known, where
        for change in changes[call]:
            for space in spaces:
                exec(change, space)


@pytest.mark.parametrize("seed", range(60))
def test_a_compiled_program_leaves_the_state_of_the_program(seed):
    _check(seed, "eager")


@pytest.mark.slow
@pytest.mark.parametrize("first", range(60, 660, 50))
def test_more_compiled_programs_leave_the_state_of_the_program(first):
    pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")
    for seed in range(first, first + 50):
        _check(seed, ["eager", "llvm"][seed % 2])
