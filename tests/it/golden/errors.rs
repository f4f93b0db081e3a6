//! Which of Ottla's errors is which of Spark's: by kind, as data.
//!
//! An expected error is Spark's list of exceptions from the outermost to the cause, or, where a rule says what Ottla answers instead, an
//! object with a `condition` and the texts that the message must `contain`.

use serde_json::{Value, json};

use super::answer::Failure;
use super::compare::list;

/// What of Spark's text must be in Ottla's message, but for blanks: Ottla trims values and writes one line.
enum Text {
    /// The message of the exception that made the kind match.
    Whole,
    /// This part of it.
    Part(&'static str),
    /// From this word of it to its end.
    From(&'static str),
    /// Ottla says it in its own words.
    Own,
}

/// A kind of error.
struct Kind {
    /// What the exception says, all of them, as `class: message`.
    says: &'static [&'static str],
    /// Ottla's condition.
    condition: &'static str,
    text: Text,
    /// Whether the options alone are at fault: Ottla sees it before the query starts.
    of_options: bool,
}

const fn of_options(says: &'static [&'static str], text: Text) -> Kind {
    Kind { says, condition: "INVALID_OPTION", text, of_options: true }
}

const fn at_run(says: &'static [&'static str], condition: &'static str, text: Text) -> Kind {
    Kind { says, condition, text, of_options: false }
}

/// The first that matches counts.
const KINDS: &[Kind] = &[
    // Data loss: what is gone is told exactly, in Ottla's own words.
    at_run(
        &["Some data may have been lost", "Reason: Could not read records in offset ["],
        "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE",
        Text::Own,
    ),
    at_run(
        &["Some data may have been lost", "Reason: Cannot find initial offsets for partitions"],
        "KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS",
        Text::Own,
    ),
    at_run(
        &["Some data may have been lost", "Reason: Added partition", "instead of 0."],
        "KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
        Text::Own,
    ),
    at_run(
        &["Some data may have been lost", "Reason: Partitions Set(", "have been deleted."],
        "KAFKA_DATA_LOSS.PARTITIONS_DELETED",
        Text::Own,
    ),
    at_run(
        &["Some data may have been lost", "Reason: Partition ", "offset was changed from"],
        "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED",
        Text::Own,
    ),
    // What the cluster has does not fit.
    at_run(&["UnknownTopicOrPartitionException"], "UNKNOWN_TOPIC_OR_PARTITION", Text::Own),
    at_run(&["No offset matched from request of topic-partition"], "NO_OFFSET_MATCHED", Text::Whole),
    at_run(
        &["Partitions specified for Kafka", "don't match what are assigned"],
        "MISMATCHED_TOPIC_PARTITIONS",
        Text::From("Specified:"),
    ),
    at_run(&["If startingOffsets contains specific offsets"], "MISMATCHED_TOPIC_PARTITIONS", Text::From("Specified:")),
    at_run(
        &["The resolved start offset", "is greater than the resolved end offset"],
        "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET",
        Text::Own,
    ),
    at_run(&["TimeoutException: Cannot fetch record for offset"], "FETCH_TIMEOUT", Text::Own),
    // The sink.
    at_run(&["java.lang.RuntimeException: injected failure in batch"], "FOREACH_BATCH_FAILED", Text::Whole),
    // The checkpoint.
    at_run(
        &["INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION"],
        "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION",
        Text::Part(
            "[INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION] UnsupportedLogVersion. The maximum supported log version is",
        ),
    ),
    at_run(&["Log file was malformed", "version"], "INVALID_LOG_VERSION", Text::Own),
    at_run(&["Incomplete log file"], "INCOMPLETE_LOG_FILE", Text::Part("Incomplete log file")),
    at_run(&["batch ", " doesn't exist"], "CHECKPOINT_BATCH_MISSING", Text::Whole),
    at_run(&["requirement failed: Batch", "metadata not found"], "CHECKPOINT_BATCH_METADATA_NOT_FOUND", Text::Whole),
    at_run(&["java.util.NoSuchElementException: None.get"], "CHECKPOINT_BATCH_CONF_NOT_FOUND", Text::Whole),
    at_run(
        &["CONCURRENT_STREAM_LOG_UPDATE"],
        "CONCURRENT_STREAM_LOG_UPDATE",
        Text::Part("CONCURRENT_STREAM_LOG_UPDATE"),
    ),
    at_run(&["There are [", "sources in the checkpoint offsets"], "CHECKPOINT_SOURCES", Text::Whole),
    // Options: the message holds Spark's own text.
    of_options(
        &["Kafka option 'auto.offset.reset' is not supported."],
        Text::Part("Kafka option 'auto.offset.reset' is not supported."),
    ),
    Kind {
        says: &["MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET"],
        condition: "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET",
        text: Text::Own,
        of_options: true,
    },
    Kind {
        says: &["The specified start", "is greater than the end"],
        condition: "START_OFFSET_GREATER_THAN_END_OFFSET",
        text: Text::Whole,
        of_options: true,
    },
    of_options(&["java.lang.NumberFormatException: For input string:"], Text::Whole),
    of_options(&["java.util.NoSuchElementException: No value found for"], Text::Whole),
    of_options(&["java.lang.IllegalArgumentException: "], Text::Whole),
    // An assertion without a word, of the checkpoint's logs against each other.
    at_run(&["java.lang.AssertionError: assertion failed"], "CHECKPOINT_COMMITS_WITHOUT_OFFSETS", Text::Whole),
];

/// Spark's exceptions but its wrapper, as `class: message`, with the message.
fn exceptions(expected: &Value) -> Vec<(String, &str)> {
    let text = |exception: &'_ Value, name: &str| exception[name].as_str().unwrap_or_default().to_owned();
    let own = list(expected).iter().filter(|exception| text(exception, "message") != "(wrapper)");
    own.map(|exception| {
        let message = exception["message"].as_str().unwrap_or_default();
        (format!("{}: {message}", text(exception, "class")), message)
    })
    .collect()
}

fn kind(expected: &Value) -> Option<(&'static Kind, &str)> {
    let exceptions = exceptions(expected);
    KINDS.iter().find_map(|kind| {
        let says = |(whole, _): &&(String, &str)| kind.says.iter().all(|said| whole.contains(said));
        exceptions.iter().find(says).map(|(_, message)| (kind, *message))
    })
}

/// Whether Spark found the options themselves to be wrong.
pub(super) fn is_of_options(expected: &Value) -> bool {
    kind(expected).is_some_and(|(kind, _)| kind.of_options)
}

/// An expected error of Ottla's own.
pub(super) fn ottla(condition: &str, contains: &[&str]) -> Value {
    json!({"condition": condition, "contains": contains})
}

/// Why `failure` is not the expected error; nothing if it is.
pub(super) fn difference(expected: &Value, failure: &Failure) -> Option<String> {
    let (condition, texts): (&str, Vec<&str>) = match expected {
        Value::Object(error) => {
            let texts = list(&error["contains"]).iter().filter_map(Value::as_str).collect();
            (error["condition"].as_str().unwrap_or_default(), texts)
        }
        _ => {
            let Some((kind, message)) = kind(expected) else { return Some(format!("no kind of error for {expected}")) };
            let text = match kind.text {
                Text::Whole => Some(message),
                Text::Part(part) => Some(part),
                Text::From(word) => message.find(word).and_then(|at| message.get(at..)),
                Text::Own => None,
            };
            (kind.condition, text.into_iter().collect())
        }
    };
    let said = format!("{} ({})", failure.message, failure.condition);
    if failure.condition != condition {
        return Some(format!("failed with {said}, expected {condition}"));
    }
    let message = bare(&failure.message);
    let missing = texts.into_iter().find(|text| !message.contains(&bare(text)));
    missing.map(|text| format!("failed with {said}, expected in it: {text}"))
}

/// Blanks don't count, nor does the order in which Spark writes a set.
fn bare(text: &str) -> String {
    let text: String = text.split_whitespace().collect();
    let mut parts = text.split("Set(");
    let mut bare = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (set, rest) = part.split_once(')').unwrap_or((part, ""));
        let mut members: Vec<&str> = set.split(',').collect();
        members.sort_unstable();
        bare.push_str(&format!("Set({}){rest}", members.join(",")));
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(condition: &str, message: &str) -> Failure {
        Failure { condition: condition.to_owned(), message: message.to_owned() }
    }

    fn spark(class: &str, message: &str) -> Value {
        json!([{"class": "x.StreamingQueryException", "message": "(wrapper)"}, {"class": class, "message": message}])
    }

    #[test]
    fn golden_an_error_of_another_kind_or_text_is_a_difference() {
        let beyond = "The value of minOffsetPerTrigger(20) is higher than the maxOffsetsPerTrigger(10).";
        let expected = spark("java.lang.IllegalArgumentException", beyond);
        assert_eq!(difference(&expected, &failure("INVALID_OPTION", &format!("q: {beyond} Is it?"))), None);
        assert!(is_of_options(&expected));
        let other = difference(&expected, &failure("SINK_FAILED", beyond)).expect("another condition");
        assert!(other.contains("expected INVALID_OPTION"), "{other}");
        let other = difference(&expected, &failure("INVALID_OPTION", "some option is wrong")).expect("another text");
        assert!(other.contains("expected in it: The value of"), "{other}");
    }

    #[test]
    fn golden_the_reason_of_a_loss_is_its_kind() {
        let loss = |reason: &str| {
            spark("x.KafkaIllegalStateException", &format!("Some data may have been lost…\nReason: {reason}"))
        };
        let deleted = loss("Partitions Set(t-0) have been deleted.");
        assert_eq!(difference(&deleted, &failure("KAFKA_DATA_LOSS.PARTITIONS_DELETED", "t-0 is gone")), None);
        assert!(difference(&deleted, &failure("KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED", "t-0 is gone")).is_some());
        assert!(!is_of_options(&deleted));
        let unheard = spark("x.Unheard", "of");
        assert!(
            difference(&unheard, &failure("INVALID_OPTION", "of")).expect("unknown").starts_with("no kind of error")
        );
    }

    #[test]
    fn golden_the_order_of_a_set_is_nobodys_promise() {
        let says = |set: &str| {
            format!(
                "Partitions specified for Kafka start offsets don't match what are assigned.\nSpecified: {set} Assigned: Set(t-0)"
            )
        };
        let expected = spark("x.KafkaIllegalStateException", &says("Set(t-2, t-0, t-1)"));
        let got = |set: &str| failure("MISMATCHED_TOPIC_PARTITIONS", &says(set));
        assert_eq!(difference(&expected, &got("Set(t-0, t-1, t-2)")), None);
        assert!(difference(&expected, &got("Set(t-0, t-1, t-3)")).is_some());
    }
}
