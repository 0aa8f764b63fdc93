"""Pictures as rows of (red, green, blue)."""


def flag():
    """Return a flag of 5 by 3 pixels."""
    return [[(0, 85, 164)] * 5, [(255, 255, 255)] * 5, [(239, 65, 53)] * 5]
