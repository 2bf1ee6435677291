import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words exactly once, and from these counts how many words there are of each length.
 *
 * <p>Both steps have a repartition topic and a state store with a changelog. No cache stands between a store and its
 * output: each occurrence of a word gives one record, so its counts in the output topic are 1, 2, 3 and so on. The
 * second step subtracts the former count and adds the new one: a doubled or lost update leaves a wrong sum.
 *
 * <p>Arguments: bootstrap servers, application id, state directory, replication factor.
 * Topics: ID-lines to ID-counts and ID-lengths.
 */
public final class WordCount {
    public static void main(String[] arguments) throws InterruptedException {
        String application = arguments[1];
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, arguments[3]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6000);
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 1000);
        settings.put(StreamsConfig.consumerPrefix("metadata.max.age.ms"), 5000);

        KafkaStreams streams = new KafkaStreams(topology(application).build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("thread died: " + error);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        CountDownLatch stopped = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            System.out.println("closed " + streams.close(Duration.ofSeconds(30)));
            stopped.countDown();
        }));
        streams.start();
        stopped.await();
    }

    private static StreamsBuilder topology(String application) {
        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, Long> counts = builder.<String, String>stream(application + "-lines")
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count(Materialized.as("counts"));
        counts.toStream().to(application + "-counts", Produced.with(Serdes.String(), Serdes.Long()));
        counts
            .groupBy(
                (word, count) -> KeyValue.pair(Integer.toString(word.length()), count),
                Grouped.with("by-length", Serdes.String(), Serdes.Long()))
            .reduce(Long::sum, (sum, former) -> sum - former, Materialized.as("lengths"))
            .toStream()
            .to(application + "-lengths", Produced.with(Serdes.String(), Serdes.Long()));
        return builder;
    }
}
