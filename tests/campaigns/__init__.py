"""Campaigns against what is promised in `SECURITY.md`."""
