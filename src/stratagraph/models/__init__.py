"""The only place where a model is called.

    gate        ModelGate: cache, budget, limiter, retry, call, parse, ledger, in this order
    protocol    the protocol of a gate that the rest of the package sees
    task        prompts, tasks and the items of a stage
    stages      another model for extraction, for summaries or for answers
    structured  reading what models write: text, JSON (with shapes), records (delimited)
    schema      JSON schemas as they are sent
    budget      how fast and how much: limits, budget, prices, and the account of an operation
    limiter     slots and token buckets
    services    limits and threads that all gates of an index share
    retry       which errors are worth another try
    outage      whether the server is there at all, over all calls of an operation
    deadline    how long a request may take
    pending     calls under way: shared while identical, kept when their caller is cancelled
    request     one request for text: budget, limiter, retry, ledger
    usage       what requests turn out to use, for what the next ones reserve
    completion  an answer's text, and what the provider says about it
    embedding   texts to vectors: journal, batches, retry
    vectors     checks on what embedders return
    ledger      what each stage cost
    estimate    CountingGate: the same gate, counting instead of calling
    batching    BatchGate: the same gate, whose answers come later (batchfile: the lines of batch files)
    wrap        the objects that callers give us, sync or async, as one shape
    named       models by name; openai and ollama are the providers, frameworks adapts others' objects
    local       embedders that need no service: onnx, hashing
    fake        models and embedders for tests

Import from the module that has the thing; nothing is imported here, so that importing one is quick.
"""
