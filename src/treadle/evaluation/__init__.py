"""Evaluation: tasks that are run, graded and recorded, so that runs can be compared."""
