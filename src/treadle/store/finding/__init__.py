"""Finding what was said: words and their index, candidates, and their order."""
