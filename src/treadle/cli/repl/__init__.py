"""The REPL: a person and an agent at one terminal."""
