"""Code of the fork server, the supervisors and the jobs. It imports only the standard library and this folder."""
