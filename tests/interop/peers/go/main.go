// Probe of the Apache Go client: resolves the route of a topic through the NameServer and
// sends messages to the broker it names. Prints "sent N" and exits 0 when all were stored.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

func main() {
	namesrv := flag.String("namesrv", "", "NameServer as host:port, or the URL of an address service")
	instance := flag.String("instance", "go-probe", "names the file of addresses that came from a URL")
	topic := flag.String("topic", "", "an existing topic")
	count := flag.Int("count", 1, "messages to send")
	flag.Parse()
	rlog.SetLogLevel("warn")
	if err := send(resolver(*namesrv, *instance), *topic, *count); err != nil {
		fmt.Fprintln(os.Stderr, "failed:", err)
		os.Exit(1)
	}
	fmt.Println("sent", *count)
}

func resolver(namesrv, instance string) primitive.NsResolver {
	if strings.HasPrefix(namesrv, "http://") {
		return primitive.NewHttpResolver(instance, namesrv)
	}
	return primitive.NewPassthroughResolver([]string{namesrv})
}

func send(namesrv primitive.NsResolver, topic string, count int) error {
	client, err := producer.NewDefaultProducer(
		producer.WithNsResolver(namesrv),
		producer.WithGroupName("go-probe"),
		producer.WithRetry(0),
	)
	if err != nil {
		return err
	}
	if err := client.Start(); err != nil {
		return err
	}
	defer client.Shutdown()
	for i := 0; i < count; i++ {
		message := primitive.NewMessage(topic, []byte(fmt.Sprintf("from go %d", i)))
		result, err := client.SendSync(context.Background(), message)
		if err != nil {
			return err
		}
		if result.Status != primitive.SendOK {
			return fmt.Errorf("message %d: %s", i, result.String())
		}
	}
	return nil
}
