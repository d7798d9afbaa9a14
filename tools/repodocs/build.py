"""Building and checking the pages of a repository.

Two passes over the files, both parallel: the analysis (records in ``.repodocs`` of the output) and
the writing of pages. Between them the links are computed in this process. The manifest in
``.repodocs`` has the fingerprint of every page; a page is written only if its fingerprint is new.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from urllib.parse import quote

from tools.repodocs import html, markdown
from tools.repodocs.analyse import Item, Summary, analyse_files, load_record, record_path, summarize
from tools.repodocs.blocks import Page, docs_page, keyword_page, printable
from tools.repodocs.context import FileContext, Sources, file_context, fingerprint
from tools.repodocs.coverage_data import load_coverage
from tools.repodocs.listing import co_changes, list_files
from tools.repodocs.overview import folder_page_of, folder_tree, front_page, name_pages, subfolders
from tools.repodocs.pages import file_pages
from tools.repodocs.project import Project, module_items
from tools.repodocs.records import empty_record
from tools.repodocs.roles import find_roles
from tools.repodocs.textfile import read_contents
from tools.repodocs.workers import run_parallel

RENDERERS: dict[str, ModuleType] = {"html": html, "md": markdown}
STATE = ".repodocs"
CHUNK = 32


class Options(NamedTuple):
    """What the command line gives."""

    root: Path
    out: Path
    format: str = "html"
    title: str = ""
    home: str = ""
    coverage: Path | None = None
    processes: int = 0


class Plan(NamedTuple):
    """Every page that belongs to the output, and what is needed to write it."""

    sources: Sources
    contexts: dict[str, FileContext]  # by fingerprint's page: the documentation page of a file
    overviews: list[Page]
    fingerprints: dict[str, str]  # page -> fingerprint


class Outcome(NamedTuple):
    """What a build did."""

    files: int
    written: int
    unchanged: int
    removed: int
    problems: list[str]


# --- planning -------------------------------------------------------------------------------------


def site_title(options: Options) -> str:
    """Return the title of the output: given, or the name of the folder."""
    return options.title or options.root.resolve().name or "repository"


def make_plan(options: Options, cache: Path) -> Plan:
    """Analyse the repository and compute every page's fingerprint."""
    root = options.root.resolve()
    paths = list_files(root, options.out)
    items = module_items(paths, root.name)
    summaries = run_parallel(
        partial(analyse_files, root, cache),
        items,
        CHUNK,
        _processes(options),
        "analyse",
        partial(_crashed, cache),
    )
    project = Project(sorted(summaries, key=lambda summary: summary.path), items)
    sources = Sources(
        project=project,
        roles=find_roles(root, project.files),
        changes=co_changes(root, set(project.files)),
        coverage=load_coverage(options.coverage, root) if options.coverage else {},
        folders=folder_tree(project.files),
    )
    extra = (options.format, site_title(options), options.home)
    contexts, prints = {}, {}
    for path in project.files:
        context = file_context(sources, path)
        page = docs_page(path)
        contexts[page], prints[page] = context, fingerprint(context, *extra)
        prints[keyword_page(path)] = prints[page]
    overviews = _overviews(sources, site_title(options))
    prints |= {page.target: fingerprint(page, *extra) for page in overviews}
    return Plan(sources, contexts, overviews, prints)


def _processes(options: Options) -> int:
    return options.processes or os.cpu_count() or 1


def _crashed(cache: Path, item: Item) -> Summary:
    """Return the summary of a file whose analysis ended its process."""
    record = empty_record(item.path, "unreadable", "The analysis of this file failed.")
    key = f"crashed{fingerprint(list(item))}"
    record_path(cache, key).parent.mkdir(parents=True, exist_ok=True)
    record_path(cache, key).write_text(json.dumps({"record": record}), encoding="ascii")
    return summarize(record, key)


def _overviews(sources: Sources, title: str) -> list[Page]:
    children = subfolders(sources.folders)
    pages = [folder_page_of(sources, children, folder) for folder in sources.folders if folder]
    return [front_page(sources, children, title), *pages, *name_pages(sources)]


# --- writing --------------------------------------------------------------------------------------


def build(options: Options) -> Outcome:
    """Write the pages of a repository; unchanged ones stay."""
    state = options.out / STATE
    cache = state / "records"
    cache.mkdir(parents=True, exist_ok=True)
    plan = make_plan(options, cache)
    before = _load_manifest(state)
    extension = RENDERERS[options.format].EXTENSION
    stale = [
        page
        for page in plan.fingerprints
        if before.get(page) != plan.fingerprints[page] or not _exists(options.out, page, extension)
    ]
    stale_files = {context["path"] for page in stale if (context := plan.contexts.get(page))}
    jobs = [context for context in plan.contexts.values() if context["path"] in stale_files]
    write = partial(_write_files, options._replace(title=site_title(options)), cache)
    results = run_parallel(write, jobs, CHUNK, _processes(options), "write", _not_written)
    problems = [problem for problem in results if problem]
    overviews = [page for page in plan.overviews if page.target in set(stale)]
    for page in overviews:
        problems += [p for p in [_write(options, page)] if p]
    _write_assets(options, plan)
    removed = _remove_old(options, before, plan)
    _drop_records(cache, {summary.key for summary in plan.sources.project.files.values()})
    manifest = {
        "format": options.format,
        "title": site_title(options),
        "home": options.home,
        "pages": plan.fingerprints,
    }
    (state / "manifest.json").write_text(json.dumps(manifest, indent=0), encoding="ascii")
    written = 2 * len(jobs) + len(overviews)
    unchanged = len(plan.fingerprints) - written
    return Outcome(len(plan.sources.project.files), written, unchanged, removed, problems)


def _not_written(context: FileContext) -> str:
    return f"{printable(context['path'])}: the page could not be written"


def _write_files(options: Options, cache: Path, contexts: Sequence[FileContext]) -> list[str]:
    """Write the pages of files; runs in a worker process. Returns a problem or '' for each."""
    return [_write_file(options, cache, context) for context in contexts]


def _write_file(options: Options, cache: Path, context: FileContext) -> str:
    record = load_record(cache, context["key"])
    if record is None:
        return f"{printable(context['path'])}: its record is gone"
    text = ""
    if record["kind"] in ("python", "prose", "text"):
        text = read_contents(options.root.resolve(), context["path"]).text
    problems = [_write(options, page) for page in file_pages(record, text, context)]
    return "; ".join(problem for problem in problems if problem)


def _write(options: Options, page: Page) -> str:
    """Write one page; return a problem or the empty string."""
    renderer = RENDERERS[options.format]
    text = renderer.render_page(page, site_title(options), options.home)
    path = options.out / (page.target + renderer.EXTENSION)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8"))
    except OSError as error:
        return f"{printable(page.target)}: {error.strerror}"
    return ""


def _write_assets(options: Options, plan: Plan) -> None:
    """Write style, script, the names for the search box, and a search page for Markdown."""
    out = options.out
    (out / "repodocs.css").write_text(html.style_sheet(), encoding="utf-8")
    (out / "repodocs.js").write_text(html.script(), encoding="utf-8")
    extension = RENDERERS[options.format].EXTENSION
    files = list(plan.sources.project.files.values())
    data = {
        "lines": options.format == "html",
        "files": [
            [printable(s.path), quote(os.fsencode(docs_page(s.path) + extension)), s.purpose]
            for s in files
        ],
        "names": [
            [name.qualname, name.kind, number, name.line]
            for number, summary in enumerate(files)
            for name in summary.names
        ],
    }
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    (out / "repodocs-names.js").write_text(f"window.REPODOCS={text};\n", encoding="ascii")
    if options.format == "md":
        page = Page("search", "Search", "", [])
        (out / "search.html").write_text(
            html.render_page(page, site_title(options), options.home), encoding="utf-8"
        )


# --- state ----------------------------------------------------------------------------------------


def _load_manifest(state: Path) -> dict[str, str]:
    try:
        manifest = json.loads((state / "manifest.json").read_text(encoding="ascii"))
        pages: dict[str, str] = manifest["pages"]
        return pages if isinstance(pages, dict) else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _as_built(options: Options) -> Options:
    """Return the options with the format, title and home of the last build."""
    try:
        text = (options.out / STATE / "manifest.json").read_text(encoding="ascii")
        stored = json.loads(text)
        kind, title, home = (str(stored[name]) for name in ("format", "title", "home"))
    except (OSError, ValueError, LookupError, TypeError):
        return options
    if kind not in RENDERERS:
        return options
    return options._replace(format=kind, title=title, home=home)


def _exists(out: Path, page: str, extension: str) -> bool:
    return os.path.isfile(out / (page + extension))


def _remove_old(options: Options, before: dict[str, str], plan: Plan) -> int:
    """Remove pages that an earlier build wrote and that no longer belong to the output."""
    removed = 0
    extensions = {renderer.EXTENSION for renderer in RENDERERS.values()}
    kept = RENDERERS[options.format].EXTENSION
    for page in before:
        if not (options.out / page).resolve().is_relative_to(options.out.resolve()):
            continue  # a damaged manifest must not remove files elsewhere
        for extension in extensions - ({kept} if page in plan.fingerprints else set()):
            path = options.out / (page + extension)
            if path.is_file():
                path.unlink()
                removed += 1
    return removed


def _drop_records(cache: Path, keys: set[str]) -> None:
    for path in cache.glob("*/*.json"):
        if path.stem not in keys:
            path.unlink()


# --- checking -------------------------------------------------------------------------------------


def stale_pages(options: Options) -> list[str]:
    """Return a sentence for each page that is missing, outdated or left over."""
    state = options.out / STATE
    if not (state / "manifest.json").is_file():
        return [f"{options.out} has no pages; run build first"]
    options = _as_built(options)
    scratch = state / "check"
    try:
        shutil.copytree(state / "records", scratch)
        plan = make_plan(options, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    before = _load_manifest(state)
    extension = RENDERERS[options.format].EXTENSION
    found = []
    for page, print_ in plan.fingerprints.items():
        name = printable(page + extension)
        if not _exists(options.out, page, extension):
            found.append(f"{name} is missing")
        elif before.get(page) != print_:
            found.append(f"{name} is stale")
    found += [
        f"{printable(page + extension)} belongs to no file"
        for page in before
        if page not in plan.fingerprints
    ]
    return sorted(found)
