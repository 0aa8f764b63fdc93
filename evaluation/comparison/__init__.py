"""The same tasks and the same model on different agents, behind a proxy that records."""
