"""The store that the servers of several machines share: PostgreSQL, if the setting `cluster.url` is set.

    database: connections, and errors as StoreUnavailable -> migrate: the tables, by numbered files of SQL
    layout of the tables: migrations/*.sql
    node: the entry and the lease of this process -> replicas: those of the others
    hops: proofs of requests that replicas pass on to each other

A machine that has no `cluster.url` imports nothing of this room.
"""
