//! Offsets of consumer groups: the coordinator, commits and look-ups. No membership: partitions are assigned by the caller.

mod commit;
mod coordinator;
mod offsets;
