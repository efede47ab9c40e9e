-- A chain is the ledger in one directory, over all its files and all starts of its node. Its name is the first 16
-- hexadecimal digits of the hash of its first record.
alter table record rename column boot to chain;
create index record_by_parent on record (parent) where parent is not null;

-- One row for each chain. Its lock serializes the processes that ship the same chain.
create table chain (
    chain text primary key,
    node text not null,
    seq bigint not null default 0,
    signed bigint not null default 0,
    fault text
);
create index chain_by_node on chain (node);

-- `size` is the number of leaves of the tree under `root`, and `edge` the roots of its complete subtrees. The leaves
-- are the `heads` of all checkpoints in order. `stored` means that the bucket has the note.
alter table checkpoint add column size bigint not null;
alter table checkpoint add column edge bytea not null;
alter table checkpoint add column stored boolean not null default false;
create index checkpoint_not_stored on checkpoint (n) where not stored;
