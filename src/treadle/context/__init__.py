"""What the model sees: the view of a log, and the request it makes."""
