"""Many users of one server: each has a token, and none sees what is another's.

    token -> `Tenants.identify` -> Tenant: actor, narrowed settings, its own Paddock
               |                      |
               hash, expiry, rate     `admit`: a slot among all users, in turn -> the gate of its Paddock

A tenant is one token. Users are kept apart by construction: each token has its own gate, interpreters and pending
work, and each user a directory of its own for stored output, questions and signals. The ledger is shared, because one
chain proves more than many; a user reads only the records of its own actor.

`tenants` and `tenant` are the heart. A request passes `tokens` and `rate`, and waits in `foundation.fair_slots`;
`refusals` counts what does not pass. `narrowing` makes the settings of one token. `tenants.open_stores` chooses
where tokens and questions are kept: in files (`token_file`, `question_directories`), or in rows of the database
(`token_store`, `cluster/questions`), with `shared_rates`. `errors` is what a caller reads.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from paddock.surfaces.tenants.errors import NotPermitted, RateExceeded, TenantBusy, UnknownToken

if TYPE_CHECKING:
    from paddock.surfaces.tenants.tenant import Tenant
    from paddock.surfaces.tenants.tenants import Tenants

__all__ = ["NotPermitted", "RateExceeded", "Tenant", "TenantBusy", "Tenants", "UnknownToken"]

_MODULES = {"Tenant": "paddock.surfaces.tenants.tenant", "Tenants": "paddock.surfaces.tenants.tenants"}
"""Modules that need the whole application, which `paddock serve token` and `paddock approve` do not."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
