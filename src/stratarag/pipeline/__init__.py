"""The stages that all methods share, in the order in which data flows.

chunk -> (extract -> merge) -> summarize -> embed, then for a question: filters -> project -> context
-> answer. A stage takes values and the gate, returns values, and knows neither files nor methods.
"""
