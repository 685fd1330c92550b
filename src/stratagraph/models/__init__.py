"""The only place where a model is called.

    gate        ModelGate: cache, budget, limiter, retry, call, parse, ledger, in this order
    stages      the stages of an operation: usage, progress, failures, work on the mapper
    request     requests to a caller's chat model: budget, limiter, retry, call, ledger
    concurrency slots, rates, threads and deadlines of requests; calls under way
    retry       which errors are worth another attempt; outages
    budget      limits, budgets, prices, accounts, ledgers
    identity    what the key of a cached answer and the name of an embedder depend on
    task        prompts, tasks, the items of a stage and a model per stage
    structured  reading what models write: text and JSON
    messages    a prompt as messages; JSON schemas; an answer with its usage and finish reason
    embedding   texts to vectors: journal, batches, retry, checks
    estimate    CountingGate, which counts instead of calling
    batching    BatchGate, whose answers come in batch files
    named       models by name
    providers   models of OpenAI, of servers that speak its protocol, and of Ollama
    local       embedders that run here: onnx, minilm, hashing
    tracing     the logger, and OpenTelemetry spans
    fake        models and embedders for tests

Import from these modules; nothing is imported here, so that importing one is quick.
"""
