package ottla.testing;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Kafka's own Java clients and command-line classes behind one long-lived process: one JSON object a line on stdin
 * ({@code {"id": 1, "op": "createTopic", ...}}), one a line on stdout ({@code {"id": 1, "ok": ...}} or {@code {"id": 1,
 * "error": "..."}}). Commands run side by side, so answers may come in another order. Bytes are hex, null is null.
 */
public final class Helper {
    static final ObjectMapper JSON = new ObjectMapper();

    private Helper() {}

    /** One operation: from its JSON object to the answer's {@code ok}; null for none. */
    interface Command {
        JsonNode run(JsonNode in) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // what a library prints must not look like an answer
        Map<String, Command> commands = new TreeMap<>();
        Admins.addTo(commands);
        Groups.addTo(commands);
        Producers.addTo(commands);
        Consumers.addTo(commands);
        Tools.addTo(commands);

        ExecutorService pool = Executors.newCachedThreadPool();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode in = JSON.readTree(line);
            pool.execute(() -> {
                byte[] answer = answer(commands, in).getBytes(StandardCharsets.UTF_8);
                synchronized (answers) {
                    answers.write(answer, 0, answer.length);
                    answers.flush();
                }
            });
        }
        // The tests are gone; clients that still try to reach stopped brokers must not hold the process.
        Runtime.getRuntime().halt(0);
    }

    private static String answer(Map<String, Command> commands, JsonNode in) {
        ObjectNode out = JSON.createObjectNode();
        out.set("id", in.get("id"));
        try {
            Command command = commands.get(in.path("op").asText());
            if (command == null) {
                throw new IllegalArgumentException("unknown op " + in.path("op"));
            }
            out.set("ok", command.run(in));
        } catch (Throwable e) {
            out.put("error", describe(e));
        }
        return out + "\n";
    }

    /** The exception with its causes; the future's wrapper says nothing and is left out. */
    private static String describe(Throwable e) {
        Throwable first = e instanceof ExecutionException && e.getCause() != null ? e.getCause() : e;
        StringBuilder text = new StringBuilder(first.toString());
        for (Throwable cause = first.getCause(); cause != null; cause = cause.getCause()) {
            text.append(": ").append(cause);
        }
        return text.toString();
    }

    /** The client settings of a command: its {@code bootstrap} and {@code config}. */
    static Properties config(JsonNode in) {
        Properties config = new java.util.Properties();
        config.put("bootstrap.servers", in.get("bootstrap").asText());
        override(config, in);
        return config;
    }

    /** Puts the command's {@code config} over what is there. */
    static void override(Properties config, JsonNode in) {
        in.path("config").properties().forEach(e -> config.put(e.getKey(), e.getValue().asText()));
    }
}
