"""Going back to a recorded point of an episode, verified."""
