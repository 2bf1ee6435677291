package org.apache.kafka.clients.producer.internals;

import java.lang.reflect.Field;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Stops the client's network thread between its two looks: "are there records?" (none) and "what is next?" (the end of
 * the transaction). Meanwhile the application sends a record and commits. Prints what becomes of the commit.
 */
public class EndBeforeProduce {
    /** A set of batches that holds back the network thread when it has found the set empty. */
    static class Held extends IncompleteBatches {
        volatile boolean isArmed;
        final CountDownLatch isReached = new CountDownLatch(1);
        final CountDownLatch mayGoOn = new CountDownLatch(1);

        @Override
        public boolean isEmpty() {
            boolean isEmpty = super.isEmpty();
            if (isEmpty && isArmed && Thread.currentThread().getName().startsWith("kafka-producer-network-thread")) {
                isArmed = false;
                isReached.countDown();
                await(mayGoOn);
            }
            return isEmpty;
        }
    }

    /** Arguments: bootstrap servers, topic. */
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", arguments[0], "transactional.id", arguments[1], "linger.ms", 0);
        ByteArraySerializer bytes = new ByteArraySerializer();
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes);
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(arguments[1], 0, null, new byte[] {1});
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(record);
        producer.commitTransaction();
        untilComplete(arguments[0], arguments[1]); // else the end is asked for again, and the record goes first
        TransactionManager manager = (TransactionManager) field(KafkaProducer.class, "transactionManager").get(producer);
        Held held = new Held();
        Object accumulator = field(KafkaProducer.class, "accumulator").get(producer);
        field(RecordAccumulator.class, "incomplete").set(accumulator, held);

        producer.beginTransaction();
        held.isArmed = true;
        producer.flush(); // nothing waits; it wakes the network thread
        await(held.isReached);
        Thread commit = new Thread(() -> commit(producer, record));
        commit.start();
        while (!manager.isCompleting()) {
            Thread.sleep(1);
        }
        held.mayGoOn.countDown();
        commit.join();
        System.exit(0);
    }

    private static void untilComplete(String bootstrap, String id) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            while (admin.describeTransactions(List.of(id)).description(id).get().state() != TransactionState.COMPLETE_COMMIT) {
                Thread.sleep(10);
            }
        }
    }

    private static void commit(KafkaProducer<byte[], byte[]> producer, ProducerRecord<byte[], byte[]> record) {
        producer.send(record);
        try {
            producer.commitTransaction();
            System.out.println("committed");
        } catch (InvalidTxnStateException error) {
            System.out.println("INVALID_TXN_STATE");
        } catch (RuntimeException error) {
            System.out.println(error);
        }
    }

    private static Field field(Class<?> type, String name) throws NoSuchFieldException {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
