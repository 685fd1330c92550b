"""Shards searched and changed as one index.

reader    a question over all shards: one walk over their joined ground, and their methods' rankings merged
updating  the shard of each document, and a change carried out in the shards that it concerns
"""
