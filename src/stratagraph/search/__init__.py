"""From a question to passages and an answer, by arrays and models; nothing here knows the store."""
