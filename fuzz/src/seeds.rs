//! `seeds TESTDATA OUT`: makes the targets' first inputs of the vectors, OUT/TARGET/NAME, in the form that each target reads.

use bytes::Bytes;
// Built with the targets' flags, it needs what these call.
use libfuzzer_sys as _;
use ottla_protocol::message::{
    ApiVersionsRequest, FetchRequest, FindCoordinatorRequest, ListOffsetsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetFetchRequest, OffsetForLeaderEpochRequest,
};
use ottla_protocol::record::RecordBatches;
use ottla_protocol::{ApiKey, FRAME_LENGTH_BYTES, Message as _, Reader, Request, RequestHeader, ResponseHeader};
use serde_json::Value;
use std::path::PathBuf;
use std::{env, fs};

/// Longer inputs slow the fuzzer down more than they teach it.
const SEED_BYTES_MAX: usize = 8 * 1024;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut args = env::args_os().skip(1).map(PathBuf::from);
    let (Some(testdata), Some(out)) = (args.next(), args.next()) else { return Err("seeds TESTDATA OUT".into()) };
    let mut seeds = Seeds { out, count: 0 };
    let index: Value = serde_json::from_slice(&fs::read(testdata.join("index.json"))?)?;
    for entry in index["entries"].as_array().ok_or("the index has no entries")? {
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        // Stored twice compressed: bombs, larger than any seed.
        if !entry["stored_encoding"].is_null() {
            continue;
        }
        let bin = fs::read(testdata.join(text("bin")))?;
        let doc: Value = serde_json::from_slice(&fs::read(testdata.join(text("json")))?)?;
        match text("kind") {
            "records" | "malformed" => seeds.records(text("name"), &bin, &doc)?,
            _ => seeds.frames(text("name"), &bin, &doc)?,
        }
    }
    println!("{} seeds in {}", seeds.count, seeds.out.display());
    Ok(())
}

struct Seeds {
    out: PathBuf,
    count: usize,
}

impl Seeds {
    fn write(&mut self, target: &str, name: &str, parts: &[&[u8]]) -> Result<(), Failure> {
        let seed = parts.concat();
        if seed.len() > SEED_BYTES_MAX {
            return Ok(());
        }
        let folder = self.out.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), seed)?;
        self.count += 1;
        Ok(())
    }

    /// A run of batches; or, of the packed files, each item.
    fn records(&mut self, name: &str, bin: &[u8], doc: &Value) -> Result<(), Failure> {
        let Some(items) = doc["items"].as_array() else { return self.run(name, bin) };
        for (i, item) in items.iter().enumerate() {
            let bytes = slice(bin, item, "offset", "len")?;
            let name = format!("{name}-{i}");
            match Api::named(&item["api"]) {
                Some(api) => self.body(&name, &api, false, version(item)?, bytes)?,
                None if item["size_field"].is_number() => self.write("frame", &name, &[&[255, 7], bytes])?,
                None => self.run(&name, bytes)?,
            }
        }
        Ok(())
    }

    fn run(&mut self, name: &str, run: &[u8]) -> Result<(), Failure> {
        self.write("record_batch", name, &[&[0], run])?;
        self.write("record_batch", &format!("{name}-aborted"), &[&[0b0101_0101], run])?;
        self.write("dump", name, &[&[0, 40], run])?;
        for (i, batch) in RecordBatches::new(run).map_while(Result::ok).enumerate() {
            let id = u8::try_from(batch.header().attributes & 7)?;
            if let (2, 1..=4, Some(payload)) = (batch.header().magic, id, batch.bytes().get(61..)) {
                self.write("decompress", &format!("{name}-{i}"), &[&[id - 1, 16], payload])?;
            }
        }
        Ok(())
    }

    /// Whole frames: those of `api` and those of `live`.
    fn frames(&mut self, name: &str, bin: &[u8], doc: &Value) -> Result<(), Failure> {
        let Some(api) = Api::named(&doc["api"]) else { return Ok(()) };
        let mut all = Vec::new();
        for frame in doc["frames"].as_array().into_iter().flatten() {
            let bytes = slice(bin, frame, "frame_offset", "frame_len")?;
            all.push((doc["direction"] == "request", version(frame)?, bytes));
        }
        for pair in doc["pairs"].as_array().into_iter().flatten() {
            for (is_request, which) in [(true, "request"), (false, "response")] {
                let bytes = slice(bin, pair, &format!("{which}_offset"), &format!("{which}_len"))?;
                all.push((is_request, version(pair)?, bytes));
            }
        }
        for (i, (is_request, version, frame)) in all.into_iter().enumerate() {
            let name = format!("{name}-{i}");
            let header_bytes = api.header_bytes(is_request, version, frame)?;
            self.write("frame", &name, &[&[255, 30], frame])?;
            self.body(&name, &api, is_request, version, &frame[FRAME_LENGTH_BYTES + header_bytes..])?;
            self.write("dump", &name, &[&[1, api.place, u8::from(!is_request), u8::try_from(version)?], frame])?;
        }
        Ok(())
    }

    fn body(&mut self, name: &str, api: &Api, is_request: bool, version: i16, body: &[u8]) -> Result<(), Failure> {
        let min = if is_request { api.request_min } else { api.response_min };
        // A version that no broker of today knows.
        let Ok(choice) = u8::try_from(version - min) else { return Ok(()) };
        if is_request {
            self.write("requests", name, &[&[api.place, choice], body])
        } else {
            self.write(api.target, name, &[&[choice], body])
        }
    }
}

/// An API that has targets.
struct Api {
    /// Where it stands in the lists of the targets that choose one.
    place: u8,
    api_key: ApiKey,
    target: &'static str,
    request_min: i16,
    response_min: i16,
    flexible_since: i16,
}

impl Api {
    fn new<R: Request>(place: u8, target: &'static str) -> Self {
        let (request_min, response_min) = (R::VERSIONS.min, R::Response::VERSIONS.min);
        Self { place, api_key: R::API_KEY, target, request_min, response_min, flexible_since: R::FLEXIBLE_SINCE }
    }

    /// By Kafka's constant, `LIST_OFFSETS`.
    fn named(name: &Value) -> Option<Self> {
        let api_key = ApiKey::from_name(&name.as_str()?.replace('_', ""))?;
        let all = [
            Self::new::<FetchRequest>(0, "fetch_response"),
            Self::new::<ListOffsetsRequest>(1, "list_offsets_response"),
            Self::new::<OffsetCommitRequest>(2, "offset_commit_response"),
            Self::new::<OffsetFetchRequest>(3, "offset_fetch_response"),
            Self::new::<MetadataRequest>(4, "metadata_response"),
            Self::new::<ApiVersionsRequest>(5, "api_versions_response"),
            Self::new::<FindCoordinatorRequest>(6, "find_coordinator_response"),
            Self::new::<OffsetForLeaderEpochRequest>(7, "offset_for_leader_epoch_response"),
        ];
        all.into_iter().find(|api| api.api_key == api_key)
    }

    fn header_bytes(&self, is_request: bool, version: i16, frame: &[u8]) -> Result<usize, Failure> {
        let frame = Bytes::copy_from_slice(&frame[FRAME_LENGTH_BYTES..]);
        let mut reader = Reader::new(&frame);
        let flexible = version >= self.flexible_since;
        if is_request {
            RequestHeader::decode(&mut reader, flexible)?;
        } else {
            ResponseHeader::decode(&mut reader, flexible && self.api_key != ApiKey::API_VERSIONS)?;
        }
        Ok(reader.position())
    }
}

fn slice<'a>(bin: &'a [u8], item: &Value, offset: &str, length: &str) -> Result<&'a [u8], Failure> {
    let number = |key: &str| item[key].as_u64().and_then(|n| usize::try_from(n).ok());
    let (Some(start), Some(length)) = (number(offset), number(length)) else { return Err(format!("{item}").into()) };
    bin.get(start..start + length).ok_or_else(|| format!("beyond the end: {item}").into())
}

fn version(item: &Value) -> Result<i16, Failure> {
    let version = item["version"].as_i64().ok_or("a version")?;
    Ok(i16::try_from(version)?)
}
