import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;

/** Prints for each line of the input, `principal TAB rules with tabs between`, the user that Apache Kafka makes of it. */
public class ShortNames {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] parts = line.split("\t", -1);
            System.out.println(answer(parts[0], Arrays.copyOfRange(parts, 1, parts.length)));
        }
    }

    private static String answer(String principal, String[] rules) {
        KerberosShortNamer namer;
        try {
            namer = KerberosShortNamer.fromUnparsedRules("REALM", Arrays.asList(rules));
        } catch (RuntimeException error) {
            return "no rule";
        }
        try {
            return "user " + namer.shortName(KerberosName.parse(principal));
        } catch (Exception error) {
            return "no user";
        }
    }
}
