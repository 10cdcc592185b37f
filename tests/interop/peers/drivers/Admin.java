import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs many mqadmin commands in one JVM, each through RocketMQ's own MQAdminStartup.
 *
 * <p>A line of standard input is one command, its words separated by tabs. What the command wrote
 * to both its outputs comes back on standard output: a line with the number of bytes, then they.
 */
public final class Admin {
    public static void main(String[] args) throws Exception {
        PrintStream replies = System.out;
        BufferedReader commands =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ByteArrayOutputStream written = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(written, true, StandardCharsets.UTF_8);
            System.setOut(both);
            System.setErr(both);
            MQAdminStartup.main0(line.split("\t"), null);
            both.flush();
            replies.println(written.size());
            written.writeTo(replies);
            replies.flush();
        }
        System.exit(0);
    }
}
