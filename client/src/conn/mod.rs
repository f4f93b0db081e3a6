//! One connection: [`state`] is the protocol without I/O, [`task`] moves the bytes, [`transport`] dials.

mod frame_pool;
mod frame_reader;
mod state;
mod task;
mod transport;

pub(crate) use frame_pool::{Frame, FramePool};
pub(crate) use task::Connection;
pub(crate) use transport::ReceiveBuffer;
pub use transport::Resolver;
