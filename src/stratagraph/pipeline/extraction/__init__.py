"""What each chunk says: semantic units, entities and relations, by a model, by rules or by spaCy.

stage      the stage: which chunks are read, by whom, and what is taken over
by_model   one model call for a chunk; parsing reads what it wrote
by_rules   without a model: mentions of names, sentences as units, co-occurrence as relations
by_spacy   the same with a spaCy pipeline that the caller has installed
mentions   which spans of a sentence are names;  spans: where a name may be
uncased    names in writing without capitals
terms      lower-case phrases that the corpus may support as entities
units      relations and semantic units of the sentences of a passage
"""
