"""Reads tables of text."""


def rows(text):
    """Return the rows of a table, each a list of fields."""
    found = []
    for line in text.splitlines():
        fields = line.split(",")
        found.append([field.strip('"') for field in fields])
    return found
