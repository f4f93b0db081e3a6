//! A transactional producer, one step at a time.

use serde_json::{Value, json};

use super::client::JavaClient;
use super::records::{Produce, Produced, ProducerRecord};
use crate::GroupOffset;

/// A transactional producer that has called `initTransactions`. Dropped, it closes at once: an open transaction stays
/// open on the broker, as after a crash.
pub struct Transaction {
    pub(super) client: JavaClient,
    pub(super) handle: String,
}

impl Transaction {
    /// `beginTransaction`.
    #[track_caller]
    pub fn begin(&self) {
        self.call(json!({"op": "transactionBegin"}));
    }

    /// Sends and flushes, so that the records are in the log. Codec and batching are those of the open call; `produce`'s
    /// own config is not looked at.
    #[track_caller]
    pub fn send(&self, produce: &Produce) -> Vec<Produced> {
        Produced::list(&self.call(produce.command("transactionSend")))
    }

    /// Sends and flushes values without keys to partition 0.
    #[track_caller]
    pub fn send_values<V: AsRef<[u8]>>(&self, topic: &str, values: impl IntoIterator<Item = V>) -> Vec<Produced> {
        self.send(&Produce::records(topic, values.into_iter().map(|v| ProducerRecord::value(v).to(0))))
    }

    /// `sendOffsetsToTransaction`.
    #[track_caller]
    pub fn send_offsets(&self, group: &str, offsets: &[GroupOffset]) {
        let offsets: Vec<Value> = offsets.iter().map(GroupOffset::json).collect();
        self.call(json!({"op": "transactionOffsets", "group": group, "offsets": offsets}));
    }

    /// `commitTransaction`.
    #[track_caller]
    pub fn commit(&self) {
        self.call(json!({"op": "transactionCommit"}));
    }

    /// `abortTransaction`. What was not flushed before never reaches the log.
    #[track_caller]
    pub fn abort(&self) {
        self.call(json!({"op": "transactionAbort"}));
    }

    #[track_caller]
    fn call(&self, mut command: Value) -> Value {
        command["handle"] = json!(self.handle);
        self.client.call(command)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // A test that fails has said why already.
        let _ = self.client.try_call(json!({"op": "transactionClose", "handle": self.handle}));
    }
}
