package ottla.testing;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads ranges with Kafka's consumer into a file, since answers of 100,000 records don't belong on a line.
 *
 * <p>A record in the file, big endian: partition i32, offset i64, timestamp i64, timestamp type i8 (-1 none, 0 create,
 * 1 append), key, value, header count i32, then key and value of each header. Bytes are an i32 length, -1 for null.
 */
final class Consumers {
    private Consumers() {}

    static void addTo(Map<String, Helper.Command> commands) {
        commands.put("consume", Consumers::consume);
    }

    private static JsonNode consume(JsonNode in) throws Exception {
        Properties config = Helper.config(in);
        config.put("isolation.level", in.path("readCommitted").asBoolean() ? "read_committed" : "read_uncommitted");
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "none");
        config.put("max.poll.records", "10000");
        Helper.override(config, in);
        long deadline = System.nanoTime() + Duration.ofSeconds(in.path("timeoutSeconds").asLong(60)).toNanos();
        long count = 0;
        try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                var out = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(Path.of(in.get("file").asText())), 1 << 16))) {
            Map<TopicPartition, Long> until = assign(consumer, in);
            while (true) {
                for (Iterator<Map.Entry<TopicPartition, Long>> left = until.entrySet().iterator(); left.hasNext(); ) {
                    Map.Entry<TopicPartition, Long> one = left.next();
                    if (consumer.position(one.getKey()) >= one.getValue()) {
                        consumer.pause(List.of(one.getKey()));
                        left.remove();
                    }
                }
                if (until.isEmpty()) {
                    return Helper.JSON.getNodeFactory().numberNode(count);
                }
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("not read to its end in time; ends left: " + until);
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    if (record.offset() < until.get(new TopicPartition(record.topic(), record.partition()))) {
                        write(out, record);
                        count++;
                    }
                }
            }
        }
    }

    /** Assigns and seeks; the ends asked for, or the log's ends as the isolation level sees them. */
    private static Map<TopicPartition, Long> assign(KafkaConsumer<byte[], byte[]> consumer, JsonNode in) {
        String topic = in.get("topic").asText();
        Map<TopicPartition, Long> from = new HashMap<>();
        Map<TopicPartition, Long> until = new HashMap<>();
        if (in.hasNonNull("ranges")) {
            for (JsonNode range : in.get("ranges")) {
                TopicPartition partition = new TopicPartition(topic, range.get("partition").asInt());
                from.put(partition, range.hasNonNull("from") ? range.get("from").asLong() : null);
                until.put(partition, range.hasNonNull("until") ? range.get("until").asLong() : null);
            }
        } else {
            consumer.partitionsFor(topic).forEach(p -> from.put(new TopicPartition(topic, p.partition()), null));
            from.keySet().forEach(p -> until.put(p, null));
        }
        consumer.assign(from.keySet());
        Map<TopicPartition, Long> ends = consumer.endOffsets(from.keySet());
        Map<TopicPartition, Long> starts = consumer.beginningOffsets(from.keySet());
        from.forEach((partition, offset) -> consumer.seek(partition, offset == null ? starts.get(partition) : offset));
        until.replaceAll((partition, offset) -> offset == null ? ends.get(partition) : offset);
        return until;
    }

    private static void write(DataOutputStream out, ConsumerRecord<byte[], byte[]> record) throws IOException {
        out.writeInt(record.partition());
        out.writeLong(record.offset());
        out.writeLong(record.timestamp());
        out.writeByte(record.timestampType().id);
        bytes(out, record.key());
        bytes(out, record.value());
        Header[] headers = record.headers().toArray();
        out.writeInt(headers.length);
        for (Header header : headers) {
            bytes(out, header.key().getBytes(StandardCharsets.UTF_8));
            bytes(out, header.value());
        }
    }

    private static void bytes(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes == null ? -1 : bytes.length);
        if (bytes != null) {
            out.write(bytes);
        }
    }
}
