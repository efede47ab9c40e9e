"""Code of the fork server, workers and parser. It imports the standard library, this folder and `sandbox.child`."""
