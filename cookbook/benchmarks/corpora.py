"""What benchmarks share with the papers' programs: corpora in all layouts, clusterings, RAPTOR's clusters."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from papers.layouts import read
from papers.raptor import SHARED, clusters, halves

from papers import clusterings

__all__ = ["SHARED", "clusterings", "clusters", "halves", "read"]
