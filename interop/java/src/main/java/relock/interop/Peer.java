package relock.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;

/**
 * Does with Redisson's locks what it is told to, line by line. The protocol is described in the
 * README of the interoperation tests.
 */
public final class Peer {
    private final RedissonClient redisson;
    private final PrintStream out;
    private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();

    private Peer(RedissonClient redisson, PrintStream out) {
        this.redisson = redisson;
        this.out = out;
    }

    /** Arguments: single or cluster, the address of a server, Redisson's lockWatchdogTimeout in ms. */
    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.setLockWatchdogTimeout(Long.parseLong(args[2]));
        config.setThreads(4);
        config.setNettyThreads(4);
        String address = "redis://" + args[1];
        BaseConfig<?> c;
        if (args[0].equals("cluster")) {
            c = config.useClusterServers()
                    .addNodeAddress(address)
                    .setMasterConnectionMinimumIdleSize(2)
                    .setSlaveConnectionMinimumIdleSize(2)
                    .setSubscriptionConnectionMinimumIdleSize(1);
        } else {
            c = config.useSingleServer()
                    .setAddress(address)
                    .setConnectionMinimumIdleSize(4)
                    .setConnectionPoolSize(16);
        }
        c.setTimeout(10_000);
        RedissonClient redisson = Redisson.create(config);
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Peer peer = new Peer(redisson, out);
        peer.say("ready " + redisson.getId());

        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null;) {
            String[] words = line.split(" ");
            peer.threads
                    .computeIfAbsent(words[1], name -> Executors.newSingleThreadExecutor())
                    .execute(() -> peer.obey(words));
        }
        System.exit(0);
    }

    private void say(String line) {
        synchronized (out) {
            out.println(line);
            out.flush();
        }
    }

    private void obey(String[] words) {
        long start = System.nanoTime();
        String result;
        try {
            result = "ok " + run(words[2], Arrays.copyOfRange(words, 3, words.length));
        } catch (Throwable e) {
            result = "error " + e.toString().replaceAll("\\s+", " ");
        }
        long end = System.nanoTime();
        say(words[0] + " " + start + " " + end + " " + result);
    }

    private String run(String command, String[] args) throws Exception {
        if (command.equals("thread")) {
            return redisson.getId() + ":" + Thread.currentThread().getId();
        }
        String kind = args[0];
        String name = URLDecoder.decode(args[1], StandardCharsets.UTF_8);
        RLock lock = lock(kind, name);
        switch (command) {
            case "lock":
                lock.lock();
                return "true";
            case "lease": // until it ends by itself after so many ms
                lock.lock(Long.parseLong(args[2]), TimeUnit.MILLISECONDS);
                return "true";
            case "try": // for so many ms
                long wait = Long.parseLong(args[2]);
                return "" + (wait == 0 ? lock.tryLock() : lock.tryLock(wait, TimeUnit.MILLISECONDS));
            case "unlock":
                lock.unlock();
                return "true";
            case "force":
                return "" + lock.forceUnlock();
            case "inspect":
                return lock.isLocked() + " " + lock.remainTimeToLive() + " " + lock.getHoldCount() + " "
                        + lock.isHeldByCurrentThread();
            case "hammer":
                return hammer(kind, name, args[2], Long.parseLong(args[3]), Long.parseLong(args[4]));
            default:
                throw new IllegalArgumentException(command);
        }
    }

    private RLock lock(String kind, String name) {
        switch (kind) {
            case "lock":
                return redisson.getLock(name);
            case "fair":
                return redisson.getFairLock(name);
            case "fenced":
                return redisson.getFencedLock(name);
            case "read":
                return redisson.getReadWriteLock(name).readLock();
            case "write":
            case "rw":
                return redisson.getReadWriteLock(name).writeLock();
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    /**
     * Adds to two counters under the lock, by reading and then writing, for so many ms, and sleeps
     * for some ms in between. Kind read only reads both, and kind rw does in three of four times.
     * Returns how often it has written and read, and how often the counters differed.
     */
    private String hammer(String kind, String name, String counter, long ms, long section) throws Exception {
        RBucket<String> a = redisson.getBucket(counter + ":a", StringCodec.INSTANCE);
        RBucket<String> b = redisson.getBucket(counter + ":b", StringCodec.INSTANCE);
        RLock exclusive = lock(kind, name);
        RLock shared = lock("read", name);
        long writes = 0;
        long reads = 0;
        long torn = 0;
        long end = System.nanoTime() + ms * 1_000_000;
        for (long i = 0; System.nanoTime() - end < 0; i++) {
            boolean write = !kind.equals("read") && !(kind.equals("rw") && i % 4 != 0);
            RLock lock = write ? exclusive : shared;
            lock.lock();
            try {
                long x = number(a.get());
                long y = number(b.get());
                if (x != y) {
                    torn++;
                }
                if (section > 0) {
                    Thread.sleep(section);
                }
                if (write) {
                    a.set(Long.toString(x + 1));
                    b.set(Long.toString(y + 1));
                    writes++;
                } else {
                    reads++;
                }
            } finally {
                lock.unlock();
            }
        }
        return writes + " " + reads + " " + torn;
    }

    private static long number(String s) {
        return s == null ? 0 : Long.parseLong(s);
    }
}
