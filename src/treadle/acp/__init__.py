"""The Agent Client Protocol: editors and evaluations drive threads on standard input and output."""
