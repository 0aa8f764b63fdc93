"""The sandbox: what commands may touch, and who is asked before they do.

`policy` → `boundary` says what may be touched; `bubblewrap` holds commands to it;
`approvals` decides which commands run, are shown to the user, or are refused.
"""
