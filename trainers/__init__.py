"""The built-in trainer. The only part of triage_gym that imports torch; this module does not."""
