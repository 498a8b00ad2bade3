"""Judges: who labels segments with roles."""
