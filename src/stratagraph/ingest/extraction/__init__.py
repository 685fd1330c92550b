"""What each chunk says: semantic units, entities and relations, by a model, by rules or by spaCy.

stage       the stage: which chunks are read, how, and what is taken over (unread)
by_model    one model call per chunk; parsing reads the answer
by_rules    without a model: names, sentences as units, co-occurrence as relations
by_spacy    the same with a spaCy pipeline that the caller has installed
mentions    names in a sentence; uncased: names in writing without capitals
units       relations, semantic units and acronyms of the sentences of a passage
candidates  doubtful names and lower-case phrases, and which of them the corpus supports
"""
