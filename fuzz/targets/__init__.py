"""One module for each parser that reads what others wrote."""
