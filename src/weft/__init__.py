"""Weft: a runtime for coding agents in which what the model sees is engineered."""

__version__ = "0.1.0"
