-- A MAC over id, boot and url, if replicas have a common key: they send the tokens of users to that address.
alter table node add column seal bytea;
