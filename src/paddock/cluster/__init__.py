"""The store that the servers of several machines share: PostgreSQL, if the setting `cluster.url` is set.

    database: connections, and errors as StoreUnavailable -> migrate: the tables, by numbered files of SQL
    layout of the tables: migrations/*.sql

A machine that has no `cluster.url` imports nothing of this room.
"""
