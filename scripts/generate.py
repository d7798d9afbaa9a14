"""Writes the generated source, even when the present one is broken.

``python -m pullback codegen`` imports the package, and so the source that it is to replace. This
script gives the generator an empty package to live in instead.
"""

import sys
from pathlib import Path
from types import ModuleType

root = Path(__file__).resolve().parents[1] / "src" / "pullback"
package = ModuleType("pullback")
package.__path__ = [str(root)]
sys.modules["pullback"] = package

from pullback.codegen.cli import main  # noqa: E402 - needs the package above

sys.exit(main())
