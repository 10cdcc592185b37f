import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/**
 * Asks for a URL as the JDK does by default, with an offer to speak HTTP/2, and prints what came.
 *
 * <p>usage: java Http URL
 */
public final class Http {
    public static void main(String[] args) throws Exception {
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_2).build();
        HttpRequest request = HttpRequest.newBuilder(URI.create(args[0])).build();
        HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
        System.out.println(answer.statusCode() + " " + answer.version() + " " + answer.body());
        System.exit(0);
    }
}
