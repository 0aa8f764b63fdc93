"""The Codex harness: turns on a real Codex app-server."""
