'use strict';

// Probe of the Node client ali-ons: resolves the route of a topic through the NameServer and
// sends messages to the broker it names. Prints "sent N" and exits 0 when all were stored.
// usage: node probe.js HOST:PORT TOPIC COUNT

const httpclient = require('urllib'); // ali-ons asks for one, though with nameSrv it never calls it
const { Message, Producer } = require('ali-ons');

const [ nameSrv, topic, count ] = process.argv.slice(2);
const quiet = { info() {}, debug() {}, warn: console.error, error: console.error };

async function send() {
  const producer = new Producer({ httpclient, logger: quiet, nameSrv, producerGroup: 'node-probe' });
  producer.on('error', err => console.error(err));
  await producer.ready();
  for (let i = 0; i < Number(count); i++) {
    const result = await producer.send(new Message(topic, 'probe', `from node ${i}`));
    if (result.sendStatus !== 'SEND_OK') throw new Error(`message ${i}: ${JSON.stringify(result)}`);
  }
  console.log('sent', Number(count));
}

// Timers of the client keep the process alive, so it is ended here.
send().then(() => process.exit(0), err => {
  console.error('failed:', err);
  process.exit(1);
});
