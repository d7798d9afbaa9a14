"""Configuration of the documentation site: Sphinx with MyST and the pydata theme.

`make docs` builds it without running the tutorials, `make docs-tutorials` with them. Everything is
built offline; `PULLBACK_DOCS_ONLINE=1` loads the inventories of NumPy's and SciPy's manuals, so
that names of theirs become links.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDERS = ("docs/_ext", "src", "scripts", ".")
sys.path[:0] = [str(HERE.parent / name) for name in FOLDERS]

from numpydoc.xref import DEFAULT_LINKS  # noqa: E402

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
    "sphinx_copybutton",
    "sphinx_design",
    "drawings",
    "mathml",
    "numpy_sections",
    "reference_pages",
    "repository_links",
    "speed_table",
]
exclude_patterns = ["_build", "_ext", "_templates", "README.md"]
suppress_warnings = ["config.cache"]  # the extensions here keep functions in their configuration
nitpicky = False
default_role = "literal"  # `name` in a docstring is code

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
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"  # names without an entry below are types of other packages, or words
numpydoc_xref_aliases = {"Tensor": "pullback.Tensor", "Module": "pullback.nn.Module"}
intersphinx_mapping = {}
if os.environ.get("PULLBACK_DOCS_ONLINE"):
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
    }
else:  # numpydoc's own links lead into these manuals
    numpydoc_xref_aliases |= {name: name for name in DEFAULT_LINKS}

# --- appearance -----------------------------------------------------------------------------------

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "Pullback"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["pullback.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_end": ["versions", "theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_context = {
    "default_mode": "auto",
    "versions": json.loads((HERE / "_static" / "versions.json").read_text(encoding="utf-8")),
}
html_copy_source = False
html_show_sourcelink = False
