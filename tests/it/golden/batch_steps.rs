//! The step that reads once: a bounded read through the library.

use ottla_stream::{Client, Error, Filter, ReadProgress, ReadSettings, StreamOptions};

use super::answer::{Answer, Failure};
use super::recorder::Recorder;
use super::scenario::{Options, Read};

/// The options as the step gives them, with the brokers unless it says not to.
pub(super) fn options(read: &Read, bootstrap: &str) -> Options {
    let brokers = ("kafka.bootstrap.servers".to_owned(), bootstrap.to_owned());
    (!read.no_bootstrap).then_some(brokers).into_iter().chain(read.options.iter().cloned()).collect()
}

pub(super) fn filter(read: &Read) -> Filter {
    read.filter.as_ref().map_or_else(Filter::always, |text| Filter::value().contains(text))
}

pub(super) async fn batch(read: &Read, bootstrap: &str) -> Answer {
    match read_all(read, bootstrap).await {
        Ok(answer) => answer,
        Err(error) => Failure::new(error.condition(), &error).into(),
    }
}

async fn read_all(read: &Read, bootstrap: &str) -> Result<Answer, Error> {
    let options = StreamOptions::from_pairs(options(read, bootstrap))?;
    let client = Client::connect(options.client.clone()).await?;
    let batch = options.plan(&client).await?;
    let tasks = batch.offset_ranges().count();
    let recorder = Recorder::new(read);
    let mut settings = ReadSettings::default();
    settings.fail_on_data_loss = options.fail_on_data_loss;
    settings.include_headers = options.include_headers;
    batch.process(&client, &filter(read), &recorder, &settings, &ReadProgress::shared()).await?;
    Ok(recorder.answer(tasks).into())
}
