package ottla.testing;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Consumer groups: their committed offsets, and live members that hold partitions until told to leave. */
final class Groups {
    private static final Map<String, Member> MEMBERS = new ConcurrentHashMap<>();

    private Groups() {}

    static void addTo(Map<String, Helper.Command> commands) {
        commands.put("listGroups", in -> {
            ArrayNode out = Helper.JSON.createArrayNode();
            Admins.of(in).listGroups().all().get().forEach(g -> out.add(g.groupId()));
            return out;
        });
        commands.put("describeGroup", in -> {
            String group = in.get("group").asText();
            var found = Admins.of(in).describeConsumerGroups(List.of(group)).all().get().get(group);
            return Helper.JSON.createObjectNode().put("state", found.groupState().toString()).put("members", found.members().size());
        });
        commands.put("groupOffsets", Groups::offsets);
        commands.put("commitGroupOffsets", Groups::commit);
        commands.put("deleteGroup", in -> {
            Admins.of(in).deleteConsumerGroups(List.of(in.get("group").asText())).all().get();
            return null;
        });
        commands.put("deleteGroupOffsets", in -> {
            Set<TopicPartition> partitions = new HashSet<>();
            in.get("partitions").forEach(p -> partitions.add(new TopicPartition(in.get("topic").asText(), p.asInt())));
            Admins.of(in).deleteConsumerGroupOffsets(in.get("group").asText(), partitions).all().get();
            return null;
        });
        commands.put("join", Groups::join);
        commands.put("leave", in -> {
            MEMBERS.remove(in.get("handle").asText()).leave();
            return null;
        });
    }

    private static JsonNode offsets(JsonNode in) throws Exception {
        ArrayNode out = Helper.JSON.createArrayNode();
        Admins.of(in).listConsumerGroupOffsets(in.get("group").asText()).partitionsToOffsetAndMetadata().get().forEach((partition, offset) -> {
            if (offset != null) {
                ObjectNode row = out.addObject().put("topic", partition.topic()).put("partition", partition.partition());
                row.put("offset", offset.offset()).put("leaderEpoch", offset.leaderEpoch().orElse(-1)).put("metadata", offset.metadata());
            }
        });
        return out;
    }

    private static JsonNode commit(JsonNode in) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (JsonNode row : in.get("offsets")) {
            Optional<Integer> epoch = row.path("leaderEpoch").asInt(-1) < 0 ? Optional.empty() : Optional.of(row.get("leaderEpoch").asInt());
            offsets.put(Admins.partition(row), new OffsetAndMetadata(row.get("offset").asLong(), epoch, row.path("metadata").asText("")));
        }
        Admins.of(in).alterConsumerGroupOffsets(in.get("group").asText(), offsets).all().get();
        return null;
    }

    private static JsonNode join(JsonNode in) throws Exception {
        Member member = new Member(in);
        member.start();
        if (!member.assigned.await(60, TimeUnit.SECONDS)) {
            member.leave();
            throw new IllegalStateException("no partitions were assigned within 60 s");
        }
        MEMBERS.put(in.get("handle").asText(), member);
        return null;
    }

    /** A member that polls, commits nothing, and so keeps its partitions. */
    private static final class Member extends Thread {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final CountDownLatch assigned = new CountDownLatch(1);
        private volatile boolean leaving;

        Member(JsonNode in) {
            Properties config = Helper.config(in);
            config.put("group.id", in.get("group").asText());
            config.put("enable.auto.commit", "false");
            config.putIfAbsent("auto.offset.reset", "earliest");
            consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(List.of(in.get("topic").asText()));
            setDaemon(true);
        }

        @Override
        public void run() {
            try (consumer) {
                while (!leaving) {
                    consumer.poll(Duration.ofMillis(100));
                    if (!consumer.assignment().isEmpty()) {
                        assigned.countDown();
                    }
                }
            }
        }

        void leave() throws InterruptedException {
            leaving = true;
            join();
        }
    }
}
