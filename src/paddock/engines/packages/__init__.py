"""Packages for programs: requirements become a read-only environment.

registries   index configuration of the user and of the system, never of a workspace
phase        the installer in a separate, confined job, with the network that the settings grant
python, node resolve and install
wanted       the packages that a program asks for
store        content-addressed environments, shared by all jobs of the user
errors, hosts, progress   why there is none, what the installer may reach, how long it takes
service      the one entrance: `Packages.provide`
"""
