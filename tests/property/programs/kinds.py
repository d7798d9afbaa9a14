"""The kinds of random programs, by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.property.programs import (
    call_programs,
    compiled_programs,
    engine,
    loop_programs,
    number_programs,
    numpy_programs,
    transforms,
)
from tests.property.programs.minimize import minimize
from tests.property.programs.outcomes import Finding


@dataclass(frozen=True)
class Kind:
    """A generator of programs from a seed, their check, and their text."""

    name: str
    generate: Callable[[str], Any]
    check: Callable[[Any, bool], Finding | None]
    script: Callable[[Any, Finding], str]


KINDS = {
    "transforms": Kind("transforms", transforms.generate, transforms.check, transforms.script),
    "engine": Kind("engine", engine.generate, engine.check, engine.script),
    "numpy": Kind("numpy", numpy_programs.generate, numpy_programs.check, numpy_programs.script),
    "compiled": Kind(
        "compiled", compiled_programs.generate, compiled_programs.check, compiled_programs.script
    ),
    "numbers": Kind(
        "numbers", number_programs.generate, number_programs.check, number_programs.script
    ),
    "calls": Kind("calls", call_programs.generate, call_programs.check, call_programs.script),
    "loops": Kind("loops", loop_programs.generate, loop_programs.check, loop_programs.script),
}


@dataclass(frozen=True)
class Report:
    """A finding with the smallest program that shows it."""

    kind: str
    seed: str
    finding: Finding
    parts: tuple[Any, ...]
    text: str

    @property
    def key(self) -> tuple[Any, ...]:
        """The same for findings that probably have one cause."""
        if self.finding.check in ("raises", "state", "kind of error"):
            return self.kind, self.finding.check, self.finding.cause
        return self.kind, self.finding.check, str(self.parts)

    def describe(self) -> str:
        """The finding as a program with a comment on top."""
        message = self.finding.message.replace("\n", "\n# ")
        title = f"# {self.kind} program {self.seed}: {self.finding.check} ({self.finding.cause})"
        return f"{title}\n# {message}\n{self.text}"


def seed_of(kind: str, seed: int, index: int) -> str:
    """The seed of one program of a campaign."""
    return f"{kind}/{seed}/{index}"


def examine(kind: Kind, seed: str, with_torch: bool, seconds: float = 20.0) -> Report | None:
    """Generates, checks and, if it fails, minimises one program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = kind.generate(seed)
        finding = kind.check(program, with_torch)
        if finding is None:
            return None
        small, finding = minimize(
            program, finding, lambda candidate: kind.check(candidate, with_torch), seconds
        )
        return Report(kind.name, seed, finding, small.parts(), kind.script(small, finding))
