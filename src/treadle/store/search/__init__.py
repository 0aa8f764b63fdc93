"""Full-text search over the log: words, substrings and regular expressions."""
