import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/** Prints for each pattern of the input which names, given in the first line, it finds in and which it matches. */
public class FindNames {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        String[] names = input.readLine().split(" ");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(answer(line, names));
        }
    }

    private static String answer(String text, String[] names) {
        try {
            Pattern pattern = Pattern.compile(text);
            StringBuilder found = new StringBuilder();
            for (String name : names) {
                found.append(pattern.matcher(name).find() ? '1' : '0');
                found.append(pattern.matcher(name).matches() ? '1' : '0');
            }
            return found.toString();
        } catch (PatternSyntaxException error) {
            return "refused";
        }
    }
}
