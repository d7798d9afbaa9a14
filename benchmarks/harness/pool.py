"""Starting the peers' processes and talking to them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from benchmarks.harness.revisions import ROOT, source_path
from benchmarks.harness.threads import THREADS, environment


class Worker:
    """A peer's process. A process that dies is an answer too, and the next question restarts it.

    Between questions it is stopped: thread pools of some libraries spin for a while after their
    work is done, on the processors that the next peer is measured on.
    """

    def __init__(
        self,
        peer: str,
        log: IO[str] | int = subprocess.DEVNULL,
        count: int = THREADS,
        source: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ):
        self.peer = peer
        self._variables = dict(variables or {})
        self._source = source
        self._log = log
        self._threads = count
        self._hello: dict[str, Any] | None = None
        self._process: subprocess.Popen[str] | None = None
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-m", "benchmarks.harness.worker", self.peer]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=ROOT,
            env=environment(self._threads) | source_path(self._source) | self._variables,
        )
        self._hello = None

    @property
    def hello(self) -> dict[str, Any]:
        """Its first answer: the version, or why it cannot be used."""
        if self._hello is None:
            self._hello = self._read()
            self._signal("SIGSTOP")
        return self._hello

    @property
    def is_available(self) -> bool:
        return "ok" in self.hello

    def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        if self._process is None:
            self._start()
        if not self.is_available:
            return self.hello
        assert self._process is not None
        assert self._process.stdin is not None
        self._signal("SIGCONT")
        with suppress(BrokenPipeError):
            print(json.dumps({"op": op, **arguments}), file=self._process.stdin, flush=True)
        answer = self._read()
        self._signal("SIGSTOP")
        return answer

    def _signal(self, name: str) -> None:
        number = getattr(signal, name, None)  # some systems cannot stop a process
        if number is not None and self._process is not None:
            self._process.send_signal(number)

    def _read(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        code = self._process.wait()
        self.close()
        return {"reason": f"failed: the process ended with code {code}"}

    def close(self) -> None:
        if self._process is None:
            return
        self._signal("SIGCONT")
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        self._process.wait()
        self._process = None


class Pool:
    """One worker for each peer that can be used."""

    def __init__(
        self,
        peers: Iterable[str],
        log: IO[str] | int = subprocess.DEVNULL,
        count: int = THREADS,
        sources: Mapping[str, Path] | None = None,
    ):
        self.threads = count
        self.sources = sources or {}  # peer -> the tree that it imports Pullback from
        workers = [  # all start before the first has to answer
            Worker(peer, log, count, self.sources.get(peer)) for peer in (*peers, *self.sources)
        ]
        self.missing = {w.peer: w.hello["reason"] for w in workers if not w.is_available}
        self.workers = {w.peer: w for w in workers if w.is_available}
        for worker in workers:
            if not worker.is_available:
                worker.close()

    def fresh_worker(self, peer: str) -> Worker:
        """A process of a peer that has done nothing yet."""
        return Worker(peer, count=self.threads, source=self.sources.get(peer))

    def versions(self) -> dict[str, str]:
        return {name: worker.hello["version"] for name, worker in self.workers.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self.workers.values():
            worker.close()
