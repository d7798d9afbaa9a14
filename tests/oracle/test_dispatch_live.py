"""The dispatcher side by side with PyTorch's: random registrations, key sets, calls, and texts."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from pullback.dispatch import (
    AutoDispatchBelowADInplaceOrView,
    AutoDispatchBelowAutograd,
    DispatchKey,
    DispatchKeySet,
    ExcludeDispatchKeyGuard,
    IncludeDispatchKeyGuard,
    InferenceModeGuard,
    Kernel,
    Library,
    PythonDispatcher,
    fallthrough_kernel,
    registry,
)
from pullback.errors import message_of

torch = pytest.importorskip("torch")
torch_dispatcher = pytest.importorskip("torch._python_dispatcher")
pytestmark = pytest.mark.oracle

ALIASES = (
    *("Autograd", "CompositeImplicitAutograd", "FuncTorchBatchedDecomposition"),
    *("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"),
)
# Runtime keys that both have, under a name that both can parse.
NAMED = (
    *("CPU", "XLA", "Lazy", "Meta", "FPGA", "SparseCsrCPU", "SparseCsrMeta", "BackendSelect"),
    *("Python", "ADInplaceOrView", "AutogradOther", "AutogradCPU", "AutogradXLA", "AutogradLazy"),
    *("AutogradMeta", "Tracer", "FuncTorchBatched"),
)
SHARED = {"Undefined", *NAMED, "SparseCsrXLA", "SparseCsrLazy"}
# PyTorch has fallbacks here for what does not exist on this side.
OTHER_FALLBACK = {"Python", "Tracer", "FuncTorchBatched"}


@pytest.fixture
def dice() -> random.Random:
    return random.Random(0)


def some(dice: random.Random, keys: tuple[str, ...], most: int | None = None) -> list[str]:
    return dice.sample(keys, dice.randint(0, most or len(keys)))


def torch_key(name: str) -> Any:
    return torch._C._dispatch_key_parse(name)


# ---- tables --------------------------------------------------------------------------------------


class Line(NamedTuple):
    falls_through: bool
    kernel: str
    provenance: str


def parsed(dump: str) -> dict[str, Line]:
    """A printed table at the shared keys; the texts of fallbacks and fallthroughs are places."""
    lines = {}
    pattern = re.compile(r"^(\w+): (fallthrough )?(.*) \[(.*)\]$", re.MULTILINE)
    for key, falls_through, kernel, provenance in pattern.findall(dump):
        fallback = provenance == "backend fallback"
        if key in SHARED and not (fallback and key in OTHER_FALLBACK):
            place = fallback or falls_through
            lines[key] = Line(bool(falls_through), "" if place else kernel, provenance)
    return lines


class Both:
    """An operator ``live::f`` in both dispatchers, and registrations to both at once."""

    def __init__(self, libraries: ExitStack):
        ours = libraries.enter_context(Library("live", "DEF"))
        self._theirs = torch._C._dispatch_library("FRAGMENT", "live", "")
        libraries.callback(self._theirs.reset)
        for definer in (ours, self._theirs):
            definer.define("f(Tensor x) -> Tensor")
        self._f = ours.operator("f")

    def register(self, key: str, falls_through: bool) -> Callable[[], None]:
        fn = fallthrough_kernel if falls_through else str
        kernel = Kernel(fn, DispatchKey[key], "", debug="fn_" + key, fallthrough=falls_through)
        handle = registry.implement("live::f", kernel)
        theirs = torch._C._dispatch_library("IMPL", "live", "")
        if falls_through:
            theirs.impl("f", key, torch.library.fallthrough_kernel, False)
        else:
            theirs.impl_t_t("f", dispatch=key, debug="fn_" + key)

        def undo() -> None:
            handle.destroy()
            theirs.reset()

        return undo

    def compare(self) -> None:
        ours = parsed(repr(self._f.dispatch_table()))
        assert ours == parsed(torch._C._dispatch_dump_table("live::f"))


def test_random_tables_are_those_of_pytorch(dice):
    """Rule 14.14."""
    for _ in range(600):
        with ExitStack() as libraries:
            both = Both(libraries)
            keys = some(dice, NAMED + ALIASES)
            undo = [both.register(key, dice.random() < 0.15) for key in keys]
            both.compare()
            dice.shuffle(undo)
            while undo:  # 14.15
                undo.pop()()
                if dice.random() < 0.2:
                    both.compare()
            both.compare()


# ---- key sets ------------------------------------------------------------------------------------


def same_keys(ours: DispatchKeySet, theirs: Any) -> None:
    assert repr(ours) == str(theirs)
    highest = torch._C._dispatch_key_name(theirs.highestPriorityTypeId())
    # A functionality whose backends were all taken away has a name of its own in PyTorch.
    assert ours.highest().name == ("Undefined" if highest.endswith("Undefined") else highest)
    for key in NAMED:
        assert ours.has(key) == theirs.has(torch_key(key))


def test_key_sets_behave_as_in_pytorch(dice):
    """Rules 14.7, 14.8."""
    empty = torch._C.DispatchKeySet(torch_key("Undefined"))
    for _ in range(300):
        ours, theirs = DispatchKeySet(), empty
        for _ in range(dice.randint(1, 10)):
            key = dice.choice(NAMED)
            other, their_other = DispatchKeySet(), empty
            for name in some(dice, NAMED, 4):
                other = other.add(name)
                their_other = their_other.add(torch_key(name))
            ours, theirs = dice.choice(
                [
                    (ours | other, theirs | their_other),
                    (ours.add(key), theirs.add(torch_key(key))),
                    (ours - other, theirs - their_other),
                    (ours.remove(key), theirs.remove(torch_key(key))),
                    (ours | (ours & other), theirs | (theirs & their_other)),
                    (ours & other, theirs & their_other),
                ]
            )
            same_keys(ours, theirs)


# ---- calls ---------------------------------------------------------------------------------------


class Value:
    __slots__ = ("_flags",)

    def __init__(self, keys: str):
        self._flags = int(DispatchKeySet(*keys.split()))


@pytest.fixture(scope="module")
def tensors() -> list[tuple[Value, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sparse CSR support is in beta state
        sparse = torch.eye(2).to_sparse_csr()
    with torch.inference_mode():
        inference = torch.ones(2)
    return [
        (Value("CPU ADInplaceOrView AutogradCPU"), torch.ones(2)),
        (Value("CPU ADInplaceOrView AutogradCPU"), torch.ones(2, requires_grad=True)),
        (Value("Meta ADInplaceOrView AutogradMeta"), torch.ones(2, device="meta")),
        (Value("SparseCsrCPU ADInplaceOrView AutogradCPU"), sparse),
        (Value("CPU"), inference),
    ]


def torch_key_set(keys: list[str]) -> Any:
    union = torch._C.DispatchKeySet(torch_key("Undefined"))
    for key in keys:
        union = union.add(torch_key(key))
    return union


@pytest.fixture
def operators(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any]]:
    """An operator of both sides without any kernel; the parameter is its schema."""
    name = request.param.partition("(")[0]
    with Library("live", "DEF") as ours:
        theirs = torch.library.Library("live", "DEF")
        for definer in (ours, theirs):
            definer.define(request.param)
        yield ours.operator(name), getattr(torch.ops.live, name)
        theirs._destroy()


def outcome(call: Callable[..., Any], values: list[Any]) -> str:
    """The result of a call, or the key words of its error."""
    try:
        return call(values)
    except RuntimeError as error:
        words = re.search(
            r"There were no tensor arguments to this function"
            r"|Could not run 'live::g' with arguments from the '\w+' backend"
            r"|attempted to run this operator with Meta tensors, but there was no fake impl or "
            r"|both CompositeImplicitAutograd and a backend mapped to AutogradOther",
            str(error),
        )
        builtin = NotImplementedError if isinstance(error, NotImplementedError) else RuntimeError
        return f"{builtin.__name__}: {words[0] if words else error}"


CALLED = (
    *("CPU", "Meta", "FPGA", "SparseCsrCPU", "BackendSelect", "ADInplaceOrView", "AutogradOther"),
    *("AutogradCPU", "AutogradMeta", "Tracer", "FuncTorchBatched", *ALIASES),
)
GUARDS = (
    (AutoDispatchBelowAutograd, torch._C._AutoDispatchBelowAutograd),
    (AutoDispatchBelowADInplaceOrView, torch._C._AutoDispatchBelowADInplaceOrView),
    (InferenceModeGuard, torch.inference_mode),
)


def register_kernels(libraries: ExitStack, dice: random.Random) -> list[str]:
    """Registers a random set of kernels, which return their key, to ``live::g`` of both."""
    ours = libraries.enter_context(Library("live", "IMPL"))
    theirs = torch.library.Library("live", "IMPL")
    libraries.callback(theirs._destroy)
    keys = some(dice, CALLED, 8)
    # Last: PyTorch refuses some kernels after it, and for others leaves calls at a stale entry.
    for key in sorted(keys, key=lambda key: key == "CompositeImplicitAutograd"):
        falls_through = not key.startswith("Composite") and dice.random() < 0.2

        def kernel(xs: list[Any], key: str = key) -> str:
            return key

        ours.impl("g", fallthrough_kernel if falls_through else kernel, key)
        theirs.impl("g", torch.library.fallthrough_kernel if falls_through else kernel, key)
    return keys


@pytest.mark.parametrize("operators", ["g(Tensor[] xs) -> str"], ids=["g"], indirect=True)
def test_random_calls_run_the_same_kernel(dice, operators, tensors):
    """Rule 14.9."""
    ours, theirs = operators
    seen = set()
    for _ in range(1000):
        with ExitStack() as guards:
            keys = register_kernels(guards, dice)
            # Without a kernel of the operator there, the two sides do different things.
            included = [key for key in ("Tracer", "FuncTorchBatched") if key in keys]
            included = dice.sample(included, dice.randint(0, len(included)))
            excluded = some(dice, NAMED, 2)
            guards.enter_context(IncludeDispatchKeyGuard(*included))
            for key in included:
                guards.enter_context(torch._C._IncludeDispatchKeyGuard(torch_key(key)))
            guards.enter_context(ExcludeDispatchKeyGuard(*excluded))
            guards.enter_context(torch._C._ExcludeDispatchKeyGuard(torch_key_set(excluded)))
            for guard in dice.choice([(), (), *((pair,) for pair in GUARDS)]):
                guards.enter_context(guard[0]())
                guards.enter_context(guard[1]())
            for size in (0, 1, 1, 2):
                values = dice.choices(tensors, k=size)
                expected = outcome(theirs, [value for _, value in values])
                assert outcome(ours, [value for value, _ in values]) == expected, keys
                seen.add(expected)
    assert len(seen) > 15  # the sample is worth its time


# ---- messages ------------------------------------------------------------------------------------

SENTENCE = re.compile(
    r"is missing value for argument '\w+'"
    r"|expected at most \d+ argument\(s\) but received \d+ argument\(s\)"
    r"|Expected a value of type '[^']+' for argument '\w+' but instead found type '\w+'"
    r"|Unknown keyword argument '\w+'"
    r"|Argument '\w+' specified both as positional and keyword argument"
)


@pytest.mark.parametrize(
    "operators",
    ["h(Tensor x, int n, int[] dims=[], float? scale=None) -> Tensor"],
    ids=["h"],
    indirect=True,
)
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([], {}),
        (["x"], {}),
        ([], {"n": 1}),
        (["x", 1, [], 2.0, 3], {}),
        (["x", "one"], {}),
        (["x", 1.5], {}),
        (["x"], {"n": None}),
        ([3, 1], {}),
        ([[], 1], {}),
        (["x", 1, "y"], {}),
        (["x", 1], {"dims": 2}),
        (["x", 1], {"scale": "y"}),
        (["x", 1], {"z": 1}),
        (["x", 1], {"x": "x"}),
        (["x", 1], {"n": 1}),
    ],
    ids=str,
)
def test_a_wrong_call_is_refused_in_the_same_words(operators, values, named):
    """Rule 14.35."""
    sentences = []
    for operator, tensor in zip(operators, (Value("CPU"), torch.ones(2)), strict=True):
        args = [tensor if value == "x" else value for value in values]
        kwargs = {key: tensor if value == "x" else value for key, value in named.items()}
        with pytest.raises(RuntimeError) as error:
            operator(*args, **kwargs)
        assert "live::h(Tensor x, int n" in str(error.value)
        sentences += SENTENCE.findall(str(error.value))
    assert len(sentences) == 2
    assert sentences[0] == sentences[1]


# ---- PythonDispatcher ----------------------------------------------------------------------------

TEXTS = ("registrations", "dispatchTable", "rawRegistrations")


@pytest.fixture
def dispatchers() -> Iterator[tuple[PythonDispatcher, Any]]:
    """One dispatcher of each side, ended by force: a caught error keeps them alive."""
    ours, theirs = PythonDispatcher(), torch_dispatcher.PythonDispatcher()
    yield ours, theirs
    registry.destroy_all(ours._handles)
    theirs.ref.reset()


def same_texts(*calls: list[str]) -> None:
    """Registers to a fresh dispatcher of both sides, and compares all that they print."""
    ours, theirs = PythonDispatcher(), torch_dispatcher.PythonDispatcher()
    for keys in calls:
        ours.register(keys)
        theirs.register(keys)
    for text in TEXTS:
        assert getattr(ours, text)() == getattr(theirs, text)()
    assert parsed(ours.rawDispatchTable()) == parsed(theirs.rawDispatchTable())


def test_tables_print_as_in_pytorch(dice):
    """Rule 14.48."""
    assert PythonDispatcher.supported_keys == torch_dispatcher.PythonDispatcher.supported_keys
    for _ in range(150):
        keys = some(dice, tuple(PythonDispatcher.supported_keys))
        composites = [key for key in keys if key.startswith("Composite")]
        same_texts([key for key in keys if key not in composites], composites[:1], composites[1:])


@pytest.mark.filterwarnings("ignore:.*verriding a previously registered kernel")
def test_stacked_kernels_print_as_in_pytorch(monkeypatch):
    """Rule 14.45."""
    monkeypatch.setattr(registry, "_override_warned", False)  # put back after the test
    same_texts(["CPU", "Autograd"], ["CPU", "XLA"], ["Autograd", "CPU"])


@pytest.mark.parametrize(
    "keys",
    [
        ["CPU", "XLA", "CPU"],
        ["CompositeImplicitAutograd", "CompositeExplicitAutograd"],
        ["CPU", "Meta", "XLA"],
        ["nope", "nope", "CompositeImplicitAutograd", "CompositeExplicitAutograd"],
        ["nope", "CompositeImplicitAutograd", "CompositeExplicitAutograd"],
    ],
    ids=",".join,
)
def test_refusals_read_as_in_pytorch(dispatchers, keys):
    """Rule 14.45."""
    texts = []
    for dispatcher in dispatchers:
        with pytest.raises(RuntimeError) as error:
            dispatcher.register(keys)
        texts.append((message_of(error.value), dispatcher.rawRegistrations()))
    assert texts[0] == texts[1]


def test_a_second_live_instance_is_refused_in_the_same_words(dispatchers):
    """Rule 14.44."""
    words = r"Tried to register an operator \(__test__::foo\(Tensor x\) -> Tensor\)"
    for dispatcher in dispatchers:
        with pytest.raises(RuntimeError, match=words):
            type(dispatcher)()
