"""Forward mode: tangents and the JVP rules that compute them."""

from __future__ import annotations

__all__: list[str] = []
