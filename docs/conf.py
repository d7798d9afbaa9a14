"""Configuration of the documentation site: Sphinx with MyST and the pydata theme.

`make docs` builds it without running the tutorials, `make docs-tutorials` with them. Everything is
built offline; `PULLBACK_DOCS_ONLINE=1` loads the inventories of NumPy's and SciPy's manuals, so
that names of theirs become links.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDERS = ("docs/_ext", "src", "scripts", ".")
sys.path[:0] = [str(HERE.parent / name) for name in FOLDERS]

import pullback as pb  # noqa: E402 - the path is set above

project = "Pullback"
author = "the developers of Pullback"
copyright = f"2026, {author}"
release = version = pb.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "drawings",
    "mathml",
    "reference_pages",
    "repository_links",
]
exclude_patterns = ["_build", "_ext", "README.md"]
suppress_warnings = ["config.cache"]  # the extensions here keep functions in their configuration
nitpicky = False

# --- pages ----------------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 4
nb_execution_mode = os.environ.get("PULLBACK_DOCS_EXECUTE", "off")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

# --- reference ------------------------------------------------------------------------------------

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "none"  # signatures have no types: the types in docstrings are for readers
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = True
napoleon_use_rtype = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
intersphinx_mapping = {}
if os.environ.get("PULLBACK_DOCS_ONLINE"):
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
    }

# --- appearance -----------------------------------------------------------------------------------

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "Pullback"
html_static_path = ["_static"]
html_css_files = ["pullback.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_end": ["version-switcher", "theme-switcher"],
    "switcher": {"json_url": "_static/versions.json", "version_match": release},
    "check_switcher": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sourcelink = False
