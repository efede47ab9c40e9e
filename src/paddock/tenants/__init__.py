"""Many users of one server: each has a token, and none sees what is another's.

    token -> `Tenants.identify` -> Tenant: actor, narrowed settings, a session of its own
               |                      |
               hash, expiry, rate     `admit`: a slot among all users, in turn -> the gate of its session

A tenant is one token. Users are kept apart by construction: each token has its own gate, interpreters and pending
work, and each user a directory of its own for stored output, questions and signals. The ledger is shared, because one
chain proves more than many; a user reads only the records of its own actor.
"""
