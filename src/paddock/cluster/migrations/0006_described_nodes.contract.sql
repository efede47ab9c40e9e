-- Each row of a replica is described by its own process. Versions that do not do so get no lease any more.
delete from node where version_boot is distinct from boot;
alter table node add constraint node_described check (version_boot is not distinct from boot);
