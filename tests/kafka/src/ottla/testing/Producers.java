package ottla.testing;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Records through Kafka's producer: plain, idempotent, and in transactions that stay open as long as a test wants. */
final class Producers {
    private static final Map<String, KafkaProducer<byte[], byte[]>> TRANSACTIONAL = new ConcurrentHashMap<>();

    private Producers() {}

    static void addTo(Map<String, Helper.Command> commands) {
        commands.put("produce", in -> {
            try (KafkaProducer<byte[], byte[]> producer = create(Helper.config(in))) {
                return send(producer, in);
            }
        });
        commands.put("transactionOpen", in -> {
            Properties config = Helper.config(in);
            config.put("transactional.id", in.get("transactionalId").asText());
            KafkaProducer<byte[], byte[]> producer = create(config);
            TRANSACTIONAL.put(in.get("handle").asText(), producer);
            producer.initTransactions();
            return null;
        });
        commands.put("transactionBegin", in -> {
            of(in).beginTransaction();
            return null;
        });
        commands.put("transactionSend", in -> send(of(in), in));
        commands.put("transactionOffsets", Producers::offsets);
        commands.put("transactionCommit", in -> {
            of(in).commitTransaction();
            return null;
        });
        commands.put("transactionAbort", in -> {
            of(in).abortTransaction();
            return null;
        });
        commands.put("transactionClose", in -> {
            // No time to finish: an open transaction stays open on the broker, as after a crash.
            TRANSACTIONAL.remove(in.get("handle").asText()).close(Duration.ZERO);
            return null;
        });
    }

    private static KafkaProducer<byte[], byte[]> create(Properties config) {
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static KafkaProducer<byte[], byte[]> of(JsonNode in) {
        return TRANSACTIONAL.get(in.get("handle").asText());
    }

    /** Sends the listed or generated records, flushed; answers with [partition, offset, timestamp] of the listed ones. */
    private static JsonNode send(KafkaProducer<byte[], byte[]> producer, JsonNode in) throws Exception {
        int flushEvery = in.path("flushEvery").asInt(0);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        JsonNode generate = in.get("generate");
        int count = generate == null ? in.get("records").size() : generate.get("count").asInt();
        Generator generator = generate == null ? null : new Generator(in.get("topic").asText(), generate);
        for (int i = 0; i < count; i++) {
            sent.add(producer.send(generator == null ? record(in, in.get("records").get(i)) : generator.next(i)));
            if (flushEvery > 0 && (i + 1) % flushEvery == 0) {
                producer.flush();
            }
        }
        producer.flush();
        ArrayNode out = Helper.JSON.createArrayNode();
        for (Future<RecordMetadata> one : sent) {
            RecordMetadata at = one.get();
            if (generator == null) {
                out.addArray().add(at.partition()).add(at.offset()).add(at.timestamp());
            }
        }
        return out;
    }

    private static ProducerRecord<byte[], byte[]> record(JsonNode in, JsonNode record) {
        List<Header> headers = new ArrayList<>();
        record.path("headers").forEach(h -> headers.add(new RecordHeader(h.get(0).asText(), bytes(h.get(1)))));
        Integer partition = record.hasNonNull("partition") ? Integer.valueOf(record.get("partition").asInt()) : null;
        Long timestamp = record.hasNonNull("timestamp") ? Long.valueOf(record.get("timestamp").asLong()) : null;
        return new ProducerRecord<>(in.get("topic").asText(), partition, timestamp, bytes(record.get("key")), bytes(record.get("value")), headers);
    }

    private static byte[] bytes(JsonNode hex) {
        return hex == null || hex.isNull() ? null : HexFormat.of().parseHex(hex.asText());
    }

    @SuppressWarnings("removal") // the way left without a live member
    private static JsonNode offsets(JsonNode in) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        in.get("offsets").forEach(row -> offsets.put(Admins.partition(row), new OffsetAndMetadata(row.get("offset").asLong())));
        of(in).sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(in.get("group").asText()));
        return null;
    }

    /** Record i: value {@code prefix + i}, filled to a size with text that compresses about as logs do. */
    private static final class Generator {
        private static final String[] WORDS = {"error", "user", "login", "timeout", "order", "GET", "payment", "retry", "cache", "ok"};
        private final String topic;
        private final JsonNode spec;
        private final Random random;

        Generator(String topic, JsonNode spec) {
            this.topic = topic;
            this.spec = spec;
            this.random = new Random(spec.path("seed").asLong(1));
        }

        ProducerRecord<byte[], byte[]> next(int i) {
            StringBuilder value = new StringBuilder(spec.path("valuePrefix").asText("")).append(i);
            while (value.length() < spec.path("valueBytes").asInt(0)) {
                value.append(' ').append(WORDS[random.nextInt(WORDS.length)]).append(random.nextInt(1000));
            }
            byte[] key = spec.hasNonNull("keyPrefix") ? (spec.get("keyPrefix").asText() + i).getBytes(StandardCharsets.UTF_8) : null;
            Long timestamp = spec.hasNonNull("timestamp") ? Long.valueOf(spec.get("timestamp").asLong() + i * spec.path("timestampStep").asLong(1)) : null;
            Integer partition = spec.hasNonNull("partitions") ? Integer.valueOf(i % spec.get("partitions").asInt()) : null;
            List<Header> headers = new ArrayList<>();
            for (int h = 0; h < spec.path("headers").asInt(0); h++) {
                headers.add(new RecordHeader("h" + h, ("value " + i).getBytes(StandardCharsets.UTF_8)));
            }
            return new ProducerRecord<>(topic, partition, timestamp, key, value.toString().getBytes(StandardCharsets.UTF_8), headers);
        }
    }
}
