"""What `import pullback` leaves for later: declared for type checkers, safe, and really left."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import textwrap

import pytest

import pullback as pb
from pullback.dispatch.table import ENTRIES
from pullback.operators.formula_loader import MODULES

# --- declarations ---------------------------------------------------------------------------------


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def typed_imports(source: str) -> dict[str, tuple[str, str | None]]:
    """What the imports for type checkers bind: name -> its module, and its name there."""
    found: dict[str, tuple[str, str | None]] = {}
    for block in filter(_is_type_checking, ast.parse(source).body):
        for node in block.body:
            if isinstance(node, ast.Import):
                found |= {alias.asname or alias.name: (alias.name, None) for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    found[alias.asname or alias.name] = (node.module, alias.name)
    return found


def _calls(source: str, function: str) -> list[tuple[ast.Assign, ast.Call]]:
    return [
        (node, node.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) in (function, f"_{function}")
    ]


def lazy_modules(source: str) -> dict[str, str]:
    """The variables that stand for modules: name -> module."""
    calls = _calls(source, "lazy_module")
    return {ast.unparse(a.targets[0]): ast.literal_eval(call.args[0]) for a, call in calls}


def lazy_names(module: str, source: str, offered: list[str]) -> dict[str, str] | None:
    """The names that a folder loads on demand: name -> module; None if there are none."""
    calls = _calls(source, "lazy_names")
    if not calls:
        return None
    ((_, call),) = calls
    text = ast.unparse(call.args[1])
    places = eval(text, {"__name__": module, "__all__": offered})
    return {name: place for place, names in places.items() for name in names}


def lazy_problems(module: str, source: str, offered: list[str], known: set[str]) -> list[str]:
    typed = typed_imports(source)
    problems = []
    for variable, target in lazy_modules(source).items():
        base, name = typed.get(variable, ("", None))
        if target not in (f"{base}.{name}", base if name is None else ""):
            problems.append(f"{variable} stands for {target}, and not for type checkers")
    places = lazy_names(module, source, offered)
    if places is None:
        return problems
    declared = {name: place for name, (place, _) in typed.items()}
    if places != declared:
        odd = sorted(set(places.items()) ^ set(declared.items()))
        problems.append(f"loaded on demand and imported for type checkers are not the same: {odd}")
    # Importing a module puts it into its folder, where it would hide the other thing.
    hidden = [n for n, place in places.items() if place != module and f"{module}.{n}" in known]
    return problems + [f"{name} is the name of a module of the folder, too" for name in hidden]


def test_what_is_loaded_on_demand_is_declared(package_files):
    problems = {}
    for name, path in package_files.items():
        source = path.read_text(encoding="utf-8")
        if "lazy import lazy_" in source:
            module = sys.modules.get(name)
            offered = list(getattr(module, "__all__", []))
            if found := lazy_problems(name, source, offered, set(package_files)):
                problems[name] = found
    assert problems == {}


def _problems(text: str, *known: str) -> list[str]:
    return lazy_problems("folder", textwrap.dedent(text), ["a"], set(known))


def test_an_undeclared_module_is_caught():
    source = """
    if TYPE_CHECKING:
        from folder import {}
    else:
        other = lazy_module("folder.other")
    """
    assert _problems(source.format("other")) == []
    assert _problems(source.format("module as other"))
    assert _problems('other = lazy_module("folder.other")')


def test_a_name_that_is_declared_or_loaded_only_is_caught():
    source = """
    if _typing.TYPE_CHECKING:
        from folder.module import {}
    else:
        __getattr__, __dir__ = _lazy_names(__name__, {{"folder.module": ["a"]}})
    """
    assert _problems(source.format("a")) == []
    assert _problems(source.format("a, b"))
    assert _problems(source.format("b"))
    assert _problems(source.format("a"), "folder.a") == [
        "a is the name of a module of the folder, too"
    ]


def test_formula_helpers_and_operators_have_different_names():
    for path in MODULES:
        module = __import__(f"pullback.operators.{path}", fromlist=["__all__"])
        assert [name for name in module.__all__ if f"pullback::{name}" in ENTRIES] == []


def test_every_family_of_formula_helpers_is_listed(package_files):
    start = "pullback.operators."
    found = [n.removeprefix(start) for n in package_files if ".formulas" in n]
    assert sorted(MODULES) == sorted(found)


# --- in a fresh interpreter -----------------------------------------------------------------------


def run_fresh(script: str) -> str:
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


MODULES_NOW = "import json, numpy, sys; before = set(sys.modules)\n"
MODULES_THEN = "\nprint(json.dumps([m for m in sys.modules if m not in before]))"


def loaded_by(script: str) -> list[str]:
    return json.loads(run_fresh(MODULES_NOW + textwrap.dedent(script) + MODULES_THEN))


def test_the_import_leaves_what_a_first_gradient_does_not_need():
    loaded = loaded_by("import pullback")
    later = (
        *("dataclasses", "difflib", "traceback"),
        *(
            "pullback.codegen",
            "pullback.compat",
            "pullback.func.numpy_style",
        ),
        *("pullback.fft", "pullback.func", "pullback.batching.array_rules"),
        *("pullback.library", "pullback.linalg", "pullback.meta", "pullback.nn", "pullback.schema"),
        *("pullback.sparse", "pullback.testing", "pullback.utils.checkpoint"),
        *("pullback.autograd.functional", "pullback.batching.kernels", "pullback.interop.table"),
        "pullback._generated.kernels_",
        "pullback.operators.pointwise.",
        "pullback.operators.linalg",
    )
    assert [name for name in loaded if name.startswith(later)] == []
    # Each takes a tenth of a millisecond or more: a new one should be worth it. What newer versions
    # of NumPy import themselves counts with no version.
    by_numpy = ("_opcode", "dis", "importlib", "inspect", "linecache", "opcode", "token")
    assert len([name for name in loaded if not name.startswith(by_numpy)]) <= 135, loaded


def test_the_first_gradient_loads_only_its_own_tables():
    loaded = loaded_by("""
        import pullback as pb
        x = pb.tensor([1.0, 2.0], requires_grad=True)
        (x * x).sum().backward()
    """)
    tables = {name for name in loaded if name.startswith("pullback._generated.kernels_")}
    wanted = {f"pullback._generated.kernels_{name}" for name in ("pointwise", "reduction")}
    assert wanted <= tables <= {*wanted, "pullback._generated.kernels_shape"}
    assert not [name for name in loaded if name.startswith(("pullback.schema", "pullback.func"))]


def test_all_public_names_are_there():
    assert set(pb.__all__) <= set(dir(pb))
    out = run_fresh("""
        from pullback import *
        import pullback
        missing = [name for name in pullback.__all__ if name not in globals()]
        print(missing, grad is pullback.grad, linalg is pullback.linalg)
    """)
    assert out.split() == ["[]", "True", "True"]


def test_a_missing_name_is_an_attribute_error():
    for module in (pb, pb.autograd, pb.dispatch, pb.utils):
        with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
            module.no_such_name  # noqa: B018 - looking is the test


THREADS = """
import sys, threading
import pullback as pb

sys.setswitchinterval(1e-6)
barrier, results, errors = threading.Barrier(8, timeout=30), [], []

def work(number):
    barrier.wait()
    try:
        results.append({expression})
    except BaseException as error:
        errors.append(repr(error))

threads = [threading.Thread(target=work, args=[n], daemon=True) for n in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(30)
alive = sum(thread.is_alive() for thread in threads)
print(alive, len(results), len(set(results)), errors)
"""


@pytest.mark.parametrize(
    "expression",
    [
        "id(pb.func.vmap)",
        "bool((pb.hessian, pb.linalg.svd, pb.sparse_jacobian, pb.library.custom_op)[number % 4])",
        "pb.ops.pullback.sin.default(pb.tensor([0.0])).item()",
        "str(pb.ops.pullback.add.default.schema)",
        "pb.grad(lambda x: [pb.dot, pb.vdot][number % 2](x, x))(pb.tensor([1.0, 2.0])).tolist()[1]",
    ],
)
def test_first_use_from_eight_threads(expression):
    assert run_fresh(THREADS.format(expression=expression)).split() == ["0", "8", "1", "[]"]


def test_no_module_that_is_loaded_later_acquires_the_lock_of_the_tables(package_files):
    # A table is loaded under that lock; a module asking for it while being imported could be
    # what the table waits for.
    own = ("pullback._generated.", "pullback.__main__", "pullback.compat", "pullback.testing")
    modules = [name for name in package_files if not name.startswith(own)]
    out = run_fresh(f"""
        import threading
        from importlib import import_module
        import pullback
        from pullback.dispatch.table import LOCK

        done = []
        def load():
            for name in {modules}:
                try:
                    import_module(name)
                except ModuleNotFoundError:  # what is optional
                    pass
            done.append(True)

        thread = threading.Thread(target=load, daemon=True)
        with LOCK:
            thread.start()
            thread.join(30)
        print(done)
    """)
    assert out.split() == ["[True]"]
