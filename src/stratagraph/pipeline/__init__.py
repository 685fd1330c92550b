"""The stages that all methods share, in the order in which data flows.

    chunk               documents into chunks; sentences, tokens
    extraction          what each chunk says: by a model, by rules, by spaCy, or given
    merge               what all chunks say, as one graph with exact provenance
    entity_resolution   names that may mean one thing, and a rule; names tells how they are spelt and found
    same_things         names of one thing, and namesakes, as a model or titles tell them
    graph               the graph as nodes and arrays; lexical the words of BM25
    summarize, reports  summaries of groups, reports on communities
    carryover           what a build takes over from the previous generation

and for a question:

    decompose           the names in it, or its single steps, by the model; names.linking finds names by rules
    filters             which chunks a metadata filter admits
    walk                passages by a walk over the graph; fusion says how much words count, nearest finds
                        the similar ones
    ranking             rows with scores, and how rankings are merged and filled
    rerank              another order by a slower model
    answer              the last prompt, the answer and its citations

A stage takes values and the gate, returns values, and knows neither files nor methods.
"""
