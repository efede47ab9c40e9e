"""What runs in the fork server of jobs, in supervisors and in jobs: the standard library and this folder alone."""
