import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Transactions of one record, one after the other, by several producers. Prints how long each commit took, in nanoseconds. */
public class SmallTransactions {
    private static final int RECORD_BYTES = 100;

    /** Arguments: bootstrap servers, topic, a name for transactional ids, producers, milliseconds of warm-up and of work. */
    public static void main(String[] arguments) throws Exception {
        int producers = Integer.parseInt(arguments[3]);
        long warmUp = Long.parseLong(arguments[4]) * 1_000_000;
        long work = Long.parseLong(arguments[5]) * 1_000_000;
        CyclicBarrier ready = new CyclicBarrier(producers);
        ExecutorService pool = Executors.newFixedThreadPool(producers);
        List<Future<List<Long>>> works = new ArrayList<>();
        for (int number = 0; number < producers; number++) {
            String id = arguments[2] + "-" + number;
            works.add(pool.submit(() -> work(arguments[0], arguments[1], id, ready, warmUp, work)));
        }
        StringBuilder lines = new StringBuilder();
        try {
            for (Future<List<Long>> each : works) {
                for (long took : each.get()) {
                    lines.append(took).append('\n');
                }
            }
        } finally {
            pool.shutdownNow();
        }
        System.out.print(lines);
    }

    private static List<Long> work(
            String bootstrap, String topic, String id, CyclicBarrier ready, long warmUp, long work) throws Exception {
        List<Long> took = new ArrayList<>();
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", bootstrap, "transactional.id", id, "linger.ms", 0);
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            producer.initTransactions();
            byte[] value = new byte[RECORD_BYTES];
            ready.await();
            long starts = System.nanoTime() + warmUp;
            for (long now = System.nanoTime(); now - starts < work; now = System.nanoTime()) {
                producer.beginTransaction();
                // Not left to the commit: this client (4.1) can ask for the end without the record when both come at once.
                producer.send(new ProducerRecord<>(topic, value)).get();
                long asked = System.nanoTime();
                producer.commitTransaction();
                if (now - starts >= 0) {
                    took.add(System.nanoTime() - asked);
                }
            }
        }
        return took;
    }
}
