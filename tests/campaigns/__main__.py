"""The full campaigns, by hand: `python -m tests.campaigns damage --trials 5000`."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.campaigns import CAMPAIGNS
from tests.campaigns.trials import TALLIES, table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=CAMPAIGNS)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--small", type=int, help="in place of --trials: so many times those in CI")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # one that is stopped shows what it has
    began = time.monotonic()
    try:
        for name in given.names:
            module, _, function = CAMPAIGNS[name][0].partition(".")
            campaign = getattr(importlib.import_module(f"tests.campaigns.{module}"), function)
            with tempfile.TemporaryDirectory(prefix=f"campaign-{name}-", ignore_cleanup_errors=True) as work:
                trials = CAMPAIGNS[name][1] * given.small if given.small else given.trials
                campaign(Path(work), trials, given.seed)
    finally:
        seconds = time.monotonic() - began
        print(f"\n{', '.join(given.names)}, seed {given.seed}, {seconds:.0f} s\n{table(TALLIES)}", flush=True)
    return 0 if all(row.sound for row in TALLIES) else 1


if __name__ == "__main__":
    sys.exit(main())
