"""The store that the servers of several machines share: PostgreSQL, if the setting `cluster.url` is set.

Read `database` and `migrate` (with `migrations/*.sql`) first, then by question:

    a restored database   generation: noticed in each renewal, entered from the ledgers -> restore: accepted
    who is alive          node, lease -> replicas, which finds the one of a mark; hops: proofs of
                          passed-on requests; peers: `replicas` and `hops` together; clock: is this one right
    what has changed      listener: the connection of the lease, which hears announcements; cleaner: what is over
    which versions run    migrate: tables expand -> contract, once no older replica is alive
    what runs once        runs: claims -> postgres_runs: their rows; status: what became of one
    a person's answer     gate/approvals asks -> questions: a row waits -> answered anywhere, by tenants/tenant or
                          cli/approve -> announced, and heard by listener between two renewals of
                          the lease -> the asker takes it
    what all share        kept (pins, definitions, schedules), json_row, seals; blocking: for threads
    the record of all     ship: lines to the database -> merkle, checkpoint, sign, signed_note, bucket
                          -> read_record, ledger_lines, verify_chain, verify

A *replica* is a server that shares the store. It, or any other Paddock that uses the store, is a *node* there. The
lines of a ledger travel in *chunks*. Not here: the way of a request to the replica that owns a session
(`elsewhere` and `forwarding` of `surfaces/http_api`, `surfaces/mcp_server/http/inbound.py`), the drivers, workers and
batches of programs on Ray (`surfaces/client/ray`), settings (`policy/settings/cluster.py`), and what opens the others
for a server (`gate/cluster.py`).

A machine that has no `cluster.url` imports nothing of this room.
"""
