"""Writing summaries: from a range of a conversation to fewer words that can be checked."""
