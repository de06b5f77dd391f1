"""``python -m worldline``."""

from worldline.cli import main

raise SystemExit(main())
