"""The values that everything exchanges, and what is asked of callers' objects."""
