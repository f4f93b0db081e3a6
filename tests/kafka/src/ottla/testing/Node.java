package ottla.testing;

import java.nio.file.Files;
import java.nio.file.Path;
import kafka.tools.StorageTool;

/**
 * One Kafka node: formats its log directory unless that was done before, then runs Kafka's own main class. Both in
 * one JVM, since starting JVMs is what a test cluster's start is made of.
 *
 * <p>Arguments: the properties file, the log directory, the cluster id.
 */
public final class Node {
    private Node() {}

    public static void main(String[] args) throws Exception {
        String properties = args[0];
        if (!Files.exists(Path.of(args[1], "meta.properties"))) {
            String[] format = {"format", "--cluster-id", args[2], "--config", properties};
            int code = StorageTool.execute(format, System.out);
            if (code != 0) {
                System.err.println("kafka.tools.StorageTool format ended with " + code);
                System.exit(1);
            }
        }
        kafka.Kafka.main(new String[] {properties});
    }
}
