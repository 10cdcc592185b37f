import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Receives until COUNT different bodies have been seen and prints "received N".
 *
 * <p>usage: java [-Dtls.enable=true] [-Dacl.accessKey=A -Dacl.secretKey=S]
 *     Consume NAMESRV TOPIC COUNT SECONDS
 */
public final class Consume {
    public static void main(String[] args) throws Exception {
        // A consumer that rebalances before the broker knows it tries again only after 20 s.
        System.setProperty("rocketmq.client.rebalance.waitInterval", "1000");
        int count = Integer.parseInt(args[2]);
        Set<String> seen = ConcurrentHashMap.newKeySet();
        CountDownLatch done = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
            "consume-driver-" + args[1], Credentials.hook(), new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        consumer.subscribe(args[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                seen.add(new String(message.getBody(), StandardCharsets.UTF_8));
            }
            if (seen.size() >= count) {
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean complete = done.await(Long.parseLong(args[3]), TimeUnit.SECONDS);
        System.out.println("received " + seen.size());
        consumer.shutdown();
        System.exit(complete ? 0 : 1);
    }
}
