-- Where this database is: a copy that pg_restore or CREATE DATABASE made is in another place.
create table generation (
    one boolean primary key default true check (one),
    -- Number and id change when an operator accepts a restored backup. `seal` is a MAC over both, if replicas have keys.
    number int not null default 1,
    id text not null default gen_random_uuid()::text,
    seal text,
    place text not null,
    accepted timestamptz not null default now(),
    -- Set once a replica found that the database was restored: no request with effects starts until it is accepted.
    fence text,
    fenced timestamptz,
    why text
);
create function paddock_place() returns text language sql stable as $$
    select concat_ws('/', (select system_identifier from pg_control_system()),
        (select oid from pg_database where datname = current_database()), 'generation'::regclass::oid)
$$;
insert into generation (place) values (paddock_place());

-- Each renewal of a lease takes the next beat. A row with an earlier beat than its replica remembers is an old one.
create sequence node_beat;
alter table node add column beat bigint not null default 0;
-- What the replica entered from its ledger after a restore.
alter table node add column report jsonb;
