"""A dask cluster on this machine, whose processes are started by dask's command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60


class Cluster:
    """Scheduler and workers in processes of their own, and a client."""

    def __init__(self, folder: Path, workers: int, options: tuple[str, ...] = ()):
        self._file = folder / "scheduler.json"
        self._folder = folder
        self._options = options
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "OPENBLAS_NUM_THREADS": "1",
            "PULLBACK_ALLOCATOR_TUNING": "1",
        }
        place = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        self._start("scheduler", *place, "--scheduler-file", str(self._file))
        for _ in range(workers):
            self.add_worker()
        self.client = self._connect(workers)

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"log{len(self._processes)}").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *command],
                env=self._environment,
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        return process

    def add_worker(self) -> None:
        """Starts one more worker process with one thread."""
        self._start(
            *("worker", "--scheduler-file", str(self._file), "--nthreads", "1", "--no-nanny"),
            *("--no-dashboard", "--host", "127.0.0.1", *self._options),
        )

    def _connect(self, workers: int) -> Any:
        distributed = pytest.importorskip("distributed")
        deadline = time.monotonic() + SECONDS
        while not self._file.exists():
            assert time.monotonic() < deadline, "the scheduler did not start"
            time.sleep(0.05)
        client = distributed.Client(scheduler_file=str(self._file), timeout=SECONDS)
        client.wait_for_workers(workers, timeout=SECONDS)
        return client

    def pids(self) -> list[int]:
        """The process numbers of the workers."""
        return list(self.client.run(os.getpid).values())

    def kill(self) -> None:
        """Ends one worker without warning, and starts another one."""
        os.kill(self.pids()[0], signal.SIGKILL)
        self.add_worker()

    def close(self) -> None:
        """Ends all processes."""
        self.client.close()
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait(timeout=SECONDS)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    pytest.importorskip("distributed", reason="needs dask.distributed")
    made = Cluster(tmp_path_factory.mktemp("cluster"), workers=2)
    yield made
    made.close()


@pytest.fixture
def client(cluster: Cluster) -> Any:
    return cluster.client
