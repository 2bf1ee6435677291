import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Reads lines of message, version and JSON; writes the line again with the bytes in place of the JSON. */
public class ApacheEncoder {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split(" ", 3);
            short version = Short.parseShort(words[1]);
            Message message = (Message) converterOf(words[0]).getMethod("read", JsonNode.class, short.class)
                .invoke(null, json.readTree(words[2]), version);
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(buffer), cache, version);
            System.out.println(words[0] + " " + version + " " + HexFormat.of().formatHex(buffer.array()));
        }
    }

    /** Messages of requests are in one package; records of internal topics are in their coordinators'. */
    private static Class<?> converterOf(String name) throws ClassNotFoundException {
        String[] candidates = {
            "org.apache.kafka.common.message." + name + "DataJsonConverter",
            "org.apache.kafka.coordinator.group.generated." + name + "JsonConverter",
            "org.apache.kafka.coordinator.transaction.generated." + name + "JsonConverter",
        };
        for (String candidate : candidates) {
            try {
                return Class.forName(candidate);
            } catch (ClassNotFoundException notThere) {
                continue;
            }
        }
        throw new ClassNotFoundException(name);
    }
}
