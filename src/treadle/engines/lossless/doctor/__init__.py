"""Look after a library of summaries: inspect it, check it, repair it, copy it."""
