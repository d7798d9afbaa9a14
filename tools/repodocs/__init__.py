"""Pages about every file of a Python repository: documentation, keywords, folders, search.

``python -m tools.repodocs build PATH --out DIR`` reads the repository and writes the pages;
``check`` lists those that are stale. The repository is only read: it is never imported or run.

The parts, in the order of their use: ``listing`` (which files), ``textfile`` (their text),
``python_source``, ``patterns``, ``prose`` and ``analyse`` (one file alone), ``project``, ``roles``,
``coverage_data`` and ``context`` (links between files), ``pages`` and ``overview`` (contents of
pages as ``blocks``), ``html`` and ``markdown`` (renderers), ``build`` with ``workers`` and
``links``, ``cli``.
"""

from __future__ import annotations

from tools.repodocs.build import Options, Outcome, build, stale_pages

__all__ = ["Options", "Outcome", "build", "stale_pages"]
