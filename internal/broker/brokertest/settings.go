package brokertest

// common has the settings of both kinds of broker: id, client port, directory. They keep the broker small and its
// timeouts and deletions fast, so that tests don't wait: a restarted broker is refused until its former session
// expires. Automatic creation of topics is off, as for a ledger.
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

// controller has the settings of a broker that is also the controller: client port, controller port.
const controller = `process.roles=broker,controller
listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d
`

// brokerOnly has the settings of a broker that isn't: client port.
const brokerOnly = `process.roles=broker
listeners=PLAINTEXT://127.0.0.1:%d
`
