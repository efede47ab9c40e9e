-- Which version runs as which replica, and the newest migration that it has. `version_boot` is the process that says so:
-- a process of an older version may take over the row, and does not know these columns.
alter table node add column version text, add column migration int, add column version_boot text;

-- A replica whose lease is over, as another one has noticed.
alter table node drop constraint node_state_check;
alter table node add constraint node_state_check check (state in ('serving', 'ended', 'expired'));
create index node_by_age on node (seen) where state = 'serving';
create index chain_unsigned on chain (chain) where seq > signed;

-- Changes are announced by the tables, whichever version or person makes them. A renewal of a lease is no change.
create function paddock_announce() returns trigger language plpgsql as $$
begin
    perform pg_notify(tg_argv[0], '');
    return null;
end $$;
create trigger node_added after insert or delete on node
    for each row execute function paddock_announce('paddock_node');
create trigger node_changed after update on node
    for each row when ((old.boot, old.url, old.state) is distinct from (new.boot, new.url, new.state))
    execute function paddock_announce('paddock_node');
create trigger token_added after insert on kept
    for each row when (new.kind = 'token') execute function paddock_announce('paddock_token');
create trigger token_removed after delete on kept
    for each row when (old.kind = 'token') execute function paddock_announce('paddock_token');
create trigger token_changed after update on kept
    for each row when (new.kind = 'token') execute function paddock_announce('paddock_token');
