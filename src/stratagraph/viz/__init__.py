"""Pictures of an index, of a question and of a build, as pages that work offline.

================ ====================================================== ==================
function         shows                                                  file
================ ====================================================== ==================
`hierarchy`      a method's levels as an icicle; a click opens a text   `hierarchy.py`
`question`       the graph around a question: what was found, and why   `question.py`
`build_report`   tokens and seconds of a build, stage by stage          `report.py`
================ ====================================================== ==================

`Index.show`, `Retrieval.show` and `Index.show_report` are the short ways to them. Each gives a `Picture`.
The pages are put together in `page.py`, where all text that comes from documents becomes data, never
markup. Layouts are by the D3 modules in `assets/d3` (their licence is beside them).
"""

from __future__ import annotations

from stratagraph.results import Picture
from stratagraph.viz.hierarchy import MOST_SHOWN, hierarchy
from stratagraph.viz.question import Subgraph, question
from stratagraph.viz.report import build_report

__all__ = ["MOST_SHOWN", "Picture", "Subgraph", "build_report", "hierarchy", "question"]
