"""Entry point; tests import each other from the folder ``tests``, as under pytest and mypy."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from siege.command import main

sys.exit(main())
