//! Asks a broker the smallest real question, Metadata v1, to know that it serves and what it knows. Written by hand, so
//! that the harness hangs on no client that is tested.
//!
//! ```text
//! request   length i32 | api_key i16 = 3 | api_version i16 = 1 | correlation_id i32 | client_id i16 = -1
//!           topics i32 count (0 = none) { name string }
//! response  length i32 | correlation_id i32
//!           brokers i32 count { node_id i32, host string, port i32, rack nullable string } | controller_id i32
//!           topics i32 count { error i16, name string, is_internal i8,
//!             partitions i32 count { error i16, partition i32, leader i32, replicas [i32], isr [i32] } }
//! ```

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// What one broker's metadata says.
pub(crate) struct Metadata {
    pub(crate) brokers: usize,
    pub(crate) controller: i32,
    /// Partitions of the asked topic that have a leader; `None` when the broker doesn't know the topic (yet).
    pub(crate) led_partitions: Option<usize>,
}

pub(crate) fn metadata(port: u16, topic: Option<&str>) -> io::Result<Metadata> {
    let timeout = Duration::from_secs(5);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    let mut body = vec![0, 3, 0, 1, 0, 0, 0, 7, 0xff, 0xff];
    body.extend((topic.iter().count() as i32).to_be_bytes());
    if let Some(topic) = topic {
        body.extend((topic.len() as i16).to_be_bytes());
        body.extend(topic.as_bytes());
    }
    let mut frame = (body.len() as i32).to_be_bytes().to_vec();
    frame.extend(body);
    stream.write_all(&frame)?;
    let mut reader = Reader(stream);
    let (_length, _correlation_id) = (reader.i32()?, reader.i32()?);
    let brokers = reader.i32()? as usize;
    for _ in 0..brokers {
        reader.i32()?;
        reader.string()?;
        reader.i32()?;
        reader.string()?;
    }
    let controller = reader.i32()?;
    let mut led_partitions = None;
    for _ in 0..reader.i32()? {
        let error = reader.i16()?;
        reader.string()?;
        reader.bytes(1)?;
        let mut led = 0;
        for _ in 0..reader.i32()? {
            reader.i16()?;
            reader.i32()?;
            led += usize::from(reader.i32()? >= 0);
            for _ in 0..2 {
                let ids = reader.i32()?;
                reader.bytes(ids as usize * 4)?;
            }
        }
        led_partitions = (error == 0).then_some(led);
    }
    Ok(Metadata { brokers, controller, led_partitions })
}

struct Reader(TcpStream);

impl Reader {
    fn i16(&mut self) -> io::Result<i16> {
        let mut bytes = [0; 2];
        self.0.read_exact(&mut bytes)?;
        Ok(i16::from_be_bytes(bytes))
    }

    fn i32(&mut self) -> io::Result<i32> {
        let mut bytes = [0; 4];
        self.0.read_exact(&mut bytes)?;
        Ok(i32::from_be_bytes(bytes))
    }

    fn bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn string(&mut self) -> io::Result<Vec<u8>> {
        let length = self.i16()?;
        self.bytes(usize::try_from(length).unwrap_or(0))
    }
}
