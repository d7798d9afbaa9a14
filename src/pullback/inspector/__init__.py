"""The inspector: a page about a recorded graph, and the HTML forms of objects.

This file imports none of its modules: ``html_repr`` is used by low layers, ``inspection`` stands
above the transforms. The public name is ``pullback.inspect``.
"""

from __future__ import annotations

__all__: list[str] = []
