import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Java's producer in transactions: commits, aborts, offsets, quick successions, fencing. Says what it saw, line by line. */
public class Transactions {
    private static final int QUICK = 30;
    private final String bootstrap;
    private final String name;
    private final short replicas;

    private Transactions(String bootstrap, String name, short replicas) {
        this.bootstrap = bootstrap;
        this.name = name;
        this.replicas = replicas;
    }

    /** Arguments: bootstrap servers, a name for topics, groups and ids, the replication factor. */
    public static void main(String[] arguments) throws Exception {
        new Transactions(arguments[0], arguments[1], Short.parseShort(arguments[2])).run();
    }

    private void run() throws Exception {
        try (Admin admin = Admin.create(settings())) {
            admin.createTopics(List.of(new NewTopic(name, 3, replicas))).all().get();
            KafkaProducer<String, String> first = producer();
            first.initTransactions();
            transact(first, "a", true, true);
            transact(first, "b", false, true);
            transact(first, "c", true, false);
            say(admin, "after three");
            for (int at = 0; at < QUICK; at++) {
                transact(first, "q" + at, at % 3 != 0, at % 5 == 0);
            }
            say(admin, "after quick ones");
            first.beginTransaction();
            first.send(new ProducerRecord<>(name, 0, "k", "lost")).get();
            KafkaProducer<String, String> second = producer();
            second.initTransactions();
            System.out.println("fenced: " + outcome(first));
            first.close();
            transact(second, "d", true, true);
            second.close();
            System.out.println("read: " + read());
            Map<TopicPartition, OffsetAndMetadata> committed =
                admin.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata().get();
            System.out.println("group: " + committed.get(new TopicPartition(name, 0)).offset());
        }
        System.out.println("done");
    }

    private void transact(KafkaProducer<String, String> producer, String value, boolean commits, boolean offsets)
        throws Exception {
        producer.beginTransaction();
        for (int partition = 0; partition < 3; partition++) {
            producer.send(new ProducerRecord<>(name, partition, "k", value));
        }
        if (offsets) {
            TopicPartition where = new TopicPartition(name, 0);
            OffsetAndMetadata position = new OffsetAndMetadata(value.charAt(0));
            producer.sendOffsetsToTransaction(Map.of(where, position), new ConsumerGroupMetadata(name));
        }
        if (commits) {
            producer.commitTransaction();
        } else {
            producer.flush();
            producer.abortTransaction();
        }
    }

    private String outcome(KafkaProducer<String, String> fenced) {
        try {
            fenced.send(new ProducerRecord<>(name, 0, "k", "lost"));
            fenced.commitTransaction();
            return "no";
        } catch (KafkaException error) {
            return "yes";
        }
    }

    private void say(Admin admin, String when) throws Exception {
        while (true) {
            TransactionDescription found = admin.describeTransactions(List.of(name)).description(name).get();
            if (!found.state().toString().startsWith("Prepare")) {
                System.out.println(when + ": " + found.state() + " epoch " + found.producerEpoch());
                return;
            }
            Thread.sleep(20);
        }
    }

    private Map<Integer, List<String>> read() {
        Properties settings = settings();
        settings.put("isolation.level", "read_committed");
        settings.put("key.deserializer", StringDeserializer.class);
        settings.put("value.deserializer", StringDeserializer.class);
        Map<Integer, List<String>> values = new TreeMap<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            List<TopicPartition> all = new ArrayList<>();
            for (int partition = 0; partition < 3; partition++) {
                all.add(new TopicPartition(name, partition));
                values.put(partition, new ArrayList<>());
            }
            consumer.assign(all);
            consumer.seekToBeginning(all);
            while (all.stream().anyMatch(one -> !values.get(one.partition()).contains("d"))) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    values.get(record.partition()).add(record.value());
                }
            }
        }
        return values;
    }

    private KafkaProducer<String, String> producer() {
        Properties settings = settings();
        settings.put("transactional.id", name);
        settings.put("key.serializer", StringSerializer.class);
        settings.put("value.serializer", StringSerializer.class);
        return new KafkaProducer<>(settings);
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        return settings;
    }
}
