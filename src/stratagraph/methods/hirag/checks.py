"""Checks the arrays of a HiRAG index once, when it is opened."""

from __future__ import annotations

import numpy as np

from stratagraph.ingest.checks import Checks
from stratagraph.ingest.graph.checks import check_vectors
from stratagraph.ingest.graph.stage import Graph
from stratagraph.kernels.checks import check_symmetric
from stratagraph.methods.drift import check_drift
from stratagraph.methods.groups import check_nodes
from stratagraph.methods.hirag.clusters import IDS
from stratagraph.methods.hirag.communities import INPUTS
from stratagraph.methods.hirag.entities import NAMES
from stratagraph.methods.hirag.summary_entities import CLUSTERS, ENTITIES, PROPOSED, SAID, STRENGTHS, WRITTEN

_REPEATED = 64
"""Bound of edge numbers per edge: a mask over edge numbers must fit into memory."""


def check_arrays(checks: Checks, graph: Graph, chunks: int, dimension: int) -> None:
    """Check that the arrays fit each other, the graph, and the number of chunks."""
    check_vectors(graph.stored.arrays)
    check_drift(checks)
    summaries, communities, meta = checks.rows("counts", 2**31, (3,)).tolist()
    entities = graph.entities + summaries
    check_nodes(checks, chunks, dimension, summaries + communities + meta)
    checks.csr("layered", entities, entities, ascending=True)
    joined = checks.any("layered.indices").shape
    edges = checks.rows(
        "layered.edges", graph.relations + _REPEATED * (1 + joined[0]), joined, dtype=np.int32
    )
    check_symmetric(checks.any("layered.indptr"), checks.any("layered.indices"), edges, "layered")
    checks.rows("communities.labels", communities, (None, entities), dtype=np.int32)
    checks.csr("communities", entities, communities)
    checks.of(INPUTS, np.uint64, (communities,))
    checks.of("layers.levels", np.int16, (summaries,))
    checks.numbers("layers.sparsity", np.float64, checks.of("layers.sizes", np.int64, (None,)).shape)
    checks.of(NAMES, np.uint64, (graph.entities,))
    checks.of(IDS, np.uint64, (*checks.of("clusters.levels", np.int16, (None,)).shape, 2))
    (clusters,) = checks.of("clusters.levels", np.int16, (None,)).shape
    members = checks.rows("clusters.members", entities, (None,), dtype=np.int32)
    checks.borders("clusters.indptr", len(members), clusters)
    (proposals,) = checks.rows(CLUSTERS, clusters, (None,), dtype=np.int32).shape
    checks.rows(ENTITIES, summaries, (proposals,), dtype=np.int32, start=-1)
    checks.of(PROPOSED, np.uint64, (proposals, 2))
    checks.of(WRITTEN, np.bool_, (proposals,))
    said = checks.rows(SAID, 2**31, (None, 2), dtype=np.int32)
    checks.numbers(STRENGTHS, np.float64, said.shape[:1])
    for name, rows in (
        ("entities", graph.entities),
        ("summaries", summaries),
        ("reports", communities),
    ):
        checks.nearest(name, rows, dimension)
