package brokertest

// common are the settings of both kinds of broker: id, client port, folder.
// Small, quick to notice the dead, and quick to delete, so that tests don't
// wait. A broker that comes back is refused for as long as the session of its
// former self lasts. Topics are not made by asking for them, as operators
// of Kafka for ledgers have it.
const common = `node.id=%d
advertised.listeners=PLAINTEXT://127.0.0.1:%d
log.dirs=%s
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=4
background.threads=2
broker.heartbeat.interval.ms=300
broker.session.timeout.ms=3000
log.cleaner.dedupe.buffer.size=4194304
log.initial.task.delay.ms=100
log.retention.check.interval.ms=100
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=100
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
`

// controller are the settings of a broker that is the controller, too: client
// port, controller port.
const controller = `process.roles=broker,controller
listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d
`

// brokerOnly are the settings of one that isn't: client port.
const brokerOnly = `process.roles=broker
listeners=PLAINTEXT://127.0.0.1:%d
`
