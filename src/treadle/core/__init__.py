"""Values and small mechanisms; nothing here imports another room."""
