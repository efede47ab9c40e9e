"""The store that the servers of several machines share: PostgreSQL, if the setting `cluster.url` is set.

Read `database` and `migrate` (with `migrations/*.sql`) first, then by question:

    who is alive          node, lease, kill_timer -> replicas, peers, status; hops: proofs of passed-on requests
    what runs once        runs: the interface -> postgres_runs, file_runs; ended_runs: what became of one
    what all share        kept, json_row, questions, seals, reseal; blocking: for threads
    the record of all     ship: lines to the database -> merkle, checkpoint, sign, signed_note, bucket
                          -> read_record, ledger_lines, verify_chain, verify

Not here: settings (`policy/settings/cluster.py`), and what opens all this for a server (`gate/cluster.py`).

A machine that has no `cluster.url` imports nothing of this room.
"""
