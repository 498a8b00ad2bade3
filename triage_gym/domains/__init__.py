"""What the text of an environment family means; shared by judges, experts and policies."""
