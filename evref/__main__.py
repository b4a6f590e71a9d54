"""python -m evref"""

from .cli import main

raise SystemExit(main())
