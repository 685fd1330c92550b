"""The full campaigns, by hand: `python -m tests.campaigns damage --trials 5000`."""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path

from tests.campaigns.trials import table

NAMES = ("damage", "hostile", "kills", "full_disk", "power_cuts", "cancellations", "forks", "traces")


def main() -> int:
    """Run the campaigns that are named, and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=NAMES)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    sound = True
    for name in given.names:
        began = time.monotonic()
        campaign = importlib.import_module(f"tests.campaigns.{name}").campaign
        with tempfile.TemporaryDirectory(prefix=f"campaign-{name}-") as work:
            rows = campaign(Path(work), given.trials, given.seed)
        print(f"\n{name}, seed {given.seed}, {time.monotonic() - began:.0f} s\n{table(rows)}", flush=True)
        sound = sound and all(row.sound for row in rows)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
