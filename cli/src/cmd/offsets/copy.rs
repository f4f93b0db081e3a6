//! `ottla offsets copy`: what one store holds, into another.

use super::{Stores, check_writable, holds_nothing, options, set::change};
use crate::{
    args::{Common, CopyArgs},
    cmd::until_interrupted,
    failure::Failure,
};
use ottla_stream::{CheckpointOffsets, OffsetTarget, StoreUrl};

pub(super) async fn run(common: &Common, args: &CopyArgs) -> Result<(), Failure> {
    check_copy(args)?;
    let work = async {
        let stores = Stores::connect(&options(common)?).await?;
        let target = source(&args.from, &stores).await?;
        let store = stores.open(&args.to)?;
        change(common, &args.change, &stores.client, &*store, &target).await
    };
    until_interrupted(work, || "interrupted".to_owned()).await
}

pub(super) fn check_copy(args: &CopyArgs) -> Result<(), Failure> {
    check_writable(&args.to)?;
    if args.from == args.to {
        return Err(Failure::usage(format!("'{}' can't be copied onto itself", args.from)));
    }
    Ok(())
}

/// What a store holds, as what another one is to hold.
pub(super) async fn source(url: &StoreUrl, stores: &Stores) -> Result<OffsetTarget, Failure> {
    let store = stores.open(url)?;
    let offsets = store.load(None).await?;
    if offsets.offsets.is_empty() {
        return Err(holds_nothing(&*store));
    }
    let query_id = match url {
        StoreUrl::Checkpoint { location, source } => CheckpointOffsets::new(location, *source)?.query_id().await?,
        _ => None,
    };
    Ok(OffsetTarget::Stored { offsets, query_id })
}
