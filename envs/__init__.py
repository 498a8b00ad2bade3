"""Text environments, each a Gymnasium env with string observations and actions."""
