"""What each chunk says: semantic units, entities and relations, by a model, by rules or by spaCy.

stage          the settings, and the stage: which chunks are read, how, and what is taken over
stored         extractions on disk: JSON, and the arrays of an update
by_model       model calls, and what is made of their answers
sentence_form  the default prompt and its answers; parsing: those of the full form
ontology       types of entities and relations that the caller gives
by_rules       without a model: names, sentences as units, names of one sentence as relations
by_spacy       names by a spaCy pipeline that the caller has installed
mentions       names in a sentence
candidates     names without capitals, and which candidates for names the corpus supports
"""
