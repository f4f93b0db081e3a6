//! Which of Ottla's errors is which of Spark's: by kind, as data.
//!
//! A scenario has Spark's list of exceptions from the outermost to the cause. It is translated to an object with Ottla's `condition` and the
//! texts that the message `contains`; a rule may put another such object in its place.

use serde_json::{Value, json};

use super::answer::Failure;
use super::compare::list;
use super::scenario::Read;

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
    at_run(
        &["have been lost during running query with Trigger.AvailableNow"],
        "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
        Text::Own,
    ),
    at_run(
        &["report available offset which is less than end offset"],
        "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW",
        Text::Own,
    ),
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

/// Puts what is expected of Ottla in the place of Spark's exceptions, for a step with these options.
pub(super) fn translate(expected: &mut Value, read: Option<&Read>) {
    let Some(error) = expected.get_mut("error").filter(|error| error.is_array()) else { return };
    *error = translated(error, read);
}

fn translated(error: &Value, read: Option<&Read>) -> Value {
    let Some((kind, message)) = kind(error) else { return json!({"unknown": error}) };
    let text = match kind.text {
        Text::Whole => Some(message),
        Text::Part(part) => Some(part),
        Text::From(word) => message.find(word).and_then(|at| message.get(at..)),
        Text::Own => None,
    };
    // The same text is said of offsets in an option and in a file of the checkpoint.
    let quoted = message.strip_prefix("Expected").and_then(|text| text.rsplit_once(", got ")).map(|(_, value)| value);
    let of_a_file = quoted.is_some_and(|quoted| {
        read.is_some_and(|read| !read.options.iter().any(|(_, value)| bare(value) == bare(quoted)))
    });
    match of_a_file {
        true => json!({"condition": "MALFORMED_LOG_FILE", "contains": [message], "ofOptions": false}),
        false => json!({"condition": kind.condition, "contains": text.as_slice(), "ofOptions": kind.of_options}),
    }
}

/// Whether Spark found the options themselves to be wrong; `error` is translated.
pub(super) fn is_of_options(error: &Value) -> bool {
    error["ofOptions"] == true
}

/// An expected error of Ottla's own.
pub(super) fn ottla(condition: &str, contains: &[&str]) -> Value {
    json!({"condition": condition, "contains": contains})
}

/// Why `failure` is not the expected error, which is translated; nothing if it is.
pub(super) fn difference(expected: &Value, failure: &Failure) -> Option<String> {
    let said = format!("{} ({})", failure.message, failure.condition);
    if !expected["unknown"].is_null() {
        return Some(format!("failed with {said}, and there is no kind of error for {}", expected["unknown"]));
    }
    let condition = expected["condition"].as_str().unwrap_or_default();
    if condition != failure.condition {
        return Some(format!("failed with {said}, expected {condition}"));
    }
    let message = bare(&failure.message);
    let texts = list(&expected["contains"]).iter().filter_map(Value::as_str);
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
        let error = json!([{"class": "x.StreamingQueryException", "message": "(wrapper)"}, {"class": class, "message": message}]);
        translated(&error, None)
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
        assert!(difference(&unheard, &failure("INVALID_OPTION", "of")).expect("unknown").contains("no kind of error"));
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

    #[test]
    fn golden_offsets_that_are_none_are_told_from_a_file_that_holds_such() {
        let message = "Expected e.g. {\"topicA\":{\"0\":23,\"1\":-1},\"topicB\":{\"0\":-2}}, got {bad";
        let error = json!([{"class": "java.lang.IllegalArgumentException", "message": message}]);
        let read =
            |value: &str| Read { options: vec![("startingOffsets".to_owned(), value.to_owned())], ..Read::default() };
        assert!(is_of_options(&translated(&error, Some(&read(" {bad ")))));
        let of_a_file = translated(&error, Some(&read("earliest")));
        assert_eq!(difference(&of_a_file, &failure("MALFORMED_LOG_FILE", &format!("line 3: {message}"))), None);
        assert!(!is_of_options(&of_a_file));
    }
}
