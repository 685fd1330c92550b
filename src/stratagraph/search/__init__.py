"""From a question to passages and an answer.

    questions           a question that stands alone, from one of a conversation; its names, by the model
    filters             which chunks a metadata filter admits
    walk                passages by a walk over the graph; joined over several indexes
    ranking             rows with scores, and how rankings are merged
    excerpts            the statements of a node nearest to the question
    rerank, guided      another order by a slower model; a model that chooses or asks again
    evidence            whether an index speaks of what a question asks
    answer              an answer with citations, by a model, or excerpts

Nothing here knows the store or a method.
"""
