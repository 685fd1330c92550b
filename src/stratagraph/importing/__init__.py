"""Extractions made by other systems, as `stratagraph.types.records.Extraction`.

====================== ================================================= ===================
function               reads                                             module
====================== ================================================= ===================
`read_openie`          entities and triples per passage (OpenIE)         `openie.py`
`read_graphrag`        the output folder of Microsoft GraphRAG           `graphrag.py`
`from_property_graph`  LlamaIndex property graphs and their nodes        `frameworks.py`
`from_graph_documents` LangChain graph documents                         `frameworks.py`
`read_extraction`      JSON lines that `Index.export` wrote              `lines.py`
====================== ================================================= ===================

Each returns an `Imported`: passages, their extractions, and counts of what was repaired or left out.

>>> imported = read_graphrag("output")                                              # doctest: +SKIP
>>> index = sg.build_index(imported.documents, extraction=imported.extractions)     # doctest: +SKIP
"""

from __future__ import annotations

from stratagraph.importing.draft import CommunityReport, Imported
from stratagraph.importing.frameworks import from_graph_documents, from_property_graph
from stratagraph.importing.graphrag import read_graphrag
from stratagraph.importing.lines import read_extraction
from stratagraph.importing.openie import read_openie

__all__ = [
    "CommunityReport",
    "Imported",
    "from_graph_documents",
    "from_property_graph",
    "read_extraction",
    "read_graphrag",
    "read_openie",
]
