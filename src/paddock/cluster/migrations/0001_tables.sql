-- The lease of each replica. `seen` is by the clock of the database: no two machines need the same time.
create table node (
    id text primary key,
    boot text not null,
    url text,
    state text not null default 'serving' check (state in ('serving', 'ended')),
    seen timestamptz not null default now(),
    -- Until when an earlier process of this name may still run.
    others_until timestamptz not null default '-infinity'
);

-- One row for each start of a request with effects. Its key is claimed before anything starts.
create table run (
    tenant text not null,
    key text not null,
    attempt int not null default 1,
    request text not null unique,
    digest bytea not null,
    epoch int not null default 1,
    node text,
    boot text,
    pure boolean not null default false,
    state text not null check (state in ('started', 'finished', 'lost', 'fenced')),
    status text,
    -- JSON, as text: a repeated request gets the same bytes, and jsonb allows no NUL in strings.
    outcome text,
    started timestamptz not null default now(),
    ended timestamptz,
    primary key (tenant, key, attempt)
);
create index run_by_node on run (node) where state = 'started';
create index run_by_age on run (started);

-- The ledger lines of all nodes, byte for byte. Each node has its own chain.
create table record (
    node text not null,
    boot text not null,
    seq bigint not null,
    ts timestamptz not null,
    event text not null,
    request text not null,
    parent text,
    line bytea not null,
    primary key (node, boot, seq)
);
create index record_by_time on record (ts);
create index record_by_request on record (request);

-- A signed root over the heads of all chains.
create table checkpoint (
    n bigint primary key,
    at timestamptz not null default now(),
    root bytea not null,
    prev bytea,
    heads jsonb not null,
    note text not null
);

-- A question to a person, asked on one replica and answered on any. The first answer counts. `sha256` is that of what
-- was asked; an answer repeats that of what was shown. `seal` is a MAC over the answer, if replicas have a common key.
create table question (
    id text primary key,
    tenant text not null,
    run text not null,
    sha256 bytea not null,
    node text not null,
    boot text not null,
    body jsonb not null,
    expires timestamptz not null,
    verdict text,
    by text,
    seal bytea,
    answered timestamptz
);
create index question_by_node on question (node);

-- Small facts that all replicas share, such as pins, tokens and last runs: compare `version` and set.
create table kept (
    kind text not null,
    name text not null,
    version bigint not null default 1,
    body jsonb not null,
    primary key (kind, name)
);

-- Encrypted secrets. Their keys are never in the database.
create table secret (
    scope text not null,
    name text not null,
    sealed bytea not null,
    key_id text not null,
    primary key (scope, name)
);
