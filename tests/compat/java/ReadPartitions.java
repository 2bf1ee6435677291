import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads each partition of a topic to its end; prints how many records came, a checksum of their offsets and values, and what ended it early. */
public class ReadPartitions {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("enable.auto.commit", "false");
        settings.put("fetch.max.wait.ms", "1");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            for (int index = 0; index < Integer.parseInt(arguments[2]); index++) {
                System.out.println(read(consumer, new TopicPartition(arguments[1], index)));
            }
        }
    }

    private static String read(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition) {
        int count = 0;
        CRC32 checksum = new CRC32();
        String ended = "";
        consumer.assign(List.of(partition));
        consumer.seekToBeginning(List.of(partition));
        long end = consumer.endOffsets(List.of(partition)).get(partition);
        try {
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    count++;
                    checksum.update((record.offset() + ":").getBytes());
                    if (record.value() != null) {
                        checksum.update(record.value());
                    }
                }
            }
        } catch (RuntimeException | OutOfMemoryError error) {
            ended = " " + error.getClass().getSimpleName();
        }
        return count + " " + checksum.getValue() + ended;
    }
}
