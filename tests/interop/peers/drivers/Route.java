import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.impl.MQClientManager;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;

/**
 * Prints the route of a topic as the client has read it, written again as one line of JSON.
 *
 * <p>usage: java [-Dtls.enable=true] [-Dacl.accessKey=A -Dacl.secretKey=S] Route NAMESRV TOPIC
 */
public final class Route {
    public static void main(String[] args) throws Exception {
        ClientConfig config = new ClientConfig();
        config.setNamesrvAddr(args[0]);
        MQClientInstance client =
            MQClientManager.getInstance().getOrCreateMQClientInstance(config, Credentials.hook());
        client.start();
        // TopicRouteData lives in another package in 4.9, so its type is left to inference.
        var route = client.getMQClientAPIImpl().getTopicRouteInfoFromNameServer(args[1], 3000);
        System.out.println(route.toJson());
        System.exit(0);
    }
}
