//! `ottla offsets show`: everything that a store holds.

use super::{inspect, rows};
use crate::{
    args::{Common, ShowArgs},
    cmd::{print, until_interrupted},
    failure::Failure,
};

pub(super) async fn run(common: &Common, args: &ShowArgs) -> Result<(), Failure> {
    let work = async {
        let (inspected, isolation) = inspect(common, &args.store, &args.topics()).await?;
        print(&rows(&inspected.partitions, isolation, common.json))
    };
    until_interrupted(work, || "interrupted".to_owned()).await
}
