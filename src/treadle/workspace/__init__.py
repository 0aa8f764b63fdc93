"""What changed in the workspace of a thread, and how it is brought back.

`file_history` keeps versions and copies, `disk_scan` looks at the disk, `recorder` does both
around what tools do, `rewind_plan` works out what a rewind restores and `restore` does it.
`worktrees` makes git worktrees and removes them without loss.
"""
