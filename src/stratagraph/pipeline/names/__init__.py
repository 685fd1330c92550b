"""Names of entities: when two are one, and which of a million stand in a question.

spelling   canonical names, and the whole words of a text
acronyms   acronyms and what they stand for
index      `NameIndex`: exact, partial and misspelt lookup; arrays: how it is laid out
linking    which entities a question is about
"""
