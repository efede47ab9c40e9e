"""The tools of the compat profile: their names, schemas and texts are exact."""
