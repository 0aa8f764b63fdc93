"""Care for the library: looking it over, repairing it, copying it."""
