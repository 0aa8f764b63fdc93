"""The inspector: a page in the browser that shows what a model saw, and the API behind it."""
