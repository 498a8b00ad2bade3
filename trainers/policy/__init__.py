"""Policies that the built-in trainer can train."""
