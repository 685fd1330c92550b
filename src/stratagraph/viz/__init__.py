"""Pages that show an index, a question or a build, and work offline.

================ ====================================================== ==================
function         shows                                                  module
================ ====================================================== ==================
`hierarchy`      a method's levels as an icicle; a click opens a text   `hierarchy.py`
`question`       the graph around a question: what was found, and why   `question.py`
`build_report`   tokens and seconds of a build, stage by stage          `report.py`
================ ====================================================== ==================

`Index.show`, `Retrieval.show` and `Index.show_report` call them. Each returns a `Picture`. In `page.py` all
text of documents becomes data, never markup. Layouts are by the D3 modules in `assets/d3`.
"""

from __future__ import annotations

from stratagraph.types.results import Picture
from stratagraph.viz.hierarchy import MOST_SHOWN, hierarchy
from stratagraph.viz.question import Subgraph, question
from stratagraph.viz.report import build_report

__all__ = ["MOST_SHOWN", "Picture", "Subgraph", "build_report", "hierarchy", "question"]
