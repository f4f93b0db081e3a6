//! `ottla bench`: what reading and decoding cost here.

mod decode;
mod fetch;

use super::print;
use crate::{
    args::{BenchArgs, BenchCommand, Common},
    failure::Failure,
    totals::Totals,
};
use serde_json::{Map, Value};

pub(crate) async fn run(common: &Common, args: &BenchArgs) -> Result<(), Failure> {
    match &args.command {
        BenchCommand::Fetch(args) => fetch::run(common, args).await,
        BenchCommand::Decode(args) => decode::run(common, args),
    }
}

/// Prints totals: an object with `more` fields, or two lines whose first says what was seen in what.
fn report(json: bool, totals: &Totals, place: &str, more: Map<String, Value>) -> Result<(), Failure> {
    if json {
        let mut object = totals.count_fields();
        object.extend(more);
        object.extend(totals.cost_fields());
        return print(&format!("{}\n", Value::Object(object)));
    }
    print(&format!("{} in {place}, {}; {}\n{}\n", totals.seen(), totals.kept(), totals.cost(), totals.rates()))
}
