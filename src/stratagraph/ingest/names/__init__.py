"""Names of entities: when two are one, and which of a million stand in a question.

spelling   canonical names, dates, and the whole words of a text
index      `NameIndex`: exact, partial and misspelt lookup
linking    which entities a question is about
"""
