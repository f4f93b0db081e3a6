package ottla.testing;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;

/** Topics, their records and offsets, through Kafka's admin client; one client for each cluster. */
final class Admins {
    private static final Map<String, Admin> ADMINS = new ConcurrentHashMap<>();

    private Admins() {}

    static void addTo(Map<String, Helper.Command> commands) {
        commands.put("createTopic", Admins::createTopic);
        commands.put("deleteTopic", in -> {
            of(in).deleteTopics(List.of(in.get("topic").asText())).all().get();
            return null;
        });
        commands.put("listTopics", in -> Helper.JSON.valueToTree(of(in).listTopics().names().get()));
        commands.put("describeTopic", Admins::describeTopic);
        commands.put("addPartitions", in -> {
            of(in).createPartitions(Map.of(in.get("topic").asText(), NewPartitions.increaseTo(in.get("total").asInt()))).all().get();
            return null;
        });
        commands.put("alterTopic", Admins::alterTopic);
        commands.put("deleteRecords", in -> {
            long low = of(in).deleteRecords(Map.of(partition(in), RecordsToDelete.beforeOffset(in.get("before").asLong())))
                    .lowWatermarks().get(partition(in)).get().lowWatermark();
            return Helper.JSON.getNodeFactory().numberNode(low);
        });
        commands.put("listOffsets", Admins::listOffsets);
        commands.put("forget", in -> {
            Admin admin = ADMINS.remove(in.get("bootstrap").asText());
            if (admin != null) {
                admin.close(Duration.ZERO);
            }
            return null;
        });
    }

    static Admin of(JsonNode in) {
        return ADMINS.computeIfAbsent(in.get("bootstrap").asText(), b -> Admin.create(Helper.config(in)));
    }

    static TopicPartition partition(JsonNode in) {
        return new TopicPartition(in.get("topic").asText(), in.get("partition").asInt());
    }

    private static JsonNode createTopic(JsonNode in) throws Exception {
        Optional<Short> replication = in.hasNonNull("replication") ? Optional.of((short) in.get("replication").asInt()) : Optional.empty();
        NewTopic topic = new NewTopic(in.get("topic").asText(), Optional.of(in.get("partitions").asInt()), replication);
        Map<String, String> configs = new HashMap<>();
        in.path("topicConfig").properties().forEach(e -> configs.put(e.getKey(), e.getValue().asText()));
        of(in).createTopics(List.of(topic.configs(configs))).all().get();
        return null;
    }

    private static JsonNode describeTopic(JsonNode in) throws Exception {
        String name = in.get("topic").asText();
        TopicDescription topic = of(in).describeTopics(List.of(name)).allTopicNames().get().get(name);
        ObjectNode out = Helper.JSON.createObjectNode().put("topicId", topic.topicId().toString());
        ArrayNode leaders = out.putArray("leaders");
        for (TopicPartitionInfo partition : topic.partitions()) {
            leaders.add(partition.leader() == null ? -1 : partition.leader().id());
        }
        return out;
    }

    private static JsonNode alterTopic(JsonNode in) throws Exception {
        List<AlterConfigOp> ops = new ArrayList<>();
        in.get("topicConfig").properties().forEach(
                e -> ops.add(new AlterConfigOp(new ConfigEntry(e.getKey(), e.getValue().asText()), AlterConfigOp.OpType.SET)));
        of(in).incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, in.get("topic").asText()), ops)).all().get();
        return null;
    }

    private static JsonNode listOffsets(JsonNode in) throws Exception {
        OffsetSpec spec = switch (in.get("spec").asText()) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            case "maxTimestamp" -> OffsetSpec.maxTimestamp();
            default -> OffsetSpec.forTimestamp(in.get("spec").asLong());
        };
        IsolationLevel isolation = in.path("readCommitted").asBoolean() ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
        String name = in.get("topic").asText();
        int partitions = of(in).describeTopics(List.of(name)).allTopicNames().get().get(name).partitions().size();
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        for (int p = 0; p < partitions; p++) {
            asked.put(new TopicPartition(name, p), spec);
        }
        var found = of(in).listOffsets(asked, new ListOffsetsOptions(isolation));
        ArrayNode out = Helper.JSON.createArrayNode();
        for (int p = 0; p < partitions; p++) {
            var one = found.partitionResult(new TopicPartition(name, p)).get();
            out.addObject().put("offset", one.offset()).put("timestamp", one.timestamp()).put("leaderEpoch", one.leaderEpoch().orElse(-1));
        }
        return out;
    }
}
