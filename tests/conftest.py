"""Fixtures that every test may use; they live in `tests/compat/kavka_compat/fixtures.py`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "compat"))

pytest_plugins = ["kavka_compat.fixtures"]
