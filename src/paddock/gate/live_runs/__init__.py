"""What runs now in every process of this user and state directory: shown to a person, and stopped by them.

    a process that opens Paddock --> endpoint: one Unix socket in a private directory --> answers
    `paddock ps`, the page ------------> reader: asks all sockets at once

`endpoint` is loaded by each start, and makes nothing but the socket. `answers` is loaded at the first question. The
questions and answers are in `paddock.model.live_runs`; what is shown of a run is in `paddock.engines.live_run`.

Who may ask: a process of the same user, by the kernel's word (SO_PEERCRED, unix(7)). The directory is closed to others,
and to programs in every tier: it is one of Paddock's own directories (`gate/processes.py`).
"""
