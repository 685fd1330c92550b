"""The only place where a model is called.

    gateway     the gate: cache, budget, limiter, retry, call, parse, ledger, in this order
    prompt      prompts, tasks and the items of a stage
    gate        the protocol that the rest of the package sees
    structured  reading what models write: text, JSON (with shapes), records (delimited)
    limits      how fast and how much: limits, budget, prices
    limiter     slots and token buckets
    services    limits and threads that all gates of an index share
    retry       which errors are worth another try
    wrap        the objects that callers give us, sync or async, as one shape
    flights     calls under way: shared while identical, kept when their caller is cancelled
    request     one request for text: budget, limiter, retry, ledger
    embedding   texts to vectors: journal, batches, retry
    vectors     checks on what embedders return
    ledger      what each stage cost
    estimate    the same gate, counting instead of calling
    fake        models and embedders for tests
    local       embedders that need no service

Import from the module that has the thing; nothing is imported here, so that importing one is quick.
"""
