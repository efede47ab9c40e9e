"""Processes that can do no more than they were granted: the sandbox, and the proxy of its network.

sandbox         starts, limits and ends every confined process; `protocol` is its interface
sandbox/child   what runs inside of it and beside it: supervisor, shim, brokers
network         the proxy of one job, which connects it to granted hosts
"""
