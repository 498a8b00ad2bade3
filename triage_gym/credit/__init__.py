"""Credit rules: pure functions from records to per-segment advantages."""
