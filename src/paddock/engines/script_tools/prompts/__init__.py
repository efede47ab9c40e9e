"""Script tools that a prompt calls: detection, confirmation and templates."""
