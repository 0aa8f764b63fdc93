"""Write summaries: make a range of a conversation shorter, and check what was lost."""
