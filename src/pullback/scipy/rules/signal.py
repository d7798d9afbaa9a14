"""Rules of ``scipy.signal``; its parts declare them."""

from __future__ import annotations

from pullback.scipy.rules import (
    ndimage_ranks,
    signal_convolve,
    signal_filter,
    signal_spectral,
)

__all__ = ["ndimage_ranks", "signal_convolve", "signal_filter", "signal_spectral"]
