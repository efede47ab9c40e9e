"""Packages for programs: requirements become a read-only environment.

registries    index configuration of the user and of the system, never of a workspace
installation  the installer in a separate, confined job, with the network that the settings grant
python, node  resolve and install
hosts         what the installer may reach
store         content-addressed environments, shared by all jobs of the user
service       the one entrance: `Packages.provide`; `interface` is what it takes and returns

Whether a program may have packages is decided by `policy/decisions/packages.py`; what the network of the installer may
be is the setting `packages.network`.
"""
