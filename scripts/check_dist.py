"""Builds the source distribution and the wheel, and tests the first as a packager would.

    python scripts/check_dist.py [--out FOLDER] [PYTEST ARGUMENT...]

Nothing is downloaded: the build runs without isolation, and the unpacked source is installed with
``pip install --no-index`` into a fresh environment that sees the packages of this one. There a part
of the suite runs, in the unpacked folder, against the installed package; ``pip check`` comes last.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path
from sysconfig import get_path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("pyproject.toml", "LICENSE", "Makefile", "src", "tests", "tools", "scripts", "docs")
SAMPLE = ("-n", "auto", "--sample", "20")


def main() -> None:
    """Builds, looks into the files, installs and tests."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the files are put")
    options, pytest_arguments = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        sdist, wheel = build(scratch / "dist")
        check_wheel(wheel)
        source = unpack(sdist, scratch)
        python = environment(scratch / "environment")
        run(python, "-m", "pip", "install", *_OFFLINE, str(source))
        test(python, source, pytest_arguments or list(SAMPLE))
        run(python, "-m", "pip", "check")
        options.out.mkdir(parents=True, exist_ok=True)
        for built in (sdist, wheel):
            print(shutil.copy2(built, options.out))


_OFFLINE = ("--quiet", "--no-index", "--no-build-isolation", "--no-deps", "--ignore-installed")


def build(out: Path) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is made from it."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT))
    [sdist], [wheel] = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


def check_wheel(wheel: Path) -> None:
    """Refuses a wheel that has more than the package, or lacks what it reads or declares."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0] for name in names}
    if {top for top in tops if not top.endswith(".dist-info")} != {"pullback"}:
        raise SystemExit(f"{wheel.name} holds {', '.join(sorted(tops))}")
    needed = (
        "pullback/py.typed",
        "pullback/_generated/catalogue.json",
        "pullback/inspector/assets/inspector.js",
        "pullback/inspector/assets/dagre-LICENSE.txt",
    )
    if missing := [name for name in needed if name not in names]:
        raise SystemExit(f"{wheel.name} lacks {', '.join(missing)}")


def unpack(sdist: Path, scratch: Path) -> Path:
    """The folder of the unpacked source, complete enough to be worked on."""
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch, filter="data")
    source = scratch / sdist.name.removesuffix(".tar.gz")
    if missing := [name for name in NEEDED if not (source / name).exists()]:
        raise SystemExit(f"{sdist.name} lacks {', '.join(missing)}")
    return source


def environment(folder: Path) -> str:
    """A fresh environment that sees the packages of this one; returns its interpreter."""
    venv.create(folder, with_pip=True)
    python = next(folder.glob("bin/python")) if os.name != "nt" else folder / "Scripts/python.exe"
    purelib = run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    # Lines of .pth files in the folder named here are not read, so that an editable install of the
    # checkout stays out.
    Path(purelib, "needs.pth").write_text(f"{get_path('purelib')}\n", encoding="utf-8")
    return str(python)


def test(python: str, source: Path, arguments: list[str]) -> None:
    """Runs tests of the unpacked source against the installed package."""
    where = run(python, "-c", "import pullback; print(pullback.__file__)", folder=source)
    if not Path(where).is_relative_to(Path(python).parents[1]):
        raise SystemExit(f"the tests would import {where}")
    command = [python, "-m", "pytest", "-q", "-rfE", *arguments]
    if subprocess.run(command, cwd=source, env=_environ(), check=False).returncode:
        raise SystemExit("the tests of the source distribution failed")


def run(*command: str, folder: Path | None = None) -> str:
    """Runs a command without the caller's PYTHONPATH; returns what it prints."""
    done = subprocess.run(command, cwd=folder, env=_environ(), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{done.stdout}\nfailed: {' '.join(command)}")
    return done.stdout.strip()


def _environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


if __name__ == "__main__":
    main()
