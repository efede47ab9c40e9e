"""Settings of the network of programs, `[network]`."""

from typing import Annotated

from paddock.model.network import NetworkLimits, NetworkRule
from paddock.policy.settings.narrowing import Mark


class NetworkSettings(NetworkLimits):
    """`[network]`: which hosts programs may connect to, and how much.

    The rules of each file are judged separately. All files must agree: a workspace can only narrow.
    """

    rule: Annotated[tuple[NetworkRule, ...], Mark.JOINED] = ()
    """Rules in the order of the files (system, user, workspace). Deny beats ask, and ask beats allow. Without a rule
    that allows a host, programs cannot connect to it."""
