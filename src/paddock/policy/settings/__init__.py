"""Settings: their schema, the files and variables that set them, and how layers merge."""
