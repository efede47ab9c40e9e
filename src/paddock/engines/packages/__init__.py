"""Packages for programs: requirements become a read-only environment.

registries    index configuration of the user and of the system, never of a workspace
installation  the installer in a separate, confined job, with the network that the settings grant
python, node  resolve and install
hosts         what the installer may reach
store         content-addressed environments, shared by all jobs of the user
service       the one entrance: `Packages.provide`; `interface` has the values that it takes and returns

Whether a program may have packages is decided by `policy/decisions/package_requests.py`; that is not about networks.
The network of the installer is the setting `packages.network`: `Packages._check_reach` refuses what it does not
allow, and `installation` grants the rest to each step. With `hosts`,
`hosts.grant_registries` lists the hosts, and `service` opens them with an `OpenHosts`
(`confinement/sandbox/protocol.py`), which the gate hands in.
"""
