"""The conformance kit: contracts that every environment and wrapper must keep."""
