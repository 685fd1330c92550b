"""Shards searched and changed as one index.

reader     a question over all shards: one walk over their joined ground, and their methods' rankings merged
spreading  the shard of each document
updating   a change carried out in the shards that it concerns
apart      questions that workers of a mapper search for
listing    what one or several generations hold
"""
