import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Records of one size as fast as possible, in windows with and without transactions in turns, by two producers. */
public class TransactionCost {
    /**
     * Arguments: bootstrap servers, topic, transactional id, bytes of a record, milliseconds of a transaction and of a
     * window, pairs of windows. Prints a line at the end of each window: plain or transactional, records, nanoseconds.
     */
    public static void main(String[] arguments) throws Exception {
        byte[] value = new byte[Integer.parseInt(arguments[3])];
        long transaction = Long.parseLong(arguments[4]) * 1_000_000;
        long window = Long.parseLong(arguments[5]) * 1_000_000;
        int pairs = Integer.parseInt(arguments[6]);
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "acks", "all");
        Map<String, Object> transactional = Map.of(
                "bootstrap.servers", arguments[0], "acks", "all", "transactional.id", arguments[2]);
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> plain = new KafkaProducer<>(settings, bytes, bytes);
                KafkaProducer<byte[], byte[]> other = new KafkaProducer<>(transactional, bytes, bytes)) {
            other.initTransactions();
            plain.partitionsFor(arguments[1]);
            for (int number = 0; number < 2 * pairs; number++) {
                // plain, transactional, transactional, plain: what a window leaves behind harms both alike
                boolean isPlain = number % 4 == 0 || number % 4 == 3;
                send(isPlain ? plain : other, arguments[1], value, window, isPlain ? 0 : transaction);
            }
        }
    }

    private static void send(
            KafkaProducer<byte[], byte[]> producer, String topic, byte[] value, long window, long transaction)
            throws Exception {
        AtomicReference<Exception> failure = new AtomicReference<>();
        long records = 0;
        long began = System.nanoTime();
        long transactionBegan = began;
        if (transaction > 0) {
            producer.beginTransaction();
        }
        for (long now = began; now - began < window; now = System.nanoTime()) {
            if (transaction > 0 && now - transactionBegan >= transaction) {
                producer.commitTransaction();
                producer.beginTransaction();
                transactionBegan = now;
            }
            producer.send(new ProducerRecord<>(topic, value), (metadata, error) -> {
                if (error != null) {
                    failure.set(error);
                }
            });
            records++;
        }
        if (transaction > 0) {
            producer.commitTransaction();
        } else {
            producer.flush();
        }
        long took = System.nanoTime() - began;
        if (failure.get() != null) {
            throw failure.get();
        }
        System.out.println((transaction > 0 ? "transactional " : "plain ") + records + " " + took);
        System.out.flush();
    }
}
