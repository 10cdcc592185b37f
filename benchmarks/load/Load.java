import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.Locale;

/**
 * Asks a NameServer for one route, over and over, and prints what it measured as one line of JSON.
 *
 * <pre>
 * java Load HOST PORT CONNECTIONS DEPTH WARM_UP_SECONDS MEASURED_SECONDS TOPIC
 * </pre>
 *
 * One thread does everything. Every connection keeps DEPTH requests in flight; an answer is followed by the next
 * request of the same slot, and the requests that one read sets free leave in one write. Requests are built once:
 * opaque numbers always have ten digits, so only those digits are written anew. Answers are not parsed: a header
 * must start with {@code "code":0,} and carry the opaque its slot is waiting for, the rest is skipped by length.
 * Answers may come in any order, as the Java NameServer works with several threads.
 *
 * Latency runs from the read that set a slot free to the read that brings its next answer, so it includes this
 * program's own work on a batch: never better than what a client sees.
 */
public final class Load {
    /** opaque = 1_000_000_000 + generation * 10_000 + slot: ten digits, below 2^31. */
    private static final int FIRST_OPAQUE = 1_000_000_000;
    private static final int SLOTS = 10_000;
    private static final int GENERATIONS = 100_000;
    private static final int OPAQUE_DIGITS = 10;
    /** Longest answer header this program expects; a longer one is reported and ends the run. */
    private static final int MAX_HEADER = 4096;
    private static final int READ_BUFFER = 256 * 1024;
    private static final long CODE_ZERO = longOf("{\"code\":");
    private static final short ZERO_COMMA = shortOf("0,");
    private static final byte[] OPAQUE_KEY = "\"opaque\":".getBytes(StandardCharsets.US_ASCII);
    private static final long OPAQUE_KEY_START = longOf("\"opaque\"");

    private final byte[] request;
    private final int requestOpaqueAt;
    private final int depth;
    private final Selector selector;
    private final ByteBuffer readBuffer = ByteBuffer.allocateDirect(READ_BUFFER + MAX_HEADER);
    private final Histogram latencies = new Histogram();

    private boolean measuring;
    private long requests;
    private long answers;
    private long bytes;
    private long errors;
    private int answerBytes;
    private int answerOpaqueAt;
    private int open;
    private int lost;

    private Load(String topic, int depth) throws IOException {
        this.depth = depth;
        String header = "{\"code\":105,\"extFields\":{\"topic\":\"" + topic + "\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":"
            + FIRST_OPAQUE + ",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}";
        byte[] headerBytes = header.getBytes(StandardCharsets.UTF_8);
        request = ByteBuffer.allocate(8 + headerBytes.length)
            .putInt(4 + headerBytes.length).putInt(headerBytes.length).put(headerBytes).array();
        requestOpaqueAt = 8 + indexOf(headerBytes, OPAQUE_KEY) + OPAQUE_KEY.length;
        selector = Selector.open();
    }

    public static void main(String[] args) throws IOException {
        if (args.length != 7) {
            System.err.println("usage: java Load HOST PORT CONNECTIONS DEPTH WARM_UP_SECONDS MEASURED_SECONDS TOPIC");
            System.exit(2);
        }
        int depth = Integer.parseInt(args[3]);
        if (depth < 1 || depth > SLOTS) {
            System.err.println("DEPTH must be between 1 and " + SLOTS);
            System.exit(2);
        }
        Load load = new Load(args[6], depth);
        load.connect(new InetSocketAddress(args[0], Integer.parseInt(args[1])), Integer.parseInt(args[2]));
        load.run(Double.parseDouble(args[4]), Double.parseDouble(args[5]));
    }

    private void connect(InetSocketAddress server, int connections) throws IOException {
        for (int i = 0; i < connections; i++) {
            SocketChannel channel = SocketChannel.open(server);
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
            channel.configureBlocking(false);
            Connection connection = new Connection(channel);
            connection.key = channel.register(selector, SelectionKey.OP_READ, connection);
        }
        open = connections;
    }

    private void run(double warmUpSeconds, double measuredSeconds) throws IOException {
        for (SelectionKey key : selector.keys()) {
            ((Connection) key.attachment()).start();
        }
        turnUntil(System.nanoTime() + (long) (warmUpSeconds * 1e9));
        if (open == 0) {
            System.err.println("every connection was closed during the warm-up");
            System.exit(1);
        }
        measuring = true;
        long started = System.nanoTime();
        turnUntil(started + (long) (measuredSeconds * 1e9));
        double seconds = (System.nanoTime() - started) / 1e9;
        System.out.println(String.format(Locale.ROOT,
            "{\"requests\":%d,\"seconds\":%.3f,\"rps\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,"
                + "\"max_us\":%.1f,\"errors\":%d,\"bytes\":%d,\"answer_bytes\":%d,"
                + "\"answers_with_warm_up\":%d}",
            requests, seconds, requests / seconds, latencies.quantile(0.5) / 1e3, latencies.quantile(0.99) / 1e3,
            latencies.quantile(0.999) / 1e3, latencies.max / 1e3, errors, bytes, answerBytes, answers));
    }

    private void turnUntil(long deadline) throws IOException {
        while (open > 0) {
            long left = deadline - System.nanoTime();
            if (left <= 0) {
                return;
            }
            selector.select(this::serve, left / 1_000_000 + 1);
        }
    }

    private void serve(SelectionKey key) {
        Connection connection = (Connection) key.attachment();
        try {
            if (key.isWritable()) {
                connection.flush();
            }
            if (key.isReadable()) {
                connection.receive();
            }
        } catch (IOException reason) {
            connection.abandon(reason);
        }
    }

    private final class Connection {
        private final SocketChannel channel;
        private final ByteBuffer outgoing = ByteBuffer.allocateDirect(depth * request.length);
        private final int[] expected = new int[depth];
        private final long[] sentAt = new long[depth];
        /** The beginning of a frame whose header has not arrived as a whole. */
        private final byte[] partial = new byte[8 + MAX_HEADER];
        private int partialLength;
        private long bodyLeft;
        private SelectionKey key;

        Connection(SocketChannel channel) {
            this.channel = channel;
        }

        void start() throws IOException {
            long now = System.nanoTime();
            for (int slot = 0; slot < depth; slot++) {
                expected[slot] = FIRST_OPAQUE + slot;
                ask(slot, now);
            }
            flush();
        }

        private void ask(int slot, long now) {
            int start = outgoing.position();
            outgoing.put(request);
            int rest = expected[slot];
            for (int at = start + requestOpaqueAt + OPAQUE_DIGITS - 1; at >= start + requestOpaqueAt; at--) {
                outgoing.put(at, (byte) ('0' + rest % 10));
                rest /= 10;
            }
            sentAt[slot] = now;
        }

        void flush() throws IOException {
            outgoing.flip();
            channel.write(outgoing);
            boolean all = !outgoing.hasRemaining();
            outgoing.compact();
            int wanted = all ? SelectionKey.OP_READ : SelectionKey.OP_READ | SelectionKey.OP_WRITE;
            if (key.interestOps() != wanted) {
                key.interestOps(wanted);
            }
        }

        void receive() throws IOException {
            ByteBuffer in = readBuffer;
            in.clear();
            in.put(partial, 0, partialLength);
            int got = channel.read(in);
            if (got < 0) {
                throw new IOException("closed by the server");
            }
            if (measuring) {
                bytes += got;
            }
            int limit = in.position();
            int at = 0;
            long now = System.nanoTime();
            while (true) {
                if (bodyLeft > 0) {
                    int skipped = (int) Math.min(bodyLeft, limit - at);
                    at += skipped;
                    bodyLeft -= skipped;
                }
                if (limit - at < 8) {
                    break;
                }
                int length = in.getInt(at);
                int headerLength = in.getInt(at + 4) & 0xFFFFFF;
                if (headerLength > MAX_HEADER || headerLength > length - 4) {
                    throw new IOException("answer with a header of " + headerLength + " bytes");
                }
                if (limit - at < 8 + headerLength) {
                    break;
                }
                answered(in, at + 8, headerLength, 4 + length, now);
                bodyLeft = (long) length - 4 - headerLength;
                at += 8 + headerLength;
            }
            partialLength = limit - at;
            in.get(at, partial, 0, partialLength);
            if (outgoing.position() > 0) {
                flush();
            }
        }

        private void answered(ByteBuffer in, int header, int headerLength, int frameLength, long now) {
            int opaque = opaqueOf(in, header, headerLength);
            int slot = Math.floorMod(opaque - FIRST_OPAQUE, SLOTS);
            boolean known = slot < depth && expected[slot] == opaque;
            answers++;
            boolean success = in.getLong(header) == CODE_ZERO && in.getShort(header + 8) == ZERO_COMMA;
            if (measuring) {
                requests++;
                if (!known || !success) {
                    errors++;
                }
            }
            if (!known) {
                return;
            }
            if (measuring) {
                latencies.record(now - sentAt[slot]);
            }
            answerBytes = frameLength;
            int generation = (opaque - FIRST_OPAQUE) / SLOTS + 1;
            expected[slot] = FIRST_OPAQUE + generation % GENERATIONS * SLOTS + slot;
            ask(slot, now);
        }

        void abandon(IOException reason) {
            errors += depth;
            open--;
            key.cancel();
            if (lost++ == 0) {
                System.err.println("first lost connection: " + reason.getMessage());
            }
            try {
                channel.close();
            } catch (IOException ignored) {
                // The connection is gone either way.
            }
        }
    }

    /** Looks where the last answer had its opaque first: one server writes all its headers alike. */
    private int opaqueOf(ByteBuffer in, int header, int headerLength) {
        int at = header + answerOpaqueAt;
        if (answerOpaqueAt == 0 || answerOpaqueAt + OPAQUE_DIGITS > headerLength
            || in.getLong(at - OPAQUE_KEY.length) != OPAQUE_KEY_START) {
            byte[] whole = new byte[headerLength];
            in.get(header, whole);
            int found = indexOf(whole, OPAQUE_KEY);
            if (found < 0 || found + OPAQUE_KEY.length + OPAQUE_DIGITS > headerLength) {
                return -1;
            }
            answerOpaqueAt = found + OPAQUE_KEY.length;
            at = header + answerOpaqueAt;
        }
        int opaque = 0;
        for (int i = 0; i < OPAQUE_DIGITS; i++) {
            opaque = opaque * 10 + in.get(at + i) - '0';
        }
        return opaque;
    }

    /** Counts of nanoseconds in buckets whose width grows with the value: 128 per power of two, under 1% off. */
    private static final class Histogram {
        private static final int BITS = 7;
        private final long[] counts = new long[(64 - BITS) << BITS];
        private long total;
        private long max;

        void record(long nanos) {
            int shift = Math.max(0, 63 - BITS - Long.numberOfLeadingZeros(nanos | 1));
            counts[(shift << BITS) + (int) (nanos >>> shift)]++;
            total++;
            max = Math.max(max, nanos);
        }

        long quantile(double share) {
            long wanted = (long) Math.ceil(total * share);
            long seen = 0;
            for (int bucket = 0; bucket < counts.length; bucket++) {
                seen += counts[bucket];
                if (seen >= wanted && seen > 0) {
                    return lowerEdge(bucket);
                }
            }
            return 0;
        }

        private static long lowerEdge(int bucket) {
            if (bucket < 2 << BITS) {
                return bucket;
            }
            int shift = (bucket >> BITS) - 1;
            return (long) (bucket - (shift << BITS)) << shift;
        }
    }

    private static int indexOf(byte[] text, byte[] wanted) {
        for (int at = 0; at + wanted.length <= text.length; at++) {
            int same = 0;
            while (same < wanted.length && text[at + same] == wanted[same]) {
                same++;
            }
            if (same == wanted.length) {
                return at;
            }
        }
        return -1;
    }

    private static long longOf(String eight) {
        return ByteBuffer.wrap(eight.getBytes(StandardCharsets.US_ASCII)).getLong();
    }

    private static short shortOf(String two) {
        return ByteBuffer.wrap(two.getBytes(StandardCharsets.US_ASCII)).getShort();
    }
}
