"""Transfer: pasts of other agents become threads, and threads become files.

Imports know four formats (Codex, Claude Code, OpenClaw, plain JSONL), exports three.
Nothing is imported here, so that asking for one format loads one format.
"""
