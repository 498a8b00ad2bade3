"""The wrappers: role labels, pivotal retry, segment credit and their companions."""
