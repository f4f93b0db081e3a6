package ottla.testing;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main class of one of Kafka's command-line tools in this process, its own code and no new JVM. One at a time,
 * since a tool's standard streams are the process's.
 */
final class Tools {
    private Tools() {}

    static void addTo(Map<String, Helper.Command> commands) {
        commands.put("tool", Tools::run);
    }

    /** What a tool's exit becomes here. An Error, so that a tool's {@code catch (Exception e)} lets it pass. */
    @SuppressWarnings("serial")
    private static final class ExitCalled extends Error {
        ExitCalled(String message) {
            super(message, null, false, false);
        }
    }

    private static synchronized JsonNode run(JsonNode in) throws Exception {
        List<String> args = new ArrayList<>();
        in.get("args").forEach(a -> args.add(a.asText()));
        // The first exit counts: a tool may catch ours and leave with another code.
        int[] code = {0};
        boolean[] left = {false};
        Exit.Procedure exit = (status, message) -> {
            if (!left[0]) {
                code[0] = status;
                left[0] = true;
            }
            throw new ExitCalled(message);
        };
        ByteArrayOutputStream stdout = new ByteArrayOutputStream();
        ByteArrayOutputStream stderr = new ByteArrayOutputStream();
        InputStream oldIn = System.in;
        PrintStream oldOut = System.out;
        PrintStream oldErr = System.err;
        Exit.setExitProcedure(exit);
        // At a JVM's end the console producer's hook sends what it still holds.
        List<Runnable> hooks = new ArrayList<>();
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        System.setIn(new ByteArrayInputStream(in.path("stdin").asText("").getBytes(StandardCharsets.UTF_8)));
        System.setOut(new PrintStream(stdout, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(stderr, true, StandardCharsets.UTF_8));
        try {
            Class.forName(in.get("class").asText()).getMethod("main", String[].class).invoke(null, (Object) args.toArray(String[]::new));
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof ExitCalled)) {
                e.getCause().printStackTrace(System.err);
                code[0] = code[0] == 0 ? 1 : code[0];
            } else if (e.getCause().getMessage() != null) {
                System.err.println(e.getCause().getMessage());
            }
        } finally {
            hooks.forEach(Runnable::run);
            System.out.flush();
            System.err.flush();
            System.setIn(oldIn);
            System.setOut(oldOut);
            System.setErr(oldErr);
            Exit.resetExitProcedure();
            Exit.resetShutdownHookAdder();
        }
        ObjectNode out = Helper.JSON.createObjectNode().put("code", code[0]);
        return out.put("stdout", stdout.toString(StandardCharsets.UTF_8)).put("stderr", stderr.toString(StandardCharsets.UTF_8));
    }
}
