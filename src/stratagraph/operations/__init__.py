"""What an index does, each through one gate: update, ask, list, inspect."""
