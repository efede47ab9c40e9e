"""The pages of the reference that are written from the source: each module has one, as `page()`."""
