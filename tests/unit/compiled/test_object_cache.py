"""Machine code on disk: only whole files of this user are loaded, whatever happens to them."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback.compiled.llvm.compiler import is_supported
from pullback.compiled.llvm.object_cache import ObjectCache, cache_directory

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners cannot be checked")
CONTENT = bytes(range(256)) * 20


@pytest.fixture
def cache(tmp_path):
    found = ObjectCache(tmp_path / "deep/objects")
    found.put("key", CONTENT)
    return found


def file_of(cache):
    (found,) = cache.directory.iterdir()
    return found


def test_an_object_is_found_again(cache):
    assert cache.get("key") == CONTENT
    assert ObjectCache(cache.directory).get("key") == CONTENT
    assert cache.get("another") is None
    assert not cache.reason
    cache.put("key", b"newer")
    assert cache.get("key") == b"newer"


def test_directory_and_files_are_private(cache):
    assert stat.S_IMODE(cache.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(file_of(cache).stat().st_mode) == 0o600


def test_damage_anywhere_is_found(cache):
    path = file_of(cache)
    whole = path.read_bytes()
    places = [*range(0, 88, 7), 88, 100, len(whole) - 1]
    damaged = [whole[:n] + bytes([whole[n] ^ 1]) + whole[n + 1 :] for n in places]
    damaged += [b"", whole[:50], whole[:88], whole[:-1], whole + b"x", whole * 2, b"x" * 1000]
    for content in damaged:
        path.write_bytes(content)
        assert cache.get("key") is None
        cache.put("key", CONTENT)  # and it is replaced
        assert cache.get("key") == CONTENT


def test_a_file_of_another_key_is_not_taken(cache):
    cache.put("other", b"other content")
    by_key = {path.read_bytes()[88:]: path for path in cache.directory.iterdir()}
    by_key[b"other content"].rename(by_key[CONTENT])
    assert cache.get("key") is None


def test_files_that_others_could_have_written_are_ignored(cache):
    path = file_of(cache)
    for mode in (0o620, 0o602, 0o666):
        path.chmod(mode)
        assert cache.get("key") is None
    path.chmod(0o600)
    assert cache.get("key") == CONTENT


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid(), reason="root makes such files")
def test_files_of_another_user_are_ignored(cache):
    os.chown(file_of(cache), 12345, -1)
    assert cache.get("key") is None


def test_links_and_pipes_are_ignored(cache, tmp_path):
    path = file_of(cache)
    moved = path.rename(tmp_path / "moved")
    path.symlink_to(moved)
    assert cache.get("key") is None
    path.unlink()
    os.mkfifo(path)
    assert cache.get("key") is None  # and it does not wait for a writer
    path.unlink()
    path.mkdir()
    assert cache.get("key") is None
    cache.put("key", CONTENT)  # cannot be written; no error


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701, 0o777])
def test_a_directory_that_others_can_enter_is_not_used(cache, mode):
    cache.directory.chmod(mode)
    assert cache.get("key") is None
    assert "mode 0700" in cache.reason
    before = sorted(cache.directory.iterdir())
    cache.put("more", CONTENT)
    assert sorted(cache.directory.iterdir()) == before


def test_a_directory_of_another_user_is_not_used(cache, monkeypatch):
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert cache.get("key") is None
    assert "another user" in cache.reason
    cache.put("more", CONTENT)
    monkeypatch.undo()
    assert cache.get("more") is None


def test_the_size_is_bounded_and_the_oldest_go_first(tmp_path):
    cache = ObjectCache(tmp_path / "objects", most_bytes=5000)
    for n in range(4):
        cache.put(f"key {n}", bytes(1000))
        newest = max(cache.directory.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, (n, n))  # used at this time
    assert cache.get("key 0") is not None  # used just now
    cache.put("key 4", bytes(1000))
    assert [n for n in range(5) if cache.get(f"key {n}") is not None] == [0, 2, 3, 4]
    cache.put("large", bytes(5001))
    assert cache.get("large") is None
    assert sum(path.stat().st_size for path in cache.directory.iterdir()) <= 5000


def test_files_of_others_stay_and_do_not_stop_the_removal(tmp_path):
    cache = ObjectCache(tmp_path / "objects", most_bytes=5000)
    cache.put("key", bytes(1000))
    (path,) = cache.directory.iterdir()
    path.unlink()
    path.mkdir()  # in the place of a file
    (cache.directory / "main.o").write_bytes(bytes(10_000))
    for place in cache.directory.iterdir():
        os.utime(place, (0, 0))  # the oldest
    for n in range(9):
        cache.put(f"key {n}", bytes(1000))
    assert path.is_dir()
    assert (cache.directory / "main.o").exists()
    assert sum(n is not None for n in (cache.get(f"key {n}") for n in range(9))) == 4


def test_temporary_files_of_ended_processes_are_removed(cache):
    old, new = cache.directory / ".new-1-a", cache.directory / ".new-2-b"
    old.write_bytes(b"part")
    new.write_bytes(b"part")
    os.utime(old, (time.time() - 7200,) * 2)
    cache.put("more", CONTENT)
    assert not old.exists()
    assert new.exists()


def test_errors_of_the_file_system_reach_nobody(cache, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", fail)
    cache.put("more", CONTENT)
    monkeypatch.undo()
    assert "No space" in cache.reason
    assert len(list(cache.directory.iterdir())) == 1  # no temporary file is left
    (tmp_path / "file").write_bytes(b"")
    nowhere = ObjectCache(tmp_path / "file/objects")
    nowhere.put("key", CONTENT)
    assert nowhere.get("key") is None


WRITER = """
import sys
from pathlib import Path
from pullback.compiled.llvm.object_cache import ObjectCache
cache = ObjectCache(Path(sys.argv[1]), most_bytes=200_000)
print("ready", flush=True)
for n in range(int(sys.argv[2])):
    content = bytes([n % 7]) * 30_000
    cache.put(f"key {n % 7}", content)
    found = cache.get(f"key {n % 7}")
    assert found is None or found == content
"""


def start_writer(folder, count):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(count)], stdout=subprocess.PIPE
    )


def test_a_killed_process_leaves_no_broken_file(tmp_path):
    cache = ObjectCache(tmp_path / "objects")
    for delay in (0.005, 0.02, 0.05):
        process = start_writer(cache.directory, 10**9)
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        for path in cache.directory.glob("*.o"):
            assert path.stat().st_size > 30_000
        for n in range(7):
            assert cache.get(f"key {n}") in (None, bytes([n]) * 30_000)
    assert len(list(cache.directory.glob("*.o"))) >= 1


def test_processes_that_write_at_the_same_time(tmp_path):
    folder = tmp_path / "objects"
    processes = [start_writer(folder, 200) for _ in range(3)]
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 200_000


def test_where_the_directory_is(monkeypatch, tmp_path):
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path / "mine"))
    assert cache_directory() == tmp_path / "mine"
    monkeypatch.setenv("PULLBACK_CACHE_DIR", "")
    assert cache_directory() is None
    monkeypatch.setenv("PULLBACK_CACHE_DIR", "~no-such-user/objects")
    assert cache_directory() is None
    monkeypatch.delenv("PULLBACK_CACHE_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_directory() == tmp_path / ".cache/pullback"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg/pullback"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_directory() == tmp_path / "Library/Caches/pullback"

    def no_home():
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", no_home)
    assert cache_directory() is None


# --- of compiled functions ------------------------------------------------------------------------

native = pytest.mark.skipif(not is_supported(), reason="machine code is not tested here")


def run_compiled(**options):
    function = pb.compile(lambda x: pb.tanh(x * 2 + 1) * x, backend="llvm", **options)
    x = np.linspace(-1, 1, 6)
    np.testing.assert_allclose(function(x), np.tanh(x * 2 + 1) * x, rtol=1e-14)
    np.testing.assert_allclose(function(x), np.tanh(x * 2 + 1) * x, rtol=1e-14)


@native
def test_machine_code_is_kept_and_loaded(tmp_path, monkeypatch):
    pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")
    folder = tmp_path / "objects"
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(folder))
    run_compiled(cache=False)
    assert not folder.exists()
    run_compiled()
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert len(before) == 2  # the program, and the function for whole calls
    monkeypatch.setattr("pullback.compiled.llvm.compiler._generate", None)  # would be called
    run_compiled()
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    with pytest.warns(UserWarning, match="internal error"):
        run_compiled(cache=False)


@native
def test_another_process_finds_the_same_key(tmp_path, monkeypatch):
    pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")
    script = (
        "import numpy as np, pullback as pb\n"
        "f = pb.compile(pb.value_and_grad(lambda x: (pb.tanh(x * 2) * x).sum()), backend='llvm')\n"
        "f(np.linspace(-1, 1, 6)); print(f(np.linspace(-1, 1, 6))[0])\n"
    )
    folder = tmp_path / "objects"
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(folder))
    names = []
    for seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
        names.append(sorted(path.name for path in folder.iterdir()))
    assert names[0] == names[1]
    assert names[0]


@native
def test_a_damaged_object_is_compiled_again(tmp_path, monkeypatch):
    pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path / "objects"))
    run_compiled()
    paths = list((tmp_path / "objects").iterdir())
    damaged = {}
    for path in paths:
        whole = bytearray(path.read_bytes())
        whole[len(whole) // 2] ^= 0xFF
        path.write_bytes(whole)
        damaged[path] = bytes(whole)
    run_compiled()
    assert all(path.read_bytes() != damaged[path] for path in paths)
