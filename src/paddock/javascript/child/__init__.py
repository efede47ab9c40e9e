"""What runs in the fork server of workers and in workers: the standard library, this folder and `sandbox.child`."""
