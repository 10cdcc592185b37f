import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends messages one after the other and prints "sent N" when the broker stored all of them.
 *
 * <p>usage: java [-Dtls.enable=true] [-Dacl.accessKey=A -Dacl.secretKey=S] [-Dunit=U] [-Dpause=MS]
 *     Produce NAMESRV TOPIC COUNT
 *
 * <p>NAMESRV "-" has the client ask the address service (-Drocketmq.namesrv.domain), in unit U.
 * It pauses for MS after each message.
 */
public final class Produce {
    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[2]);
        DefaultMQProducer producer = new DefaultMQProducer("produce-driver", Credentials.hook());
        if (!args[0].equals("-")) {
            producer.setNamesrvAddr(args[0]);
        }
        producer.setUnitName(System.getProperty("unit"));
        long pause = Long.getLong("pause", 0);
        producer.start();
        for (int i = 0; i < count; i++) {
            byte[] body = ("message " + i).getBytes(StandardCharsets.UTF_8);
            SendResult result = producer.send(new Message(args[1], body));
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                throw new IllegalStateException("message " + i + ": " + result);
            }
            Thread.sleep(pause);
        }
        System.out.println("sent " + count);
        producer.shutdown();
        System.exit(0);
    }
}
