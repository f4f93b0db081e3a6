import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Kafka's own client: every partition from its earliest to its end offset, assigned, CRCs checked.
 * BOOTSTRAP TOPIC filter|visit PARTITIONS (which it asks for itself) */
public class Consume {
    static final byte[] NEEDLE = bytes("\"event\":\"purchase\"");
    static final byte[] KEY = bytes("user-99999999999"), SOURCE = bytes("fax"), TRACE = bytes("ffffffffffffffff");
    static final int[] SKIP = new int[256];
    static {
        Arrays.fill(SKIP, NEEDLE.length);
        for (int i = 0; i < NEEDLE.length - 1; i++) SKIP[NEEDLE[i] & 255] = NEEDLE.length - 1 - i;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    /** Horspool's search; the JDK has none for byte arrays. */
    static boolean contains(byte[] value) {
        int length = NEEDLE.length, at = 0;
        while (at <= value.length - length) {
            int i = length - 1;
            while (value[at + i] == NEEDLE[i]) if (i-- == 0) return true;
            at += SKIP[value[at + length - 1] & 255];
        }
        return false;
    }

    /** The conditions of topics.py on key, headers and timestamp. */
    static boolean isWanted(ConsumerRecord<byte[], byte[]> record) {
        boolean wanted = Arrays.equals(record.key(), KEY);
        for (Header header : record.headers()) {
            wanted |= header.key().equals("source") && Arrays.equals(header.value(), SOURCE);
            wanted |= header.key().equals("trace") && Arrays.equals(header.value(), TRACE);
        }
        return wanted || record.timestamp() < 1764000000010L;
    }

    public static void main(String[] args) {
        boolean visit = args[2].equals("visit");
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("enable.auto.commit", "false");
        config.put("check.crcs", "true");
        config.put("fetch.max.bytes", "52428800");
        config.put("max.partition.fetch.bytes", "4194304");
        config.put("max.poll.records", "100000");
        config.put("receive.buffer.bytes", "4194304");
        long records = 0, valueBytes = 0, hits = 0;
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo info : consumer.partitionsFor(args[1])) partitions.add(new TopicPartition(args[1], info.partition()));
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Set<TopicPartition> open = new HashSet<>(partitions);
            open.removeIf(partition -> ends.get(partition) == 0);
            while (!open.isEmpty()) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofSeconds(1));
                for (TopicPartition partition : polled.partitions()) {
                    for (ConsumerRecord<byte[], byte[]> record : polled.records(partition)) {
                        records++;
                        valueBytes += record.value().length;
                        if (visit && isWanted(record) || contains(record.value())) hits++;
                    }
                    if (consumer.position(partition) >= ends.get(partition)) open.remove(partition);
                }
            }
        }
        System.out.printf("{\"records\":%d,\"valueBytes\":%d,\"hits\":%d}%n", records, valueBytes, hits);
    }
}
