import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Makes a topic and fills it with click events, the same ones each time; 1 % of the values hold "event":"purchase".
 * BOOTSTRAP TOPIC CODEC RECORDS VALUE_BYTES plain|full PARTITIONS, where full is with keys of 16 bytes and two headers.
 * Prints "records valueBytes hits": what every client has to count. The hits of a full topic are those of the filter that
 * looks at all of a record (VISIT in topics.py): of some records the key, a header or the timestamp alone is a hit, so
 * that who does not read it counts too few.
 */
public class Fill {
    static final String PURCHASE = "\"event\":\"purchase\"";
    static final String[] EVENTS = {"click", "view", "scroll", "search", "login", "hover"};
    static final String[] AGENTS = {"Firefox/128.0", "Chrome/131.0", "Safari/17.5", "Edge/130.0", "okhttp/4.12"};
    static final String[] SOURCES = {"web", "app", "api"};
    static final String[] WORDS = ("alpha offer banner checkout spring summer promo mobile desktop north south "
        + "variant control carousel footer header search result product detail review rating stock price "
        + "shipping return coupon loyalty member guest session widget layout theme dark light").split(" ");
    static final long FIRST_TIMESTAMP = 1764000000000L;

    static byte[] bytes(CharSequence text) {
        return text.toString().getBytes(StandardCharsets.ISO_8859_1);
    }

    static void value(SplittableRandom random, StringBuilder text, long timestamp, int size) {
        text.setLength(0);
        String event = random.nextInt(100) == 0 ? "purchase" : EVENTS[random.nextInt(EVENTS.length)];
        text.append("{\"user\":\"u").append(random.nextInt(200_000)).append("\",\"event\":\"").append(event)
            .append("\",\"ts\":").append(timestamp).append(",\"page\":\"/p/").append(random.nextInt(1000))
            .append("\",\"ua\":\"").append(AGENTS[random.nextInt(AGENTS.length)]).append('"');
        if (size <= 128) {
            text.append(",\"ms\":").append(random.nextInt(3000)).append('}');
            return;
        }
        text.append(",\"attrs\":[");
        int goal = size - 40 + random.nextInt(60);
        while (text.length() < goal) {
            text.append("{\"k\":\"").append(WORDS[random.nextInt(WORDS.length)]).append("\",\"w\":\"")
                .append(WORDS[random.nextInt(WORDS.length)]).append('-').append(WORDS[random.nextInt(WORDS.length)])
                .append("\",\"n\":").append(random.nextInt(10_000)).append("},");
        }
        text.setCharAt(text.length() - 1, ']');
        text.append('}');
    }

    static void fill(String bootstrap, String topic, String codec, long count, int size, boolean full, int partitions)
            throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        try (Admin admin = Admin.create(config)) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
            // Answers when every partition is led: a producer that is too early may lose its sequence, and records with it.
            Map<TopicPartition, OffsetSpec> ends = new HashMap<>();
            for (int i = 0; i < partitions; i++) ends.put(new TopicPartition(topic, i), OffsetSpec.latest());
            admin.listOffsets(ends).all().get();
        }
        config.put("compression.type", codec);
        config.put("batch.size", "131072");
        config.put("linger.ms", "20");
        config.put("buffer.memory", "134217728");
        config.put("acks", "all");
        config.put("send.buffer.bytes", "4194304");
        SplittableRandom random = new SplittableRandom(42);
        // Of its own, so that the values are those of the other topics.
        SplittableRandom others = new SplittableRandom(7);
        StringBuilder text = new StringBuilder(2048);
        long valueBytes = 0, hits = 0, timestamp = FIRST_TIMESTAMP;
        // So many records in turn go to one partition: several batches, and less where there would not be enough for all.
        long run = Math.max(1, Math.min(4096, count / partitions));
        AtomicLong failed = new AtomicLong();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (long i = 0; i < count; i++) {
                if (i % 7 == 0) timestamp++;
                value(random, text, timestamp, size);
                byte[] value = bytes(text);
                boolean hit = text.indexOf(PURCHASE) >= 0;
                byte[] key = null;
                List<Header> headers = null;
                if (full) {
                    int special = (int) (i % 1000);
                    key = bytes(special == 250 ? "user-99999999999" : String.format("user-%011d", others.nextInt(200_000)));
                    String source = special == 500 ? "fax" : SOURCES[others.nextInt(SOURCES.length)];
                    String trace = special == 750 ? "ffffffffffffffff" : String.format("%016x", others.nextLong() >>> 1);
                    headers = List.of(new RecordHeader("source", bytes(source)), new RecordHeader("trace", bytes(trace)));
                    hit |= special == 250 || special == 500 || special == 750 || timestamp < FIRST_TIMESTAMP + 10;
                }
                valueBytes += value.length;
                if (hit) hits++;
                int partition = (int) (i / run % partitions);
                producer.send(new ProducerRecord<>(topic, partition, timestamp, key, value, headers),
                    (metadata, error) -> { if (error != null) failed.incrementAndGet(); });
            }
        }
        if (failed.get() > 0) throw new RuntimeException(failed + " records of " + topic + " were not taken");
        System.out.println(count + " " + valueBytes + " " + hits);
    }

    public static void main(String[] args) throws Exception {
        fill(args[0], args[1], args[2], Long.parseLong(args[3]), Integer.parseInt(args[4]), args[5].equals("full"), Integer.parseInt(args[6]));
    }
}
