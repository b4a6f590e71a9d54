"""Lets the tests import their neighbours `peers`, `parity` and so on, which are also scripts' imports."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

collect_ignore_glob = [
    "family.py",
    "measure.py",
    "mutation.py",
    "outside_project",
    "parity.py",
    "peers*.py",
    "terms.py",
]  # no doctests there; parity comes by import
