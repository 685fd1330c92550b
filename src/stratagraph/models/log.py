"""The logger of the package. No handler is installed: what is shown is the application's choice."""

from __future__ import annotations

import logging

logger = logging.getLogger("stratagraph")
