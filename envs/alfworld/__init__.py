"""ALFWorld households: real semantics, offline."""
